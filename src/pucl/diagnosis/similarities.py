"""Similarities of the pairs that the loss of a finished run compares, and estimates of tau' from them."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.config import NOT_TRAINED, ORACLES, RunConfig
from pucl.estimation.bbe import BestBin, bbe
from pucl.estimation.mixture import Mixture, mixture
from pucl.estimation.shares import FEWEST, alpha_and_c
from pucl.modality import EncoderSource
from pucl.runs.directory import RunDirectory
from pucl.runs.trained import load

PAIRS = 100_000  # Most pairs of each kind: enough for three digits, and for EM in a second.
BATCH = 256

Cosines = NDArray[np.float32]


@dataclass(frozen=True, eq=False, kw_only=True)
class Similarities:
    """Cosines of pairs of samples, and the estimates of tau' that follow.

    Args:
        run: Its directory.
        config: Its configuration.
        tau_plus: tau' that its correction used; None for the oracle, and where nothing was trained.
        anchors: Number of samples that were compared.
        positive: Known positives, such as two views of one image; None for graphs, which have no views.
        same_class: Pairs of different samples of one class; None without labels, or if there are none.
        other_class: Pairs of different classes; None likewise.
        unlabelled: Pairs of different samples, whatever their classes.
        best_bin: The estimate of tau' by `bbe`; None without known positives.
        mixture: The estimate by `mixture`.
        mean_r: The mean of r, the probability that a pair is a hidden positive, when the training ended: tau' as the
            run's own correction sees it. None if the correction has no r, or the run no record.
        calibration_error: Expected calibration error of r, by the labels of pairs with r above 0; None likewise, and
            without labels.
        truth: The share of pairs that are of one class; None without labels.
        positives_met: Number of known positives of an anchor in a step, M+.
        unlabelled_met: Number of its unlabelled samples, N.
    """

    run: Path
    config: RunConfig
    tau_plus: float | None
    anchors: int
    positive: Cosines | None
    same_class: Cosines | None
    other_class: Cosines | None
    unlabelled: Cosines
    best_bin: BestBin | None
    mixture: Mixture
    mean_r: float | None = None
    calibration_error: float | None = None
    truth: float | None
    positives_met: int
    unlabelled_met: int

    @property
    def known(self) -> str:
        """What a known positive is, in words."""
        return self.config.known_positives

    def parameters(self, tau_plus: float) -> tuple[float, float]:
        """Alpha and c with which PUCL assumes this tau', from the numbers of samples that an anchor meets."""
        return alpha_and_c(tau_plus, self.positives_met, self.unlabelled_met)

    def as_json(self) -> dict[str, Any]:
        """The estimates for a record, without the cosines."""
        kinds = {name: getattr(self, name) for name in ("positive", "same_class", "other_class", "unlabelled")}
        estimates = {"bbe": self.best_bin, "mixture": self.mixture}
        known = {name: asdict(each) for name, each in estimates.items() if each is not None}
        if self.mean_r is not None:
            known["r"] = {"tau_plus": self.mean_r, "calibration_error": self.calibration_error}
        return {
            "run": str(self.run),
            "framework": self.config.framework,
            "data": self.config.data,
            "correction": self.config.correction,
            "tau_plus": self.tau_plus,
            "truth": self.truth,
            "anchors": self.anchors,
            "positives_met": self.positives_met,
            "unlabelled_met": self.unlabelled_met,
            "estimates": {
                name: each | dict(zip(("alpha", "c"), self.parameters(each["tau_plus"]), strict=True))
                for name, each in known.items()
            },
            "pairs": {name: len(values) for name, values in kinds.items() if values is not None},
            "mean_cosines": {name: float(values.mean()) for name, values in kinds.items() if values is not None},
        }


def measure_similarities(
    run: Path,
    *,
    root: Path | None = None,
    anchors: int = 1000,
    seed: int = 0,
    encoder: EncoderSource | None = None,
) -> Similarities:
    """Cosines among training samples of a finished run, in the space in which its loss compares.

    Images are seen as in training, by two random views each, and compared after the head, in evaluation mode:

    - SimCLR and MoCo: the first view of one image with the second view of another, or of itself. MoCo's slow copy of
      the encoder is not kept with a run; the encoder itself, which it has followed, stands in for it.
    - CMC: the lightness of one image with the colour of another, or of itself, as in its loss. The bank, which is
      not kept either, would be older by up to an epoch.

    InfoGraph compares nodes with graphs, but a prior is about pairs of graphs. So vectors of graphs are compared, as
    the encoder gives them, before the head.

    Args:
        run: The run's directory, or its weights alone.
        root: Where data are; see `pucl.data.root.data_root`.
        anchors: Most samples that are compared, each with every other.
        seed: Seed of the samples, views and pairs that are drawn.
        encoder: Makes the encoder, if it is not pucl's; see `pucl.load`.

    Raises:
        ValueError: If the run is not finished, or has too few samples.
    """
    if anchors < FEWEST:
        raise ValueError(f"anchors is the number of samples to compare: expected at least {FEWEST}, got {anchors}")
    trained = load(run, encoder=encoder)
    generator = torch.Generator().manual_seed(seed)
    seen = trained.compare_samples(partial(_choose, most=anchors, generator=generator), root=root, generator=generator)
    unlabelled = _some(seen.cosines[seen.pairs], generator)
    same_class = other_class = truth = None
    if seen.labels is not None:
        same = seen.labels[:, None] == seen.labels
        same_class, other_class = (
            _some(seen.cosines[kind], generator) if kind.any() else None
            for kind in (seen.pairs & same, seen.pairs & ~same)
        )
        truth = float(same[seen.pairs].double().mean())
    positives_met, unlabelled_met = trained.config.pairs_met(seen.samples)
    result = {} if run.is_file() else RunDirectory(run).result() or {}
    try:
        return Similarities(
            run=run,
            config=trained.config,
            tau_plus=_used(trained.config),
            anchors=len(seen.cosines),
            positive=seen.positive,
            same_class=same_class,
            other_class=other_class,
            unlabelled=unlabelled,
            best_bin=None if seen.positive is None else bbe(seen.positive, unlabelled),
            mixture=mixture(unlabelled),
            mean_r=_mean_r(result),
            calibration_error=result.get("calibration.error"),
            truth=truth,
            positives_met=positives_met,
            unlabelled_met=unlabelled_met,
        )
    except ValueError as error:
        raise ValueError(f"{run}: {error}") from error


def _choose(count: int, most: int, generator: torch.Generator) -> NDArray[np.int64]:
    """Indices of random samples, so that classes keep their shares of the data."""
    if count < FEWEST:
        raise ValueError(f"similarities are measured among samples: expected at least {FEWEST}, got {count}")
    chosen: NDArray[np.int64] = torch.randperm(count, generator=generator)[:most].sort().values.numpy()
    return chosen


def _some(cosines: Tensor, generator: torch.Generator) -> Cosines:
    """At most `PAIRS` of them, drawn at random."""
    if len(cosines) > PAIRS:
        cosines = cosines[torch.randperm(len(cosines), generator=generator)[:PAIRS]]
    values: Cosines = cosines.numpy()
    return values


def _mean_r(result: dict[str, Any]) -> float | None:
    """The mean of r at the end of a run, from what its correction reported; None if it has no r.

    A correction with r reports which share of plain's sum it removed, and the mean as ``hidden``; if that is its tau',
    as ``tau_plus`` alone.
    """
    if "correction.removed" not in result:
        return None
    found = result.get("correction.hidden", result.get("correction.tau_plus"))
    return float(found) if isinstance(found, int | float) and 0 <= found <= 1 else None


def _used(config: RunConfig) -> float | None:
    """The tau' that the loss assumed; None if it assumed none, or learned it."""
    if config.correction in (*ORACLES, *NOT_TRAINED) or config.make_correction().learns:
        return None
    return float(config.make_correction().tau_plus)
