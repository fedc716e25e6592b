"""The settings of the check, the losses over sweeps of N, alpha and c, and the results."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch

from pucl.corrections import PUCL
from pucl.paper.theory.estimates import SURPRISE, Estimate, controlled_means
from pucl.paper.theory.lemma import DensityCheck, SampleCheck, check_lemma_densities, check_lemma_samples
from pucl.paper.theory.trials import Anchors, Trials, run_trials
from pucl.paper.theory.world import World
from pucl.settings import setting
from pucl.shapes import Float, Tensor

Point = tuple[int, float, float]
"""N, alpha and c."""

CHUNK = 1 << 18  # Vectors drawn at a time: 6 MiB of float64 for each kind of sample.


@dataclass(frozen=True, kw_only=True)
class TheorySettings:
    """The settings of the check.

    In a sweep, one of N, alpha and c varies. The others have the values of `unlabelled`, `alpha` and `c`, which are
    also part of the sweeps.
    """

    alpha: float = setting(0.12, "share of positives in the data")
    c: float = setting(0.1, "share of the positives that are labelled and removed")
    temperature: float = setting(0.5, "divisor of similarities; the paper has 1")
    classes: int = setting(10, "number of classes on the sphere")
    concentration: float = setting(10.0, "concentration of a class; near 0 it covers the whole sphere")
    unlabelled: int = setting(512, "N, unlabelled samples per anchor, while alpha or c varies")
    positives: int = setting(8, "M+, positives per anchor of the corrected loss with several")
    trials: int = setting(6000, "anchors over which a loss is averaged; four times as many halve the errors")
    draws: int = setting(1_000_000, "size of the simulated data set of Lemma 1")
    seed: int = setting(0, "seed of all random numbers")
    unlabelled_sweep: tuple[int, ...] = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
    alpha_sweep: tuple[float, ...] = (0.02, 0.05, 0.12, 0.2, 0.3, 0.4, 0.5)
    c_sweep: tuple[float, ...] = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)

    def __post_init__(self) -> None:
        for alpha in (self.alpha, *self.alpha_sweep):
            _check("alpha", "the share of positives in the data", alpha, "0 < alpha < 1", 0 < alpha < 1)
        for c in (self.c, *self.c_sweep):
            _check("c", "the share of positives that are labelled", c, "0 <= c <= 1", 0 <= c <= 1)
        for unlabelled in (self.unlabelled, *self.unlabelled_sweep):
            _check("unlabelled", "the number N of samples per anchor", unlabelled, "at least 1", unlabelled >= 1)
        for name, meaning, least, most in (
            # Outside of these ranges, exponentials overflow or lose all digits in float64.
            ("temperature", "the divisor of similarities", 0.01, 100),
            ("concentration", "the concentration of a class on the sphere", 1e-6, 300),
            ("classes", "the number of classes", 2, 1000),
            ("positives", "the larger number M+ of positives", 2, 10_000),
            ("trials", "the number of anchors to average over", 100, math.inf),
            ("draws", "the size of the data set of Lemma 1", 1000, 10_000_000),
            ("seed", "the seed of the random numbers", 0, 2**63 - 1),
        ):
            value = getattr(self, name)
            allowed = f"at least {least}" if most == math.inf else f"{least} to {most}"
            _check(name, meaning, value, allowed, least <= value <= most)


def _check(name: str, meaning: str, value: float | int, allowed: str, fits: bool) -> None:
    if not fits:
        raise ValueError(f"{name} is {meaning}: expected {allowed}, got {value}")


@dataclass(frozen=True, kw_only=True)
class LossEstimate:
    """A loss, and its bias: the loss minus the ideal loss.

    The bias has a smaller standard error than either loss, because both are measured on the same anchors.
    """

    loss: float
    bias: Estimate
    floored: float = 0.0  # Share of anchors whose estimate over negatives is at the floor.


@dataclass(frozen=True, kw_only=True)
class LossRow:
    """All losses for one choice of N, alpha and c; the package describes them."""

    unlabelled: int  # N; for the ideal loss, the number of negatives.
    alpha: float
    c: float
    tau_plus: float
    ideal: Estimate
    standard: LossEstimate
    exact: LossEstimate
    corrected_one: LossEstimate  # With one positive.
    corrected_several: LossEstimate
    bound: float  # Of Theorem 1, on the bias of the exact loss.

    @property
    def within_bound(self) -> bool:
        """Whether Theorem 1 holds here, with a margin for the error of the estimate."""
        return abs(self.exact.bias.value) + SURPRISE * self.exact.bias.error <= self.bound


@dataclass(frozen=True, kw_only=True)
class TheoryResult:
    """The checks of Lemma 1, and the losses while N, alpha or c varies."""

    settings: TheorySettings
    lemma_densities: DensityCheck
    lemma_samples: tuple[SampleCheck, ...]
    over_unlabelled: tuple[LossRow, ...]
    over_alpha: tuple[LossRow, ...]
    over_c: tuple[LossRow, ...]

    @property
    def rows(self) -> tuple[LossRow, ...]:
        """The rows of all sweeps."""
        return self.over_unlabelled + self.over_alpha + self.over_c

    @property
    def base(self) -> LossRow:
        """The row at the settings' own N, alpha and c, which is part of every sweep."""
        return next(row for row in self.over_unlabelled if row.unlabelled == self.settings.unlabelled)

    @property
    def lemma_holds(self) -> bool:
        """Whether all checks of Lemma 1 hold."""
        return self.lemma_densities.holds and all(check.holds for check in self.lemma_samples)

    @property
    def bound_holds(self) -> bool:
        """Whether Theorem 1 holds in all rows."""
        return all(row.within_bound for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """The results as JSON values."""
        return asdict(self) | {"lemma_holds": self.lemma_holds, "bound_holds": self.bound_holds}


def theorem_bound(unlabelled: int, temperature: float) -> float:
    r"""Theorem 1: :math:`|L_{Ideal} - L_{DeCL}| \le (e^{2/t} - 1) / (2 \sqrt N)`.

    The values of h are between :math:`e^{-1/t}` and :math:`e^{1/t}`, a ratio of :math:`e^{2/t}`. The paper has t = 1.

    Example:
        >>> round(theorem_bound(510, 1.0), 3), round(theorem_bound(510, 0.5), 3)
        (0.141, 1.187)
    """
    return math.expm1(2 / temperature) / (2 * math.sqrt(unlabelled))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums in one order whatever the number of cores. The steps are small; more threads would gain next to nothing."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@_one_thread()
def check_theory(settings: TheorySettings, report: Callable[[float], None] = lambda _: None) -> TheoryResult:
    """Check Lemma 1, and measure all losses over all sweeps.

    Args:
        settings: The settings.
        report: Called now and then with the share of the work that is done.
    """
    generator = torch.Generator().manual_seed(settings.seed)
    world = World(classes=settings.classes, concentration=settings.concentration)
    densities = check_lemma_densities(world, settings.alpha, settings.c, points=10_000, generator=generator)
    samples = check_lemma_samples(
        world,
        settings.alpha,
        settings.c,
        temperature=settings.temperature,
        draws=settings.draws,
        generator=generator,
    )
    n, alpha, c = settings.unlabelled, settings.alpha, settings.c
    counts = sorted({n, *settings.unlabelled_sweep})
    sweeps: tuple[list[Point], ...] = (
        [(count, alpha, c) for count in counts],
        [(n, each, c) for each in sorted({alpha, *settings.alpha_sweep})],
        [(n, alpha, each) for each in sorted({c, *settings.c_sweep})],
    )
    trials: dict[Point, list[Trials]] = {point: [] for sweep in sweeps for point in sweep}
    most, positives = counts[-1], settings.positives
    size = max(1, CHUNK // max(most, positives))
    for start in range(0, settings.trials, size):
        count = min(size, settings.trials - start)
        anchors = Anchors.draw(world, count, positives=positives, most=most, generator=generator)
        for point, parts in trials.items():
            correction = PUCL(alpha=point[1], c=point[2])
            parts.append(run_trials(anchors, world, correction, point[0], settings.temperature))
        report((start + count) / settings.trials)
    rows = {point: _row(point, parts, settings.temperature) for point, parts in trials.items()}
    over_unlabelled, over_alpha, over_c = (tuple(rows[point] for point in sweep) for sweep in sweeps)
    return TheoryResult(
        settings=settings,
        lemma_densities=densities,
        lemma_samples=samples,
        over_unlabelled=over_unlabelled,
        over_alpha=over_alpha,
        over_c=over_c,
    )


def _row(point: Point, parts: list[Trials], temperature: float) -> LossRow:
    unlabelled, alpha, c = point
    losses = torch.cat([part.losses for part in parts])
    controls = torch.cat([part.controls for part in parts])
    all_controls = torch.cat([controls, torch.cat([part.unlabelled_controls for part in parts])], dim=1)
    floored_one, floored_several = torch.cat([part.floored for part in parts]).mean(dim=0).tolist()
    ideal, standard, exact, corrected_one, corrected_several = losses.unbind(dim=1)
    # The ideal and the exact loss do not depend on the unlabelled samples. Without controls of those, they have the
    # same values for all alpha and c.
    ideal_mean, exact_bias = _estimates([ideal, exact - ideal], controls)
    biases = _estimates([standard - ideal, corrected_one - ideal, corrected_several - ideal], all_controls)

    def loss(bias: Estimate, floored: float = 0.0) -> LossEstimate:
        return LossEstimate(loss=ideal_mean.value + bias.value, bias=bias, floored=floored)

    return LossRow(
        unlabelled=unlabelled,
        alpha=alpha,
        c=c,
        tau_plus=PUCL(alpha=alpha, c=c).tau_plus,
        ideal=ideal_mean,
        standard=loss(biases[0]),
        exact=loss(exact_bias),
        corrected_one=loss(biases[1], floored_one),
        corrected_several=loss(biases[2], floored_several),
        bound=theorem_bound(unlabelled, temperature),
    )


def _estimates(values: list[Tensor], controls: Float[Tensor, "trial control"]) -> list[Estimate]:
    """The mean of each of the values over trials, with noise removed by controls."""
    means, errors = controlled_means(torch.stack(values, dim=1), controls)
    return [Estimate(mean, error) for mean, error in zip(means.tolist(), errors.tolist(), strict=True)]
