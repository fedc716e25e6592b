"""What is measured, how, and what came of it."""

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
from pucl.shapes import Float, Tensor

CHUNK = 1 << 18  # Vectors drawn at a time: 6 MiB of float64 for each kind of sample.


@dataclass(frozen=True, kw_only=True)
class TheorySettings:
    """What is measured.

    Args:
        alpha: Share of positives in the data, 0 < alpha < 1.
        c: Share of the positives that is labelled and removed, 0 <= c <= 1.
        temperature: t, what similarities are divided by, 0.01 to 100. The paper has t = 1.
        classes: Number of classes, 2 to 1000: the anchor's, and others that are equally frequent.
        concentration: How tight a class is, 1e-6 to 300: the kappa of its von Mises-Fisher law.
        unlabelled: N where alpha or c varies.
        positives: M+ of the corrected loss with several positives, at least 2.
        trials: Anchors over which each loss is averaged.
        draws: Size of the data set that is drawn, labelled and thinned out to check Lemma 1, 1000 to 10 million.
        seed: Of all random numbers.
        unlabelled_sweep, alpha_sweep, c_sweep: The values that N, alpha and c take in turn while the others stay;
            `unlabelled`, `alpha` and `c` are always among them.
    """

    alpha: float = 0.12
    c: float = 0.1
    temperature: float = 0.5
    classes: int = 10
    concentration: float = 10.0
    unlabelled: int = 512
    positives: int = 8
    trials: int = 6000
    draws: int = 1_000_000
    seed: int = 0
    unlabelled_sweep: tuple[int, ...] = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
    alpha_sweep: tuple[float, ...] = (0.02, 0.05, 0.12, 0.2, 0.3, 0.4, 0.5)
    c_sweep: tuple[float, ...] = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)

    def __post_init__(self) -> None:
        for alpha in (self.alpha, *self.alpha_sweep):
            _check("alpha", "the share of positives in the data", alpha, "0 < alpha < 1", 0 < alpha < 1)
        for c in (self.c, *self.c_sweep):
            _check("c", "the share of positives that is labelled", c, "0 <= c <= 1", 0 <= c <= 1)
        for unlabelled in (self.unlabelled, *self.unlabelled_sweep):
            _check("unlabelled", "the number N of samples per anchor", unlabelled, "at least 1", unlabelled >= 1)
        for name, meaning, least, most in (
            # Beyond these temperatures and concentrations, exponentials leave the range or the digits of float64.
            ("temperature", "what similarities are divided by", 0.01, 100),
            ("concentration", "how tight a class is on the sphere", 1e-6, 300),
            ("classes", "the number of classes in the world", 2, 1000),
            ("positives", "the larger number M+ of positives", 2, 10_000),
            ("trials", "the number of anchors to average over", 100, math.inf),
            ("draws", "the size of the data set of Lemma 1", 1000, 10_000_000),
            ("seed", "where the random numbers start", 0, 2**63 - 1),
        ):
            value = getattr(self, name)
            allowed = f"at least {least}" if most == math.inf else f"{least} to {most}"
            _check(name, meaning, value, allowed, least <= value <= most)


def _check(name: str, meaning: str, value: float | int, allowed: str, fits: bool) -> None:
    if not fits:
        raise ValueError(f"{name} is {meaning}: expected {allowed}, got {value}")


@dataclass(frozen=True, kw_only=True)
class LossEstimate:
    """A loss, and how far it is from the ideal one.

    Args:
        loss: The loss: the ideal one plus the bias.
        bias: The loss less the ideal loss. The error of this difference is smaller than that of either loss, because
            both were measured on the same anchors.
        floored: Share of the anchors whose estimate over negatives stands at the floor.
    """

    loss: float
    bias: Estimate
    floored: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Row:
    """All losses for one choice of N, alpha and c.

    Args:
        unlabelled: N, the number of unlabelled samples (or of negatives, for the ideal loss) per anchor.
        alpha: Share of positives in the data.
        c: Share of the positives that is labelled and removed.
        tau_plus: tau', the share of positives that is left among the unlabelled.
        ideal: The loss with true negatives.
        standard: The loss that takes unlabelled samples for negatives.
        exact: The corrected loss with the true mean over negatives.
        corrected_one: The corrected loss as it is estimated with one positive.
        corrected_several: The same with several positives.
        bound: What Theorem 1 says that ``exact.bias`` cannot exceed.
    """

    unlabelled: int
    alpha: float
    c: float
    tau_plus: float
    ideal: Estimate
    standard: LossEstimate
    exact: LossEstimate
    corrected_one: LossEstimate
    corrected_several: LossEstimate
    bound: float

    @property
    def within_bound(self) -> bool:
        """Whether Theorem 1 holds here, even if chance made the difference too small."""
        return abs(self.exact.bias.value) + SURPRISE * self.exact.bias.error <= self.bound


@dataclass(frozen=True, kw_only=True)
class TheoryResult:
    """Everything that was measured.

    Args:
        settings: What was asked for.
        lemma_densities: Lemma 1 as an equation between densities.
        lemma_samples: Lemma 1 on data that were drawn, labelled and thinned out.
        over_unlabelled, over_alpha, over_c: The losses where one of N, alpha, c varies.
    """

    settings: TheorySettings
    lemma_densities: DensityCheck
    lemma_samples: tuple[SampleCheck, ...]
    over_unlabelled: tuple[Row, ...]
    over_alpha: tuple[Row, ...]
    over_c: tuple[Row, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of all sweeps."""
        return self.over_unlabelled + self.over_alpha + self.over_c

    @property
    def base(self) -> Row:
        """The row at the settings' own N, alpha and c, which is part of every sweep."""
        return next(row for row in self.over_unlabelled if row.unlabelled == self.settings.unlabelled)

    @property
    def lemma_holds(self) -> bool:
        """Whether every check of Lemma 1 does."""
        return self.lemma_densities.holds and all(check.holds for check in self.lemma_samples)

    @property
    def bound_holds(self) -> bool:
        """Whether Theorem 1 holds in every row."""
        return all(row.within_bound for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """The same in types that JSON knows."""
        return asdict(self) | {"lemma_holds": self.lemma_holds, "bound_holds": self.bound_holds}


def theorem_bound(unlabelled: int, temperature: float) -> float:
    r"""Theorem 1: :math:`|L_{Ideal} - L_{DeCL}| \le (e^{2/t} - 1) / (2 \sqrt N)`.

    h lies between :math:`e^{-1/t}` and :math:`e^{1/t}`, a ratio of :math:`e^{2/t}`; the paper has t = 1.

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
def measure_theory(settings: TheorySettings, report: Callable[[float], None] = lambda _: None) -> TheoryResult:
    """Check Lemma 1, and measure all losses over all sweeps.

    Args:
        settings: What to measure.
        report: Is told the share of the work that is done, from time to time.
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
    base = (settings.unlabelled, settings.alpha, settings.c)
    counts = sorted({settings.unlabelled, *settings.unlabelled_sweep})
    alphas = sorted({settings.alpha, *settings.alpha_sweep})
    cs = sorted({settings.c, *settings.c_sweep})
    sweeps = (
        [(count, base[1], base[2]) for count in counts],
        [(base[0], alpha, base[2]) for alpha in alphas],
        [(base[0], base[1], c) for c in cs],
    )
    trials: dict[tuple[int, float, float], list[Trials]] = {place: [] for sweep in sweeps for place in sweep}
    done = 0
    for anchors in _draw_anchors(world, settings, most=counts[-1], generator=generator):
        for place, parts in trials.items():
            correction = PUCL(alpha=place[1], c=place[2])
            parts.append(run_trials(anchors, world, correction, place[0], settings.temperature))
        done += len(anchors.anchor)
        report(done / settings.trials)
    rows = {place: _row(place, parts, settings.temperature) for place, parts in trials.items()}
    over_unlabelled, over_alpha, over_c = (tuple(rows[place] for place in sweep) for sweep in sweeps)
    return TheoryResult(
        settings=settings,
        lemma_densities=densities,
        lemma_samples=samples,
        over_unlabelled=over_unlabelled,
        over_alpha=over_alpha,
        over_c=over_c,
    )


def _draw_anchors(
    world: World, settings: TheorySettings, *, most: int, generator: torch.Generator
) -> Iterator[Anchors]:
    """All anchors, a chunk at a time, each with as many samples as the largest N of any row."""
    size = max(1, CHUNK // max(most, settings.positives))
    for start in range(0, settings.trials, size):
        count = min(size, settings.trials - start)
        yield Anchors(
            anchor=world.sample_positives(count, generator=generator),
            positive=world.sample_positives(count, settings.positives, generator=generator),
            negative=world.sample_negatives(count, most, generator=generator),
            hidden=world.sample_positives(count, most, generator=generator),
            lot=torch.rand(count, most, dtype=torch.float64, generator=generator),
        )


def _row(place: tuple[int, float, float], parts: list[Trials], temperature: float) -> Row:
    unlabelled, alpha, c = place
    losses = torch.cat([part.losses for part in parts])
    controls = torch.cat([part.controls for part in parts])
    all_controls = torch.cat([controls, torch.cat([part.unlabelled_controls for part in parts])], dim=1)
    floored_one, floored_several = torch.cat([part.floored for part in parts]).mean(dim=0).tolist()
    ideal, standard, exact, corrected_one, corrected_several = losses.unbind(dim=1)
    # The ideal and the exact loss know nothing of the unlabelled: without controls of those, they are the same
    # numbers for all alpha and c.
    ideal_mean, exact_bias = _estimates([ideal, exact - ideal], controls)
    biases = _estimates([standard - ideal, corrected_one - ideal, corrected_several - ideal], all_controls)

    def loss(bias: Estimate, floored: float = 0.0) -> LossEstimate:
        return LossEstimate(loss=ideal_mean.value + bias.value, bias=bias, floored=floored)

    return Row(
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
    means, errors = controlled_means(torch.stack(values, dim=1), controls)
    return [Estimate(mean, error) for mean, error in zip(means.tolist(), errors.tolist(), strict=True)]
