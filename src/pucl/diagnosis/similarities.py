"""How alike the pairs are that the loss of a finished run compares, and what that says of its unlabelled samples."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.config import NOT_TRAINED, ORACLE, RunConfig
from pucl.diagnosis.priors import FEWEST, BestBin, Mixture, alpha_and_c, bbe, mixture
from pucl.images.encoders.registry import EncoderSource
from pucl.runs.trained import load

PAIRS = 100_000  # Of each kind that are kept at most: enough for three digits, and for EM in a second.
BATCH = 256

Cosines = NDArray[np.float32]


@dataclass(frozen=True, eq=False, kw_only=True)
class Similarities:
    """Cosines of pairs of samples, and the estimates of tau' that follow.

    Args:
        run: Where the run is.
        config: What it is.
        tau_plus: tau' that its correction used; None for the oracle, and where nothing was trained.
        anchors: How many samples were looked at.
        positive: Known positives, such as two views of one image; None for graphs, which have no views.
        same_class: Pairs of different samples of one class; None without labels, or if there are none.
        other_class: Pairs of different classes; None likewise.
        unlabelled: Pairs of different samples as they come.
        best_bin: The estimate of tau' by `bbe`; None without known positives.
        mixture: The estimate by `mixture`.
        truth: The share of pairs that are of one class; None without labels.
        positives_met: How many known positives an anchor has in a step, M+.
        unlabelled_met: How many unlabelled samples it has, N.
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
    truth: float | None
    positives_met: int
    unlabelled_met: int

    @property
    def name(self) -> str:
        """What tells it from other runs on the same data."""
        return f"{self.config.correction}, seed {self.config.seed}"

    @property
    def subject(self) -> str:
        """What was trained on what."""
        return subject_of(self.config)

    @property
    def known(self) -> str:
        """What a known positive is, in words."""
        return self.config.known_positives

    def parameters(self, tau_plus: float) -> tuple[float, float]:
        """Alpha and c with which PUCL would take off this tau', by counting what an anchor meets."""
        return alpha_and_c(tau_plus, self.positives_met, self.unlabelled_met)

    def as_json(self) -> dict[str, Any]:
        """The estimates, without the cosines, in types that JSON knows."""
        kinds = {name: getattr(self, name) for name in ("positive", "same_class", "other_class", "unlabelled")}
        estimates = {"bbe": self.best_bin, "mixture": self.mixture}
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
                name: asdict(each) | dict(zip(("alpha", "c"), self.parameters(each.tau_plus), strict=True))
                for name, each in estimates.items()
                if each is not None
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
    - CMC: lightness of one image with colour of another, or of itself, as its loss has it; one view has both. The bank,
      which is not kept either, is older by up to an epoch.

    InfoGraph compares nodes with graphs. What a prior is about are pairs of graphs, so those are taken: the vectors
    that the encoder gives for graphs, before the head.

    Args:
        run: The run's directory, or its weights alone.
        root: Where data are; see `pucl.images.registry.load`.
        anchors: How many samples are looked at, at most; every one is compared with every other.
        seed: Of samples, views and pairs that are drawn.
        encoder: What makes the encoder, where it is not pucl's; see `pucl.load`.

    Raises:
        ValueError: If the run is not finished, or too small to say anything.
    """
    if anchors < FEWEST:
        raise ValueError(f"anchors is how many samples are looked at: expected at least {FEWEST}, got {anchors}")
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
            truth=truth,
            positives_met=positives_met,
            unlabelled_met=unlabelled_met,
        )
    except ValueError as error:
        raise ValueError(f"{run}: {error}") from error


def subject_of(config: RunConfig) -> str:
    """What was trained on what."""
    return f"{config.framework} on {Path(config.data).name}"


def _choose(count: int, most: int, generator: torch.Generator) -> NDArray[np.int64]:
    """The places of so many samples, drawn at random, so that classes have the shares that they have in the data."""
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


def _used(config: RunConfig) -> float | None:
    """The tau' that the loss assumed; None where it assumed none, or learnt it."""
    if config.correction in (ORACLE, *NOT_TRAINED) or config.make_correction().learns:
        return None
    return float(config.make_correction().tau_plus)
