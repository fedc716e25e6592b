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
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.report import Spread
from benchmarks.timing import interleave, torch_threads
from pucl.images.views.augmentations import GREY, JITTER, JITTERED, MEAN, RATIO, SIGMA, STD, SimCLRViews

if TYPE_CHECKING:
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


def measure_views(batch: int, size: int, *, seconds: float, threads: int) -> ViewsCost:
    """Time pucl and both versions with Pillow in turn.

    Args:
        batch: Number of images.
        size: Side of images and views in pixels.
        seconds: About how long to measure.
        threads: Threads of torch.
    """
    if importlib.util.find_spec("PIL") is None:
        raise ModuleNotFoundError("views are timed against Pillow, which is not installed: pip install pillow")
    augmentation = SimCLRViews(size=size)
    generator = torch.Generator().manual_seed(SEED)
    images = torch.randint(256, (batch, 3, size, size), generator=generator, dtype=torch.uint8)
    pictures = images.permute(0, 2, 3, 1).contiguous().numpy()
    usual, lean = Usual(SEED), Lean(SEED)
    with torch_threads(threads):
        timings = interleave(
            {
                "ours": lambda: augmentation(images, generator),
                "pillow": lambda: make_with_pillow(pictures, augmentation, usual),
                "lean": lambda: make_with_pillow(pictures, augmentation, lean),
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

    def to_tensor(self, image: "Image") -> torch.Tensor:
        """The picture as float32 [3, height, width], normalised."""
        tensor = torch.from_numpy(np.array(image, dtype=np.uint8)).permute(2, 0, 1).contiguous().to(torch.float32)
        tensor = tensor.div(255)
        mean, std = torch.tensor(MEAN), torch.tensor(STD)
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

    def to_tensor(self, image: "Image") -> torch.Tensor:
        """The picture as float32 [3, height, width], normalised."""
        pixels = np.asarray(image, dtype=np.float32) / 255
        pixels = (pixels - np.asarray(MEAN, dtype=np.float32)) / np.asarray(STD, dtype=np.float32)
        return torch.from_numpy(pixels.transpose(2, 0, 1))


def make_with_pillow(pictures: NDArray[np.uint8], augmentation: SimCLRViews, way: Usual | Lean) -> torch.Tensor:
    """One view of each picture [batch, height, width, 3], one picture after the other, normalised and stacked."""
    from PIL import Image  # noqa: PLC0415 (an extra)

    views = [way.to_tensor(_view(Image.fromarray(picture), augmentation, way)) for picture in pictures]
    return torch.stack(views)


def _view(image: "Image", augmentation: SimCLRViews, way: Usual | Lean) -> "Image":
    from PIL import ImageFilter  # noqa: PLC0415
    from PIL.Image import Resampling, Transpose  # noqa: PLC0415

    size = (augmentation.size, augmentation.size)
    image = image.crop(_box(image.size, augmentation, way)).resize(size, Resampling.BILINEAR)
    if way.uniform(0, 1) < augmentation.flip:
        image = image.transpose(Transpose.FLIP_LEFT_RIGHT)
    if way.uniform(0, 1) < JITTERED:
        image = _jitter(image, way)
    if way.uniform(0, 1) < GREY:
        image = image.convert("L").convert("RGB")
    if way.uniform(0, 1) < augmentation.blur:
        image = image.filter(ImageFilter.GaussianBlur(way.uniform(*SIGMA)))
    return image


def _box(size: tuple[int, int], augmentation: SimCLRViews, way: Usual | Lean) -> tuple[int, int, int, int]:
    width, height = size
    for _ in range(10):
        area = width * height * way.uniform(augmentation.crop, 1)
        aspect = math.exp(way.uniform(*map(math.log, RATIO)))
        wide, tall = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < wide <= width and 0 < tall <= height:
            left, top = way.whole(width - wide), way.whole(height - tall)
            return left, top, left + wide, top + tall
    return 0, 0, width, height


def _jitter(image: "Image", way: Usual | Lean) -> "Image":
    from PIL import ImageEnhance  # noqa: PLC0415

    enhancers = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
    for column in way.order(4):
        strength = JITTER[column]
        if column < 3:
            factor = way.uniform(max(0.0, 1 - strength), 1 + strength)
            image = enhancers[column](image).enhance(factor)
        else:
            image = _turn_hue(image, way.uniform(-strength, strength))
    return image


def _turn_hue(image: "Image", turns: float) -> "Image":
    from PIL import Image  # noqa: PLC0415

    hue, saturation, value = image.convert("HSV").split()
    turned = np.array(hue, dtype=np.uint8) + np.uint8(int(turns * 255) % 256)  # Wraps around, as hues do.
    return Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert("RGB")
