"""What views cost: SimCLR's, made of a whole batch at once, and image by image with Pillow.

Pillow's pipeline is that of the reference programs: the same operators with the same chances, in 8 bits, one image at a
time, in Pillow and numpy alone.
"""

import importlib.util
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from pucl.benchmarks.measure import Spread, interleave, torch_threads, usable_cores
from pucl.views import SimCLRViews

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image

SEED = 0


@dataclass(frozen=True, kw_only=True)
class ViewsCost:
    """Milliseconds for one view of each image of a batch, and how many times as fast ours are.

    Args:
        batch: Number of images.
        size: Side of images and views in pixels.
        threads: Threads of torch; Pillow has one.
        rounds: How often both were timed, in turn.
        ours: Milliseconds of a batch with `pucl.views`.
        pillow: Milliseconds of a batch with Pillow.
        speedup: Pillow's time over ours, round by round.
    """

    batch: int
    size: int
    threads: int
    rounds: int
    ours: Spread
    pillow: Spread
    speedup: Spread


def measure_views(
    batch: int = 256,
    size: int = 32,
    *,
    seconds: float = 5.0,
    threads: int | None = None,
    recipe: SimCLRViews | None = None,
) -> ViewsCost:
    """Time both ways of making views in turn.

    Args:
        batch: Number of images.
        size: Side of the images in pixels, and of the views unless a recipe says otherwise.
        seconds: About how long.
        threads: Threads of torch; by default as many as there are cores to use.
        recipe: What is done to the images; by default SimCLR's views.
    """
    if importlib.util.find_spec("PIL") is None:
        raise ModuleNotFoundError("views are timed against Pillow, which is not installed: pip install pillow")
    recipe = recipe or SimCLRViews(size=size)
    threads = threads or usable_cores()
    images = torch.randint(256, (batch, 3, size, size), generator=_generator(), dtype=torch.uint8)
    generator, chance = _generator(), random.Random(SEED)  # noqa: S311 (no secret depends on it)
    pictures = images.permute(0, 2, 3, 1).contiguous().numpy()
    with torch_threads(threads):
        timings = interleave(
            {
                "ours": lambda: recipe(images, generator),
                "pillow": lambda: make_with_pillow(pictures, recipe, chance),
            },
            seconds=seconds,
        )
    return ViewsCost(
        batch=batch,
        size=size,
        threads=threads,
        rounds=timings.rounds,
        ours=timings.milliseconds("ours"),
        pillow=timings.milliseconds("pillow"),
        speedup=timings.ratio("pillow", "ours"),
    )


def make_with_pillow(
    pictures: "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]", recipe: SimCLRViews, chance: random.Random
) -> torch.Tensor:
    """One view of each picture [batch, height, width, 3], one picture after the other, normalised and stacked."""
    from PIL import Image  # noqa: PLC0415 (an extra)

    views = [_to_tensor(_view(Image.fromarray(picture), recipe, chance), recipe) for picture in pictures]
    return torch.stack(views)


def _view(image: "Image", recipe: SimCLRViews, chance: random.Random) -> "Image":
    from PIL import ImageFilter  # noqa: PLC0415
    from PIL.Image import Resampling, Transpose  # noqa: PLC0415

    size = (recipe.size, recipe.size)
    image = image.crop(_box(image.size, recipe, chance)).resize(size, Resampling.BILINEAR)
    if chance.random() < recipe.flip:
        image = image.transpose(Transpose.FLIP_LEFT_RIGHT)
    if chance.random() < recipe.jitter_probability:
        image = _jitter(image, recipe, chance)
    if chance.random() < recipe.greyscale:
        image = image.convert("L").convert("RGB")
    if chance.random() < recipe.blur:
        image = image.filter(ImageFilter.GaussianBlur(chance.uniform(0.1, 2.0)))
    return image


def _box(size: tuple[int, int], recipe: SimCLRViews, chance: random.Random) -> tuple[int, int, int, int]:
    width, height = size
    for _ in range(10):
        area = width * height * chance.uniform(*recipe.scale)
        aspect = math.exp(chance.uniform(math.log(recipe.ratio[0]), math.log(recipe.ratio[1])))
        wide, tall = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < wide <= width and 0 < tall <= height:
            left, top = chance.randint(0, width - wide), chance.randint(0, height - tall)
            return left, top, left + wide, top + tall
    return 0, 0, width, height


def _jitter(image: "Image", recipe: SimCLRViews, chance: random.Random) -> "Image":
    from PIL import ImageEnhance  # noqa: PLC0415

    enhancers = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
    for column in chance.sample(range(4), 4):
        strength = recipe.jitter[column]
        if column < 3:
            factor = chance.uniform(max(0.0, 1 - strength), 1 + strength)
            image = enhancers[column](image).enhance(factor)
        else:
            image = _turn_hue(image, chance.uniform(-strength, strength))
    return image


def _turn_hue(image: "Image", turns: float) -> "Image":
    import numpy as np  # noqa: PLC0415 (with Pillow, as torchvision does it)
    from PIL import Image  # noqa: PLC0415

    hue, saturation, value = image.convert("HSV").split()
    turned = np.array(hue, dtype=np.uint8) + np.uint8(int(turns * 255) % 256)  # Wraps around, as hues do.
    return Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert("RGB")


def _to_tensor(image: "Image", recipe: SimCLRViews) -> torch.Tensor:
    import numpy as np  # noqa: PLC0415

    pixels = np.asarray(image, dtype=np.float32) / 255
    pixels = (pixels - np.asarray(recipe.mean, dtype=np.float32)) / np.asarray(recipe.std, dtype=np.float32)
    return torch.from_numpy(pixels.transpose(2, 0, 1))


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(SEED)
