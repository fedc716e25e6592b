"""The share of the gradient that pushes false negatives: against loops, and against the gradient itself."""

import math

import pytest
import torch

from pucl.contrast.loss import outcome_of
from pucl.contrast.pairs import Pairs
from pucl.corrections import Plain
from pucl.diagnosis.cost import Sample, anchor_rows, measure_costs


def make_sample(*, views: bool, labels: bool = True, partitions: int = 3) -> Sample:
    numbers = torch.Generator().manual_seed(0)
    anchors, others = (
        torch.nn.functional.normalize(torch.randn(9, 5, generator=numbers, dtype=torch.float64), dim=1)
        for _ in range(2)
    )
    return Sample(
        anchors=anchors,
        keys=torch.nn.functional.normalize(anchors + 0.4 * others, dim=1) if views else anchors,
        groups=torch.randint(0, 3, (9, partitions), generator=numbers),
        labels=torch.arange(9) % 3 if labels else None,
        views=views,
    )


def push(sample: Sample, anchor: int, temperature: float) -> list[float]:
    values = [
        0.0 if key == anchor else math.exp(float(sample.anchors[anchor] @ sample.keys[key]) / temperature)
        for key in range(9)
    ]
    return [value / sum(values) for value in values]


@pytest.mark.parametrize("views", [False, True])
@pytest.mark.parametrize("temperature", [0.1, 0.5])
def test_costs_are_those_of_loops(views: bool, temperature: float) -> None:
    sample = make_sample(views=views)
    (cost,) = measure_costs(sample, [temperature], 0.1)
    r = [[((sample.groups[i] == sample.groups[j]).double().mean() ** 2).item() for j in range(9)] for i in range(9)]
    pushes = [push(sample, i, temperature) for i in range(9)]
    expected = sum(pushes[i][j] * r[i][j] for i in range(9) for j in range(9)) / 9
    assert cost.share == pytest.approx(expected)
    by_partition = [
        sum(pushes[i][j] for i in range(9) for j in range(9) if column[i] == column[j]) / 9
        for column in sample.groups.T
    ]
    assert cost.least == pytest.approx(min(*by_partition, expected))
    assert cost.most == pytest.approx(max(*by_partition, expected))
    assert cost.truth == pytest.approx(sum(pushes[i][j] for i in range(9) for j in range(9) if i % 3 == j % 3) / 9)


def test_a_push_is_a_share_of_the_gradient_of_the_loss() -> None:
    """The loss is differentiated by each logit, through vectors of which each is one logit."""
    sample = make_sample(views=True)
    logits = (sample.anchors @ sample.keys.T / 0.3).requires_grad_()
    pairs = Pairs(
        query=logits,
        key=torch.eye(9, dtype=torch.float64),
        positive=logits.diagonal()[:, None].detach(),
        query_ids=torch.arange(9),
        key_ids=torch.arange(9),
    )
    outcome_of(pairs, Plain(), streaming=False).loss.sum().backward()
    assert logits.grad is not None
    shares = logits.grad / logits.grad.sum(dim=1, keepdim=True)
    same = torch.arange(9)[:, None] % 3 == torch.arange(9) % 3
    (cost,) = measure_costs(sample, [0.3], None)
    assert cost.truth == pytest.approx(float((shares * same).sum(dim=1).mean()))


def test_anchors_at_the_floor_are_those_of_the_formula() -> None:
    sample = make_sample(views=True)
    for temperature, tau in [(0.5, 0.3), (0.3, 0.4), (0.5, 0.05)]:
        (cost,) = measure_costs(sample, [temperature], tau)
        floored = 0
        for i in range(9):
            h = [math.exp(float(sample.anchors[i] @ sample.keys[j]) / temperature) for j in range(9)]
            mean = (sum(h) - h[i]) / 8
            floored += (mean - tau * h[i]) / (1 - tau) < math.exp(-1 / temperature)
        assert cost.floored == pytest.approx(floored / 9)
    assert measure_costs(sample, [0.5], 0.9)[0].floored == 1.0  # The examples above are not all at one end.
    assert measure_costs(sample, [0.5], 0.01)[0].floored == 0.0


def test_what_is_not_known_is_none() -> None:
    (cost,) = measure_costs(make_sample(views=False, labels=False, partitions=0), [0.5], None)
    assert (cost.share, cost.least, cost.most, cost.truth, cost.floored) == (None,) * 5


def test_anchors_are_spread_evenly() -> None:
    assert anchor_rows(5).tolist() == [0, 1, 2, 3, 4]
    rows = anchor_rows(5000)
    assert len(rows.unique()) == 1000
    assert (int(rows[0]), int(rows[-1])) == (0, 4999)
