"""Operators on images as three planes, [3, batch, height, width]: crop, colour jitter, greyscale and blur.

They compute what torchvision computes, in floats from 0 to 1: with the same weights, borders and clamps, but without a
loop over images and without rounding to 8 bits in between. All but `crop` change planes in place.

The order of axes makes them fast. Colour operators read and write one number of each plane; here these are long runs
of memory. The matrices of crop and blur apply to each plane without a copy. The time of a step then depends on how
often the planes are read, and on whether they stay in the cache.

Parameters should be on the CPU, even if images are on another device: the number of images to blur, for example, is
then known without waiting for that device.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import torch

from pucl.shapes import Bool, Float, Int, Tensor

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)  # The columns of a jitter's factors, and the entries of its order.

LUMA = (0.2989, 0.587, 0.114)  # Shares of red, green and blue in grey, with torchvision's digits of ITU-R 601.

CACHE = 3 * 2**19  # Bytes of planes per core and call: more do not fit into its cache, fewer need too many calls.
TABLE = 2**24  # Largest table of the matrices of all boxes, in bytes.


@dataclass(frozen=True, kw_only=True)
class Crops:
    """A box in each image, and whether the view is mirrored. Always on the CPU.

    A part of it, ``crops[8:16]``, belongs to that part of the images: processes that share a batch draw for the whole
    of it and apply their own part.

    Args:
        top: First row of each box.
        left: First column.
        height: Rows, at least 1. The box lies inside the image.
        width: Columns, at least 1.
        flip: Whether the view is mirrored left to right.
    """

    top: Int[Tensor, " batch"]
    left: Int[Tensor, " batch"]
    height: Int[Tensor, " batch"]
    width: Int[Tensor, " batch"]
    flip: Bool[Tensor, " batch"]

    def __getitem__(self, part: slice | Tensor) -> Any:
        return type(self)(**{field.name: getattr(self, field.name)[part] for field in fields(self)})


def crop(images: Tensor, crops: Crops, size: int) -> Float[Tensor, "3 batch {size} {size}"]:
    r"""Cut a box out of each image and resize it to a square.

    Bilinear interpolation is separable and linear, so crop, resize and flip are two matrices for each image:

    .. math:: \mathrm{out} = R\, x\, C^\top, \qquad R_{ij} \propto \max(0,\; 1 - |j + 1/2 - c_i| / r),

    where h is the height of the box and s the size of the result. Row i of the result has its centre at
    :math:`c_i = \mathrm{top} + (i + 1/2)\,h/s` and the radius :math:`r = \max(1, h/s)` in pixels: when a box becomes
    smaller, all covered pixels are averaged, as in PIL. Pixels outside the box have weight 0, and each row of weights
    sums to 1.

    Args:
        images: [batch, 3, height, width], from 0 to 1; or bytes, which are divided by 255.
        crops: The boxes.
        size: Side of the result in pixels.
    """
    floating = images.dtype if images.is_floating_point() else torch.float32
    batch, channels, tall, wide = images.shape
    planes = torch.empty(channels, batch, size, size, dtype=floating, device=images.device)
    down = _Axis(extent=tall, size=size, across=False, shares=False)
    # Bytes are divided by 255 in the matrix, since it is smaller than an image.
    across = _Axis(extent=wide, size=size, across=True, shares=floating != images.dtype)
    rows_of = _resampling(down, crops.top, crops.height, torch.zeros_like(crops.flip), planes)
    columns_of = _resampling(across, crops.left, crops.width, crops.flip, planes)
    for part in _pieces(batch, planes):
        rows, columns = rows_of(part), columns_of(part)
        for plane, channel in zip(planes[:, part], images[part].unbind(1), strict=True):
            # Products of matrices that are not contiguous are slow.
            pixels = channel.to(floating, memory_format=torch.contiguous_format)
            torch.bmm(rows, torch.bmm(pixels, columns), out=plane)
    return planes


def by_turn_of_hue(
    order: Int[Tensor, "batch 4"], which: Bool[Tensor, " batch"]
) -> tuple[Int[Tensor, " batch"], list[int]]:
    """Sort images by the position of hue in their order of operators.

    Returns:
        Indices that sort the images, those without jitter at the end; and the number of images whose hue is first,
        second, third and last.
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

    Brightness, contrast and saturation are the same affine map of colours with different coefficients, so all images
    take such a step together, each with its own operator. Hue is another kind of map: each group of images turns its
    hue between two of these steps. Any mixture of the 24 orders thus takes three steps and one turn. Each call works on
    as many images as fit into the cache.

    Args:
        planes: The planes of all images; those without jitter are at the end.
        factors: Columns `BRIGHTNESS`, `CONTRAST`, `SATURATION` (1 changes nothing) and `HUE` (in turns of the circle, 0
            changes nothing, at most 1/6).
        order: A permutation of these four column numbers for each image, the first to be applied first.
        groups: Number of images whose hue is first, second, third and last.
    """
    jittered = sum(groups)
    factors, order = factors[:jittered], order[:jittered]
    steps = order[order != HUE].view(jittered, 3)
    factor = factors.gather(1, steps)
    share = 1 - factor
    coefficients = torch.stack([factor, share * (steps == SATURATION), share * (steps == CONTRAST)])
    coefficients = coefficients.permute(2, 0, 1)[..., None, None].to(planes)  # By step, coefficient and image.
    sixths = (6 * factors[:, HUE]).to(planes)[:, None, None]
    ends = list(accumulate(groups))
    for part in _pieces(jittered, planes):
        piece = planes[:, part]
        for step, (group, end) in enumerate(zip(groups, ends, strict=True)):
            due = slice(max(part.start, end - group), min(part.stop, end))
            if due.start < due.stop:
                _turn_hue(planes[:, due], sixths[due])
            if step < 3:
                _mix(piece, *coefficients[step, :, part])


def greyscale(planes: Float[Tensor, "3 batch height width"], which: Bool[Tensor, " batch"]) -> None:
    """Replace red, green and blue of some images by their grey."""
    chosen = which.nonzero()[:, 0].to(planes.device)
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
    r"""Convolve some images with a Gaussian of ``kernel`` x ``kernel`` pixels whose weights sum to 1.

    Rows and columns are each blurred by a matrix, :math:`B = \sum_k g_k S_k` with weights
    :math:`g_k \propto e^{-k^2 / 2\sigma^2}` and shifts :math:`S_k` that reflect at the border: ``dcb|abcd|cba``.

    Args:
        planes: Values of any range.
        sigma: Width of each image's Gaussian in pixels, above 0; ignored if ``which`` is False.
        kernel: Side of the window in pixels, odd; at most ``2 * side - 1`` of the images.
        which: Images to blur.
    """
    height, width = planes.shape[2:]
    chosen = which.nonzero()[:, 0].to(planes.device)
    spread = sigma.to(planes).index_select(0, chosen)
    offsets = torch.arange(kernel, device=planes.device) - kernel // 2
    weights = torch.softmax(-0.5 * (offsets / spread[:, None]) ** 2, dim=1)  # A Gaussian that sums to 1.
    rows = (weights @ _shifts(height, kernel).to(planes)).view(-1, height, height)
    across = (weights @ _shifts(width, kernel, across=True).to(planes)).view(-1, width, width)
    for plane in planes:
        narrowed = torch.bmm(plane.index_select(0, chosen), across)
        plane.index_copy_(0, chosen, torch.bmm(rows, narrowed))


def as_images(
    planes: Float[Tensor, "3 batch height width"], order: Int[Tensor, " chosen"] | None = None
) -> Float[Tensor, "chosen 3 height width"]:
    """Convert planes to images [batch, 3, height, width], in this order; default: the order of the planes."""
    batch, (height, width) = planes.shape[1], planes.shape[2:]
    order = torch.arange(batch) if order is None else order
    rows = (order[:, None] + batch * torch.arange(3)).flatten()  # Each plane of an image is contiguous.
    return planes.view(-1, height, width).index_select(0, rows.to(planes.device)).view(-1, 3, height, width)


def _mix(
    planes: Float[Tensor, "3 batch height width"],
    factor: Float[Tensor, "batch 1 1"],
    grey_share: Float[Tensor, "batch 1 1"],
    mean_share: Float[Tensor, "batch 1 1"],
) -> None:
    """Change brightness, contrast or saturation in place, one of them for each image.

    All three are ``clamp(f x + a grey + b mean(grey))``: with a = b = 0 for brightness, b = 1 - f for contrast and
    a = 1 - f for saturation.
    """
    # One product reads the planes once, not three times.
    grey = torch.mm(constants((LUMA,), planes.dtype, planes.device), planes.flatten(1)).view(planes.shape[1:])
    level = grey.mean((1, 2), keepdim=True).mul_(mean_share)
    grey.mul_(grey_share).add_(level)
    torch.addcmul(grey, planes, factor, out=planes).clamp_(0, 1)


def _turn_hue(planes: Float[Tensor, "3 batch height width"], sixths: Float[Tensor, "batch 1 1"]) -> None:
    r"""Turn hues in place, by at most a sixth of the full circle.

    Let M and m be the largest and smallest of r, g and b, d the middle one, and C = M - m. On the hexagon of hues, the
    channel c of a pixel whose hue is h sixths away from c is :math:`m + C\,\mathrm{clamp}(2 - |h|, 0, 1)`. Before the
    clamp this is :math:`2c - d`, in each of the six sectors. A turn by s sixths changes it by :math:`\mp s C`. The sign
    depends on the side of c on which the hue is: for red, it is the sign of green - blue. The side changes at c and
    opposite to c; there the clamp is in force if :math:`|s| \le 1`. So

    .. math:: c \leftarrow \mathrm{clamp}(2c - d - s\,C\,\mathrm{sign}(c' - c''), m, M),

    with the two channels c', c'' that follow c around the circle. There is no division, so grey needs no special case,
    and a turn by zero changes no bit.
    """
    red, green, blue = planes
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
    """Split images into slices that fit into the caches of all cores; on other devices one slice."""
    if planes.device.type != "cpu":
        return [slice(0, images)] if images else []
    image = 3 * planes.shape[2] * planes.shape[3] * planes.element_size()
    most = max(1, CACHE * torch.get_num_threads() // image)
    return [slice(first, min(first + most, images)) for first in range(0, images, most)]


class _Axis(NamedTuple):
    """What the matrices of all boxes on an axis share.

    Args:
        extent: Pixels of the axis.
        size: Pixels of the result.
        across: Whether they are multiplied from the right, [extent, size]; otherwise from the left, [size, extent].
        shares: Whether they divide by 255.
    """

    extent: int
    size: int
    across: bool
    shares: bool


def _resampling(
    axis: _Axis,
    start: Int[Tensor, " batch"],
    length: Int[Tensor, " batch"],
    flipped: Bool[Tensor, " batch"],
    like: Tensor,
) -> Callable[[slice], Tensor]:
    """Return a function that makes the matrices of some of the images, for boxes on one axis.

    Small images have so few possible boxes that the matrices of all of them are kept in a table. Boxes are given by
    their first pixel and their length. The matrices have the type and device of ``like``.
    """
    boxes = axis.extent * (axis.extent + 1) // 2
    if boxes * axis.extent * axis.size * like.element_size() > TABLE:
        return lambda part: _weights(axis, start[part], length[part], flipped[part], like)
    table = _table(axis, like.dtype, like.device)
    end = start + length
    numbers = (end * (end - 1) // 2 + start + boxes * flipped).to(like.device)
    return lambda part: table.index_select(0, numbers[part])


@lru_cache(maxsize=16)
def _table(axis: _Axis, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "boxes to from"]:
    """The matrices of all boxes, sorted by end and then by start; after them the same for mirrored results."""
    end = torch.repeat_interleave(torch.arange(1, axis.extent + 1), torch.arange(1, axis.extent + 1))
    start = torch.arange(len(end)) - end * (end - 1) // 2
    flipped = torch.arange(2 * len(end)) >= len(end)
    like = torch.empty(0, dtype=dtype, device=device)
    return _weights(axis, start.repeat(2), (end - start).repeat(2), flipped, like)


def _weights(
    axis: _Axis,
    start: Int[Tensor, " batch"],
    length: Int[Tensor, " batch"],
    flipped: Bool[Tensor, " batch"],
    like: Tensor,
) -> Float[Tensor, "batch to from"]:
    """Compute the matrices of boxes by the formula in `crop`."""
    first, pixels = start.to(like)[:, None], length.to(like)[:, None]
    target = torch.arange(axis.size, device=like.device, dtype=like.dtype) + 0.5
    target = torch.where(flipped.to(like.device)[:, None], axis.size - target, target)
    centre = target * (pixels / axis.size)
    position = torch.arange(axis.extent, device=like.device, dtype=like.dtype) + 0.5 - first
    # A pixel at infinity has weight 0: this is cheaper than a mask over the matrix.
    position = torch.where((position > 0) & (position < pixels), position, torch.inf)
    if shrinking := axis.extent > axis.size:
        reach = (pixels / axis.size).clamp_min(1)
        position, centre = position / reach, centre / reach
    else:
        # Beyond the middle of its last pixel a box repeats that pixel; then each row sums to 1 by itself.
        centre = torch.minimum(centre.clamp_min(0.5), pixels - 0.5)
    weights = position[:, :, None] - centre[:, None, :] if axis.across else position[:, None, :] - centre[:, :, None]
    torch.sub(like.new_ones(()), weights.abs_(), out=weights).clamp_min_(0)
    if shrinking:
        weights.div_(weights.sum(1 if axis.across else 2, keepdim=True))
    return weights.div_(255) if axis.shares else weights


@lru_cache(maxsize=64)
def constants(
    values: tuple[float, ...] | tuple[tuple[float, ...], ...], dtype: torch.dtype, device: torch.device
) -> Tensor:
    """A cached tensor of these numbers; read-only. Making one takes long."""
    return torch.tensor(values, dtype=dtype, device=device)


@lru_cache(maxsize=16)
def _shifts(side: int, kernel: int, *, across: bool = False) -> Float[Tensor, "{kernel} {side}*{side}"]:
    """For each pixel of a kernel the matrix, or its transpose, that shifts an axis and reflects at both ends."""
    offsets = torch.arange(kernel)[:, None] - kernel // 2
    source = (torch.arange(side) + offsets).abs()
    source = (side - 1) - ((side - 1) - source).abs()
    matrices = torch.nn.functional.one_hot(source, side).float()
    return (matrices.transpose(1, 2) if across else matrices).flatten(1)
