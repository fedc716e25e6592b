"""The operators: torchvision's and skimage's own numbers, and the same computed in another way."""

import colorsys
from itertools import permutations
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from golden_cases import golden_arrays, golden_cases
from image_operators import NEUTRAL, adjust, blur, crop, flip, greyscale, jitter, same_box
from pucl.images.views import operators
from pucl.images.views.planes import BRIGHTNESS, CONTRAST, HUE, SATURATION, Crops

Case = dict[str, Any]

OPERATORS = {"brightness": BRIGHTNESS, "contrast": CONTRAST, "saturation": SATURATION, "hue": HUE}


def some_images(batch: int = 5, height: int = 12, width: int = 12, seed: int = 0) -> Tensor:
    """Random images, one of them grey, one black, one white where the batch is large enough."""
    images = torch.rand(batch, 3, height, width, generator=torch.Generator().manual_seed(seed))
    if batch >= 5:
        images[1] = images[1, :1]
        images[2], images[3] = 0, 1
    return images


def every(images: Tensor) -> Tensor:
    return torch.ones(len(images), dtype=torch.bool)


def constant(images: Tensor, value: float) -> Tensor:
    return torch.full((len(images),), value)


# The references' numbers


def operated(case: Case, image: Tensor) -> Tensor:
    """What our operator makes of a golden case's image, in floating point."""
    hyper, images = case["hyper"], image[None]
    name = case["function"].removeprefix("functional.").removesuffix(" on a PIL image")
    if name.startswith("adjust_"):
        (factor,) = hyper.values()
        return adjust(images, constant(images, factor), OPERATORS[name.removeprefix("adjust_")])[0]
    if name == "resized_crop":
        box = same_box(1, hyper["top"], hyper["left"], hyper["height"], hyper["width"])
        return crop(images, box, hyper["size"][0])[0]
    if name == "gaussian_blur":
        sigma = constant(images, hyper["sigma"][0])
        return blur(images, sigma, hyper["kernel_size"][0], every(images))[0]
    if name == "hflip":
        return flip(images, every(images))[0]
    assert name in {"rgb_to_grayscale", "to_grayscale"}
    return greyscale(images, every(images))[0, : hyper["num_output_channels"]]


def is_ours(case: Case) -> bool:
    """Whether pucl computes this case. It never shrinks a box without averaging the pixels that are covered."""
    hyper = case["hyper"]
    return bool(hyper.get("antialias", True) or hyper["height"] <= hyper["size"][0])


@pytest.mark.parametrize("case", [each for each in golden_cases("tvops") if is_ours(each.values[0])])
def test_torchvision(case: Case) -> None:
    """Float cases to the last digits; those in 8 bits, torchvision's own and PIL's, up to their rounding."""
    arrays = golden_arrays(case)
    image, expected = arrays["image"], arrays["result"]
    if image.dtype == torch.uint8:
        result, expected = operated(case, image / 255) * 255, expected.float()
        # To bytes as the reference goes there: its colour operators on tensors truncate, everything else rounds.
        truncates = "PIL" not in case["function"] and ("adjust" in case["name"] or "grayscale" in case["name"])
        result = (result + 1e-4).floor() if truncates else result.round()
    else:
        result = operated(case, image)
    tolerance = case["tolerance"]
    torch.testing.assert_close(result, expected, rtol=tolerance["rtol"], atol=tolerance["atol"])


@pytest.mark.parametrize("case", golden_cases("lab"))
def test_lab_is_that_of_skimage(case: Case) -> None:
    arrays = golden_arrays(case)
    images = (arrays["rgb"].double() / 255).permute(2, 0, 1)[None]
    tolerance = case["tolerance"]
    lab = operators.rgb_to_lab(images)[0].permute(1, 2, 0)
    torch.testing.assert_close(lab, arrays["lab"], rtol=tolerance["rtol"], atol=tolerance["atol"])
    parts = operators.split_lab(images)
    assert [part.shape[1] for part in parts] == [1, 2]
    both = torch.cat(parts, 1)[0]
    torch.testing.assert_close(both, arrays["normalised"], rtol=tolerance["rtol"], atol=tolerance["atol"])
    single = operators.rgb_to_lab(images.float())[0].permute(1, 2, 0)  # As in training, of numbers up to 100.
    torch.testing.assert_close(single, arrays["lab"].float(), rtol=0, atol=2e-4)


# What must change nothing


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_neutral_factor_changes_nothing(operator: int) -> None:
    images = some_images()
    assert torch.equal(adjust(images, constant(images, NEUTRAL[operator]), operator), images)


def test_flipping_twice_changes_nothing() -> None:
    images = some_images()
    which = torch.tensor([True, False, False, True, True])
    once = flip(images, which)
    assert torch.equal(once[0], images[0].flip(2))
    assert torch.equal(once[1], images[1])
    assert torch.equal(flip(once, which), images)


def test_crop_at_its_own_size_cuts() -> None:
    images = some_images(height=10, width=14)
    assert torch.equal(crop(images, same_box(5, 2, 5, 6, 6), 6), images[:, :, 2:8, 5:11])


def test_nobody_chosen_changes_nothing() -> None:
    images = some_images()
    none = ~every(images)
    order = torch.arange(4).expand(5, 4)
    assert torch.equal(greyscale(images, none), images)
    assert torch.equal(blur(images, constant(images, 1.0), 3, none), images)
    assert torch.equal(jitter(images, torch.full((5, 4), 0.1), order, none), images)


# Against the same, written otherwise


@given(seed=st.integers(0, 10**6), data=st.data())
@settings(max_examples=40, deadline=None)
def test_crop_is_crop_then_interpolate(seed: int, data: st.DataObject) -> None:
    """Boxes of their own for each image, growing and shrinking, against torch's resize of each one's cut."""
    extent = data.draw(st.tuples(st.integers(1, 24), st.integers(1, 24)))
    size = data.draw(st.integers(1, 16))
    images = some_images(3, *extent, seed=seed)
    edges = []
    for side in extent:
        lengths = [data.draw(st.integers(1, side)) for _ in range(3)]
        starts = [data.draw(st.integers(0, side - length)) for length in lengths]
        edges += [torch.tensor(starts), torch.tensor(lengths)]
    tops, heights, lefts, widths = edges
    flipped = torch.tensor([data.draw(st.booleans()) for _ in range(3)])
    result = crop(images, Crops(top=tops, left=lefts, height=heights, width=widths, flip=flipped), size)
    for number, (top, left, height, width) in enumerate(zip(tops, lefts, heights, widths, strict=True)):
        cut = images[number : number + 1, :, top : top + height, left : left + width]
        expected = torch.nn.functional.interpolate(cut, (size, size), mode="bilinear", antialias=True)[0]
        expected = expected.flip(2) if flipped[number] else expected
        torch.testing.assert_close(result[number], expected, rtol=1e-5, atol=2e-6)


def test_crop_of_bytes_is_that_of_their_shares() -> None:
    images, box = torch.randint(256, (4, 3, 9, 9), dtype=torch.uint8), same_box(4, 1, 2, 7, 5)
    torch.testing.assert_close(crop(images, box, 8), crop(images / 255, box, 8))


@given(
    colour=st.tuples(*[st.floats(0, 1, width=32)] * 3),
    turns=st.floats(-1 / 6, 1 / 6, allow_subnormal=False),
    grid=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_hue_is_that_of_hsv(colour: tuple[float, float, float], turns: float, grid: bool) -> None:
    """Any colour, or one of a coarse grid where channels are equal and hues at the corners of the hexagon."""
    if grid:
        colour = (round(colour[0] * 2) / 2, round(colour[1] * 2) / 2, round(colour[2] * 2) / 2)
    hue, saturation, value = colorsys.rgb_to_hsv(*colour)
    expected = colorsys.hsv_to_rgb((hue + turns) % 1.0, saturation, value)
    image = torch.tensor(colour, dtype=torch.float64).view(1, 3, 1, 1)
    result = adjust(image, torch.tensor([turns], dtype=torch.float64), HUE).flatten()
    torch.testing.assert_close(result, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9)


def test_blur_is_a_convolution() -> None:
    images = some_images(4, 12, 9)
    sigma, which = torch.tensor([0.3, 1.0, 2.0, 0.7]), torch.tensor([True, True, False, True])
    result = blur(images, sigma, 7, which)
    assert torch.equal(result[2], images[2])
    for number in which.nonzero()[:, 0].tolist():
        line = torch.exp(-0.5 * (torch.arange(-3, 4) / sigma[number]) ** 2)
        window = torch.outer(line, line) / line.sum() ** 2
        padded = torch.nn.functional.pad(images[number][:, None], (3, 3, 3, 3), mode="reflect")
        expected = torch.nn.functional.conv2d(padded, window[None, None])[:, 0]
        torch.testing.assert_close(result[number], expected, rtol=1e-5, atol=2e-6)


def test_greyscale_is_of_the_chosen_alone() -> None:
    images = some_images()
    which = torch.tensor([True, False, True, True, False])
    result = greyscale(images, which)
    grey = 0.2989 * images[:, 0] + 0.587 * images[:, 1] + 0.114 * images[:, 2]
    torch.testing.assert_close(result[which], grey[which][:, None].expand(-1, 3, -1, -1))
    assert torch.equal(result[~which], images[~which])


def test_jitter_is_its_operators_in_each_order() -> None:
    """All 24 orders in one batch, some images left out, against the operators one after the other."""
    orders = torch.tensor(list(permutations(range(4))) * 2)
    images = some_images(len(orders))
    factors = 0.6 + 0.8 * torch.rand(len(orders), 4)
    factors[:, HUE] = (2 * torch.rand(len(orders)) - 1) / 6
    which = torch.rand(len(orders)) < 0.8
    result = jitter(images, factors, orders, which)
    for number, order in enumerate(orders.tolist()):
        expected = images[number : number + 1]
        for operator in order if which[number] else ():
            expected = adjust(expected, factors[number : number + 1, operator], operator)
        torch.testing.assert_close(result[number], expected[0], rtol=1e-5, atol=3e-6)
    assert torch.equal(result[~which], images[~which])


@given(seed=st.integers(0, 10**6), factor=st.floats(0, 3), operator=st.sampled_from((BRIGHTNESS, CONTRAST, SATURATION)))
@settings(max_examples=60, deadline=None)
def test_colours_stay_in_range(seed: int, factor: float, operator: int) -> None:
    images = some_images(seed=seed)
    result = adjust(images, constant(images, factor), operator)
    assert result.isfinite().all()
    assert result.min() >= 0
    assert result.max() <= 1


def test_normalise() -> None:
    images = some_images()
    result = operators.normalise(images.clone(), (0.5, 0.4, 0.3), (0.1, 0.2, 0.4))
    torch.testing.assert_close(result[:, 1], (images[:, 1] - 0.4) / 0.2)
