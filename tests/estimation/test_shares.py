"""Estimates of tau': right where their assumptions hold, off in the direction that is documented where they do not."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pucl.corrections import PUCL
from pucl.estimation.bbe import bbe
from pucl.estimation.mixture import APART, Mixture, mixture
from pucl.estimation.shares import FEWEST, alpha_and_c, collision

KNOWN, UNLABELLED = 5_000, 20_000


def cosines(count: int, mean: float, deviation: float, seed: int = 0) -> Tensor:
    """Cosines whose Fisher z is normal."""
    generator = torch.Generator().manual_seed(seed)
    return torch.tanh(mean + deviation * torch.randn(count, generator=generator, dtype=torch.float64))


def contaminated(share: float, *, hidden: float, deviation: float = 0.2, others: float = 0.2) -> Tensor:
    """Unlabelled pairs: others around 0, and a share of hidden positives around `hidden`, on z."""
    positives = round(share * UNLABELLED)
    return torch.cat([cosines(UNLABELLED - positives, 0.0, others, 1), cosines(positives, hidden, deviation, 2)])


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.5])
def test_best_bin_is_right_where_known_positives_are_a_fair_sample(share: float) -> None:
    found = bbe(cosines(KNOWN, 0.8, 0.2), contaminated(share, hidden=0.8))
    assert found.tau_plus == pytest.approx(share, abs=0.01)
    assert abs(found.tau_plus - share) < found.slack
    assert 0 < found.threshold < 1


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_best_bin_is_low_where_views_are_closer_than_classes(share: float) -> None:
    """Its documented bias: of the law of the known positives there is little among the unlabelled."""
    mild, strong = (bbe(cosines(KNOWN, known, 0.2), contaminated(share, hidden=0.5)).tau_plus for known in (0.6, 1.2))
    assert strong < 0.02
    assert strong < mild < 0.85 * share


def test_nothing_hidden_is_nearly_nothing() -> None:
    assert bbe(cosines(KNOWN, 1.5, 0.1), contaminated(0.0, hidden=0.0)).tau_plus < 0.001


def test_best_bin_of_the_same_law_is_one() -> None:
    assert bbe(cosines(KNOWN, 0.0, 0.2), cosines(UNLABELLED, 0.0, 0.2, 1)).tau_plus == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize(("known", "others"), [(25, 40), (300, 100)])
def test_best_bin_against_loops(known: int, others: int) -> None:
    """The formula for each threshold, with equal values among the cosines."""
    positive, unlabelled = cosines(known, 0.5, 0.3).mul(20).round() / 20, cosines(others, 0.1, 0.4).mul(20).round() / 20
    chance = sum(math.sqrt(math.log(4 / 0.1) / (2 * count)) for count in (known, others))
    best = min(
        ((sum(u >= z for u in unlabelled) / others + 1.01 * chance) / (sum(p >= z for p in positive) / known), z)
        for z in positive.tolist()
    )
    found = bbe(positive, unlabelled)
    assert found.tau_plus + found.slack == pytest.approx(float(best[0]))
    assert found.threshold == best[1]


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8])
@pytest.mark.parametrize(("deviation", "others"), [(0.2, 0.2), (0.3, 0.1), (0.1, 0.25)])
def test_mixture_finds_the_share(share: float, deviation: float, others: float) -> None:
    """Within 0.02 where the two are three deviations apart, whichever is the wider."""
    found = mixture(contaminated(share, hidden=0.7, deviation=deviation, others=others))
    assert found.separation > 2.5
    assert found.tau_plus == pytest.approx(share, abs=0.02)
    assert found.lower_mean == pytest.approx(0.0, abs=0.03)
    assert found.upper_mean == pytest.approx(0.7, abs=0.03)
    assert found.upper_deviation == pytest.approx(deviation, abs=0.03)


def test_mixture_does_not_need_known_positives_to_be_fair() -> None:
    """Where best bin sees next to nothing, it still finds a tenth, within a third of it."""
    unlabelled = contaminated(0.1, hidden=0.4, deviation=0.15, others=0.15)
    assert bbe(cosines(KNOWN, 1.2, 0.2), unlabelled).tau_plus < 0.01
    assert mixture(unlabelled).tau_plus == pytest.approx(0.1, abs=0.033)


@pytest.mark.parametrize("seed", range(6))
def test_one_law_has_no_hidden_part(seed: int) -> None:
    """Next to nothing, or two that are not told apart: nobody is to take it for an estimate."""
    found = mixture(cosines(UNLABELLED, 0.0, 0.2, seed))
    assert found.tau_plus < 0.01 or found.tau_plus > 0.99 or found.separation < APART


@pytest.mark.parametrize(("deviation", "others"), [(0.2, 0.2), (0.3, 0.1), (0.1, 0.25)])
def test_posterior_averages_to_the_share_and_tells_the_truth(deviation: float, others: float) -> None:
    share = 0.2
    unlabelled = contaminated(share, hidden=0.7, deviation=deviation, others=others)
    hidden = torch.arange(UNLABELLED) >= UNLABELLED - round(share * UNLABELLED)
    found = mixture(unlabelled)
    posterior = found.posterior(unlabelled)
    assert float(posterior.mean()) == pytest.approx(found.tau_plus, abs=0.005)
    for low, high in ((0.0, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.01)):
        those = (posterior >= low) & (posterior < high)
        assert float(hidden[those].double().mean()) == pytest.approx(float(posterior[those].mean()), abs=0.08)


@given(
    share=st.floats(0.001, 0.999),
    lower=st.tuples(st.floats(-1, 1), st.floats(0.02, 1)),
    upper=st.tuples(st.floats(0.01, 2), st.floats(0.02, 1)),
)
def test_posterior_never_falls(share: float, lower: tuple[float, float], upper: tuple[float, float]) -> None:
    found = Mixture(
        tau_plus=share,
        lower_mean=lower[0],
        lower_deviation=lower[1],
        upper_mean=lower[0] + upper[0],
        upper_deviation=upper[1],
    )
    posterior = found.posterior(torch.linspace(-1, 1, 501, dtype=torch.float64))
    assert bool(((posterior >= 0) & (posterior <= 1)).all())
    assert float(posterior.diff().min()) >= -1e-12


def test_a_wider_component_does_not_overtake() -> None:
    """Beyond the turning points the plain ratio would turn around, on either side."""
    wide_below = Mixture(tau_plus=0.2, lower_mean=0.0, lower_deviation=0.4, upper_mean=0.6, upper_deviation=0.1)
    wide_above = Mixture(tau_plus=0.2, lower_mean=0.0, lower_deviation=0.1, upper_mean=0.6, upper_deviation=0.4)
    ends = torch.tensor([-0.95, 0.95], dtype=torch.float64)
    for found, end, near in ((wide_below, 1, 1.0), (wide_above, 0, 0.0)):
        lower, upper = found.densities(ends)
        plain = (upper / (upper + lower))[end]
        assert abs(float(plain) - near) > 0.9
        assert abs(float(found.posterior(ends)[end]) - near) < 0.25


def test_densities_are_densities() -> None:
    found = mixture(contaminated(0.3, hidden=0.7))
    places = torch.linspace(-0.9999, 0.9999, 20_001, dtype=torch.float64)
    lower, upper = (float(torch.trapezoid(each, places)) for each in found.densities(places))
    assert upper == pytest.approx(found.tau_plus, abs=1e-4)
    assert lower + upper == pytest.approx(1, abs=1e-4)
    ends = torch.tensor([-1.0, 0.5, 1.0])
    for exact, half in zip(found.densities(ends), found.densities(ends.half()), strict=True):
        torch.testing.assert_close(half, exact.half())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_posterior_keeps_shape_and_type(dtype: torch.dtype) -> None:
    found = mixture(contaminated(0.3, hidden=0.7))
    posterior = found.posterior(torch.tensor([[-1.0, 0.0], [0.5, 1.0]], dtype=dtype))
    assert posterior.dtype == dtype
    assert posterior.shape == (2, 2)
    assert bool(posterior.isfinite().all())


@pytest.mark.parametrize("count", [200, 30_000])
def test_order_does_not_matter(count: int) -> None:
    known = cosines(count // 2, 0.6, 0.2)
    unlabelled = torch.cat([cosines(count, 0.0, 0.2, 1), known[: count // 4]])
    shuffled = unlabelled[torch.randperm(len(unlabelled))]
    assert mixture(unlabelled) == mixture(shuffled)
    assert bbe(known, unlabelled) == bbe(known.flip(0), shuffled)


def test_tensors_arrays_and_lists_are_alike() -> None:
    known, unlabelled = cosines(60, 0.6, 0.2), cosines(90, 0.1, 0.2, 1)
    frozen = unlabelled.numpy()
    frozen.flags.writeable = False  # As memory maps are.
    assert mixture(unlabelled) == mixture(frozen) == mixture(unlabelled.tolist()) == mixture(unlabelled.view(9, 10))
    assert bbe(known, unlabelled) == bbe(known.numpy(), frozen) == bbe(known.tolist(), unlabelled.tolist())
    assert mixture(unlabelled.requires_grad_()) == mixture(frozen)


def test_copies_in_the_data_are_no_infinity() -> None:
    """Cosines of 1, and of a little more by rounding."""
    unlabelled = torch.cat([contaminated(0.0, hidden=0.0), torch.ones(400), torch.full((400,), 1 + 1e-6)])
    assert mixture(unlabelled).tau_plus == pytest.approx(800 / len(unlabelled), abs=0.01)
    assert 0 < bbe(torch.cat([cosines(KNOWN, 0.8, 0.2), torch.ones(9)]), unlabelled).tau_plus < 0.1


def test_collision() -> None:
    assert collision(np.repeat(np.arange(10), 7)) == pytest.approx(0.1)
    assert collision(torch.tensor([0, 0, 0, 1])) == pytest.approx(0.625)
    assert collision([4, 4]) == 1


@given(st.floats(0, 0.99), st.integers(1, 20), st.integers(1, 10_000))
def test_alpha_and_c_are_what_pucl_takes(tau_plus: float, positives: int, unlabelled: int) -> None:
    alpha, c = alpha_and_c(tau_plus, positives, unlabelled)
    assert PUCL(alpha=alpha, c=c).tau_plus == pytest.approx(tau_plus, abs=1e-9)
    assert alpha * c == pytest.approx(positives / (positives + unlabelled))


def test_refused() -> None:
    good, few = cosines(50, 0.0, 0.2), cosines(FEWEST - 1, 0.0, 0.2)
    for wrong, message in (
        (few, f"expected at least {FEWEST} of them to estimate from, got {FEWEST - 1}"),
        (torch.cat([good, torch.tensor([math.nan])]), "expected numbers from -1 to 1, got nan"),
        (torch.cat([good, torch.tensor([1.5, 2.0])]), r"expected numbers from -1 to 1, got 1.5 \(and 1 more"),
        (torch.full((50,), 0.3), "expected some that differ, got the same for all"),
        (torch.ones(50), "expected some that differ, got the same for all"),
        (-torch.ones(50), "expected some that differ, got the same for all"),
    ):
        with pytest.raises(ValueError, match=message):
            mixture(wrong)
        with pytest.raises(ValueError, match=message):
            bbe(good, wrong)
    with pytest.raises(ValueError, match="positive are similarities of pairs: expected at least"):
        bbe(few, good)
    with pytest.raises(ValueError, match="labels are the classes of samples: expected one label or more"):
        collision([])
    with pytest.raises(ValueError, match="got NaN"):
        collision([0.0, math.nan])
    with pytest.raises(ValueError, match="expected 0 to 1, got 1.2"):
        alpha_and_c(1.2, 1, 10)
    with pytest.raises(ValueError, match="expected more than 0 of both, got 0 and 10"):
        alpha_and_c(0.1, 0, 10)
