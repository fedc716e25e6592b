"""Recipes: what chance decides, that it decides by the references' rules, and that a seed decides chance."""

import math
import random
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor

import image_operators
from pucl.images.views import CMCViews, Crops, Parameters, Plain, PlainLab, SimCLRViews, moco_views, operators

MANY = 20_000


def seeded_generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some_images(batch: int = 6, height: int = 32, width: int = 32) -> Tensor:
    return torch.randint(256, (batch, 3, height, width), dtype=torch.uint8, generator=seeded_generator(9))


def flat(parameters: Parameters) -> dict[str, Tensor]:
    """All tensors of some parameters."""
    crops = {field.name: getattr(parameters.crops, field.name) for field in fields(Crops)}
    rest = {field.name: getattr(parameters, field.name) for field in fields(Parameters) if field.name != "crops"}
    return {f"crops.{name}": value for name, value in crops.items()} | rest


# A seed decides


def test_same_seed_same_views() -> None:
    images, recipe = some_images(), SimCLRViews()
    views = [recipe(images, seeded_generator(seed)) for seed in (1, 1, 2)]
    assert torch.equal(views[0], views[1])
    assert not torch.allclose(views[0], views[2])


def test_generator_moves_on() -> None:
    images, recipe, generator = some_images(), SimCLRViews(), seeded_generator()
    assert not torch.allclose(recipe(images, generator), recipe(images, generator))


def test_global_chance_has_no_say() -> None:
    images = some_images()
    state = torch.random.get_rng_state()
    first = SimCLRViews()(images, seeded_generator())
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.rand(3)
    assert torch.equal(SimCLRViews()(images, seeded_generator()), first)


def test_draw_and_apply_are_the_call() -> None:
    images, recipe = some_images(height=40, width=50), SimCLRViews(size=24)
    parameters = recipe.draw(6, seeded_generator(), height=40, width=50)
    assert torch.equal(recipe.apply(images, parameters), recipe(images, seeded_generator()))


def test_images_stay_as_they_are() -> None:
    images = some_images()
    before = images.clone()
    for recipe in (SimCLRViews(), moco_views(), CMCViews(), Plain(), Plain(size=16), PlainLab()):
        recipe(images, seeded_generator())
    assert torch.equal(images, before)


@pytest.mark.parametrize("recipe", [SimCLRViews(), CMCViews(), Plain(size=16), PlainLab(size=16)])
def test_views_are_exact_where_an_encoder_is_not(recipe: SimCLRViews | CMCViews | Plain | PlainLab) -> None:
    """The same bits under autocast to half precision."""
    expected = recipe(some_images(), seeded_generator())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        views = recipe(some_images(), seeded_generator())
    torch.testing.assert_close(views, expected, rtol=0, atol=0)


def test_each_image_has_its_own_chances() -> None:
    for name, values in flat(SimCLRViews().draw(64, seeded_generator())).items():
        assert len(values.unique(dim=0)) > 1, name
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
    images, recipe = some_images(12), SimCLRViews()
    parameters = recipe.draw(12, seeded_generator(4))
    together = recipe.apply(images, parameters)
    alone = recipe.apply(images[part], parameters[part])
    assert len(parameters[part]) == len(alone)
    torch.testing.assert_close(alone, together[part], rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_same_views_on_cpu_and_gpu() -> None:
    images, recipe = some_images(), SimCLRViews()
    on_gpu = recipe(images.cuda(), seeded_generator())
    assert on_gpu.is_cuda
    torch.testing.assert_close(on_gpu.cpu(), recipe(images, seeded_generator()), rtol=1e-4, atol=1e-4)


# The rule of crops


def reference_crop(
    chance: random.Random, height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[int, int, int, int]:
    """RandomResizedCrop's rule, as torchvision words it."""
    for _ in range(10):
        area = height * width * chance.uniform(*scale)
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


def boxes(recipe: SimCLRViews | CMCViews, height: int, width: int) -> Tensor:
    drawn = recipe.draw(MANY, seeded_generator(), height=height, width=width)
    crops = drawn.crops if isinstance(drawn, Parameters) else drawn
    return torch.stack([crops.top, crops.left, crops.height, crops.width], 1)


def distance_of_distributions(one: Tensor, two: Tensor) -> float:
    """Kolmogorov and Smirnov's: the largest difference of the two shares below any value."""
    values = torch.cat([one, two]).unique()
    shares = [torch.searchsorted(some.sort().values, values, right=True) / len(some) for some in (one, two)]
    return float((shares[0] - shares[1]).abs().max())


@pytest.mark.parametrize("extent", [(32, 32), (96, 96), (20, 60), (90, 16)])
@pytest.mark.parametrize("recipe", [SimCLRViews(), CMCViews()], ids=["simclr", "cmc"])
def test_boxes_are_drawn_by_the_reference_rule(recipe: SimCLRViews | CMCViews, extent: tuple[int, int]) -> None:
    chance = random.Random(1)  # noqa: S311
    expected = torch.tensor([reference_crop(chance, *extent, recipe.scale, recipe.ratio) for _ in range(MANY)])
    drawn = boxes(recipe, *extent)
    critical = 1.95 * math.sqrt(2 / MANY)  # Exceeded by chance once in a thousand.
    for column in range(4):
        assert distance_of_distributions(drawn[:, column], expected[:, column]) < critical
    areas = [some[:, 2] * some[:, 3] / math.prod(extent) for some in (drawn, expected)]
    assert distance_of_distributions(*areas) < critical
    aspects = [some[:, 3] / some[:, 2] for some in (drawn, expected)]
    assert distance_of_distributions(*aspects) < critical


def test_areas_and_aspects_are_uniform_where_all_fit() -> None:
    """In a large image whose boxes are at most half of it nothing is rejected, and little is lost to rounding."""
    _, _, height, width = boxes(SimCLRViews(scale=(0.1, 0.5)), 1000, 1000).unbind(1)
    share = (height * width / 1e6 - 0.1) / 0.4
    logarithm = torch.log(width / height) / math.log(4 / 3) / 2 + 0.5
    for values in (share, logarithm):
        assert distance_of_distributions(values, torch.rand(MANY)) < 0.02


@pytest.mark.parametrize("extent", [(1, 1), (2, 3), (32, 32), (5, 200), (300, 7)])
def test_boxes_lie_inside(extent: tuple[int, int]) -> None:
    top, left, height, width = boxes(SimCLRViews(), *extent).unbind(1)
    assert min(int(top.min()), int(left.min())) >= 0
    assert min(int(height.min()), int(width.min())) >= 1
    assert int((top + height).max()) <= extent[0]
    assert int((left + width).max()) <= extent[1]


def test_where_no_box_fits_the_middle_is_taken() -> None:
    recipe = SimCLRViews(scale=(1.0, 1.0))
    assert torch.equal(boxes(recipe, 30, 90).unique(dim=0), torch.tensor([[0, 25, 30, 40]]))
    assert torch.equal(boxes(recipe, 90, 30).unique(dim=0), torch.tensor([[25, 0, 40, 30]]))


# Chances and ranges


def test_chances_are_those_of_the_recipe() -> None:
    recipe = SimCLRViews()
    drawn = recipe.draw(MANY, seeded_generator())
    tolerance = 4 * 0.5 / math.sqrt(MANY)
    for values, chance in (
        (drawn.crops.flip, recipe.flip),
        (drawn.jitter, recipe.jitter_probability),
        (drawn.greyscale, recipe.greyscale),
        (drawn.blur, recipe.blur),
    ):
        assert float(values.float().mean()) == pytest.approx(chance, abs=tolerance)
    # None of them knows of another.
    together = torch.stack([drawn.crops.flip, drawn.jitter, drawn.greyscale, drawn.blur]).float()
    assert (torch.corrcoef(together) - torch.eye(4)).abs().max() < 4 / math.sqrt(MANY)


def test_factors_are_uniform_in_their_ranges() -> None:
    drawn = SimCLRViews().draw(MANY, seeded_generator())
    ranges = [(0.6, 1.4)] * 3 + [(-0.1, 0.1)]
    for column, (low, high) in enumerate(ranges):
        place = (drawn.factors[:, column] - low) / (high - low)
        assert distance_of_distributions(place, torch.rand(MANY)) < 0.02
    assert distance_of_distributions((drawn.sigma - 0.1) / 1.9, torch.rand(MANY)) < 0.02
    strong = SimCLRViews(jitter=(2.0, 0.0, 0.0, 0.5)).draw(MANY, seeded_generator())
    assert strong.factors[:, 0].min() == 0
    assert torch.equal(strong.factors[:, 1:3].unique(), torch.ones(1))


def test_orders_are_all_permutations_alike() -> None:
    order = SimCLRViews().draw(MANY, seeded_generator()).order
    assert torch.equal(order.sort(1).values, torch.arange(4).expand(MANY, 4))
    _, counts = order.unique(dim=0, return_counts=True)
    assert len(counts) == 24
    assert (counts / MANY * 24 - 1).abs().max() < 5 * math.sqrt(24 / MANY)


def test_order_of_jitter_is_each_images_own() -> None:
    images, recipe = some_images(1).expand(24, 3, 32, 32), SimCLRViews(jitter_probability=1.0)
    one = recipe.draw(1, seeded_generator())
    parameters = replace(one[torch.zeros(24, dtype=torch.long)], order=recipe.draw(24, seeded_generator(1)).order)
    views = recipe.apply(images, parameters)
    for number in range(24):
        alone = recipe.apply(images[:1], replace(one, order=parameters.order[number : number + 1]))
        torch.testing.assert_close(views[number], alone[0], rtol=1e-5, atol=1e-5)
    same_order = torch.cdist(parameters.order.float(), parameters.order.float()) == 0
    distances = torch.cdist(views.flatten(1), views.flatten(1))
    assert distances[~same_order].median() > 0.1


# What the recipes are


def test_simclr_is_its_operators_one_after_the_other() -> None:
    images, recipe = some_images(16, 40, 36), SimCLRViews(size=32)
    drawn = recipe.draw(16, seeded_generator(), height=40, width=36)
    crops = drawn.crops
    expected = operators.resized_crop(images / 255, crops.top, crops.left, crops.height, crops.width, 32)
    expected = image_operators.flip(expected, crops.flip)
    expected = image_operators.jitter(expected, drawn.factors, drawn.order, drawn.jitter)
    expected = image_operators.greyscale(expected, drawn.greyscale)
    expected = image_operators.blur(expected, drawn.sigma, 3, drawn.blur)
    expected = operators.normalise(expected, recipe.mean, recipe.std)
    torch.testing.assert_close(recipe.apply(images, drawn), expected, rtol=1e-5, atol=1e-5)


def test_without_chances_nothing_but_a_crop_happens() -> None:
    recipe = SimCLRViews(scale=(1.0, 1.0), ratio=(1.0, 1.0), flip=0, jitter_probability=0, greyscale=0, blur=0)
    images = some_images()
    torch.testing.assert_close(recipe(images, seeded_generator()), recipe.plain(images))


@pytest.mark.parametrize(("size", "kernel"), [(8, 1), (16, 1), (32, 3), (64, 7), (96, 9), (224, 23)])
def test_window_of_the_blur(size: int, kernel: int) -> None:
    assert SimCLRViews(size=size).kernel == kernel
    if size < 100:
        assert SimCLRViews(size=size)(some_images(2), seeded_generator()).shape == (2, 3, size, size)


def test_moco_has_no_blur_and_larger_pieces() -> None:
    recipe = moco_views(size=24)
    assert (recipe.size, recipe.blur, recipe.scale) == (24, 0.0, (0.2, 1.0))
    assert not recipe.draw(100, seeded_generator()).blur.any()


def test_cmc_has_two_parts_of_one_piece() -> None:
    images, recipe = some_images(height=40, width=50), CMCViews(size=24)
    lightness, colour = recipe(images, seeded_generator())
    assert (lightness.shape, colour.shape) == ((6, 1, 24, 24), (6, 2, 24, 24))
    crops = recipe.draw(6, seeded_generator(), height=40, width=50)
    piece = operators.resized_crop(images / 255, crops.top, crops.left, crops.height, crops.width, 24)
    lab = operators.rgb_to_lab(image_operators.flip(piece, crops.flip))
    torch.testing.assert_close(lightness[:, 0], (lab[:, 0] - 50) / 50, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(colour[:, 1], (lab[:, 2] + 6.6895) / 101.1675, rtol=1e-4, atol=1e-4)


def test_plain_is_to_tensor_and_normalise() -> None:
    images = some_images(height=20, width=30)
    mean, std = torch.tensor(Plain().mean)[:, None, None], torch.tensor(Plain().std)[:, None, None]
    torch.testing.assert_close(Plain(size=None)(images), (images / 255 - mean) / std)
    resized = torch.nn.functional.interpolate(images / 255, (12, 12), mode="bilinear", antialias=True)
    torch.testing.assert_close(Plain(size=12)(images), (resized - mean) / std, rtol=1e-5, atol=2e-5)
    assert [part.shape for part in CMCViews(size=12).plain(images)] == [(6, 1, 12, 12), (6, 2, 12, 12)]


# Bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 0}, "size is the side of a view in pixels: expected at least 1, got 0"),
        ({"scale": (0.0, 1.0)}, "scale is the range of a crop's share"),
        ({"scale": (0.5, 1.5)}, "scale is the range of a crop's share"),
        ({"ratio": (2.0, 1.0)}, "ratio is the range of a crop's width over its height"),
        ({"flip": 1.5}, "flip is the chance that a view is mirrored: expected 0 to 1, got 1.5"),
        ({"jitter": (0.4, 0.4, 0.4, 0.6)}, "jitter is how far"),
        ({"jitter": (-0.4, 0.4, 0.4, 0.1)}, "jitter is how far"),
        ({"jitter_probability": -1.0}, "jitter_probability is the chance"),
        ({"greyscale": 2.0}, "greyscale is the chance"),
        ({"blur": math.nan}, "blur is the chance"),
        ({"std": (0.2, 0.0, 0.2)}, "std is what channels are divided by"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SimCLRViews(**settings)


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize("recipe", [SimCLRViews(), CMCViews(), Plain(), PlainLab()])
@pytest.mark.parametrize(
    "images",
    [torch.rand(2, 3, 8, 8), torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.zeros(3, 8, 8, dtype=torch.uint8)],
    ids=["float", "one channel", "one image"],
)
def test_other_images_are_refused(recipe: SimCLRViews | CMCViews | Plain | PlainLab, images: Tensor) -> None:
    with pytest.raises(ValueError, match=r"expected uint8 of the shape \[batch, 3, height, width\], got"):
        recipe(images, seeded_generator())
