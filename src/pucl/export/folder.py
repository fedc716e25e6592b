"""The folder of an exported encoder. It appears whole or not at all."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pucl
from pucl.config import check_known
from pucl.data.root import staging
from pucl.export.card import Card, public, results_of_seeds, write_card
from pucl.export.formats import FORMATS, check_rows, quiet, write_checked
from pucl.files import write_json
from pucl.frameworks import modality_of
from pucl.modality import EncoderSource, Trained
from pucl.runs.directory import RunDirectory
from pucl.runs.trained import EXPORTED, copy_weights, load


@dataclass(frozen=True, kw_only=True)
class Exported:
    """An exported encoder.

    Args:
        files: The names of its files.
        difference: Largest difference of its features to those of torch, relative to the largest feature or to 1.
    """

    files: tuple[str, ...]
    difference: float


def export_run(
    run: Path,
    out: Path,
    name: str,
    *,
    floats: bool = False,
    encoder: EncoderSource | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Exported:
    """Export the encoder of a finished run to a new directory, with its weights, settings and a model card.

    Args:
        run: Directory of the run, or its ``encoder.safetensors`` alone, which has no results for the card.
        out: A directory that does not exist, or is empty.
        name: The format: ``"onnx"``, ``"torchscript"``, or one of the encoder's own (`Trained.own_formats`).
        floats: Whether images are floats from 0 to 1, instead of bytes.
        encoder: Builds the encoder if it is not pucl's; see `pucl.load`.
        report: Called with what is being done, in words.

    Raises:
        ValueError: If there is no such format, or if the exported encoder differs from that of the run.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} is the directory to write: expected a new or an empty one, got one that is in use")
    report("loading the encoder")
    trained = load(run, encoder=encoder)
    own = trained.own_formats
    check_known("format of this encoder", name, [*FORMATS, *own])
    if floats and name in own:
        raise ValueError(f"--floats is about the pixels of images: leave it out for {name}")
    out.parent.mkdir(parents=True, exist_ok=True)
    with staging(out.name, out.parent) as part:
        report(f"writing {name} and comparing it with torch")
        if name in own:
            with quiet():
                difference = check_rows(*own[name].write(part))
            card = _card_of_library(trained, name, difference)
        else:
            difference, card = _write_graph(trained, run, part, name, floats=floats)
        results = {} if run.is_file() else results_of_seeds(RunDirectory(run), trained.config)
        (part / "README.md").write_text(write_card(trained.config, card, results), encoding="utf-8")
        part.chmod(0o755)  # Temporary directories are private.
        files = tuple(sorted(str(file.relative_to(part)) for file in part.rglob("*") if file.is_file()))
        part.replace(out)
    return Exported(files=files, difference=difference)


def _write_graph(trained: Trained, run: Path, part: Path, name: str, *, floats: bool) -> tuple[float, Card]:
    kind, portable = FORMATS[name], trained.portable(floats=floats)
    difference = write_checked(portable, kind, part / kind.file)
    config = public(trained.config)
    copy_weights(run, part / EXPORTED, config)
    record: dict[str, Any] = {
        "library": "pucl",
        "version": pucl.__version__,
        "format": name,
        "file": kind.file,
        "modality": config.modality,
        "inputs": {each: list(axes) for each, axes in portable.axes.items()},
        "outputs": {"features": ["sample", trained.features]},
        "run": config.as_json(),
    }
    write_json(part / "config.json", record)
    card = Card(
        library="pucl",
        tags=(name,),
        inputs=portable.inputs,
        usage=f"{portable.usage}\n\n{kind.usage}",
        difference=difference,
        features=trained.features,
        loadable=True,
    )
    return difference, card


def _card_of_library(trained: Trained, name: str, difference: float) -> Card:
    own = trained.own_formats[name]
    return Card(
        library=own.library,
        tags=(modality_of(trained.config).hub_task,),
        inputs="",
        usage=own.usage,
        difference=difference,
        features=trained.features,
        loadable=False,
    )
