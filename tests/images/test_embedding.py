"""Embedding: what the encoder gives in evaluation mode, and nothing left behind."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pucl.images.embedding import embed
from pucl.images.encoders.registry import make_encoder


class Prepared(nn.Module):
    """An encoder of bytes."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, batch: Tensor) -> Tensor:
        assert batch.dtype == torch.uint8
        vectors: Tensor = self.encoder(batch.float() / 255 - 0.5)
        return vectors


class Overflowing(nn.Module):
    def forward(self, batch: Tensor) -> Tensor:
        return batch.float().flatten(1) * 1e38


def some_pixels(count: int = 11) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(0).integers(0, 256, (count, 3, 8, 8), dtype=np.uint8)


def test_it_equals_the_forward_pass_and_leaves_everything_as_it_was() -> None:
    encoder, pixels, done = make_encoder("small"), some_pixels(), list[int]()
    encoder(torch.randn(8, 3, 8, 8))  # Statistics that are not the first ones.
    encoder.get_submodule("layer2").eval()  # A part that is frozen on purpose stays so.
    modes = [module.training for module in encoder.modules()]
    assert len(set(modes)) == 2
    state = {name: value.clone() for name, value in encoder.state_dict().items()}

    embeddings = embed(Prepared(encoder), pixels, 4, done.append)

    assert done == [0, 4, 8]
    assert [module.training for module in encoder.modules()] == modes
    for name, value in encoder.state_dict().items():
        assert torch.equal(value, state[name]), name
    assert all(parameter.grad is None for parameter in encoder.parameters())
    assert embeddings.dtype == np.float32
    with torch.no_grad():
        direct = Prepared(encoder.eval())(torch.tensor(pixels)).numpy()
    np.testing.assert_allclose(embeddings, direct, rtol=1e-4, atol=1e-5)


def test_a_read_only_memory_map_will_do(tmp_path: Path) -> None:
    pixels = some_pixels()
    np.save(tmp_path / "pixels.npy", pixels)
    mapped = np.load(tmp_path / "pixels.npy", mmap_mode="r")
    encoder = Prepared(nn.Sequential(nn.Flatten(), nn.Linear(192, 5)))
    np.testing.assert_array_equal(embed(encoder, mapped, 4), embed(encoder, pixels, 4))
    # Sliced, reversed and transposed views as well.
    np.testing.assert_allclose(embed(encoder, mapped[::-2]), embed(encoder, pixels)[::-2], rtol=1e-4, atol=1e-5)


def test_an_error_of_the_encoder_leaves_the_mode_as_it_was() -> None:
    encoder = nn.Sequential(nn.Linear(3, 3), nn.Dropout())
    with pytest.raises(RuntimeError):
        embed(Prepared(encoder), some_pixels())
    assert all(module.training for module in encoder.modules())


def test_an_encoder_without_parameters_will_do() -> None:
    assert embed(nn.Flatten(), some_pixels(3)).shape == (3, 192)


def test_what_is_no_image_is_refused(without_shape_checks: None) -> None:
    with pytest.raises(ValueError, match=r"got float64 of shape \[2, 3, 4, 4\]"):
        embed(nn.Flatten(), np.zeros((2, 3, 4, 4)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"with at least one image, got uint8 of shape \[0, 3, 4, 4\]"):
        embed(nn.Flatten(), np.zeros((0, 3, 4, 4), dtype=np.uint8))
    with pytest.raises(ValueError, match=r"expected the shape \[11, dim\], got \[11, 3, 8, 8\]"):
        embed(nn.Identity(), some_pixels())


def test_features_that_are_not_finite_are_refused() -> None:
    encoder = Prepared(nn.Sequential(nn.Flatten(), nn.Linear(192, 5)))
    pixels = some_pixels()
    with torch.no_grad():
        encoder.get_parameter("encoder.1.weight")[2, 3] = torch.nan
    with pytest.raises(
        ValueError, match=r"NaN or infinity for 4 of 4 images; 1 of the encoder's weights .* encoder.1.weight"
    ):
        embed(encoder, pixels, 4)
    assert encoder.training  # As it was before.
    with pytest.raises(ValueError, match="its weights are finite, so numbers overflow inside the encoder"):
        embed(Overflowing(), pixels)
