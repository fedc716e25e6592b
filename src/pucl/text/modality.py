"""Texts as an entry of the table of modalities."""

from collections.abc import Mapping
from typing import Any

from pucl.modality import Modality
from pucl.recipe import Recipes
from pucl.text.config import TextConfig
from pucl.text.registry import SOURCES
from pucl.text.sources.files import READERS
from pucl.text.task import TextShape, TextTask
from pucl.text.trained import TrainedTexts


def _revive(config: TextConfig, framework: Any, about: Mapping[str, Any]) -> TrainedTexts:
    return TrainedTexts(config, framework, features=about["features"])


TEXTS = Modality(
    name="texts",
    unit="text",
    word="texts",
    config=TextConfig,
    sources=SOURCES,
    find_source=SOURCES.get,
    paths="a file of texts (.csv, .tsv, .jsonl, .parquet) with two columns of texts, or with texts and labels",
    columns=("training + test texts", "classes", "mean length"),
    reads=lambda path: path.suffix.lower() in READERS,
    open=TextTask,
    shape_of=lambda _about: TextShape(fetch=False),  # The file names the encoder.
    revive=_revive,
    probed_on="the test texts",
    labels_needed="or pairs of texts, enough to hold some out",
    hub_task="sentence-similarity",
    recipes=Recipes(first_look={"requests": {"epochs": 4, "batch_size": 64}}),  # It takes seconds.
)

__all__ = ["TEXTS", "TextShape"]
