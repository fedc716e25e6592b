r"""The share of false negatives, as an interval: similarities alone do not say how fine classes are.

Any division of the samples into groups has a share of false negatives, the share of pairs in one group. Ten digits give
0.1; whether 3 and 8 are one class is no property of the embeddings. What can be tested is which divisions are in the
data: communities are searched at several resolutions, each in halves of the samples, and those that both halves find
again are kept. Their shares are the interval:

.. math:: \Big[\min_k \tau'_k - 2 e_k,\ \max_k \tau'_k + 2 e_k\Big], \qquad
          \tau'_k = \frac{\sum_g n_g (n_g - 1)}{n (n - 1)}, \qquad
          e_k^2 = \frac{4}{n} \Big(\sum_g p_g^3 - \big(\sum_g p_g^2\big)^2\Big)

over the partitions k that repeat, with :math:`n_g = n p_g` samples in group g. :math:`e_k` is the standard error of
:math:`\tau'_k` that comes from having drawn n samples. All constants are here, each with its reason.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.estimation.communities import (
    FEWEST,
    REPEATABLE,
    Ids,
    Whitening,
    follow,
    mean_square_share,
    repeated_partitions,
    share_of_pairs,
)
from pucl.shapes import Float, Int, Tensor

RESOLUTIONS = tuple(2.0**power for power in range(-3, 7))  # From two groups or so to groups of ten samples.
SPLITS = 3  # Splits of each resolution. Agreements of single splits differ by 0.1.
NEARLY = 0.8  # A level repeats if its agreement is at least this share of the best one.
LEAST = 0.5  # And at least this.
FEWEST_LEVELS = 2  # A single level is a cut through a cloud: colour encoders without classes repeat at two groups.
SAME = 1e-5  # Largest distance from the mean direction at which all embeddings are taken for one point.
COMMON = 0.05  # Share of hidden positives from which classes are coarse. Below it, what `auto` found was too coarse.


@dataclass(frozen=True, kw_only=True)
class Level:
    """Communities of one resolution.

    Args:
        resolution: Higher values give more, smaller communities.
        communities: Their number, mean over the partitions.
        share: Share of pairs of samples in one community, mean over the partitions.
        least: The smallest share of a partition, less two standard errors.
        most: The largest share of a partition, and two standard errors more.
        agreement: Adjusted Rand index of the partitions of two halves, mean over the splits.
        repeats: Whether it agrees well enough to be used.
    """

    resolution: float
    communities: float
    share: float
    least: float
    most: float
    agreement: float
    repeats: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Granularity:
    """The levels at which samples can be divided, and what those that repeat say of the pairs.

    Args:
        levels: All levels, from coarse to fine; none if nothing could be searched.
        refused: Why there is no estimate, in a sentence; None if there is one.
        points: The whitened features of the samples.
        groups: The groups of each sample in each partition of the levels that repeat, from coarse to fine; no columns
            if none do.
        whitening: Whitens the features of other samples.
    """

    levels: tuple[Level, ...]
    refused: str | None
    points: Float[Tensor, "sample direction"]
    groups: Int[Tensor, "sample partition"]
    whitening: Whitening = field(repr=False)

    @property
    def repeating(self) -> tuple[Level, ...]:
        """The levels that repeat, from coarse to fine."""
        return tuple(level for level in self.levels if level.repeats)

    @property
    def share(self) -> float | None:
        """The mean of r over all pairs of samples: an estimate inside the interval."""
        return None if self.refused else mean_square_share(self.groups)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The range of shares of the levels that repeat.

        It includes `share`, which is smaller than all of them where levels nearly agree: it is a mean of squares.
        """
        if self.share is None:
            return None
        least, most = min(level.least for level in self.repeating), max(level.most for level in self.repeating)
        return min(least, self.share), max(most, self.share)

    def groups_of(self, features: Float[Tensor, "other dim"]) -> Int[Tensor, "other partition"]:
        """The groups of other samples: in each partition, that of the majority of their neighbours."""
        return follow(self.whitening(features), self.points, self.groups)


def find_granularity(
    features: Float[Tensor, "sample dim"],
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Granularity:
    """Divide samples at several resolutions, and keep the levels that repeat from half to half.

    Args:
        features: One row for each sample, at least `pucl.estimation.communities.FEWEST`. Of more than 5,000 samples
            divide a part, see `pucl.estimation.communities.some_of`, and let the others follow.
        seed: The same seed gives the same result.
        progress: Called with the number of splits that are done, and of all.

    Example:
        >>> numbers = torch.Generator().manual_seed(0)
        >>> centres = torch.eye(16).repeat(40, 1)
        >>> found = find_granularity(centres + 0.1 * torch.randn(640, 16, generator=numbers))
        >>> low, high = found.interval
        >>> low < 39 / 639 < high
        True
    """
    if len(features) < FEWEST:
        raise ValueError(
            f"groups of samples are searched in halves of them: expected at least {FEWEST} samples, got {len(features)}"
        )
    whitening = Whitening.of(features)
    points = whitening(features)
    if refused := _equal(features):
        return Granularity(
            levels=(),
            refused=refused,
            points=points,
            groups=torch.empty(len(points), 0, dtype=torch.int64),
            whitening=whitening,
        )
    splits = [resolution for resolution in RESOLUTIONS for _ in range(SPLITS)]
    found = repeated_partitions(points, seed, resolutions=splits, progress=progress)
    agreements = np.array(found.agreements).reshape(len(RESOLUTIONS), SPLITS).mean(axis=1)
    needed = max(LEAST, NEARLY * float(agreements.max()))
    columns = found.groups.reshape(len(points), len(RESOLUTIONS), 2 * SPLITS)
    levels = tuple(
        _level(resolution, columns[:, index].numpy(), float(agreement), needed)
        for index, (resolution, agreement) in enumerate(zip(RESOLUTIONS, agreements, strict=True))
    )
    refused = _not_repeatable(levels)
    kept = [index for index, level in enumerate(levels) if level.repeats and not refused]
    return Granularity(
        levels=levels,
        refused=refused,
        points=points,
        groups=columns[:, kept].flatten(1),
        whitening=whitening,
    )


def _level(resolution: float, groups: NDArray[np.int64], agreement: float, needed: float) -> Level:
    """A level of these partitions, [sample, partition]."""
    shares = [share_of_pairs(column) for column in groups.T]
    errors = [_standard_error(column) for column in groups.T]
    return Level(
        resolution=resolution,
        communities=float(groups.max(axis=0).mean() + 1),
        share=float(np.mean(shares)),
        least=max(0.0, min(share - 2 * error for share, error in zip(shares, errors, strict=True))),
        most=min(1.0, max(share + 2 * error for share, error in zip(shares, errors, strict=True))),
        agreement=agreement,
        repeats=agreement >= needed,
    )


def _standard_error(groups: Ids) -> float:
    """The standard error of the sum of squared group shares over random samples, by the delta method."""
    shares = np.bincount(groups) / len(groups)
    return float(2 * np.sqrt(max(0.0, (shares**3).sum() - (shares**2).sum() ** 2) / len(groups)))


def _equal(features: Float[Tensor, "sample dim"]) -> str | None:
    """A sentence if all features are one point, or none has a direction."""
    unit = torch.nn.functional.normalize(features.double(), dim=1)
    away = float((unit - unit.mean(dim=0)).norm(dim=1).max())
    if away > SAME:
        return None
    return (
        f"all embeddings are the same: none is further than {away:.1g} from their mean direction. "
        f"The encoder has collapsed, or the wrong array was given"
    )


def _not_repeatable(levels: tuple[Level, ...]) -> str | None:
    """A sentence if no levels repeat, or a single one."""
    best = max(levels, key=lambda level: level.agreement)
    if best.agreement < REPEATABLE:
        return (
            f"groups of samples do not repeat: those of two halves of the samples agree by {best.agreement:.2f} at "
            f"best (adjusted Rand index), and {REPEATABLE} is needed; noise reaches 0.25"
        )
    if sum(level.repeats for level in levels) < FEWEST_LEVELS:
        return (
            f"groups of samples repeat at one resolution alone, in about {best.communities:.0f} groups (agreement "
            f"{best.agreement:.2f}): a cut through a cloud without groups does that too"
        )
    return None
