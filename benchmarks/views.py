"""Time of SimCLR's views: a whole batch at once with pucl, and image by image with Pillow.

The Pillow pipeline is that of the reference programs: the same operators with the same probabilities, in 8 bits, one
image at a time. There are two versions. *Usual* works like torchvision's transforms: it draws each random number from
torch and ends in a torch tensor. *Lean* uses Python's random numbers and numpy. No program does that, but it shows the
time of Pillow itself.
"""

import importlib.util
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch

from benchmarks.timing import Spread, interleave, torch_threads
from pucl.devices import usable_cores
from pucl.images.views import SimCLRViews

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image

SEED = 0


@dataclass(frozen=True, kw_only=True)
class ViewsCost:
    """Milliseconds for one view of each image of a batch, and the speed-up of ours.

    Args:
        batch: Number of images.
        size: Side of images and views in pixels.
        threads: Threads of torch; Pillow has one.
        rounds: Number of rounds.
        ours: Milliseconds of a batch with `pucl.images.views`.
        pillow: Milliseconds of a batch with Pillow, usual version.
        lean: Milliseconds of a batch with Pillow, lean version.
        speedup: Time of the usual version over ours, round by round.
        lean_speedup: Time of the lean version over ours.
    """

    batch: int
    size: int
    threads: int
    rounds: int
    ours: Spread
    pillow: Spread
    lean: Spread
    speedup: Spread
    lean_speedup: Spread


def measure_views(
    batch: int = 256,
    size: int = 32,
    *,
    seconds: float = 5.0,
    threads: int | None = None,
    recipe: SimCLRViews | None = None,
) -> ViewsCost:
    """Time pucl and both versions with Pillow in turn.

    Args:
        batch: Number of images.
        size: Side of the images in pixels, and of the views unless a recipe says otherwise.
        seconds: About how long to measure.
        threads: Threads of torch; by default as many as there are cores to use.
        recipe: The augmentation; by default SimCLR's.
    """
    if importlib.util.find_spec("PIL") is None:
        raise ModuleNotFoundError("views are timed against Pillow, which is not installed: pip install pillow")
    recipe = recipe or SimCLRViews(size=size)
    threads = threads or usable_cores()
    images = torch.randint(256, (batch, 3, size, size), generator=_generator(), dtype=torch.uint8)
    generator = _generator()
    usual, lean = Usual(SEED), Lean(SEED)
    pictures = images.permute(0, 2, 3, 1).contiguous().numpy()
    with torch_threads(threads):
        timings = interleave(
            {
                "ours": lambda: recipe(images, generator),
                "pillow": lambda: make_with_pillow(pictures, recipe, usual),
                "lean": lambda: make_with_pillow(pictures, recipe, lean),
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
        lean=timings.milliseconds("lean"),
        speedup=timings.ratio("pillow", "ours"),
        lean_speedup=timings.ratio("lean", "ours"),
    )


@runtime_checkable
class Way(Protocol):
    """Source of random numbers, and conversion of a picture to a tensor."""

    def uniform(self, low: float, high: float) -> float:
        """A random number between these."""
        ...

    def whole(self, most: int) -> int:
        """A random whole number from 0 to this."""
        ...

    def order(self, count: int) -> list[int]:
        """The numbers below this, shuffled."""
        ...

    def to_tensor(self, image: "Image", recipe: SimCLRViews) -> torch.Tensor:
        """The picture as float32 [3, height, width], normalised."""
        ...


class Usual:
    """As torchvision does it: random numbers and arithmetic with torch."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def uniform(self, low: float, high: float) -> float:
        """A random number between these."""
        return torch.empty(1).uniform_(low, high, generator=self._generator).item()

    def whole(self, most: int) -> int:
        """A random whole number from 0 to this."""
        return int(torch.randint(0, most + 1, (1,), generator=self._generator).item())

    def order(self, count: int) -> list[int]:
        """The numbers below this, shuffled."""
        numbers: list[int] = torch.randperm(count, generator=self._generator).tolist()
        return numbers

    def to_tensor(self, image: "Image", recipe: SimCLRViews) -> torch.Tensor:
        """The picture as float32 [3, height, width], normalised."""
        import numpy as np  # noqa: PLC0415

        tensor = torch.from_numpy(np.array(image, dtype=np.uint8)).permute(2, 0, 1).contiguous().to(torch.float32)
        tensor = tensor.div(255)
        mean, std = torch.tensor(recipe.mean), torch.tensor(recipe.std)
        return tensor.clone().sub_(mean.view(-1, 1, 1)).div_(std.view(-1, 1, 1))


class Lean:
    """The least overhead in Python: its own random numbers, and arithmetic with numpy."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 (no secret depends on it)

    def uniform(self, low: float, high: float) -> float:
        """A random number between these."""
        return self._random.uniform(low, high)

    def whole(self, most: int) -> int:
        """A random whole number from 0 to this."""
        return self._random.randint(0, most)

    def order(self, count: int) -> list[int]:
        """The numbers below this, shuffled."""
        return self._random.sample(range(count), count)

    def to_tensor(self, image: "Image", recipe: SimCLRViews) -> torch.Tensor:
        """The picture as float32 [3, height, width], normalised."""
        import numpy as np  # noqa: PLC0415

        pixels = np.asarray(image, dtype=np.float32) / 255
        pixels = (pixels - np.asarray(recipe.mean, dtype=np.float32)) / np.asarray(recipe.std, dtype=np.float32)
        return torch.from_numpy(pixels.transpose(2, 0, 1))


def make_with_pillow(
    pictures: "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]", recipe: SimCLRViews, way: Way
) -> torch.Tensor:
    """One view of each picture [batch, height, width, 3], one picture after the other, normalised and stacked."""
    from PIL import Image  # noqa: PLC0415 (an extra)

    views = [way.to_tensor(_view(Image.fromarray(picture), recipe, way), recipe) for picture in pictures]
    return torch.stack(views)


def _view(image: "Image", recipe: SimCLRViews, way: Way) -> "Image":
    from PIL import ImageFilter  # noqa: PLC0415
    from PIL.Image import Resampling, Transpose  # noqa: PLC0415

    size = (recipe.size, recipe.size)
    image = image.crop(_box(image.size, recipe, way)).resize(size, Resampling.BILINEAR)
    if way.uniform(0, 1) < recipe.flip:
        image = image.transpose(Transpose.FLIP_LEFT_RIGHT)
    if way.uniform(0, 1) < recipe.jitter_probability:
        image = _jitter(image, recipe, way)
    if way.uniform(0, 1) < recipe.greyscale:
        image = image.convert("L").convert("RGB")
    if way.uniform(0, 1) < recipe.blur:
        image = image.filter(ImageFilter.GaussianBlur(way.uniform(0.1, 2.0)))
    return image


def _box(size: tuple[int, int], recipe: SimCLRViews, way: Way) -> tuple[int, int, int, int]:
    width, height = size
    for _ in range(10):
        area = width * height * way.uniform(*recipe.scale)
        aspect = math.exp(way.uniform(math.log(recipe.ratio[0]), math.log(recipe.ratio[1])))
        wide, tall = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < wide <= width and 0 < tall <= height:
            left, top = way.whole(width - wide), way.whole(height - tall)
            return left, top, left + wide, top + tall
    return 0, 0, width, height


def _jitter(image: "Image", recipe: SimCLRViews, way: Way) -> "Image":
    from PIL import ImageEnhance  # noqa: PLC0415

    enhancers = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
    for column in way.order(4):
        strength = recipe.jitter[column]
        if column < 3:
            factor = way.uniform(max(0.0, 1 - strength), 1 + strength)
            image = enhancers[column](image).enhance(factor)
        else:
            image = _turn_hue(image, way.uniform(-strength, strength))
    return image


def _turn_hue(image: "Image", turns: float) -> "Image":
    import numpy as np  # noqa: PLC0415 (with Pillow, as torchvision does it)
    from PIL import Image  # noqa: PLC0415

    hue, saturation, value = image.convert("HSV").split()
    turned = np.array(hue, dtype=np.uint8) + np.uint8(int(turns * 255) % 256)  # Wraps around, as hues do.
    return Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert("RGB")


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(SEED)
