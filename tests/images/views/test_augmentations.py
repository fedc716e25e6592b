"""Augmentations: what chance decides, that it decides by the references' rules, and that a seed decides chance."""

import math
import random
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor

import image_operators
from pucl.images.views import CMCViews, SimCLRViews, operators
from pucl.images.views.augmentations import GREY, JITTERED, MEAN, RATIO, STD, Parameters
from pucl.images.views.planes import Crops
from pucl.training.framework import Batch

MANY = 20_000


def seeded_generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some_images(batch: int = 6, height: int = 32, width: int = 32) -> Tensor:
    return torch.randint(256, (batch, 3, height, width), dtype=torch.uint8, generator=seeded_generator(9))


def drawn_for(augmentation: SimCLRViews, count: int, seed: int = 0) -> Parameters:
    return augmentation.draw(count, seeded_generator(seed), 32, 32)


# A seed decides


def test_a_seed_decides_and_nothing_else() -> None:
    images, augmentation, generator = some_images(), SimCLRViews(), seeded_generator(1)
    before, state = images.clone(), torch.random.get_rng_state()
    first = augmentation(images, generator)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(images, before)
    assert not torch.allclose(augmentation(images, generator), first)
    torch.rand(3)
    assert torch.equal(augmentation(images, seeded_generator(1)), first)
    assert not torch.allclose(augmentation(images, seeded_generator(2)), first)


@pytest.mark.parametrize("augmentation", [SimCLRViews(size=16), CMCViews(size=16)])
def test_views_are_exact_where_an_encoder_is_not(augmentation: SimCLRViews | CMCViews) -> None:
    """The same bits under autocast to half precision."""
    images = some_images()
    expected = augmentation(images, seeded_generator()), augmentation.plain(images)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        views = augmentation(images, seeded_generator()), augmentation.plain(images)
    torch.testing.assert_close(views, expected, rtol=0, atol=0)


def test_views_of_the_first_steps_have_half_the_side() -> None:
    augmentation = SimCLRViews(size=9, coarse=0.25)
    sides = []
    for progress in (0.0, 0.24, 0.25, 0.9):
        batch = Batch(
            samples=some_images()[2:6],
            ids=torch.arange(2, 6),
            generator=seeded_generator(),
            part=slice(2, 6),
            whole=6,
            progress=progress,
        )
        views = augmentation.see(batch)
        assert len(views) == 4
        sides.append(views.shape[-1])
    assert sides == [5, 5, 9, 9]
    # Only the side differs: the same boxes, colours and mirrors are drawn.
    small, large = (augmentation.during(progress).draw(6, seeded_generator(), 32, 32) for progress in (0.0, 1.0))
    assert all(torch.equal(getattr(small, each.name), getattr(large, each.name)) for each in fields(small))
    with pytest.raises(ValueError, match=r"expected 0 to 1, got 1\.5"):
        SimCLRViews(coarse=1.5)


def test_each_image_has_its_own_chances() -> None:
    parameters = drawn_for(SimCLRViews(), 64)
    for field in fields(parameters):
        values = getattr(parameters, field.name)
        assert len(values.unique(dim=0)) > 1, field.name
        assert values.device.type == "cpu"
        assert len(values) == 64


def test_equal_images_become_different_views() -> None:
    images = some_images(1).expand(8, 3, 32, 32)
    views = SimCLRViews()(images, seeded_generator())
    distances = torch.cdist(views.flatten(1), views.flatten(1))
    assert distances[~torch.eye(8, dtype=torch.bool)].min() > 1


@pytest.mark.parametrize("part", [slice(3, 7), slice(0, 1), torch.tensor([9, 2, 5])])
def test_image_does_not_depend_on_its_batch(part: slice | Tensor) -> None:
    """Given its parameters: processes that share a batch make the views that one alone would have made."""
    images, augmentation = some_images(12), SimCLRViews()
    parameters = drawn_for(augmentation, 12, seed=4)
    together = augmentation.apply(images, parameters)
    torch.testing.assert_close(augmentation.apply(images[part], parameters[part]), together[part], rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_same_views_on_cpu_and_gpu() -> None:
    images, augmentation = some_images(), SimCLRViews()
    on_gpu = augmentation(images.cuda(), seeded_generator())
    assert on_gpu.is_cuda
    torch.testing.assert_close(on_gpu.cpu(), augmentation(images, seeded_generator()), rtol=1e-4, atol=1e-4)


# The rule of crops


def reference_crop(chance: random.Random, height: int, width: int, smallest: float) -> tuple[int, int, int, int]:
    """RandomResizedCrop's rule, as torchvision words it."""
    ratio = RATIO
    for _ in range(10):
        area = height * width * chance.uniform(smallest, 1)
        aspect = math.exp(chance.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return chance.randint(0, height - h), chance.randint(0, width - w), h, w
    if width / height < ratio[0]:
        w, h = width, round(width / ratio[0])
    elif width / height > ratio[1]:
        w, h = round(height * ratio[1]), height
    else:
        w, h = width, height
    return (height - h) // 2, (width - w) // 2, h, w


def boxes(augmentation: SimCLRViews | CMCViews, height: int, width: int) -> Tensor:
    crops: Crops = augmentation.draw(MANY, seeded_generator(), height, width)
    return torch.stack([crops.top, crops.left, crops.height, crops.width], 1)


def distance_of_distributions(one: Tensor, two: Tensor) -> float:
    """Kolmogorov and Smirnov's: the largest difference of the two shares below any value."""
    values = torch.cat([one, two]).unique()
    shares = [torch.searchsorted(some.sort().values, values, right=True) / len(some) for some in (one, two)]
    return float((shares[0] - shares[1]).abs().max())


@pytest.mark.parametrize("extent", [(32, 32), (96, 96), (20, 60), (90, 16)])
@pytest.mark.parametrize("augmentation", [SimCLRViews(), CMCViews()], ids=["simclr", "cmc"])
def test_boxes_are_drawn_by_the_reference_rule(augmentation: SimCLRViews | CMCViews, extent: tuple[int, int]) -> None:
    chance = random.Random(1)  # noqa: S311
    expected = torch.tensor([reference_crop(chance, *extent, augmentation.crop) for _ in range(MANY)])
    drawn = boxes(augmentation, *extent)
    critical = 1.95 * math.sqrt(2 / MANY)  # Exceeded by chance once in a thousand.
    for column in range(4):
        assert distance_of_distributions(drawn[:, column], expected[:, column]) < critical
    areas = [some[:, 2] * some[:, 3] / math.prod(extent) for some in (drawn, expected)]
    assert distance_of_distributions(*areas) < critical
    aspects = [some[:, 3] / some[:, 2] for some in (drawn, expected)]
    assert distance_of_distributions(*aspects) < critical


@pytest.mark.parametrize("extent", [(1, 1), (2, 3), (32, 32), (5, 200), (300, 7)])
def test_boxes_lie_inside(extent: tuple[int, int]) -> None:
    top, left, height, width = boxes(SimCLRViews(), *extent).unbind(1)
    assert min(int(top.min()), int(left.min())) >= 0
    assert min(int(height.min()), int(width.min())) >= 1
    assert int((top + height).max()) <= extent[0]
    assert int((left + width).max()) <= extent[1]


def test_where_no_box_fits_the_middle_is_taken() -> None:
    augmentation = SimCLRViews(crop=1.0)
    assert torch.equal(boxes(augmentation, 30, 90).unique(dim=0), torch.tensor([[0, 25, 30, 40]]))
    assert torch.equal(boxes(augmentation, 90, 30).unique(dim=0), torch.tensor([[25, 0, 40, 30]]))


# Chances and ranges


def test_chances_are_those_of_the_settings() -> None:
    augmentation = SimCLRViews(flip=0.4, blur=0.3)
    drawn = drawn_for(augmentation, MANY)
    together = torch.stack([drawn.flip, drawn.jitter, drawn.greyscale, drawn.blur]).float()
    expected = torch.tensor([0.4, JITTERED, GREY, 0.3])
    torch.testing.assert_close(together.mean(1), expected, rtol=0, atol=4 * 0.5 / math.sqrt(MANY))
    # None of them knows of another.
    assert (torch.corrcoef(together) - torch.eye(4)).abs().max() < 4 / math.sqrt(MANY)


def test_factors_are_uniform_in_their_ranges() -> None:
    drawn = drawn_for(SimCLRViews(), MANY)
    ranges = [(0.6, 1.4)] * 3 + [(-0.1, 0.1)]
    for column, (low, high) in enumerate(ranges):
        place = (drawn.factors[:, column] - low) / (high - low)
        assert distance_of_distributions(place, torch.rand(MANY)) < 0.02
    assert distance_of_distributions((drawn.sigma - 0.1) / 1.9, torch.rand(MANY)) < 0.02


def test_orders_are_all_permutations_alike() -> None:
    order = drawn_for(SimCLRViews(), MANY).order
    assert torch.equal(order.sort(1).values, torch.arange(4).expand(MANY, 4))
    _, counts = order.unique(dim=0, return_counts=True)
    assert len(counts) == 24
    assert (counts / MANY * 24 - 1).abs().max() < 5 * math.sqrt(24 / MANY)


# What the augmentations are


def test_simclr_is_its_operators_one_after_the_other() -> None:
    images, augmentation = some_images(16, 40, 36), SimCLRViews(size=32)
    drawn = augmentation.draw(16, seeded_generator(), 40, 36)
    expected = image_operators.crop(images / 255, drawn, 32)
    expected = image_operators.jitter(expected, drawn.factors, drawn.order, drawn.jitter)
    expected = image_operators.greyscale(expected, drawn.greyscale)
    expected = image_operators.blur(expected, drawn.sigma, 3, drawn.blur)
    expected = operators.normalise(expected, MEAN, STD)
    torch.testing.assert_close(augmentation.apply(images, drawn), expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(augmentation(images, seeded_generator()), augmentation.apply(images, drawn))


@pytest.mark.parametrize(("size", "kernel"), [(8, 1), (16, 1), (32, 3), (64, 7), (96, 9), (224, 23)])
def test_window_of_the_blur(size: int, kernel: int) -> None:
    assert SimCLRViews(size=size).kernel == kernel
    if size < 100:
        assert SimCLRViews(size=size)(some_images(2), seeded_generator()).shape == (2, 3, size, size)


def test_cmc_has_two_parts_of_one_piece() -> None:
    images, augmentation = some_images(height=40, width=50), CMCViews(size=24)
    lightness, colour = augmentation(images, seeded_generator())
    assert (lightness.shape, colour.shape) == ((6, 1, 24, 24), (6, 2, 24, 24))
    lab = operators.rgb_to_lab(image_operators.crop(images / 255, augmentation.draw(6, seeded_generator(), 40, 50), 24))
    torch.testing.assert_close(lightness[:, 0], (lab[:, 0] - 50) / 50, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(colour[:, 1], (lab[:, 2] + 6.6895) / 101.1675, rtol=1e-4, atol=1e-4)


def test_plain_is_to_tensor_and_normalise() -> None:
    images = some_images(height=20, width=30)
    mean, std = torch.tensor(MEAN)[:, None, None], torch.tensor(STD)[:, None, None]
    resized = torch.nn.functional.interpolate(images / 255, (12, 12), mode="bilinear", antialias=True)
    torch.testing.assert_close(SimCLRViews(size=12).plain(images), (resized - mean) / std, rtol=1e-5, atol=2e-5)
    square = some_images()
    torch.testing.assert_close(SimCLRViews().plain(square), (square / 255 - mean) / std)
    assert [part.shape for part in CMCViews(size=12).plain(images)] == [(6, 1, 12, 12), (6, 2, 12, 12)]


# Bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 0}, "size is the side of a view in pixels: expected at least 1, got 0"),
        ({"crop": 0.0}, "crop is the smallest share of an image that a view shows: expected 0 < crop <= 1, got 0.0"),
        ({"crop": 1.5}, "crop is the smallest share"),
        ({"flip": 1.5}, "flip is the probability that a view is mirrored: expected 0 to 1, got 1.5"),
        ({"blur": math.nan}, "blur is the probability"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SimCLRViews(**settings)


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize("augmentation", [SimCLRViews(), CMCViews()])
@pytest.mark.parametrize(
    "images",
    [torch.rand(2, 3, 8, 8), torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.zeros(3, 8, 8, dtype=torch.uint8)],
    ids=["float", "one channel", "one image"],
)
def test_other_images_are_refused(augmentation: SimCLRViews | CMCViews, images: Tensor) -> None:
    for see in (augmentation.plain, lambda images: augmentation(images, seeded_generator())):
        with pytest.raises(ValueError, match=r"expected uint8 of the shape \[batch, 3, height, width\], got"):
            see(images)
