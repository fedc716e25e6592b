"""Checks of Lemma 1: as an equation between densities, and on simulated data."""

import math
from dataclasses import dataclass

import torch

from pucl.paper.theory.estimates import SURPRISE, Estimate, mean_of
from pucl.paper.theory.world import World, unit, unlabelled_density

DENSITY_TOLERANCE = 1e-12  # Far above the rounding errors of float64, far below any mistake in a formula.
ENOUGH = 100  # Samples whose mean is nearly normal, so that its standard error is reliable.


@dataclass(frozen=True, kw_only=True)
class DensityCheck:
    """Lemma 1 as an equation between densities."""

    points: int  # At which both sides were computed.
    largest_error: float  # Of the two sides, relative to the sum of their terms.
    tolerance: float = DENSITY_TOLERANCE

    @property
    def holds(self) -> bool:
        """Whether the difference is a rounding error."""
        return self.largest_error <= self.tolerance


@dataclass(frozen=True, kw_only=True)
class SampleCheck:
    """A consequence of Lemma 1, measured on data from which the labelled positives were removed."""

    quantity: str
    expected: float  # By the lemma.
    measured: Estimate

    @property
    def deviation(self) -> float:
        """The difference in standard errors; 0 if the values are equal."""
        difference = self.measured.value - self.expected
        return difference / self.measured.error if difference else 0.0

    @property
    def holds(self) -> bool:
        """Whether the difference can be explained by chance."""
        return abs(self.measured.value - self.expected) <= SURPRISE * self.measured.error


def check_lemma_densities(
    world: World, alpha: float, c: float, *, points: int, generator: torch.Generator
) -> DensityCheck:
    r"""Check Lemma 1 at single points.

    .. math:: p^- = \frac{1 - \alpha c}{1 - \alpha}\, p^u - \frac{\alpha (1 - c)}{1 - \alpha}\, p^+

    Half of the points are uniform on the sphere, half are positives. Where positives are dense, the difference of two
    large terms is small, so the error is relative to those terms.
    """
    anywhere = torch.randn(points // 2, 3, dtype=torch.float64, generator=generator)
    where = torch.cat([unit(anywhere), world.sample_positives(points - points // 2, generator=generator)])
    positive, negative = world.densities(where)
    scaled_unlabelled = (1 - alpha * c) / (1 - alpha) * unlabelled_density(positive, negative, alpha, c)
    scaled_positive = alpha * (1 - c) / (1 - alpha) * positive
    difference = (scaled_unlabelled - scaled_positive - negative).abs()
    relative = difference / (scaled_unlabelled + scaled_positive + negative)
    return DensityCheck(points=points, largest_error=float(relative.max()))


def check_lemma_samples(
    world: World, alpha: float, c: float, *, temperature: float, draws: int, generator: torch.Generator
) -> tuple[SampleCheck, ...]:
    """Simulate Lemma 1: draw a data set, label positives with probability c, and remove the labelled ones.

    Three quantities are compared with the lemma: the share of positives among the unlabelled (tau'), the mean of h
    over the unlabelled, and the mean of h over negatives as estimated from labelled and unlabelled samples. The last is
    skipped if c gives too few labelled samples.
    """
    is_positive = torch.rand(draws, dtype=torch.float64, generator=generator) < alpha
    labels = torch.where(is_positive, 0, torch.randint(1, world.classes, (draws,), generator=generator))
    points = world.sample(labels, generator)
    labelled = is_positive & (torch.rand(draws, dtype=torch.float64, generator=generator) < c)
    kept = draws - int(labelled.sum())
    if kept < ENOUGH:
        raise ValueError(
            f"draws is the size of the data set of Lemma 1: expected enough to leave {ENOUGH} unlabelled samples, "
            f"got {draws}, which leaves {kept} at alpha = {alpha} and c = {c}"
        )
    anchor = world.sample_positives(1, generator=generator)
    h = torch.exp(points @ anchor[0] / temperature)

    tau_plus = alpha * (1 - c) / (1 - alpha * c)
    odds = alpha * (1 - c) / (1 - alpha)
    mean_positive, mean_negative = (float(mean) for mean in world.mean_h(anchor, temperature))
    # The standard error of a share follows from the share, even if the data have no hidden positive.
    hidden = Estimate(float(is_positive[~labelled].double().mean()), math.sqrt(tau_plus * (1 - tau_plus) / kept))
    over_unlabelled = mean_of(h[~labelled])
    checks = [
        SampleCheck(quantity="share of positives among the unlabelled", expected=tau_plus, measured=hidden),
        SampleCheck(
            quantity="mean of h over the unlabelled",
            expected=((1 - alpha) * mean_negative + alpha * (1 - c) * mean_positive) / (1 - alpha * c),
            measured=over_unlabelled,
        ),
    ]
    if draws - kept >= ENOUGH:
        over_labelled = mean_of(h[labelled])
        from_both = Estimate(
            (1 + odds) * over_unlabelled.value - odds * over_labelled.value,
            math.hypot((1 + odds) * over_unlabelled.error, odds * over_labelled.error),
        )
        checks.append(
            SampleCheck(
                quantity="mean of h over negatives, from labelled and unlabelled",
                expected=mean_negative,
                measured=from_both,
            )
        )
    return tuple(checks)
