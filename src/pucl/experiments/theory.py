r"""A world where everything is known, to hold Lemma 1 and Theorem 1 against numbers.

Classes are von Mises-Fisher laws on the sphere in three dimensions. There the density, exact sampling, and the
expectation of :math:`h(x, x') = e^{\langle x, x' \rangle / t}` all have closed forms, so the losses that the theorem
speaks of can be computed rather than believed:

- *ideal*: N true negatives, drawn from :math:`p^-`. What every correction aims at.
- *standard*: N unlabelled samples, drawn from :math:`p^u`, all taken for negatives.
- *exact*: the paper's :math:`L_{DeCL}`, where the mean over negatives is :math:`\mu_x = E^-[h(x, x')]` itself. This is
  what Theorem 1 bounds.
- *corrected*: the estimator that is used in training, from N unlabelled samples and one or several positives.

The ideal, the standard and the corrected loss are computed by the very functions that a training loop calls.

Anchors are of one class, whose share :math:`\alpha` of the data may be any; the theorem holds anchor by anchor, and so
for whatever mixture of anchors there is.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import torch

from pucl.contrast.objectives import softplus
from pucl.contrast.pairs import Pairs
from pucl.corrections import PUCL, Plain
from pucl.functional import compare, pair_up
from pucl.shapes import Float, Int, Tensor

CHUNK = 1 << 18  # Vectors drawn at a time: 6 MiB of float64 for each kind of sample.
DENSITY_TOLERANCE = 1e-12  # Far above the rounding of float64, far below any mistake in a formula.
SURPRISE = 4.0  # Standard errors from which a sample speaks against a formula: by chance, once in 16,000 times.
ENOUGH = 100  # Samples from which a mean is about normal, so that its standard error can be relied on.
GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))


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


@dataclass(frozen=True)
class Estimate:
    """A mean over trials and its standard error."""

    value: float
    error: float


@dataclass(frozen=True, kw_only=True)
class DensityCheck:
    """Lemma 1 as an equation between densities.

    Args:
        points: At how many points both sides were computed.
        largest_error: The largest difference of the two sides, relative to the terms they are made of.
        tolerance: Up to where that is rounding.
    """

    points: int
    largest_error: float
    tolerance: float = DENSITY_TOLERANCE

    @property
    def holds(self) -> bool:
        """Whether the difference is rounding."""
        return self.largest_error <= self.tolerance


@dataclass(frozen=True, kw_only=True)
class SampleCheck:
    """A consequence of Lemma 1, measured on data of which the labelled positives were thrown out.

    Args:
        quantity: What is measured.
        expected: What the lemma says.
        measured: What the data say, with its standard error.
    """

    quantity: str
    expected: float
    measured: Estimate

    @property
    def deviation(self) -> float:
        """The difference in standard errors; 0 if there is none."""
        difference = self.measured.value - self.expected
        return difference / self.measured.error if difference else 0.0

    @property
    def holds(self) -> bool:
        """Whether the difference is what chance can do."""
        return abs(self.measured.value - self.expected) <= SURPRISE * self.measured.error


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


@dataclass(frozen=True, kw_only=True)
class World:
    r"""Classes on the sphere, each a von Mises-Fisher law around a mean of its own.

    With mean m and concentration :math:`\kappa`, a class has in three dimensions

    .. math::
        \text{density}\quad & \frac{\kappa}{2 \pi (1 - e^{-2 \kappa})}\, e^{\kappa (\langle m, x \rangle - 1)} \\
        \text{expectation}\quad & E\big[e^{\langle v, x \rangle}\big]
            = \frac{Z(|\kappa m + v|)}{Z(\kappa)}, \qquad Z(r) = \frac{\sinh r}{r}

    and its height :math:`w = \langle m, x \rangle` is drawn by inverting its distribution function.

    Class 0 is the anchor's: :math:`p^+`. The others, equally frequent, make up :math:`p^-`.

    Args:
        classes: Their number, at least 2. The means are spread evenly, along a spiral from pole to pole.
        concentration: kappa > 0.
    """

    classes: int
    concentration: float

    @cached_property
    def means(self) -> Float[Tensor, "class 3"]:
        """The mean direction of every class."""
        turn = torch.arange(self.classes, dtype=torch.float64)
        height = 1 - (2 * turn + 1) / self.classes
        radius = (1 - height**2).sqrt()
        return torch.stack([radius * (GOLDEN_ANGLE * turn).cos(), radius * (GOLDEN_ANGLE * turn).sin(), height], dim=1)

    @cached_property
    def mirrors(self) -> Float[Tensor, "class 3"]:
        """Normals of the planes that mirror the north pole to each class mean."""
        normal = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64) - self.means
        return _unit(normal)

    def densities(self, points: Float[Tensor, "point 3"]) -> tuple[Float[Tensor, " point"], Float[Tensor, " point"]]:
        """p+ and p- at these points, per area of the sphere (which has 4 pi of it)."""
        kappa = self.concentration
        log_peak = math.log(kappa) - math.log(-2 * math.pi * math.expm1(-2 * kappa))
        density = torch.exp(log_peak + kappa * (points @ self.means.T - 1))
        return density[:, 0], density[:, 1:].mean(dim=1)

    def mean_h(
        self, anchors: Float[Tensor, "anchor 3"], temperature: float
    ) -> tuple[Float[Tensor, " anchor"], Float[Tensor, " anchor"]]:
        """mu+ and mu-: the expectations of h(x, x') over p+ and p- for every anchor x."""
        kappa = self.concentration
        resultant = torch.linalg.vector_norm(kappa * self.means + anchors[:, None] / temperature, dim=2)
        mean = torch.exp(_log_sinh_over(resultant) - _log_sinh_over(torch.tensor(kappa, dtype=torch.float64)))
        return mean[:, 0], mean[:, 1:].mean(dim=1)

    def sample(self, labels: Int[Tensor, "*shape"], generator: torch.Generator) -> Float[Tensor, "*shape 3"]:
        """One point of each of these classes."""
        kappa = self.concentration
        uniform, turn = torch.rand(2, *labels.shape, dtype=torch.float64, generator=generator)
        # The inverse of the distribution function of w, in a form that is exact for small kappa too.
        height = (1 + torch.log1p(uniform * math.expm1(-2 * kappa)) / kappa).clamp(-1, 1)
        radius = (1 - height**2).sqrt()
        around_pole = torch.stack([radius * (math.tau * turn).cos(), radius * (math.tau * turn).sin(), height], dim=-1)
        # The law is symmetric about its mean, so a mirror brings it to the class as well as a rotation would.
        normal = self.mirrors[labels]
        return around_pole - 2 * (around_pole * normal).sum(dim=-1, keepdim=True) * normal

    def sample_positives(self, *shape: int, generator: torch.Generator) -> Float[Tensor, "*shape 3"]:
        """Points of p+."""
        return self.sample(torch.zeros(shape, dtype=torch.int64), generator)

    def sample_negatives(self, *shape: int, generator: torch.Generator) -> Float[Tensor, "*shape 3"]:
        """Points of p-."""
        return self.sample(torch.randint(1, self.classes, shape, generator=generator), generator)


def _unit(vectors: Float[Tensor, "vector 3"]) -> Float[Tensor, "vector 3"]:
    length: Tensor = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return vectors / length


def _log_sinh_over(r: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """log(sinh(r) / r), also for r = 0 and for r at which sinh overflows."""
    r = r.clamp_min(1e-100)
    return r + torch.log(-torch.expm1(-2 * r) / (2 * r))


def unlabelled_density(
    positive: Float[Tensor, " point"], negative: Float[Tensor, " point"], alpha: float, c: float
) -> Float[Tensor, " point"]:
    r"""p^u from what happens to a sample: it is drawn, and stays unless it is positive and gets labelled.

    .. math:: p^u(x) = \frac{p(x) \Pr(s = 0 \mid x)}{\Pr(s = 0)}, \qquad
              \Pr(s = 0 \mid x) = \Pr(y = 0 \mid x) + (1 - c) \Pr(y = 1 \mid x)

    Lemma 1 is not used, so that it can be checked against this.
    """
    whole = alpha * positive + (1 - alpha) * negative
    is_negative, is_positive = (1 - alpha) * negative / whole, alpha * positive / whole
    return whole * (is_negative + (1 - c) * is_positive) / (1 - alpha * c)


def theorem_bound(unlabelled: int, temperature: float) -> float:
    r"""Theorem 1: :math:`|L_{Ideal} - L_{DeCL}| \le (e^{2/t} - 1) / (2 \sqrt N)`.

    h lies between :math:`e^{-1/t}` and :math:`e^{1/t}`, a ratio of :math:`e^{2/t}`; the paper has t = 1.

    Example:
        >>> round(theorem_bound(510, 1.0), 3), round(theorem_bound(510, 0.5), 3)
        (0.141, 1.187)
    """
    return math.expm1(2 / temperature) / (2 * math.sqrt(unlabelled))


def check_lemma_densities(
    world: World, alpha: float, c: float, *, points: int, generator: torch.Generator
) -> DensityCheck:
    r"""Lemma 1 point by point.

    .. math:: p^- = \frac{1 - \alpha c}{1 - \alpha}\, p^u - \frac{\alpha (1 - c)}{1 - \alpha}\, p^+

    Half of the points are anywhere on the sphere, half where positives are. Where positives are dense, two large
    terms leave a small difference; the error is relative to those terms.
    """
    anywhere = torch.randn(points // 2, 3, dtype=torch.float64, generator=generator)
    where = torch.cat([_unit(anywhere), world.sample_positives(points - points // 2, generator=generator)])
    positive, negative = world.densities(where)
    scaled_unlabelled = (1 - alpha * c) / (1 - alpha) * unlabelled_density(positive, negative, alpha, c)
    scaled_positive = alpha * (1 - c) / (1 - alpha) * positive
    difference = (scaled_unlabelled - scaled_positive - negative).abs()
    relative = difference / (scaled_unlabelled + scaled_positive + negative)
    return DensityCheck(points=points, largest_error=float(relative.max()))


def check_lemma_samples(
    world: World, alpha: float, c: float, *, temperature: float, draws: int, generator: torch.Generator
) -> tuple[SampleCheck, ...]:
    """Lemma 1 acted out: draw a data set, label positives with probability c, throw the labelled out, and look.

    Three things are compared with the lemma: the share of positives among the unlabelled (tau'), the mean of h over
    the unlabelled, and the mean of h over negatives as it comes out of the labelled and the unlabelled alone. The
    last is left out where c gives too few labelled samples.
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
    # The error of a share is known from the share, even where the data happen to show none.
    hidden = Estimate(float(is_positive[~labelled].double().mean()), math.sqrt(tau_plus * (1 - tau_plus) / kept))
    over_unlabelled = _mean(h[~labelled])
    checks = [
        SampleCheck(quantity="share of positives among the unlabelled", expected=tau_plus, measured=hidden),
        SampleCheck(
            quantity="mean of h over the unlabelled",
            expected=((1 - alpha) * mean_negative + alpha * (1 - c) * mean_positive) / (1 - alpha * c),
            measured=over_unlabelled,
        ),
    ]
    if draws - kept >= ENOUGH:
        over_labelled = _mean(h[labelled])
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


def _mean(values: Float[Tensor, " draw"]) -> Estimate:
    return Estimate(float(values.mean()), float(values.std()) / math.sqrt(len(values)))


@dataclass(frozen=True, kw_only=True)
class Anchors:
    """Some anchors with all that any loss of any row needs, so that rows and losses differ in nothing but themselves.

    Args:
        anchor: x, of the anchor's class.
        positive: M+ positives each.
        negative: As many true negatives each as the largest N.
        hidden: Positives that take the place of a negative where the unlabelled sample is a hidden positive.
        lot: Uniform numbers; the sample is a hidden positive where they are below tau'.
    """

    anchor: Float[Tensor, "anchor 3"]
    positive: Float[Tensor, "anchor positive 3"]
    negative: Float[Tensor, "anchor unlabelled 3"]
    hidden: Float[Tensor, "anchor unlabelled 3"]
    lot: Float[Tensor, "anchor unlabelled"]

    def unlabelled(self, count: int, tau_plus: float) -> Float[Tensor, "anchor count 3"]:
        """Samples of p^u, of which a share tau' is positive."""
        is_hidden = self.lot[:, :count, None] < tau_plus
        return torch.where(is_hidden, self.hidden[:, :count], self.negative[:, :count])


@dataclass(frozen=True, kw_only=True)
class Trials:
    """The losses of one row, anchor by anchor.

    Args:
        losses: Ideal, standard, exact, corrected with one positive, corrected with several.
        controls: Quantities of the positives and negatives whose expectation is known to be zero.
        unlabelled_controls: The same of the unlabelled samples.
        floored: The share of anchors at the floor, with one positive and with several, for each anchor.
    """

    losses: Float[Tensor, "anchor 5"]
    controls: Float[Tensor, "anchor control"]
    unlabelled_controls: Float[Tensor, "anchor unlabelled_control"]
    floored: Float[Tensor, "anchor 2"]


def run_trials(anchors: Anchors, world: World, correction: PUCL, unlabelled: int, temperature: float) -> Trials:
    """All losses of one row on these anchors, and the controls that take most of the noise out of them.

    A sum of h over N samples wavers about an expectation that is known here, and to first order a loss wavers with
    it. What is left when that part is removed is of order 1/N, like the biases that are to be seen.
    """
    mean_positive, mean_negative = world.mean_h(anchors.anchor, temperature)
    tau_plus = correction.tau_plus
    mean_unlabelled = (1 - tau_plus) * mean_negative + tau_plus * mean_positive

    def pairs(samples: Float[Tensor, "anchor sample 3"]) -> Pairs:
        return pair_up(anchors.anchor, anchors.positive, samples, temperature=temperature, normalize=False)

    negatives = pairs(anchors.negative[:, :unlabelled])
    several = pairs(anchors.unlabelled(unlabelled, tau_plus))
    one = replace(several, positive=several.positive[:, :1])
    ideal = compare(negatives, Plain(), streaming=False)
    standard = compare(several, Plain(), streaming=False)
    corrected_several = compare(several, correction, streaming=False)
    corrected_one = compare(one, correction, streaming=False)

    log_sum = (unlabelled * mean_negative).log()[:, None]
    exact_of_each = softplus(log_sum - several.positive)
    exact = exact_of_each.mean(dim=1)
    # The corrected loss with one positive is measured against the exact one with that positive; in expectation the
    # exact loss is the same for all positives.
    corrected_one_loss = corrected_one.loss - exact_of_each[:, 0] + exact

    # How much of log(h+ + sum) is the sum's: the slope with which a loss follows it.
    slope = torch.sigmoid(log_sum - several.positive).mean(dim=1)
    h_positive = several.positive.exp()
    excess_one, excess_several = h_positive[:, 0] - mean_positive, h_positive.mean(dim=1) - mean_positive
    excess_negative, excess_unlabelled = _mean_h(negatives) - mean_negative, _mean_h(several) - mean_unlabelled
    controls = [
        slope * excess_negative / mean_negative,
        excess_one / mean_positive,
        excess_one / mean_negative,
        excess_several / mean_positive,
        excess_several / mean_negative,
    ]
    unlabelled_controls = [slope * excess_unlabelled / mean_unlabelled, slope * excess_unlabelled / mean_negative]
    losses = [ideal.loss, standard.loss, exact, corrected_one_loss, corrected_several.loss]
    return Trials(
        losses=torch.stack(losses, dim=1),
        controls=torch.stack(controls, dim=1),
        unlabelled_controls=torch.stack(unlabelled_controls, dim=1),
        floored=torch.stack([corrected_one.floored, corrected_several.floored]).expand(len(exact), 2),
    )


def _mean_h(pairs: Pairs) -> Float[Tensor, " anchor"]:
    return pairs.comparison().unlabelled.exp().mean(dim=1)


def controlled_means(
    values: Float[Tensor, "trial value"], controls: Float[Tensor, "trial control"]
) -> tuple[Float[Tensor, " value"], Float[Tensor, " value"]]:
    r"""Means and standard errors of values, less what controls of known mean zero explain of their noise.

    This is the intercept of the regression of the values on the controls: a mean :math:`\sum_a w_a y_a` with weights
    that sum to one and give every control the mean zero that it should have. The errors allow for trials that are
    not equally noisy.

    The coefficients come from the same trials, which costs a bias of order 1 / trials, far below the error.
    """
    size = torch.linalg.vector_norm(controls, dim=0)
    design = torch.cat(
        [torch.ones_like(controls[:, :1]), controls / size.clamp_min(1e-300) * len(values) ** 0.5], dim=1
    )
    # Controls may coincide (with c = 1 nothing is hidden); the pseudo-inverse does not mind.
    inverse = torch.linalg.pinv(design, rtol=1e-10)
    residual = values - design @ (inverse @ values)
    freedom = len(values) / (len(values) - design.shape[1])
    error = ((inverse[0, :, None] * residual) ** 2).sum(dim=0).mul(freedom).sqrt()
    return inverse[0] @ values, error


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
