"""Encoders by name and by import path."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from pucl.images.encoders.registry import Adopted, make_encoder

THEIRS = '''
import torch
from torch import nn


class Tiny(nn.Module):
    """Like VGG it has a layer called features, and it refuses images that are not of its size."""

    def __init__(self, in_channels=3):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(in_channels, 5, 3), nn.BatchNorm2d(5))

    def forward(self, images):
        assert images.shape[-1] == 32, "Input height doesn't match model"
        return self.features(images).mean(dim=(2, 3))


class Nested:
    tiny = Tiny


def of_width(width, stem):
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, width + len(stem)))


def map_of_features():
    return nn.Conv2d(3, 5, 3)


def needy(size):
    return Tiny()


def number():
    return 5


made = Tiny()
constant = 3
torch.rand(3)  # Drawn once, at the import.
'''


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "their_networks.py").write_text(THEIRS)
    (tmp_path / "their_broken.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    monkeypatch.syspath_prepend(tmp_path)
    yield "their_networks"
    sys.modules.pop("their_networks", None)


def test_a_module_of_the_users_is_found_by_its_path_and_probed(theirs: str) -> None:
    for path in (f"{theirs}:Tiny", f"{theirs}:Nested.tiny"):
        encoder = make_encoder(path)
        assert isinstance(encoder, Adopted)
        assert encoder.features == 5
        assert encoder.training
        assert encoder(torch.randn(2, 3, 32, 32)).shape == (2, 5)
        encoder = make_encoder(path)
        # The probe leaves no trace.
        assert encoder.state_dict()["module.features.1.num_batches_tracked"] == 0


def test_the_users_callable_is_given_the_settings_that_it_names(theirs: str) -> None:
    assert make_encoder(f"{theirs}:Tiny", in_channels=2)(torch.randn(2, 2, 32, 32)).shape == (2, 5)
    assert make_encoder(f"{theirs}:of_width", width=9, stem="ordinary").features == 9 + len("ordinary")


def test_weights_depend_on_the_seed_alone_even_if_the_import_draws_numbers(theirs: str) -> None:
    states = []
    for _ in range(2):
        torch.manual_seed(3)
        states.append(make_encoder(f"{theirs}:Tiny").state_dict())
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


def test_unknown_names_are_told_the_nearest() -> None:
    with pytest.raises(
        ValueError,
        match=r"one of resnet18, resnet34, resnet50, small, timm:NAME, or package.module:callable, "
        r"got resnet-50\. Did you mean 'resnet50'\?",
    ):
        make_encoder("resnet-50")
    with pytest.raises(ValueError, match=r"got xyz\.$"):
        make_encoder("xyz")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (":Tiny", "expected package.module:name, got :Tiny"),
        ("nowhere_at_all:Tiny", "needs the module nowhere_at_all, which cannot be imported .*ModuleNotFoundError"),
        (
            "their_broken:Tiny",
            "needs the module their_broken, .*RuntimeError: operator torchvision::nms does not exist",
        ),
        ("their_networks:Tinny", r"there is no Tinny\. Did you mean 'Tiny'\?"),
        ("their_networks:needy", "is called with no arguments to make a module, but failed: TypeError: needy"),
        ("their_networks:of_width", "is called with stem='small' to make a module, but failed: TypeError"),
        ("their_networks:number", "expected an nn.Module, got 5 of type int"),
        ("their_networks:constant", "expected a class or function, got 3 of type int"),
        ("their_networks:made", r"got a module \(Tiny\)"),
        ("their_networks:map_of_features", r"expected the shape \[2, features\] for two, got \[2, 5, 30, 30\]"),
    ],
)
def test_what_is_wrong_with_a_path_is_said(theirs: str, path: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_encoder(path)


def test_a_module_is_tried_at_the_size_of_the_images(theirs: str) -> None:
    with pytest.raises(ValueError, match=r"tried on images .* of shape \[2, 3, 48, 48\], but failed: AssertionError"):
        make_encoder(f"{theirs}:Tiny", image_sizes=(48,))


def test_a_module_is_tried_at_the_size_of_small_views_too(theirs: str) -> None:
    with pytest.raises(ValueError, match=r"of shape \[2, 3, 16, 16\], but failed: AssertionError.*--coarse 0 leaves"):
        make_encoder(f"{theirs}:Tiny", image_sizes=(32, 16))
