"""Augmentations: what is done to an image before the encoder sees it, and with which probabilities.

An augmentation has frozen settings. `draw` makes all random choices, on the CPU, so that a seed gives the same views
on every device. `apply` makes the views of a whole batch from these choices, in full precision even if the encoder uses
half: colours need the digits. Calling an augmentation does both:

>>> generator = torch.Generator().manual_seed(0)
>>> images = torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8)
>>> views = [SimCLRViews()(images, generator) for _ in range(2)]
>>> views[0].shape
torch.Size([4, 3, 32, 32])
"""

import math
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch

from pucl.images.views import operators, planes
from pucl.images.views.planes import Crops
from pucl.precision import full_precision
from pucl.shapes import Bool, Float, Int, Tensor
from pucl.training.framework import Batch

# The settings of the SimCLR, DCL and HCL programs for images of 32 x 32 pixels.
RATIO = (3 / 4, 4 / 3)  # Range of a box's width over its height, uniform in the logarithm.
# Largest change of brightness, contrast and saturation (1 +- 0.4), and of hue (in turns).
JITTER = (0.4, 0.4, 0.4, 0.1)
JITTERED, GREY = 0.8, 0.2  # Probabilities that a view is jittered, and that it becomes grey.
SIGMA = (0.1, 2.0)  # Range of the blur, in pixels.
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)  # Of red, green and blue in CIFAR10.

TRIES = 10  # Boxes that are drawn before the middle of the image is taken.
CROP_NUMBERS = 2 * TRIES + 3  # Random numbers for a crop: area and aspect of each box, a position (2), and the mirror.

_Boxes = TypeVar("_Boxes", bound="RandomBoxes")

LightAndColour = tuple[
    Float[Tensor, "batch 1 {self.size} {self.size}"], Float[Tensor, "batch 2 {self.size} {self.size}"]
]


def half_of(size: int) -> int:
    """Half of a side in pixels, rounded up."""
    return (size + 1) // 2


@dataclass(frozen=True, kw_only=True)
class Parameters(Crops):
    """All random choices for SimCLR's views of a batch: boxes, mirrors and the following. Always on the CPU.

    Args:
        jitter: Whether colours are jittered.
        factors: Brightness, contrast, saturation (1 changes nothing) and hue (in turns, 0 changes nothing).
        order: In which order these four come, as their column numbers.
        greyscale: Whether colours are dropped.
        blur: Whether the view is blurred.
        sigma: By how much, in pixels.
    """

    jitter: Bool[Tensor, " batch"]
    factors: Float[Tensor, "batch 4"]
    order: Int[Tensor, "batch 4"]
    greyscale: Bool[Tensor, " batch"]
    blur: Bool[Tensor, " batch"]
    sigma: Float[Tensor, " batch"]


@dataclass(frozen=True, kw_only=True)
class RandomBoxes:
    """What all augmentations share: a view is a random box of the image, which may be mirrored.

    Args:
        size: Side of a view in pixels.
        crop: Smallest area of a box as a share of the image's area, 0 < crop <= 1.
        flip: Probability that a view is mirrored.
        coarse: Share of a training, from its start, whose views have half the side; see `during`.

    Shapes:
        uint8 images [batch, 3, height, width], which are not changed, to float32 views.
    """

    size: int = 32
    crop: float = 0.08
    flip: float = 0.5
    coarse: float = 0.0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size is the side of a view in pixels: expected at least 1, got {self.size}")
        if not 0 < self.crop <= 1:
            raise ValueError(
                f"crop is the smallest share of an image that a view shows: expected 0 < crop <= 1, got {self.crop}"
            )
        _check_probability("flip", "a view is mirrored", self.flip)
        if not 0 <= self.coarse <= 1:
            raise ValueError(
                f"coarse is the share of a training whose views have half the side: expected 0 to 1, got {self.coarse}"
            )

    def during(self: _Boxes, progress: float) -> _Boxes:
        """The views at this point of a training, a share of it: smaller ones at first.

        Small ones take about a third of the time. What an encoder learns from them serves for larger ones.
        """
        return replace(self, size=half_of(self.size)) if progress < self.coarse else self

    def draw(self, count: int, generator: torch.Generator, height: int, width: int) -> Crops:
        """Make the random choices for a batch.

        Args:
            count: Number of images.
            generator: A generator of the CPU. It advances by the same amount for every batch of this size.
            height: Rows of the images.
            width: Columns of the images.
        """
        return Crops(**self._boxes(_uniform(generator, count, CROP_NUMBERS), height, width))

    def apply(self, images: Tensor, drawn: Any) -> Any:
        """Make the views that were drawn."""
        raise NotImplementedError

    def see(self, batch: Batch[Tensor]) -> Any:
        """Make a view of each image of a step; see `pucl.modality.Views`."""
        views = self.during(batch.progress)
        drawn = views.draw(batch.whole, batch.generator, *batch.samples.shape[2:])
        return views.apply(batch.samples, drawn[batch.part])

    def __call__(self, images: Tensor, generator: torch.Generator) -> Any:
        """Make a view of each image."""
        _check_images(images)
        return self.apply(images, self.draw(len(images), generator, *images.shape[2:]))

    def _boxes(self, numbers: Float[Tensor, "batch number"], height: int, width: int) -> dict[str, Tensor]:
        r"""Choose a box in each image: the first of ten that fits into it, or else the middle of the image.

        A box has the area :math:`a H W`, with a uniform from `crop` to 1, and the aspect :math:`w / h = e^u`, with u
        uniform between the logarithms of `RATIO`; w and h are rounded. If none of ten fits, it is the largest box in
        the middle of the image whose aspect is in range. All ten are drawn for every image, which is faster than to
        find out which images need another one.
        """
        narrowest, widest = RATIO
        low, high = math.log(narrowest), math.log(widest)
        areas = (self.crop + (1 - self.crop) * numbers[:, :TRIES]) * (height * width)
        aspects = torch.exp(low + (high - low) * numbers[:, TRIES : 2 * TRIES])
        # The middle of the image is an eleventh box that always fits; argmax finds the first box that fits.
        middle = torch.tensor(
            [min(height, max(1, round(width / narrowest))), min(width, max(1, round(height * widest)))],
            dtype=torch.float64,
        )
        tries = torch.stack([areas / aspects, areas * aspects], 2).sqrt_().round_()
        tries = torch.cat([tries, middle.expand(len(numbers), 1, 2)], 1)
        extent = torch.tensor([height, width], dtype=torch.float64)
        first = ((tries > 0) & (tries <= extent)).all(2).int().argmax(1)
        sides = tries[torch.arange(len(numbers)), first]
        free = extent - sides
        anywhere = numbers[:, 2 * TRIES : 2 * TRIES + 2] * (free + 1)
        corner = torch.where((first < TRIES)[:, None], anywhere, free / 2).floor()
        (top, left), (tall, wide) = corner.long().unbind(1), sides.long().unbind(1)
        flip = numbers[:, 2 * TRIES + 2] < self.flip
        return {"top": top, "left": left, "height": tall, "width": wide, "flip": flip}


@dataclass(frozen=True, kw_only=True)
class SimCLRViews(RandomBoxes):
    """SimCLR's views: a random box of the image, and at random mirrored, with changed colours, in grey, or blurred.

    The window of the blur is a tenth of the size, rounded down to a whole number and made odd. Sizes below 20 are not
    blurred (a window of 1).

    Args:
        blur: Probability that a view is blurred.
        mean: Of red, green and blue, from 0 to 1; views are normalised by it.
        std: Their standard deviations.

    References:
        Chen et al., A Simple Framework for Contrastive Learning of Visual Representations (arXiv 2002.05709).
    """

    blur: float = 0.5
    mean: tuple[float, float, float] = MEAN
    std: tuple[float, float, float] = STD

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_probability("blur", "a view is blurred", self.blur)

    @property
    def kernel(self) -> int:
        """Side of the blur's window in pixels: a tenth of the size, made odd."""
        return int(0.1 * self.size) | 1

    def plain(self, images: Tensor) -> Float[Tensor, "batch 3 {self.size} {self.size}"]:
        """Prepare whole images without random choices, for evaluation."""
        with torch.no_grad(), full_precision(images.device):
            (prepared,) = self.colours(_resize(images, self.size))
            return prepared

    def colours(self, images: Float[Tensor, "batch 3 height width"]) -> tuple[Float[Tensor, "batch 3 height width"]]:
        """Normalise images from 0 to 1, in place."""
        return (operators.normalise(images, self.mean, self.std),)

    def about(self) -> dict[str, Any]:
        """How images are prepared for the encoder; saved with its weights."""
        return {"colours": "RGB in 0..1", "mean": list(self.mean), "std": list(self.std)}

    def draw(self, count: int, generator: torch.Generator, height: int, width: int) -> Parameters:
        """Make the random choices for a batch; see `RandomBoxes.draw`."""
        numbers = _uniform(generator, count, CROP_NUMBERS + 12)
        for_boxes, for_chances, for_factors, for_order, for_sigma = numbers.split([CROP_NUMBERS, 3, 4, 4, 1], dim=1)
        jitter, greyscale, blur = (for_chances < torch.tensor([JITTERED, GREY, self.blur])).unbind(1)
        neutral, strength = torch.tensor([1.0, 1.0, 1.0, 0.0]), torch.tensor(JITTER)
        return Parameters(
            **self._boxes(for_boxes, height, width),
            jitter=jitter,
            factors=(neutral + strength * (2 * for_factors - 1)).float(),
            order=for_order.argsort(1),
            greyscale=greyscale,
            blur=blur,
            sigma=(SIGMA[0] + (SIGMA[1] - SIGMA[0]) * for_sigma[:, 0]).float(),
        )

    def apply(self, images: Tensor, drawn: Parameters) -> Float[Tensor, "batch 3 {self.size} {self.size}"]:
        """Make the views that were drawn."""
        with torch.no_grad(), full_precision(images.device):
            # Sort images for the jitter while they are bytes: moving floats would take four times as long.
            sequence, groups = planes.by_turn_of_hue(drawn.order, drawn.jitter)
            drawn = drawn[sequence]
            colours = planes.crop(images.index_select(0, sequence.to(images.device)), drawn, self.size)
            planes.jitter(colours, drawn.factors, drawn.order, groups)
            planes.greyscale(colours, drawn.greyscale)
            if self.kernel > 1:
                planes.blur(colours, drawn.sigma, self.kernel, drawn.blur)
            return operators.normalise(planes.as_images(colours, sequence.argsort()), self.mean, self.std)


@dataclass(frozen=True, kw_only=True)
class CMCViews(RandomBoxes):
    """CMC's views: the lightness and the colour of *one* random box of the image.

    Shapes:
        uint8 images [batch, 3, height, width] to float32 L [batch, 1, size, size] and ab [batch, 2, size, size].

    References:
        Tian et al., Contrastive Multiview Coding (arXiv 1906.05849).
    """

    crop: float = 0.2

    def plain(self, images: Tensor) -> LightAndColour:
        """Prepare lightness and colour of whole images, for evaluation."""
        with torch.no_grad(), full_precision(images.device):
            return self.colours(_resize(images, self.size))

    def colours(self, images: Float[Tensor, "batch 3 {self.size} {self.size}"]) -> LightAndColour:
        """Split images from 0 to 1 into lightness and colour."""
        return operators.split_lab(images)

    def about(self) -> dict[str, Any]:
        """How images are prepared for the encoder; saved with its weights."""
        colours = "CIELAB: L to encoders.0, a and b to encoders.1"
        return {"colours": colours, "mean": list(operators.LAB_MEAN), "std": list(operators.LAB_STD)}

    def apply(self, images: Tensor, drawn: Crops) -> LightAndColour:
        """Make the views that were drawn."""
        with torch.no_grad(), full_precision(images.device):
            return operators.split_lab(planes.as_images(planes.crop(images, drawn, self.size)))


def _uniform(generator: torch.Generator, *shape: int) -> Float[Tensor, "..."]:
    # In double precision: a float32 just below 1, times a number of positions, can round up to one position too many.
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def _resize(images: Tensor, size: int) -> Float[Tensor, "batch 3 {size} {size}"]:
    """Scale whole images to a size."""
    _check_images(images)
    batch, _, height, width = images.shape
    if size == height == width:
        return images.float().div_(255)
    none = torch.zeros(batch, dtype=torch.long)
    whole = Crops(top=none, left=none, height=none + height, width=none + width, flip=none.bool())
    return planes.as_images(planes.crop(images, whole, size))


def _check_images(images: Tensor) -> None:
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
        raise ValueError(
            f"views are made of images: expected uint8 of the shape [batch, 3, height, width], "
            f"got {images.dtype} of {list(images.shape)}"
        )


def _check_probability(name: str, meaning: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is the probability that {meaning}: expected 0 to 1, got {value}")
