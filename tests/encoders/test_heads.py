"""Projection heads: the layers of the references."""

import pytest
import torch
from torch import nn

from pucl.encoders import HEADS, make_head, mlp_head, simclr_head


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
    with pytest.raises(ValueError, match=r"expected one of simclr, .*, infograph, got simclrr .did you mean simclr.."):
        make_head("simclrr", 24)
    with pytest.raises(ValueError, match="dimensions of at least 1 each: got 24 features, 512 hidden and dim 0"):
        make_head("simclr", 24, dim=0)
