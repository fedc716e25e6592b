"""Best bin estimation against the reference program, and from histograms."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from golden_cases import golden_arrays, golden_cases
from pucl.estimation.bbe import bbe, bbe_of_histograms, best_bin


def reference(positive: list[float], unlabelled: list[float], chance: float) -> tuple[float, float, int]:
    """The reference's loop: estimate, least bound and number of candidates; see golden/README.md."""
    falling, found = sorted(unlabelled, reverse=True), []
    for i in range(2, len(falling) - 1):
        above = sum(p >= falling[i] for p in positive)
        if falling[i] > falling[i + 1] and above > 1:
            q_u, q_p = i / len(falling), above / len(positive)
            found.append(((q_u + chance) / q_p, q_u / q_p))
    bound, estimate = min(found, default=(0.0, 0.0))
    return estimate, bound, len(found)


@pytest.mark.parametrize("case", golden_cases("bbe"))
def test_golden(case: dict[str, Any]) -> None:
    """Equal to the reference, except where it does not count the threshold itself: with ties, and for 3 scores."""
    arrays, hyper = golden_arrays(case), case["hyper"]
    positive, unlabelled = arrays["p_scores"], arrays["u_scores"]
    delta, gamma = hyper["delta"], hyper["gamma"]
    chance = (1 + gamma) * sum(math.sqrt(math.log(4 / delta) / (2 * len(each))) for each in (positive, unlabelled))
    expected = [float(arrays[name]) for name in ("estimate", "upper_min", "n_candidates")]
    assert list(reference(positive.tolist(), unlabelled.tolist(), chance)) == pytest.approx(expected, rel=1e-9)
    found = best_bin(positive, unlabelled, delta=delta, gamma=gamma)
    if not case["compat"]:
        assert found.tau_plus == pytest.approx(expected[0], rel=1e-9)
        assert found.tau_plus + found.slack == pytest.approx(expected[1], rel=1e-9)
    elif len(positive) > 3:
        assert found.tau_plus == pytest.approx(expected[0], abs=3 / len(unlabelled))
        assert found.tau_plus != pytest.approx(expected[0], rel=1e-9)


def cosines(count: int, mean: float, seed: int) -> Tensor:
    noise = torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.tanh(mean + 0.2 * noise)


@pytest.mark.parametrize("bins", [8, 64])
def test_histograms_are_similarities_rounded_down(bins: int) -> None:
    known = cosines(500, 0.8, 0)
    others = torch.cat([cosines(1800, 0.0, 1), cosines(200, 0.8, 2)])
    places = [((each + 1) / 2 * bins).long() for each in (known, others)]
    rounded = [place * (2 / bins) - 1.0 for place in places]
    expected = bbe(*rounded)
    found = bbe_of_histograms(*(torch.bincount(place, minlength=bins).double() for place in places))
    assert found.tau_plus == pytest.approx(expected.tau_plus, rel=1e-12)
    assert found.threshold == pytest.approx(expected.threshold)
    assert found.slack == pytest.approx(expected.slack, rel=1e-12)
    assert found.tau_plus == pytest.approx(0.1, abs=0.02)


def test_refused() -> None:
    with pytest.raises(ValueError, match="expected some of both, got none"):
        bbe_of_histograms(torch.zeros(4), torch.ones(4))
