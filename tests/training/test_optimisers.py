"""Optimisers against their formulas, and the schedule at known places."""

import copy
import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from pucl.training.optimisers import LARS, OPTIMISERS, make_optimiser, schedule


def parameter(values: list[float] | list[list[float]], gradient: list[float] | list[list[float]]) -> nn.Parameter:
    made = nn.Parameter(torch.tensor(values, dtype=torch.float64))
    made.grad = torch.tensor(gradient, dtype=torch.float64)
    return made


def test_lars_by_hand() -> None:
    """Two steps with a change of the step size between; u = g + 0.1 w, the trust ratio .001 |w| / |u|."""
    weights = parameter([[3.0, 4.0]], [[0.3, -0.4]])
    bias = parameter([1.0, 2.0], [0.5, -0.5])
    optimiser = LARS([weights, bias], lr=2.0, momentum=0.9, weight_decay=0.1)
    optimiser.step()
    # u = (.6, 0): |w| / |u| = 5 / .6, so v = 2 * .001 * 5 = .01 along the first axis.
    torch.testing.assert_close(weights.data, torch.tensor([[2.99, 4.0]], dtype=torch.float64))
    torch.testing.assert_close(bias.data, torch.tensor([0.0, 3.0], dtype=torch.float64))

    for group in optimiser.param_groups:
        group["lr"] = 1.0
    optimiser.step()
    u = (0.3 + 0.299, -0.4 + 0.4)
    ratio = 0.001 * math.hypot(2.99, 4.0) / math.hypot(*u)
    expected = [2.99 - (0.9 * 0.01 + ratio * u[0]), 4.0 - ratio * u[1]]
    torch.testing.assert_close(weights.data, torch.tensor([expected], dtype=torch.float64))
    # The velocity (1, -1) keeps the size that it had at the larger step size.
    torch.testing.assert_close(bias.data, torch.tensor([-0.9 - 0.5, 3.9 + 0.5], dtype=torch.float64))


def test_lars_takes_a_plain_step_where_a_norm_is_zero() -> None:
    new, still = parameter([[0.0, 0.0]], [[1.0, 2.0]]), parameter([[1.0, 1.0]], [[0.0, 0.0]])
    LARS([new, still], lr=0.5, weight_decay=0.0).step()
    assert new.tolist() == [[-0.5, -1.0]]
    assert still.tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        # Fused: its bits are those of runs made before.
        ("adam", partial(torch.optim.Adam, betas=(0.8, 0.999), fused=True)),
        ("sgd", partial(torch.optim.SGD, momentum=0.8)),
    ],
)
def test_adam_and_sgd_are_torchs(name: str, reference: Any) -> None:
    ours = nn.Sequential(nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 1))
    theirs = copy.deepcopy(ours)
    first = make_optimiser(name, ours.parameters(), 0.1, 0.8, 0.01)
    second = reference(theirs.parameters(), lr=0.1, weight_decay=0.01)
    x = torch.randn(16, 40)
    for _ in range(4):
        for network, optimiser in ((ours, first), (theirs, second)):
            optimiser.zero_grad()
            network(x).square().mean().backward()
            optimiser.step()
    assert all(torch.equal(*pair) for pair in zip(ours.parameters(), theirs.parameters(), strict=True))


@pytest.mark.parametrize("skipped", [False, True])
def test_adam_takes_scaled_gradients_and_skips_infinite_ones(skipped: bool) -> None:
    weights = nn.Parameter(torch.tensor([1.0, -2.0]))
    optimiser = make_optimiser("adam", [weights], 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale((weights * torch.tensor([3.0, math.inf if skipped else 1.0])).sum()).backward()
    scaler.step(optimiser)
    scaler.update()
    torch.testing.assert_close(weights.data, torch.tensor([1.0, -2.0] if skipped else [0.9, -2.1]))
    assert optimiser.state[weights]["step"] == (0 if skipped else 1)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_optimiser_descends_leaves_the_frozen_alone_and_resumes_to_the_bit(name: str) -> None:
    network = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Linear(1, 1))
    network[3].requires_grad_(False)
    frozen = [value.clone() for value in network[3].parameters()]
    lr = 5.0 if name == "lars" else 0.01
    optimiser = make_optimiser(name, network.parameters(), lr)
    x = torch.randn(32, 4)

    def steps(network: nn.Module, optimiser: torch.optim.Optimizer, count: int) -> list[float]:
        losses = []
        for _ in range(count):
            optimiser.zero_grad()
            loss = (network(x)[:, 0] - x.sum(dim=1)).square().mean()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        return losses

    losses = steps(network, optimiser, 20)
    assert losses[-1] < losses[0]
    assert all(torch.equal(one, other) for one, other in zip(frozen, network[3].parameters(), strict=True))
    again = copy.deepcopy(network)
    resumed = make_optimiser(name, again.parameters(), lr)
    resumed.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    assert steps(again, resumed, 5) == steps(network, optimiser, 5)


def test_lars_returns_what_a_closure_does() -> None:
    weights = nn.Parameter(torch.ones(2, 2))

    def closure() -> float:
        loss = weights.square().sum()
        loss.backward()
        return loss.item()

    assert LARS([weights], lr=1.0).step(closure) == 4.0


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("larss", {}, r"expected one of adam, sgd, lars, got larss\. Did you mean 'lars'\?"),
        ("adam", {"lr": 0.0}, "lr is the learning rate: expected a finite lr > 0, got 0"),
        ("sgd", {"momentum": 1.0}, "expected 0 <= momentum < 1, got 1.0"),
        ("lars", {"weight_decay": -1.0}, "expected a finite weight_decay >= 0, got -1"),
        ("adam", {"parameters": []}, "at least one that needs a gradient, got none"),
    ],
)
def test_wrong_optimisers_are_refused(name: str, settings: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"parameters": [nn.Parameter(torch.ones(2))], "lr": 0.1}
    with pytest.raises(ValueError, match=message):
        make_optimiser(name, **(given | settings))


def test_schedules_at_known_places() -> None:
    assert [schedule(s, 100, 10) for s in (0, 4, 9)] == [0.1, 0.5, 1.0]
    assert schedule(10, 100, 10) == 1.0
    assert schedule(55, 100, 10) == pytest.approx(0.5)
    assert schedule(100, 100, 10) == pytest.approx(0.0)
    assert schedule(40, 100, 10) == pytest.approx((1 + math.cos(math.pi / 3)) / 2)
    assert [schedule(s, 100, 4, "constant") for s in (0, 3, 4, 100)] == [0.25, 1.0, 1.0, 1.0]
    # CMC: a tenth at epochs 120, 160 and 200 of 240.
    places = (0, 119, 120, 159, 160, 199, 200, 240)
    factors = [schedule(s, 240, form="step") for s in places]
    assert factors == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01, 0.001, 0.001])
    assert schedule(5, 5, 5) == 1.0


def test_wrong_places_in_a_schedule_are_refused(without_shape_checks: None) -> None:
    with pytest.raises(ValueError, match="step is a position in the training: expected 0 to 10, got 11"):
        schedule(11, 10)
    with pytest.raises(ValueError, match="got 10 and 11"):
        schedule(0, 10, 11)
    with pytest.raises(ValueError, match="expected one of cosine, constant, step, got linear"):
        schedule(0, 10, form="linear")  # type: ignore[arg-type]
