"""CLINC150: short requests to an assistant, 150 intents. Requests outside of all intents are left out.

Reference: S. Larson et al., An Evaluation Dataset for Intent Classification and Out-of-Scope Prediction, EMNLP 2019.
Licence: CC BY 3.0.
"""

import json

import numpy as np

from pucl.data.download import Download
from pucl.data.errors import DataError
from pucl.data.source import Form, Found, Source
from pucl.records import MismatchError, conform
from pucl.text.sources.official import checked_paths
from pucl.text.textset import TextData, TextSet

INTENTS = 150
DOWNLOADS = (
    Download(
        url="https://raw.githubusercontent.com/clinc/oos-eval/master/data/data_full.json",
        sha256="36923c3705a59e08fe9c3883d8bc2dd966ef93e22cb78ac41171782a698d56e0",
    ),
)


def read_clinc150(found: Found) -> TextData:
    """Read CLINC150 with its own validation and test texts."""
    (path,) = checked_paths(found, DOWNLOADS)
    try:
        parts = conform(json.loads(path.read_bytes()), dict[str, list[list[str]]], "its content")
        rows = {name: parts[name] for name in ("train", "val", "test")}
        classes = tuple(sorted({intent for _, intent in rows["train"]}))
        numbers = {intent: number for number, intent in enumerate(classes)}
        made = {
            name: TextSet(
                texts=tuple(text for text, _ in part),
                labels=np.array([numbers[intent] for _, intent in part], np.int64),
                classes=classes,
            )
            for name, part in rows.items()
        }
    except (MismatchError, ValueError, KeyError) as error:
        raise DataError(f"{path} is not CLINC150: {error}") from error
    return TextData(name="clinc150", train=made["train"], test=made["test"], validation=made["val"])


CLINC150 = Source(
    name="clinc150",
    samples="15,000 + 4,500",
    classes=INTENTS,
    size="8 words",
    read=read_clinc150,
    forms=tuple(Form(files=(file,), directories=("clinc150",)) for file in ("data_full.json", "clinc150.json")),
    downloads=DOWNLOADS,
)
