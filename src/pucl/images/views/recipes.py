"""Recipes: what happens to an image before an encoder sees it, and with which chances.

A recipe is a frozen setting. `draw` throws the dice, on the CPU, so that one seed gives the same views on every device;
`apply` does what they say, image by image but all at once; calling a recipe does both:

>>> generator = torch.Generator().manual_seed(0)
>>> images = torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8)
>>> views = [SimCLRViews()(images, generator) for _ in range(2)]
>>> views[0].shape
torch.Size([4, 3, 32, 32])
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import torch

from pucl.images.views import operators, planes
from pucl.precision import full_precision
from pucl.shapes import Bool, Float, Int, Tensor

CIFAR_MEAN = (0.4914, 0.4822, 0.4465)
CIFAR_STD = (0.2023, 0.1994, 0.2010)
TRIES = 10  # Boxes that are drawn before the centre is taken.
DICE = 2 * TRIES + 3  # Random numbers that a crop takes: area and aspect of each try, the place of one, and the mirror.
SIGMA = (0.1, 2.0)  # Range of the blur, in pixels.


@dataclass(frozen=True, kw_only=True)
class Crops:
    """A box in each image, and whether what is cut out is mirrored. Always on the CPU.

    Args:
        top: First row.
        left: First column.
        height: Rows.
        width: Columns.
        flip: Whether the view is mirrored left to right.
    """

    top: Int[Tensor, " batch"]
    left: Int[Tensor, " batch"]
    height: Int[Tensor, " batch"]
    width: Int[Tensor, " batch"]
    flip: Bool[Tensor, " batch"]

    def __len__(self) -> int:
        return len(self.top)

    def __getitem__(self, part: slice | Tensor) -> "Crops":
        return Crops(**{field.name: getattr(self, field.name)[part] for field in fields(self)})


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """All that chance decides about the views of a batch. Always on the CPU.

    A part of it, ``parameters[8:16]``, belongs to that part of the images: processes that share a batch draw for the
    whole of it and apply their own part.

    Args:
        crops: Boxes and mirrors.
        jitter: Whether colours are jittered.
        factors: Brightness, contrast, saturation (1 changes nothing) and hue (in turns, 0 changes nothing).
        order: In which order these four come, as their column numbers.
        greyscale: Whether colours are dropped.
        blur: Whether the view is blurred.
        sigma: By how much, in pixels.
    """

    crops: Crops
    jitter: Bool[Tensor, " batch"]
    factors: Float[Tensor, "batch 4"]
    order: Int[Tensor, "batch 4"]
    greyscale: Bool[Tensor, " batch"]
    blur: Bool[Tensor, " batch"]
    sigma: Float[Tensor, " batch"]

    def __len__(self) -> int:
        return len(self.crops)

    def __getitem__(self, part: slice | Tensor) -> "Parameters":
        return Parameters(**{field.name: getattr(self, field.name)[part] for field in fields(self)})


@dataclass(frozen=True, kw_only=True)
class SimCLRViews:
    """SimCLR's views: a piece of the image, perhaps mirrored, in other colours, perhaps without any, perhaps blurred.

    The defaults are those of the SimCLR, DCL and HCL programs for 32 x 32 images. The blur's window is a tenth of the
    size, made odd; a size below 20 has none left to speak of (a window of 1).

    Args:
        size: Side of a view in pixels.
        scale: Range of a box's share of the image's area, 0 < scale <= 1.
        ratio: Range of a box's width over its height, uniform in the logarithm.
        flip: Chance of a mirror image.
        jitter: How far brightness, contrast and saturation factors are from 1 at most, and hue from 0 (at most .5).
        jitter_probability: Chance that colours are jittered at all.
        greyscale: Chance that colours are dropped.
        blur: Chance of a blur, sigma uniform from .1 to 2 pixels.
        mean: Subtracted from red, green and blue in the end.
        std: What they are then divided by.

    Shapes:
        uint8 images [batch, 3, height, width], which are left as they are, to float32 views [batch, 3, size, size].

    References:
        Chen et al., A Simple Framework for Contrastive Learning of Visual Representations (arXiv 2002.05709).
    """

    size: int = 32
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    jitter_probability: float = 0.8
    greyscale: float = 0.2
    blur: float = 0.5
    mean: tuple[float, float, float] = CIFAR_MEAN
    std: tuple[float, float, float] = CIFAR_STD

    def __post_init__(self) -> None:
        _check_crops(self.size, self.scale, self.ratio, self.flip)
        _check_chance("jitter_probability", "colours are jittered", self.jitter_probability)
        _check_chance("greyscale", "colours are dropped", self.greyscale)
        _check_chance("blur", "a view is blurred", self.blur)
        if not (all(strength >= 0 for strength in self.jitter) and self.jitter[planes.HUE] <= 0.5):
            raise ValueError(
                f"jitter is how far brightness, contrast, saturation and hue may go: "
                f"expected four numbers from 0 up, the last at most 0.5, got {self.jitter}"
            )
        _check_std(self.std)

    @property
    def kernel(self) -> int:
        """Side of the blur's window: a tenth of the size, made odd."""
        return int(0.1 * self.size) | 1

    @property
    def plain(self) -> "Plain":
        """The same without chance, for evaluation."""
        return Plain(size=self.size, mean=self.mean, std=self.std)

    def about(self) -> dict[str, Any]:
        """How an encoder's images are prepared, for those who have its weights alone."""
        return {"colours": "RGB in 0..1", "mean": list(self.mean), "std": list(self.std)}

    def draw(
        self, batch: int, generator: torch.Generator, *, height: int | None = None, width: int | None = None
    ) -> Parameters:
        """Throw the dice for a batch.

        Args:
            batch: Number of images.
            generator: A generator of the CPU, which moves on by as much for every batch of this size.
            height: Rows of the images; by default the size of a view.
            width: Columns of the images.
        """
        dice = _uniform(generator, batch, DICE + 12)
        chances = dice[:, DICE : DICE + 3] < torch.tensor([self.jitter_probability, self.greyscale, self.blur])
        middle, strength = torch.tensor([1.0, 1.0, 1.0, 0.0]), torch.tensor(self.jitter)
        factors = middle + strength * (2 * dice[:, DICE + 3 : DICE + 7] - 1)
        factors[:, : planes.HUE].clamp_min_(0)
        return Parameters(
            crops=_draw_crops(self, dice[:, :DICE], height or self.size, width or self.size),
            jitter=chances[:, 0],
            factors=factors.float(),
            order=dice[:, DICE + 7 : DICE + 11].argsort(1),
            greyscale=chances[:, 1],
            blur=chances[:, 2],
            sigma=(SIGMA[0] + (SIGMA[1] - SIGMA[0]) * dice[:, DICE + 11]).float(),
        )

    def apply(self, images: Tensor, parameters: Parameters) -> Float[Tensor, "batch 3 {self.size} {self.size}"]:
        """The views that were drawn."""
        with _exactly(images):
            # Sorted as the jitter likes it while images are still bytes, where moving them costs a quarter.
            sequence, groups = planes.by_turn_of_hue(parameters.order, parameters.jitter)
            drawn = parameters[sequence]
            crops = drawn.crops
            colours = planes.crop(
                images.index_select(0, sequence.to(images.device)),
                crops.top,
                crops.left,
                crops.height,
                crops.width,
                self.size,
                flipped=crops.flip,
            )
            planes.jitter(colours, drawn.factors, drawn.order, groups)
            planes.greyscale(colours, drawn.greyscale)
            if self.kernel > 1:
                planes.blur(colours, drawn.sigma, self.kernel, drawn.blur)
            views = planes.as_images(colours, sequence.argsort())
            return operators.normalise(views, self.mean, self.std, inplace=True)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Float[Tensor, "batch 3 {self.size} {self.size}"]:
        """One view of each image."""
        _check_images(images)
        parameters = self.draw(len(images), generator, height=images.shape[2], width=images.shape[3])
        return self.apply(images, parameters)


def moco_views(size: int = 32) -> SimCLRViews:
    """MoCo's views: SimCLR's without a blur, and of at least a fifth of the image."""
    return SimCLRViews(size=size, scale=(0.2, 1.0), blur=0.0)


@dataclass(frozen=True, kw_only=True)
class CMCViews:
    """CMC's views: the lightness and the colour of *one* piece of the image.

    Args:
        size: Side of a view in pixels.
        scale: Range of a box's share of the image's area, 0 < scale <= 1.
        ratio: Range of a box's width over its height, uniform in the logarithm.
        flip: Chance of a mirror image.

    Shapes:
        uint8 images [batch, 3, height, width] to float32 L [batch, 1, size, size] and ab [batch, 2, size, size].

    References:
        Tian et al., Contrastive Multiview Coding (arXiv 1906.05849).
    """

    size: int = 32
    scale: tuple[float, float] = (0.2, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5

    def __post_init__(self) -> None:
        _check_crops(self.size, self.scale, self.ratio, self.flip)

    @property
    def plain(self) -> "PlainLab":
        """The same without chance, for evaluation."""
        return PlainLab(size=self.size)

    def about(self) -> dict[str, Any]:
        """How an encoder's images are prepared, for those who have its weights alone."""
        colours = "CIELAB: L to encoders.0, a and b to encoders.1"
        return {"colours": colours, "mean": list(operators.LAB_MEAN), "std": list(operators.LAB_STD)}

    def draw(
        self, batch: int, generator: torch.Generator, *, height: int | None = None, width: int | None = None
    ) -> Crops:
        """Throw the dice for a batch, as `SimCLRViews.draw` does."""
        return _draw_crops(self, _uniform(generator, batch, DICE), height or self.size, width or self.size)

    def apply(
        self, images: Tensor, parameters: Crops
    ) -> tuple[Float[Tensor, "batch 1 {self.size} {self.size}"], Float[Tensor, "batch 2 {self.size} {self.size}"]]:
        """The views that were drawn."""
        with _exactly(images):
            return operators.split_lab(_crop(images, parameters, self.size))

    def __call__(
        self, images: Tensor, generator: torch.Generator
    ) -> tuple[Float[Tensor, "batch 1 {self.size} {self.size}"], Float[Tensor, "batch 2 {self.size} {self.size}"]]:
        """Lightness and colour of one piece of each image."""
        _check_images(images)
        parameters = self.draw(len(images), generator, height=images.shape[2], width=images.shape[3])
        return self.apply(images, parameters)


@dataclass(frozen=True, kw_only=True)
class Plain:
    """Images as they are, for evaluation: brought to a size if they have another, and normalised.

    Args:
        size: Side in pixels; None leaves images at the size they have.
        mean: Subtracted from red, green and blue.
        std: What they are then divided by.
    """

    size: int | None = 32
    mean: tuple[float, float, float] = CIFAR_MEAN
    std: tuple[float, float, float] = CIFAR_STD

    def __post_init__(self) -> None:
        _check_size(self.size)
        _check_std(self.std)

    def __call__(
        self, images: Tensor, generator: torch.Generator | None = None
    ) -> Float[Tensor, "batch 3 rows columns"]:
        """The images; a generator is taken as from other recipes' callers, and nothing is drawn from it."""
        del generator
        _check_images(images)
        with _exactly(images):
            return operators.normalise(_resize(images, self.size), self.mean, self.std, inplace=True)


@dataclass(frozen=True, kw_only=True)
class PlainLab:
    """Lightness and colour of the images as they are, for evaluation.

    Args:
        size: Side in pixels; None leaves images at the size they have.
    """

    size: int | None = 32

    def __post_init__(self) -> None:
        _check_size(self.size)

    def __call__(
        self, images: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Float[Tensor, "batch 1 rows columns"], Float[Tensor, "batch 2 rows columns"]]:
        """The two parts of the images; nothing is drawn from a generator."""
        del generator
        _check_images(images)
        with _exactly(images):
            return operators.split_lab(_resize(images, self.size))


def _draw_crops(recipe: SimCLRViews | CMCViews, dice: Float[Tensor, "batch dice"], height: int, width: int) -> Crops:
    r"""A box for each image: the first of ten that fits into it, or else the middle.

    A box has the area :math:`a H W`, a uniform in `scale`, and the aspect :math:`w / h = e^u`, u uniform between the
    logarithms of `ratio`; w and h are rounded. Where none of ten fits, it is the largest box in the middle of the
    image whose aspect is in range. All ten are drawn for all images: that is quicker than asking who needs another.
    """
    narrowest, widest = recipe.ratio
    low, high = math.log(narrowest), math.log(widest)
    areas = (recipe.scale[0] + (recipe.scale[1] - recipe.scale[0]) * dice[:, :TRIES]) * (height * width)
    aspects = torch.exp(low + (high - low) * dice[:, TRIES : 2 * TRIES])
    # The middle of the image stands as an eleventh try that always fits; argmax finds the first of several.
    middle = torch.tensor(
        [min(height, max(1, round(width / narrowest))), min(width, max(1, round(height * widest)))], dtype=torch.float64
    )
    tries = torch.stack([areas / aspects, areas * aspects], 2).sqrt_().round_()
    tries = torch.cat([tries, middle.expand(len(dice), 1, 2)], 1)
    extent = torch.tensor([height, width], dtype=torch.float64)
    first = ((tries > 0) & (tries <= extent)).all(2).int().argmax(1)
    sides = tries[torch.arange(len(dice)), first]
    free = extent - sides
    corner = torch.where((first < TRIES)[:, None], dice[:, 2 * TRIES : 2 * TRIES + 2] * (free + 1), free / 2).floor()
    (top, left), (tall, wide) = corner.long().unbind(1), sides.long().unbind(1)
    return Crops(top=top, left=left, height=tall, width=wide, flip=dice[:, 2 * TRIES + 2] < recipe.flip)


@contextmanager
def _exactly(images: Tensor) -> Iterator[None]:
    """Without a graph, and in full precision even where an encoder works in half: colours keep their digits."""
    with torch.no_grad(), full_precision(images.device):
        yield


def _uniform(generator: torch.Generator, *shape: int) -> Float[Tensor, "..."]:
    # In double precision: a float32 just below one, times a number of places, can round up to one place too many.
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def _crop(images: Tensor, crops: Crops, size: int) -> Float[Tensor, "batch 3 {size} {size}"]:
    return operators.resized_crop(images, crops.top, crops.left, crops.height, crops.width, size, flipped=crops.flip)


def _resize(images: Tensor, size: int | None) -> Float[Tensor, "batch 3 rows columns"]:
    """Whole images at a size, by as much as they have another."""
    batch, _, height, width = images.shape
    if size is None or size == height == width:
        return images.float().div_(255)
    none = torch.zeros(batch, dtype=torch.long)
    return operators.resized_crop(images, none, none, none + height, none + width, size)


def _check_images(images: Tensor) -> None:
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
        raise ValueError(
            f"images are what views are made of: expected uint8 of the shape [batch, 3, height, width], "
            f"got {images.dtype} of {list(images.shape)}"
        )


def _check_size(size: int | None) -> None:
    if size is not None and size < 1:
        raise ValueError(f"size is the side of a view in pixels: expected at least 1, got {size}")


def _check_chance(name: str, meaning: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is the chance that {meaning}: expected 0 to 1, got {value}")


def _check_std(std: tuple[float, ...]) -> None:
    if not all(value > 0 for value in std):
        raise ValueError(f"std is what channels are divided by: expected numbers above 0, got {std}")


def _check_crops(size: int, scale: tuple[float, float], ratio: tuple[float, float], flip: float) -> None:
    _check_size(size)
    if not 0 < scale[0] <= scale[1] <= 1:
        raise ValueError(
            f"scale is the range of a crop's share of the image: expected 0 < lowest <= highest <= 1, got {scale}"
        )
    if not 0 < ratio[0] <= ratio[1]:
        raise ValueError(
            f"ratio is the range of a crop's width over its height: expected 0 < lowest <= highest, got {ratio}"
        )
    _check_chance("flip", "a view is mirrored", flip)
