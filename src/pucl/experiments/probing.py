"""What simple classifiers make of the encoder of a finished run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pucl.data import DataError, ImageData
from pucl.evaluation.scoring import KNN, LINEAR, PROBES, REFERENCE, accuracies
from pucl.experiments.config import RunConfig, choose
from pucl.experiments.directory import RunDirectory
from pucl.experiments.trained import Progress, Trained, load

__all__ = ["ENOUGH_IMAGES", "KNN", "LINEAR", "PROBES", "REFERENCE", "Evaluated", "evaluate_run"]

ENOUGH_IMAGES = 10_000  # From here on the references' recipe has steps enough to come to its end.


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """A run and what probes made of it.

    Args:
        run: Its directory.
        config: What it was.
        data: What it was evaluated on.
        accuracies: By probe, 0 to 1.
        recorded: The same as the run itself has it; empty on other data than its own.
        images: How many images the probes were fitted on.
    """

    run: str
    config: RunConfig
    data: str
    accuracies: dict[str, float]
    recorded: dict[str, float]
    images: int

    def as_json(self) -> dict[str, Any]:
        """The same in types that JSON knows."""
        return {
            "run": self.run,
            "data": self.data,
            "accuracies": self.accuracies,
            "recorded": self.recorded,
            "images": self.images,
            "config": self.config.as_json(),
        }


def evaluate_run(
    run: Path,
    probes: Sequence[str],
    *,
    source: str | None = None,
    root: Path | None = None,
    progress: Progress = lambda _done, _total: None,
) -> Evaluated:
    """Embed with the saved encoder, fit the probes on the training images and score them on the test images.

    Args:
        run: Directory of a finished run.
        probes: Names out of `PROBES`.
        source: A known name or a path; None for the run's own data, as it used them.
        root: Where data are; see `pucl.data.load`.
        progress: Is told before each batch how many images are done, and of how many.
    """
    for name in probes:
        choose("probe", name, PROBES)
    trained = load(run)
    data = trained.data(source, root=root)
    result = None if source is not None or run.is_file() else RunDirectory(run).result()
    return Evaluated(
        run=str(run),
        config=trained.config,
        data=source or trained.config.data,
        accuracies=_accuracies(trained, data, probes, progress),
        recorded={name: result[name] for name in probes if result and name in result},
        images=len(data.train),
    )


def _accuracies(trained: Trained, data: ImageData, probes: Sequence[str], progress: Progress) -> dict[str, float]:
    if data.test is None or data.train.labels is None or data.test.labels is None:
        raise DataError(
            f"an accuracy is the share of labels that are found: expected images with labels, got {data.name} without; "
            f"`pucl embed` needs none"
        )
    rows = trained.embed({"train": data.train, "test": data.test}, progress=progress)
    return accuracies(rows["train"], data.train.labels, rows["test"], data.test.labels, probes=probes, folds=data.folds)
