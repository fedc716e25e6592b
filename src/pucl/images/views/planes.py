"""Images as three planes, [3, batch, height, width]: the operators that views are made of, changing planes in place.

They are torchvision's, in floating point from 0 to 1: the same weights, borders and clamps, without a loop over images
and without rounding to 8 bits in between. `pucl.images.views.operators` works on images in their usual order of axes.

Red, green and blue apart are what makes them fast. Colour operators read one number of each plane and write one; with
the planes of all images one after the other these are long runs of memory, and a matrix for each image fits each of its
planes without a copy. How long a step takes is then a matter of how often planes are passed over, and whether they
stay in the cache meanwhile.

Parameters may be on the CPU while images are elsewhere. That is even the better way: what decides about the *shape* of
the work (how many images are blurred) is then known without waiting for the device.
"""

import math
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import torch

from pucl.shapes import Bool, Float, Int, Tensor

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)  # The columns of a jitter's factors, and the entries of its order.

LUMA = (0.2989, 0.587, 0.114)  # Shares of red, green and blue in grey: torchvision's digits of ITU-R 601.

CACHE = 3 * 2**19  # Bytes of planes that a core works on at once: more leave its cache, fewer are not worth the calls.
TABLE = 2**24  # Bytes up to which the matrices of all boxes in an image are kept.


def crop(
    images: Tensor,
    top: Int[Tensor, " batch"],
    left: Int[Tensor, " batch"],
    height: Int[Tensor, " batch"],
    width: Int[Tensor, " batch"],
    size: int,
    *,
    flipped: Bool[Tensor, " batch"] | None = None,
    antialias: bool = True,
) -> Float[Tensor, "3 batch {size} {size}"]:
    """The planes of boxes in images, as `pucl.images.views.operators.resized_crop` describes them."""
    floating = images.dtype if images.is_floating_point() else torch.float32
    batch, channels, tall, wide = images.shape
    planes = torch.empty(channels, batch, size, size, dtype=floating, device=images.device)
    to_the_left = _Resampling(top, height, tall, size, planes, antialias=antialias)
    # A matrix is smaller than an image: bytes become shares of 255 there.
    to_the_right = _Resampling(
        left,
        width,
        wide,
        size,
        planes,
        antialias=antialias,
        flipped=flipped,
        across=True,
        shares=floating != images.dtype,
    )
    for part in _pieces(batch, planes):
        rows, across = to_the_left[part], to_the_right[part]
        for plane, channel in zip(planes[:, part], images[part].unbind(1), strict=True):
            # Products of matrices that do not lie one after the other are slow.
            pixels = channel.to(floating, memory_format=torch.contiguous_format)
            torch.bmm(rows, torch.bmm(pixels, across), out=plane)
    return planes


def by_turn_of_hue(
    order: Int[Tensor, "batch 4"], which: Bool[Tensor, " batch"]
) -> tuple[Int[Tensor, " batch"], list[int]]:
    """Images sorted by when their hue is due (first, second, third or last), and how many there are of each.

    Those that are not jittered come last of all and are in no count.
    """
    due = torch.where(which, (order == HUE).int().argmax(1), 4)
    return due.argsort(stable=True), torch.bincount(due, minlength=5).tolist()[:4]


def jitter(
    planes: Float[Tensor, "3 batch height width"],
    factors: Float[Tensor, "batch 4"],
    order: Int[Tensor, "batch 4"],
    groups: list[int],
) -> None:
    """Jitter the colours of images that `by_turn_of_hue` has sorted.

    Brightness, contrast and saturation are one and the same affine map of colours with other coefficients, so images
    that are at different ones of the three take the step together. Hue is of another kind, and the hue of each group is
    turned between two steps of all. That is three steps and one turn for any mixture of the 24 orders, taken by as many
    images at once as the cache has room for.

    Args:
        planes: Of all images, those that are not jittered at the end.
        factors: Columns `BRIGHTNESS`, `CONTRAST`, `SATURATION` (1 changes nothing) and `HUE` (0 changes nothing).
        order: A permutation of these four column numbers for each image, the first to be applied first.
        groups: How many images there are whose hue is first, second, third and last.
    """
    jittered = sum(groups)
    factors, order = factors[:jittered], order[:jittered]
    steps = order[order != HUE].view(jittered, 3)
    factor = factors.gather(1, steps)
    share = 1 - factor
    coefficients = torch.stack([factor, share * (steps == SATURATION), share * (steps == CONTRAST)])
    coefficients = coefficients.permute(2, 0, 1)[..., None, None].to(planes)  # By step, coefficient and image.
    turns = factors[:, HUE]
    repeats, sixths = _in_sixths(turns, planes)
    ends = list(accumulate(groups))
    for part in _pieces(jittered, planes):
        piece = planes[:, part]
        for step, (group, end) in enumerate(zip(groups, ends, strict=True)):
            due = slice(max(part.start, end - group), min(part.stop, end))
            if due.start < due.stop:
                _turn_hue(planes[:, due], sixths[due], repeats)
            if step < 3:
                _mix(piece, *coefficients[step, :, part])


def greyscale(planes: Float[Tensor, "3 batch height width"], which: Bool[Tensor, " batch"]) -> None:
    """Replace red, green and blue of some images by their grey."""
    chosen = indices(which, planes)
    red, green, blue = (plane.index_select(0, chosen) for plane in planes)
    grey = red.mul_(LUMA[0]).add_(green, alpha=LUMA[1]).add_(blue, alpha=LUMA[2])
    for plane in planes:
        plane.index_copy_(0, chosen, grey)


def blur(
    planes: Float[Tensor, "3 batch height width"],
    sigma: Float[Tensor, " batch"],
    kernel: int,
    which: Bool[Tensor, " batch"],
) -> None:
    r"""Convolve some images with a Gaussian, cut off at ``kernel`` pixels and made to sum to one.

    Rows and columns are blurred by a matrix each, :math:`B = \sum_k g_k S_k` with weights
    :math:`g_k \propto e^{-k^2 / 2\sigma^2}` and shifts :math:`S_k` that reflect at the border: ``dcb|abcd|cba``.

    Args:
        planes: Of any range.
        sigma: Width of each image's Gaussian in pixels, above 0; ignored where ``which`` is False.
        kernel: Side of the window, odd; at most ``2 * side - 1`` of the images.
        which: Images that are blurred.
    """
    height, width = planes.shape[2:]
    if kernel < 1 or kernel % 2 == 0 or kernel // 2 >= min(height, width):
        raise ValueError(
            f"kernel is the side of the window that is averaged: expected an odd number from 1 up to "
            f"{2 * min(height, width) - 1} for images of {height} x {width}, got {kernel}"
        )
    chosen = indices(which, planes)
    spread = sigma.to(planes).index_select(0, chosen)
    offsets = torch.arange(kernel, device=planes.device) - kernel // 2
    weights = torch.softmax(-0.5 * (offsets / spread[:, None]) ** 2, dim=1)  # Gaussian, and summing to one.
    rows = (weights @ _shifts(height, kernel).to(planes)).view(-1, height, height)
    across = (weights @ _shifts(width, kernel, across=True).to(planes)).view(-1, width, width)
    for plane in planes:
        narrowed = torch.bmm(plane.index_select(0, chosen), across)
        plane.index_copy_(0, chosen, torch.bmm(rows, narrowed))


def as_images(
    planes: Float[Tensor, "3 batch height width"], order: Int[Tensor, " chosen"] | None = None
) -> Float[Tensor, "chosen 3 height width"]:
    """Images in their usual order of axes; some of them, or all in another order, if asked for."""
    batch, (height, width) = planes.shape[1], planes.shape[2:]
    order = torch.arange(batch) if order is None else order
    rows = (order[:, None] + batch * torch.arange(3)).flatten()  # A plane of an image is one run of memory.
    return planes.view(-1, height, width).index_select(0, rows.to(planes.device)).view(-1, 3, height, width)


def indices(which: Bool[Tensor, " batch"], like: Tensor) -> Int[Tensor, " chosen"]:
    """Where a mask is set, on the device of something else."""
    return which.nonzero()[:, 0].to(like.device)


def _mix(
    planes: Float[Tensor, "3 batch height width"],
    factor: Float[Tensor, "batch 1 1"],
    grey_share: Float[Tensor, "batch 1 1"],
    mean_share: Float[Tensor, "batch 1 1"],
) -> None:
    """Brightness, contrast or saturation in place, whichever each image is to have.

    All three mix an image with something: ``clamp(f x + a grey + b mean(grey))`` with a = b = 0 for brightness (black),
    b = 1 - f for contrast, a = 1 - f for saturation.
    """
    # One product instead of three passes.
    grey = torch.mm(constants((LUMA,), planes), planes.flatten(1)).view(planes.shape[1:])
    level = grey.mean((1, 2), keepdim=True).mul_(mean_share)
    grey.mul_(grey_share).add_(level)
    torch.addcmul(grey, planes, factor, out=planes).clamp_(0, 1)


def _in_sixths(turns: Float[Tensor, " batch"], planes: Tensor) -> tuple[int, Float[Tensor, "batch 1 1"]]:
    """Turns as a number of equal moves for all images, each at most from one corner of the hexagon to the next."""
    sixths = 6 * (turns - turns.round())  # Three at most.
    repeats = max(1, math.ceil(float(sixths.abs().max()))) if len(turns) else 1
    return repeats, (sixths / repeats).to(planes)[:, None, None]


def _turn_hue(
    planes: Float[Tensor, "3 batch height width"], sixths: Float[Tensor, "batch 1 1"], repeats: int = 1
) -> None:
    r"""Turn hues in place, ``repeats`` times by at most a sixth of the full circle.

    On the hexagon of hues, with M, m the largest and smallest of r, g, b, d the middle one and C = M - m, the channel c
    of a pixel whose hue is h sixths away from it is :math:`m + C\,\mathrm{clamp}(2 - |h|, 0, 1)`. Before the clamp that
    is :math:`2c - d`, as one finds in each of the six sectors. A turn by s changes it by :math:`\mp s C`, the sign
    depending on the side of c that the hue is on: for red, on that of green - blue. At c and opposite to it, where the
    side changes, the clamp is in force as long as :math:`|s| \le 1`. So

    .. math:: c \leftarrow \mathrm{clamp}(2c - d - s\,C\,\mathrm{sign}(c' - c''), m, M),

    with the two channels c', c'' that follow c around the circle. Nothing is divided, grey needs no care, and a turn by
    zero changes no bit.
    """
    red, green, blue = planes
    for _ in range(repeats):
        low, high = torch.minimum(red, green), torch.maximum(red, green)
        middle = torch.minimum(high, blue)
        torch.maximum(middle, low, out=middle)
        torch.minimum(low, blue, out=low)
        torch.maximum(high, blue, out=high)
        move = (low - high).mul_(sixths)
        side = torch.empty_like(planes, memory_format=torch.contiguous_format)
        for after, next_after, plane in ((green, blue, side[0]), (blue, red, side[1]), (red, green, side[2])):
            torch.sub(after, next_after, out=plane)
        torch.add(middle.neg_(), planes, alpha=2, out=planes)
        planes.addcmul_(side.sign_(), move)
        torch.clamp(planes, low, high, out=planes)


def _pieces(images: int, planes: Tensor) -> list[slice]:
    """Images, as many at once as stay in the caches of all cores; on other devices all of them."""
    if planes.device.type != "cpu":
        return [slice(0, images)] if images else []
    image = 3 * planes.shape[2] * planes.shape[3] * planes.element_size()
    most = max(1, CACHE * torch.get_num_threads() // image)
    return [slice(first, min(first + most, images)) for first in range(0, images, most)]


class _Resampling:
    """The matrix of each image that takes an axis of ``extent`` pixels to ``size`` pixels of a box on it.

    It stands to the left of an image, [size, extent], or with ``across`` to its right, [extent, size]. Small images
    have so few boxes that the matrices of all of them are kept, and looked up.

    Args:
        start: First pixel of each box.
        length: Pixels of each box.
        extent: Pixels of the axis.
        size: Pixels of the result.
        like: Of the type and on the device that the matrices are to have.
        antialias: Whether shrinking averages all pixels that it covers.
        flipped: Which results are mirrored.
        across: To the right of an image.
        shares: Divide by 255.
    """

    def __init__(
        self,
        start: Int[Tensor, " batch"],
        length: Int[Tensor, " batch"],
        extent: int,
        size: int,
        like: Tensor,
        *,
        antialias: bool,
        flipped: Bool[Tensor, " batch"] | None = None,
        across: bool = False,
        shares: bool = False,
    ) -> None:
        self.axis = _Axis(extent, size, antialias, across, shares)
        self.like = like
        self.boxes = start, length, flipped
        self.table = None
        count = extent * (extent + 1) // 2
        if count * extent * size * like.element_size() <= TABLE:
            self.table = _table(self.axis, like.dtype, like.device)
            end = start + length
            numbers = end * (end - 1) // 2 + start
            self.numbers = (numbers if flipped is None else numbers + count * flipped).to(like.device)

    def __getitem__(self, part: slice) -> Float[Tensor, "batch to from"]:
        if self.table is not None:
            return self.table.index_select(0, self.numbers[part])
        start, length, flipped = self.boxes
        return _weights(self.axis, start[part], length[part], None if flipped is None else flipped[part], self.like)


class _Axis(NamedTuple):
    """What the matrices of all boxes on an axis have in common; `_Resampling` says what it means."""

    extent: int
    size: int
    antialias: bool
    across: bool
    shares: bool


@lru_cache(maxsize=16)
def _table(axis: _Axis, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "boxes to from"]:
    """The matrices of all boxes, by their end and then by their start, and then all again as mirror images."""
    end = torch.repeat_interleave(torch.arange(1, axis.extent + 1), torch.arange(1, axis.extent + 1))
    start = torch.arange(len(end)) - end * (end - 1) // 2
    flipped = torch.arange(2 * len(end)) >= len(end)
    like = torch.empty(0, dtype=dtype, device=device)
    return _weights(axis, start.repeat(2), (end - start).repeat(2), flipped, like)


def _weights(
    axis: _Axis,
    start: Int[Tensor, " batch"],
    length: Int[Tensor, " batch"],
    flipped: Bool[Tensor, " batch"] | None,
    like: Tensor,
) -> Float[Tensor, "batch to from"]:
    """The matrices of some boxes, by the formula in `pucl.images.views.operators.resized_crop`."""
    first, pixels = start.to(like)[:, None], length.to(like)[:, None]
    place = torch.arange(axis.size, device=like.device, dtype=like.dtype) + 0.5
    if flipped is not None:
        place = torch.where(flipped.to(like.device)[:, None], axis.size - place, place)
    centre = place * (pixels / axis.size)
    position = torch.arange(axis.extent, device=like.device, dtype=like.dtype) + 0.5 - first
    # Infinitely far away, a pixel outside the box weighs nothing: cheaper than a mask over the matrix.
    position = torch.where((position > 0) & (position < pixels), position, torch.inf)
    if shrinking := axis.antialias and axis.extent > axis.size:
        reach = (pixels / axis.size).clamp_min(1)
        position, centre = position / reach, centre / reach
    else:
        # Beyond the middle of its last pixel a box goes on as it is there; then all rows sum to one by themselves.
        centre = torch.minimum(centre.clamp_min(0.5), pixels - 0.5)
    weights = position[:, :, None] - centre[:, None, :] if axis.across else position[:, None, :] - centre[:, :, None]
    torch.sub(like.new_ones(()), weights.abs_(), out=weights).clamp_min_(0)
    if shrinking:
        weights.div_(weights.sum(1 if axis.across else 2, keepdim=True))
    return weights.div_(255) if axis.shares else weights


def constants(values: tuple[float, ...] | tuple[tuple[float, ...], ...], like: Tensor) -> Tensor:
    """These numbers as a tensor like another, to be read only: making it takes longer than a small product."""
    return _cached_constants(values, like.dtype, like.device)


@lru_cache(maxsize=64)
def _cached_constants(
    values: tuple[float, ...] | tuple[tuple[float, ...], ...], dtype: torch.dtype, device: torch.device
) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=device)


@lru_cache(maxsize=16)
def _shifts(side: int, kernel: int, *, across: bool = False) -> Float[Tensor, "{kernel} {side}*{side}"]:
    """For each tap of a kernel the matrix, or its transpose, that shifts an axis by it and reflects at both ends."""
    taps = torch.arange(kernel)[:, None] - kernel // 2
    source = (torch.arange(side) + taps).abs()
    source = (side - 1) - ((side - 1) - source).abs()
    matrices = torch.nn.functional.one_hot(source, side).float()
    return (matrices.transpose(1, 2) if across else matrices).flatten(1)
