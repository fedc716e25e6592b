"""Embeddings in, answer out: how many negatives are false, what they cost, and what to do about it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import torch

from pucl.contrast.pairing import check_temperature
from pucl.corrections.clusters import share_together
from pucl.diagnosis import wording
from pucl.diagnosis.cost import Cost, Sample, anchor_rows, measure_costs
from pucl.diagnosis.material import Divided, Labels, Material, Progress, Vectors, make_material
from pucl.diagnosis.suspects import Suspects, find_suspects
from pucl.estimation.bbe import bbe
from pucl.estimation.calibration import CALIBRATED, reliability
from pucl.estimation.communities import share_of_pairs, some_of
from pucl.estimation.granularity import Level, find_granularity

TEMPERATURES = (0.05, 0.1, 0.2, 0.5, 1.0)  # At which the cost is measured, beside the one that is asked for.
TEMPERATURE = 0.5
PAIRS = 100_000  # Pairs that bbe compares with the views.


@dataclass(frozen=True, kw_only=True)
class Truth:
    """How right the estimate is, by labels.

    Args:
        share: The share of pairs that are of one class.
        inside: Whether it lies in the interval; None without an estimate.
        calibration_error: Expected calibration error of r, over pairs with r above 0; None without an estimate.
    """

    share: float
    inside: bool | None
    calibration_error: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Diagnosis:
    """The answer of `diagnose`. Print it, or read its fields.

    Args:
        samples: Number of samples.
        dim: Dimension of their embeddings.
        views: Whether there were views.
        temperature: The temperature that was asked for.
        compared: Number of samples that estimates rest on: all, or a random part of many.
        share: Estimated share of false negatives among unlabelled pairs; None if it cannot be told.
        interval: Smallest and largest share by the groups that repeat; None likewise.
        refused: Why it cannot be told, in a sentence; None if there is an estimate.
        levels: The resolutions at which groups were searched.
        best_bin: The largest share of pairs that can be distributed like the views, see `pucl.estimation.bbe`; None
            without views. It is too low if views are more alike than two samples of one class.
        costs: What false negatives cost, by temperature.
        truth: How right the estimate is; None without labels.
        seed: Seed of all random choices.
        divided: The samples and their groups, from which suspects are computed.

    Example::

        result = pucl.diagnose(embeddings, views=views)
        print(result)
        result.suspects(1000).write("pairs.csv")
    """

    samples: int
    dim: int
    views: bool
    temperature: float
    compared: int
    share: float | None
    interval: tuple[float, float] | None
    refused: str | None
    levels: tuple[Level, ...]
    best_bin: float | None
    costs: tuple[Cost, ...]
    truth: Truth | None
    seed: int
    divided: Divided = field(repr=False)

    @property
    def cost(self) -> Cost:
        """What false negatives cost at the temperature that was asked for."""
        return next(cost for cost in self.costs if cost.temperature == self.temperature)

    @cached_property
    def calibrated(self) -> bool:
        """Whether labels show that r may be read as a probability. Otherwise it is a rank."""
        error = None if self.truth is None else self.truth.calibration_error
        return error is not None and error <= CALIBRATED

    @property
    def advice(self) -> str:
        """Which correction and setting to take, in one sentence."""
        return wording.advice(self.share, self.cost, self.refused)

    def suspects(
        self,
        count: int = 1000,
        *,
        progress: Progress = lambda _done, _total: None,
        use_faiss: bool | None = None,
    ) -> Suspects:
        """The pairs that cost most, the costliest first; see `pucl.diagnosis.suspects`.

        Args:
            count: Number of pairs; fewer if fewer cost anything.
            progress: Called with the number of anchors that are done, and of all.
            use_faiss: Whether faiss searches neighbours. None: if it is installed. Both ways find the same pairs.
        """
        return find_suspects(
            self.divided,
            count,
            temperature=self.temperature,
            calibrated=self.calibrated,
            seed=self.seed,
            progress=progress,
            use_faiss=use_faiss,
        )

    def as_json(self) -> dict[str, Any]:
        """The answer for a record."""
        return {
            "samples": self.samples,
            "dim": self.dim,
            "views": self.views,
            "temperature": self.temperature,
            "compared": self.compared,
            "share": self.share,
            "interval": None if self.interval is None else list(self.interval),
            "refused": self.refused,
            "bbe": self.best_bin,
            "calibrated": self.calibrated,
            "truth": None if self.truth is None else asdict(self.truth),
            "costs": [asdict(cost) for cost in self.costs],
            "levels": [asdict(level) for level in self.levels],
            "advice": self.advice,
            "seed": self.seed,
        }

    def __str__(self) -> str:
        return wording.report(self)


def diagnose(
    embeddings: Vectors,
    views: Vectors | None = None,
    labels: Labels | None = None,
    *,
    temperature: float = TEMPERATURE,
    names: Sequence[str] | None = None,
    features: Vectors | None = None,
    seed: int = 0,
    progress: Progress = lambda _done, _total: None,
) -> Diagnosis:
    """How many of the negatives of a contrastive loss are false, which, and what they cost. Nothing is trained.

    Groups of samples are searched at ten resolutions, in halves of the samples. Groups that both halves find again are
    taken for classes: the share of pairs inside of them is the estimate, and its range over the resolutions is the
    interval. Where no groups repeat, nothing is estimated, and `Diagnosis.refused` says why.

    Args:
        embeddings: One row for each sample, as the loss compares them; at least 60. Their length does not matter.
        views: The positive of each sample, such as its second view or its partner. None: samples are compared with each
            other, and what needs positives is not estimated.
        labels: The class of each sample, numbers or texts: to show how right the estimate is. It is not used for it.
        temperature: The temperature of the loss.
        names: What each sample is called, such as its path, for the list of suspects.
        features: What groups are searched in, such as features before the head. None: embeddings and views.
        seed: Seed of all random choices. The same seed gives the same answer.
        progress: Called with the amount of work that is done, and of all.

    Shapes:
        [sample, dim]; features may have another dimension.

    Note:
        Similarities do not say how fine classes are: ten domains or 150 intents are both classes of the same texts. The
        interval is over the granularities that repeat, and classes may be coarser or finer than all of them.

    Example:
        >>> numbers = torch.Generator().manual_seed(0)
        >>> labels = torch.arange(16).repeat(40)
        >>> result = diagnose(torch.eye(16)[labels] + 0.1 * torch.randn(640, 16, generator=numbers), labels=labels)
        >>> round(result.truth.share, 3), result.truth.inside
        (0.061, True)
    """
    check_temperature(temperature)
    material = make_material(embeddings, views, labels, names=names, features=features)
    divided = some_of(len(material.embeddings), seed)
    found = find_granularity(material.features_of(divided), seed=seed, progress=progress)
    labels_there = None if material.labels is None else torch.from_numpy(material.labels)[divided]
    sample = Sample(
        anchors=material.embeddings[divided],
        keys=material.keys[divided],
        groups=found.groups,
        labels=labels_there,
        views=material.views,
    )
    return Diagnosis(
        samples=len(material.embeddings),
        dim=material.embeddings.shape[1],
        views=material.views,
        temperature=float(temperature),
        compared=len(divided),
        share=found.share,
        interval=found.interval,
        refused=found.refused,
        levels=found.levels,
        best_bin=_best_bin(sample) if material.views and found.levels else None,
        costs=measure_costs(sample, sorted({*TEMPERATURES, float(temperature)}), found.share),
        truth=_truth(material, sample, found.interval),
        seed=seed,
        divided=Divided(material=material, samples=divided, granularity=found),
    )


def _best_bin(sample: Sample) -> float:
    """The estimate by the views: of all pairs of up to `ANCHORS` samples."""
    rows = anchor_rows(len(sample.anchors))
    cosines = sample.anchors[rows] @ sample.keys[rows].T
    others = cosines[~torch.eye(len(rows), dtype=torch.bool)]
    return bbe(cosines.diagonal(), others[:: max(1, len(others) // PAIRS)]).tau_plus


def _truth(material: Material, sample: Sample, interval: tuple[float, float] | None) -> Truth | None:
    """How right an estimate is; None without labels."""
    if material.labels is None or sample.labels is None:
        return None
    share = share_of_pairs(material.labels)
    if interval is None:
        return Truth(share=share, inside=None, calibration_error=None)
    rows = anchor_rows(len(sample.anchors))
    r = share_together(sample.groups[rows], sample.groups, torch.float32).square_()
    r[torch.arange(len(rows)), rows] = 0  # A sample is no pair with itself.
    some = r > 0
    same = sample.labels[rows, None] == sample.labels
    error = reliability(r[some], same[some]).expected_error if some.any() else None
    return Truth(share=share, inside=interval[0] <= share <= interval[1], calibration_error=error)
