"""Projection heads: the layers of the references."""

import pytest
import torch
from torch import nn

from pucl.graphs.encoders.heads import ResidualHead, _Residual
from pucl.images.encoders.heads import HEADS, make_head, mlp_head, simclr_head


def layers(head: nn.Module) -> list[str]:
    return [type(layer).__name__ for layer in head] if isinstance(head, nn.Sequential) else [type(head).__name__]


def test_heads_have_the_layers_of_the_references() -> None:
    assert layers(make_head("simclr", 2048)) == ["Linear", "BatchNorm1d", "ReLU", "Linear"]
    assert layers(make_head("moco-v1", 512)) == layers(make_head("cmc", 1024)) == ["Linear"]
    assert layers(make_head("moco-v2", 512)) == ["Linear", "ReLU", "Linear"]
    shapes = {name: list(value.shape) for name, value in simclr_head(2048).named_parameters()}
    # The first layer is without bias.
    assert shapes == {
        "0.weight": [512, 2048],
        "1.weight": [512],
        "1.bias": [512],
        "3.weight": [128, 512],
        "3.bias": [128],
    }
    assert [list(value.shape) for value in mlp_head(512).parameters()] == [[512, 512], [512], [128, 512], [128]]


@pytest.mark.parametrize("name", HEADS)
def test_every_head_gives_the_dimension_asked_for(name: str) -> None:
    assert make_head(name, 24)(torch.randn(3, 24)).shape == (3, 128)
    assert make_head(name, 24, dim=7)(torch.randn(3, 24)).shape == (3, 7)


def test_wrong_heads_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected one of simclr, .*, infograph, got simclrr. Did you mean 'simclr'."):
        make_head("simclrr", 24)
    with pytest.raises(ValueError, match="dimensions of at least 1 each: got 24 features, 512 hidden and dim 0"):
        make_head("simclr", 24, dim=0)


def test_very_many_rows_go_through_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Residual, "BLOCK", 4 * 5)
    head = ResidualHead(5, dim=3).double()
    for parameter in head.parameters():
        nn.init.normal_(parameter)
    few, many = (torch.arange(55.0, dtype=torch.float64).view(11, 5).sin().requires_grad_() for _ in range(2))
    weights = torch.randn(11, 3, dtype=torch.float64)
    results = []
    for x, out in ((few, head.block(few) + head.shortcut(few)), (many, head(many))):
        head.zero_grad()
        out.backward(weights)
        results.append([out.detach(), x.grad, *(parameter.grad for parameter in head.parameters())])
        assert (type(out.grad_fn).__name__ == "_ResidualBackward") == (x is many)
    torch.testing.assert_close(results[1], results[0])
    assert torch.autograd.gradcheck(head, many)
    with torch.no_grad():
        torch.testing.assert_close(head(many), results[0][0])
