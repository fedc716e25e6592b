"""How hard a loss pushes each pair: against the gradient of the loss, and against loops over the formula."""

import math
from itertools import combinations
from typing import Any

import pytest
import torch

from oracles import cosine, softplus
from pucl.contrast.correction import Correction
from pucl.contrast.knowledge import without_false_negatives
from pucl.contrast.loss import ObjectiveName, conclude
from pucl.contrast.objective import average_unlabelled
from pucl.contrast.objectives import OBJECTIVES
from pucl.contrast.pairs import Comparison
from pucl.contrast.pointwise import Pointwise
from pucl.corrections import PUCL, Plain, Ring
from pucl.diagnosis import pushes
from pucl.diagnosis.pushes import costliest_pairs, pairs_among, push_shares, shares_on_own_class

SAMPLES = 12
LABELS = torch.arange(SAMPLES) % 3
OBJECTIVE_NAMES: tuple[ObjectiveName, ...] = ("infonce", "jensen_shannon")


def features() -> torch.Tensor:
    rows = torch.randn(SAMPLES, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return torch.nn.functional.normalize(rows + 2 * torch.eye(4)[LABELS], dim=1)


def fixed_r() -> Pointwise:
    r = 0.6 * torch.rand(SAMPLES, SAMPLES, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return Pointwise(posterior=lambda comparison: r[comparison.sample_ids()[0]])


@pytest.mark.parametrize("objective", OBJECTIVE_NAMES)
@pytest.mark.parametrize("correction", [Plain(), PUCL(alpha=0.02, c=0.1), Ring(lower=0.1, upper=0.9), fixed_r()])
def test_shares_are_those_of_the_gradient_of_the_loss(objective: ObjectiveName, correction: Correction) -> None:
    pairs = pairs_among(features(), torch.arange(SAMPLES), temperature=0.4)
    comparison = pairs.comparison()
    shares = push_shares(comparison, correction, objective=objective)
    logits = comparison.unlabelled.clone().requires_grad_()
    # Weights are held fixed, as those of r are in a training.
    with torch.no_grad():
        weights = correction.normalised_log_weights(comparison)

    class Fixed(Plain):
        odds = correction.odds
        is_tilted = False

        def normalised_log_weights(self, _: Comparison) -> Any:
            return weights

    held = Comparison(
        positive=comparison.positive.detach(), unlabelled=logits, mask=comparison.mask, lowest=-2.5, temperature=0.4
    )
    form = OBJECTIVES[objective]
    outcome = conclude(average_unlabelled(held, Fixed(), form), Fixed(), form)
    assert float(outcome.floored) == 0
    (gradient,) = torch.autograd.grad(outcome.loss.sum(), logits)
    assert float(gradient.min()) >= 0
    torch.testing.assert_close(shares, gradient / gradient.sum(dim=1, keepdim=True))


@pytest.mark.parametrize("objective", OBJECTIVE_NAMES)
@pytest.mark.parametrize("block", [1, 40, 10**6])
@pytest.mark.parametrize("known", [True, False])
def test_costliest_pairs_are_those_of_the_loops(
    objective: ObjectiveName, block: int, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushes, "BLOCK", block)
    temperature, step = 0.3, 1e-6
    rows = features().tolist()

    def g(x: float) -> float:
        return math.exp(x) if objective == "infonce" else softplus(x)

    def slope(i: int, j: int) -> float:
        u = cosine(rows[i], rows[j]) / temperature
        return (g(u + step) - g(u - step)) / (2 * step)

    totals = [sum(slope(i, k) for k in range(SAMPLES) if k != i) for i in range(SAMPLES)]
    r = torch.rand(SAMPLES, SAMPLES, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    r = torch.where(r < 0.5, 0.0, (r + r.T) / 2) if known else torch.ones_like(r)
    expected = {
        (i, j): (slope(i, j) * (1 / totals[i] + 1 / totals[j]) / SAMPLES, float(r[i, j]))
        for i, j in combinations(range(SAMPLES), 2)
    }
    assert sum(share for share, _ in expected.values()) == pytest.approx(1)
    found, everything = costliest_pairs(
        features(),
        temperature=temperature,
        objective=objective,
        posterior=(lambda block: r[block]) if known else None,
        most=20,
    )
    order = sorted(expected, key=lambda pair: -expected[pair][0] * expected[pair][1])[:20]
    assert [(pair.first, pair.second) for pair in found] == order
    assert everything == pytest.approx(sum(share * own for share, own in expected.values()), rel=1e-6)
    for pair in found:
        share, own = expected[pair.first, pair.second]
        assert (pair.share, pair.r) == pytest.approx((share, own), rel=1e-6)
        assert pair.cost == pytest.approx(share * own, rel=1e-6)
        assert pair.similarity == pytest.approx(cosine(rows[pair.first], rows[pair.second]))


def test_pairs_that_are_no_hidden_positives_cost_nothing() -> None:
    same = LABELS[:, None] == LABELS
    found, everything = costliest_pairs(features(), temperature=0.1, posterior=lambda rows: same[rows].double())
    assert len(found) == 3 * 6  # Three classes of four samples.
    assert all(LABELS[pair.first] == LABELS[pair.second] for pair in found)
    assert sum(pair.cost for pair in found) == pytest.approx(everything)
    assert costliest_pairs(features(), temperature=0.1, posterior=lambda rows: 0.0 * same[rows]) == ([], 0.0)


def test_no_temperature_is_too_low() -> None:
    """At 0.01 the slopes of exp differ by a factor of e^200."""
    found, everything = costliest_pairs(features(), temperature=0.01, most=3)
    assert everything == pytest.approx(1)
    assert all(math.isfinite(pair.share) and pair.share > 0 for pair in found)


@pytest.mark.parametrize("block", [1, 10**6])
def test_the_oracle_pushes_nothing_of_the_own_class(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pucl.contrast.pairs.BLOCK", block)
    pairs = pairs_among(features(), torch.arange(SAMPLES), temperature=0.4)
    plain = shares_on_own_class(pairs, Plain(), LABELS)
    rows = features().tolist()
    for anchor in range(SAMPLES):
        terms = {j: math.exp(cosine(rows[anchor], rows[j]) / 0.4) for j in range(SAMPLES) if j != anchor}
        own = sum(term for j, term in terms.items() if LABELS[j] == LABELS[anchor])
        assert float(plain[anchor]) == pytest.approx(own / sum(terms.values()))
    oracle = without_false_negatives(pairs, LABELS, LABELS)
    assert shares_on_own_class(oracle, Plain(), LABELS).tolist() == [0] * SAMPLES
    assert float(shares_on_own_class(pairs, fixed_r(), LABELS).mean()) != pytest.approx(float(plain.mean()))
    alone = without_false_negatives(pairs, LABELS * 0, LABELS * 0)  # All of one class: nothing is pushed.
    assert shares_on_own_class(alone, Plain(), LABELS).tolist() == [0] * SAMPLES
