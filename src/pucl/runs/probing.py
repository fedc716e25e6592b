"""What simple classifiers make of the encoder of a finished run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pucl.config import RunConfig
from pucl.evaluation.scoring import KNN, LINEAR, PROBES, REFERENCE
from pucl.images.encoders.registry import EncoderSource
from pucl.modality import Progress
from pucl.runs.directory import RunDirectory
from pucl.runs.trained import load

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
        samples: How many images or graphs the probes were fitted on.
    """

    run: str
    config: RunConfig
    data: str
    accuracies: dict[str, float]
    recorded: dict[str, float]
    samples: int

    def as_json(self) -> dict[str, Any]:
        """The same in types that JSON knows."""
        return {
            "run": self.run,
            "data": self.data,
            "accuracies": self.accuracies,
            "recorded": self.recorded,
            "samples": self.samples,
            "config": self.config.as_json(),
        }


def evaluate_run(
    run: Path,
    probes: Sequence[str] | None,
    *,
    source: str | None = None,
    root: Path | None = None,
    progress: Progress = lambda _done, _total: None,
    encoder: EncoderSource | None = None,
) -> Evaluated:
    """Embed with the saved encoder, and measure what classifiers make of it.

    Images: fitted on the training images, scored on the test images. Graphs: on ten folds of all of them.

    Args:
        run: Directory of a finished run.
        probes: Names out of `PROBES`, for graphs `pucl.graphs.config.GRAPH_PROBES`; None for the run's own.
        source: A known name or a path; None for the run's own data, as it used them.
        root: Where data are; see `pucl.images.registry.load`.
        progress: Is told before each batch how many samples are done, and of how many.
        encoder: What makes the encoder, where it is not pucl's; see `pucl.load`.
    """
    trained = load(run, encoder=encoder)
    found, samples = trained.evaluate(probes, source=source, root=root, progress=progress)
    result = None if source is not None or run.is_file() else RunDirectory(run).result()
    return Evaluated(
        run=str(run),
        config=trained.config,
        data=source or trained.config.data,
        accuracies=found,
        recorded={name: result[name] for name in found if result and name in result},
        samples=samples,
    )
