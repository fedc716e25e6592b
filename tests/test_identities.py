"""Corrections that must coincide, and what they must agree with."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import related_views
from pucl.contrast.loss import ObjectiveName
from pucl.contrast.objective import Floor
from pucl.corrections import BCL, PUCL, Correction, Debiased, Hard, Plain, Ring
from pucl.functional import corrected_loss, local_global_loss, pair_views

shares = st.floats(0, 0.3)
floored: st.SearchStrategy[tuple[ObjectiveName, Floor]] = st.sampled_from(
    [
        ("infonce", "temperature"),
        ("infonce", "paper"),
        ("infonce", 0.2),
        ("jensen_shannon", "temperature"),
        ("jensen_shannon", 0.2),
    ]
)
"""Objectives with the floors that they can have."""
objectives: st.SearchStrategy[ObjectiveName] = st.sampled_from(["infonce", "jensen_shannon"])


def same(
    first: Correction, second: Correction, *, objective: ObjectiveName = "infonce", floor: Floor = "temperature"
) -> None:
    """Loss and gradients agree, on anchors of which some at least are above the floor."""
    results = []
    for correction in (first, second):
        torch.manual_seed(3)
        views = [view.requires_grad_() for view in related_views(6, 5, noise=2.0)]
        outcome = corrected_loss(pair_views(views), correction, objective=objective, floor=floor)
        outcome.loss.sum().backward()
        assert outcome.floored < 1
        assert views[0].grad is not None
        results.append((outcome.loss.detach(), views[0].grad))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(alpha=shares, c=st.floats(0, 1), form=floored)
def test_pucl_is_debiased_at_tau_prime(alpha: float, c: float, form: tuple[ObjectiveName, Floor]) -> None:
    objective, floor = form
    tau = alpha * (1 - c) / (1 - alpha * c)
    assert PUCL(alpha=alpha, c=c).tau_plus == pytest.approx(tau, abs=1e-15)
    same(PUCL(alpha=alpha, c=c), Debiased(tau_plus=tau), objective=objective, floor=floor)


@settings(deadline=None, max_examples=20)
@given(alpha=shares, c=st.floats(0, 1), beta=st.floats(0, 3), objective=objectives)
def test_tilted_pucl_is_hard_at_tau_prime(alpha: float, c: float, beta: float, objective: ObjectiveName) -> None:
    pucl = PUCL(alpha=alpha, c=c, beta=beta)
    same(pucl, Hard(tau_plus=pucl.tau_plus, beta=beta), objective=objective)


@pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])
@pytest.mark.parametrize(
    "correction",
    [
        PUCL(alpha=0, c=0.3),
        PUCL(alpha=0.4, c=1),
        Debiased(tau_plus=0),
        Hard(tau_plus=0, beta=0),
        Ring(lower=0, upper=1),
    ],
    ids=str,
)
def test_nothing_to_correct_is_plain(correction: Correction, objective: ObjectiveName) -> None:
    same(correction, Plain(), objective=objective)


@pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])
def test_hard_without_tilt_is_debiased(objective: ObjectiveName) -> None:
    same(Hard(tau_plus=0.1, beta=0), Debiased(tau_plus=0.1), objective=objective)
    same(Hard(tau_plus=0.1, beta=1e-12), Debiased(tau_plus=0.1), objective=objective)


def test_pucl_with_no_label_is_debiased_at_alpha() -> None:
    same(PUCL(alpha=0.15, c=0), Debiased(tau_plus=0.15))


def test_identities_hold_for_graphs() -> None:
    local, whole = torch.randn(30, 4, dtype=torch.float64), torch.randn(5, 4, dtype=torch.float64)
    graph_of = torch.arange(30) % 5
    pucl = PUCL(alpha=0.3, c=0.2)
    losses = [
        local_global_loss(local, whole, graph_of, correction)
        for correction in (pucl, Debiased(tau_plus=pucl.tau_plus), Plain(), PUCL(alpha=0, c=0.5))
    ]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(losses[2], losses[3], rtol=1e-12, atol=1e-14)
    assert abs(losses[0] - losses[2]) > 1e-3


def test_plain_is_cross_entropy() -> None:
    views = related_views(6, 5)
    stacked = torch.nn.functional.normalize(torch.cat(views), dim=1)
    logits = (stacked @ stacked.T / 0.5).fill_diagonal_(-math.inf)
    target = torch.arange(12).roll(6)
    expected = torch.nn.functional.cross_entropy(logits, target, reduction="none")
    torch.testing.assert_close(corrected_loss(pair_views(views, temperature=0.5), Plain()).loss, expected)


@pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])
def test_bcl_without_ranking_and_hardness_is_plain(objective: ObjectiveName) -> None:
    """Its weights are all alike. By the smoothing of the reference, N is 0.5 / 0.501 of the number of samples."""
    views = related_views(6, 5)
    plain, bcl = (
        corrected_loss(pair_views(views), each, objective=objective).loss
        for each in (Plain(), BCL(tau_plus=0.1, auc=0.5, hardness=0.5))
    )
    if objective == "infonce":  # exp(loss) - 1 = N mu / e^p.
        torch.testing.assert_close(torch.expm1(bcl), torch.expm1(plain) * 0.5 / 0.501)
    else:
        torch.testing.assert_close(bcl, plain)
