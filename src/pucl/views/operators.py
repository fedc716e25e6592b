"""The operators that views are made of: whole batches at once, each image with parameters of its own.

They are torchvision's, in floating point from 0 to 1: the same weights, borders and clamps, without a loop over images
and without rounding to 8 bits in between. All of them are functions of their arguments; where chance comes in is
`pucl.views.recipes`.

Parameters may be on the CPU while images are elsewhere. That is even the better way: what decides about the *shape* of
the work (how many images are blurred) is then known without waiting for the device.
"""

from functools import lru_cache

import torch

from pucl.shapes import Bool, Float, Int, Tensor

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)  # The columns of a jitter's factors, and the entries of its order.

LUMA = (0.2989, 0.587, 0.114)  # Shares of red, green and blue in grey: torchvision's digits of ITU-R 601.

SMALLEST = 1e-12  # Stands in for a chroma of zero: grey has no hue, and divides zero by this.
UNWRAPPED = 1 / 6  # Turns up to which a hue stays where the folded triangle is still right.

# As in skimage: sRGB to XYZ under D65 as seen by the 2 degree observer, and XYZ to CIE Lab.
XYZ_OF_RGB = (
    (0.412453, 0.357580, 0.180423),
    (0.212671, 0.715160, 0.072169),
    (0.019334, 0.119193, 0.950227),
)
WHITE = (0.95047, 1.0, 1.08883)
LAB_MEAN = (50.0, 6.025, -6.6895)  # Middle of each channel's range in CMC ...
LAB_STD = (50.0, 92.208, 101.1675)  # ... and half of its width.


def resized_crop(
    images: Tensor,
    top: Int[Tensor, " batch"],
    left: Int[Tensor, " batch"],
    height: Int[Tensor, " batch"],
    width: Int[Tensor, " batch"],
    size: int,
    *,
    flipped: Bool[Tensor, " batch"] | None = None,
    antialias: bool = True,
) -> Float[Tensor, "batch 3 {size} {size}"]:
    r"""Cut a box out of each image and bring it to a square of one size.

    Bilinear interpolation is separable and linear, so a crop, its resize and a flip are two matrices for each image:

    .. math:: \mathrm{out} = R\, x\, C^\top, \qquad R_{ij} \propto \max(0,\; 1 - |j + 1/2 - c_i| / r),

    where row i of the result has its centre at :math:`c_i = \mathrm{top} + (i + 1/2)\,h/s` and reaches
    :math:`r = \max(1, h/s)` pixels (without antialiasing r = 1). Pixels outside the box weigh nothing, rows sum to one.

    Args:
        images: [batch, 3, height, width], from 0 to 1; or bytes, which become shares of 255 on the way.
        top: First row of each box.
        left: First column of each box.
        height: Rows of each box, at least 1; the box lies inside the image.
        width: Columns of each box, at least 1.
        size: Side of the result, in pixels.
        flipped: Which results are mirrored left to right, at no cost.
        antialias: Whether shrinking averages all pixels that it covers, as PIL does.
    """
    pixels = images if images.is_floating_point() else images.float()
    rows = _resampling(top, height, images.shape[2], size, pixels, antialias=antialias)
    across = _resampling(left, width, images.shape[3], size, pixels, antialias=antialias, flipped=flipped, across=True)
    if pixels is not images:
        across.div_(255)  # A matrix is smaller than an image.
    return _separable(pixels, rows, across)


def flip(
    images: Float[Tensor, "batch 3 height width"], which: Bool[Tensor, " batch"]
) -> Float[Tensor, "batch 3 height width"]:
    """Mirror some images left to right."""
    chosen = _indices(which, images)
    return images.index_copy(0, chosen, images.index_select(0, chosen).flip(3))


def adjust_brightness(
    images: Float[Tensor, "batch 3 height width"], factor: Float[Tensor, " batch"]
) -> Float[Tensor, "batch 3 height width"]:
    """Mix each image with black: ``f x``, clamped to 0..1."""
    return _adjusted(images, factor, BRIGHTNESS)


def adjust_contrast(
    images: Float[Tensor, "batch 3 height width"], factor: Float[Tensor, " batch"]
) -> Float[Tensor, "batch 3 height width"]:
    """Mix each image with the mean of its grey: ``f x + (1 - f) mean(grey(x))``, clamped to 0..1."""
    return _adjusted(images, factor, CONTRAST)


def adjust_saturation(
    images: Float[Tensor, "batch 3 height width"], factor: Float[Tensor, " batch"]
) -> Float[Tensor, "batch 3 height width"]:
    """Mix each image with its grey: ``f x + (1 - f) grey(x)``, clamped to 0..1."""
    return _adjusted(images, factor, SATURATION)


def adjust_hue(
    images: Float[Tensor, "batch 3 height width"], factor: Float[Tensor, " batch"]
) -> Float[Tensor, "batch 3 height width"]:
    r"""Turn the hue of each image by a share of the full circle, at the same saturation and value of HSV.

    On the hexagon of hues, in sixths of a turn, with M, m the largest and smallest of r, g, b and C = M - m,

    .. math:: H = \mathrm{sign}(g - b)\,\bigl(1 + (g + b - r - m)/C\bigr) \in [-3, 3]

    and each channel is :math:`m + C\,\mathrm{clamp}(2 - |H - H_c|, 0, 1)` with centres :math:`H_c` 0, 2, -2 for red,
    green and blue and the distance taken around the circle. This is HSV without asking which channel is the largest.

    Args:
        images: From 0 to 1.
        factor: Turns, of any size and sign.
    """
    turned = images.clone(memory_format=torch.contiguous_format)
    _turn_hue(turned, factor.to(images), wrap=True)
    return turned


def jitter(
    images: Float[Tensor, "batch 3 height width"],
    factors: Float[Tensor, "batch 4"],
    order: Int[Tensor, "batch 4"],
    which: Bool[Tensor, " batch"],
    *,
    inplace: bool = False,
) -> Float[Tensor, "batch 3 height width"]:
    """Adjust brightness, contrast, saturation and hue of some images, in an order of its own for each.

    Brightness, contrast and saturation are one and the same affine map of colours with other coefficients, so images
    that are at different ones of the three take the step together. Hue is of another kind; images are sorted by when
    theirs is due, and the hue of each group is turned between two steps of all. That is three steps and one turn for
    any mixture of the 24 orders.

    Args:
        images: From 0 to 1.
        factors: Columns `BRIGHTNESS`, `CONTRAST`, `SATURATION` (1 changes nothing) and `HUE` (0 changes nothing).
        order: A permutation of these four column numbers for each image, the first to be applied first.
        which: Images that are adjusted at all.
        inplace: Write into ``images`` and return it.
    """
    order, factors = order.cpu(), factors.cpu()
    sequence, groups = by_turn_of_hue(order, which.cpu())
    chosen = sequence[: sum(groups)]
    adjusted = images.index_select(0, chosen.to(images.device))
    jitter_sorted(adjusted, factors[chosen], order[chosen], groups)
    chosen = chosen.to(images.device)
    return images.index_copy_(0, chosen, adjusted) if inplace else images.index_copy(0, chosen, adjusted)


def by_turn_of_hue(
    order: Int[Tensor, "batch 4"], which: Bool[Tensor, " batch"]
) -> tuple[Int[Tensor, " batch"], list[int]]:
    """Images sorted by when their hue is due (first, second, third or last), and how many there are of each.

    Those that are not jittered come last of all and are in no count.
    """
    due = torch.where(which, (order == HUE).int().argmax(1), 4)
    return due.argsort(stable=True), torch.bincount(due, minlength=5).tolist()[:4]


def jitter_sorted(
    images: Float[Tensor, "batch 3 height width"],
    factors: Float[Tensor, "batch 4"],
    order: Int[Tensor, "batch 4"],
    groups: list[int],
) -> None:
    """Jitter, in place, images that `by_turn_of_hue` has sorted: whoever gathers them anyway does so for nothing."""
    steps = order[order != HUE].view(len(order), 3)
    wrap = bool((factors[:, HUE].abs() > UNWRAPPED).any())
    shares, saturation, contrast = _coefficients(factors.gather(1, steps).T.to(images), steps.T.to(images))
    turns = factors[:, HUE].to(images)
    start = 0
    for step, group in enumerate(groups):
        end = start + group
        if group:
            _turn_hue(images[start:end], turns[start:end], wrap=wrap)
        if step < 3 and len(images):
            _adjust_linearly(images, shares[step], saturation[step], contrast[step])
        start = end


def greyscale(
    images: Float[Tensor, "batch 3 height width"], which: Bool[Tensor, " batch"], *, inplace: bool = False
) -> Float[Tensor, "batch 3 height width"]:
    """Replace red, green and blue of some images by ``.2989 r + .587 g + .114 b``."""
    chosen = _indices(which, images)
    colours = images.index_select(0, chosen).flatten(2)
    mixture = (
        _constants(LUMA, images).expand(len(chosen), 3, 3).contiguous()
    )  # Without strides of 0, four times as fast.
    grey = torch.bmm(mixture, colours).view(-1, *images.shape[1:])
    return images.index_copy_(0, chosen, grey) if inplace else images.index_copy(0, chosen, grey)


def blur(
    images: Float[Tensor, "batch 3 height width"],
    sigma: Float[Tensor, " batch"],
    kernel: int,
    which: Bool[Tensor, " batch"],
    *,
    inplace: bool = False,
) -> Float[Tensor, "batch 3 height width"]:
    r"""Convolve some images with a Gaussian, cut off at ``kernel`` pixels and made to sum to one.

    Rows and columns are blurred by a matrix each, :math:`B = \sum_k g_k S_k` with weights
    :math:`g_k \propto e^{-k^2 / 2\sigma^2}` and shifts :math:`S_k` that reflect at the border: ``dcb|abcd|cba``.

    Args:
        images: Of any range.
        sigma: Width of each image's Gaussian in pixels, above 0; of no importance where ``which`` is False.
        kernel: Side of the window, odd; at most ``2 * side - 1`` of the images.
        which: Images that are blurred.
        inplace: Write into ``images`` and return it.
    """
    height, width = images.shape[2:]
    if kernel < 1 or kernel % 2 == 0 or kernel // 2 >= min(height, width):
        raise ValueError(
            f"kernel is the side of the window that is averaged: expected an odd number from 1 up to "
            f"{2 * min(height, width) - 1} for images of {height} x {width}, got {kernel}"
        )
    chosen = _indices(which, images)
    spread = sigma.to(images).index_select(0, chosen)
    offsets = torch.arange(kernel, device=images.device) - kernel // 2
    weights = torch.softmax(-0.5 * (offsets / spread[:, None]) ** 2, dim=1)  # Gaussian, and summing to one.
    rows = (weights @ _shifts(height, kernel).to(images)).view(-1, height, height)
    across = (weights @ _shifts(width, kernel, across=True).to(images)).view(-1, width, width)
    blurred = _separable(images.index_select(0, chosen), rows, across)
    return images.index_copy_(0, chosen, blurred) if inplace else images.index_copy(0, chosen, blurred)


def normalise(
    images: Float[Tensor, "batch channel height width"],
    mean: tuple[float, ...],
    std: tuple[float, ...],
    *,
    inplace: bool = False,
) -> Float[Tensor, "batch channel height width"]:
    """Shift and scale each channel: ``(x - mean) / std``."""
    shift, scale = (_constants(values, images)[:, None, None] for values in (mean, std))
    return (images.sub_(shift) if inplace else images - shift).div_(scale)


def rgb_to_lab(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch 3 height width"]:
    r"""Colours as the eye orders them: lightness L (0 to 100), green to red a, blue to yellow b.

    sRGB is made linear (:math:`((c + .055)/1.055)^{2.4}`, or c/12.92 up to .04045), mixed into X, Y, Z relative to the
    white of D65, and with :math:`f(t) = t^{1/3}` (or 7.787 t + 16/116 up to .008856)

    .. math:: L = 116 f(Y) - 16, \quad a = 500 (f(X) - f(Y)), \quad b = 200 (f(Y) - f(Z)).
    """
    linear = images.add(0.055).div_(1.055).pow_(2.4)
    linear = _switch(images, 0.04045, below=images / 12.92, above=linear)
    white = _constants(WHITE, images)[:, None]
    mixture = torch.stack([_constants(row, images) for row in XYZ_OF_RGB]) / white
    xyz = torch.matmul(mixture, linear.flatten(2))
    root = xyz.clamp_min(0.008856).pow_(1 / 3)  # From the threshold up, where nothing is negative.
    x, y, z = _switch(xyz, 0.008856, below=xyz * 7.787 + 16 / 116, above=root).unbind(1)
    return torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], dim=1).view(images.shape)


def split_lab(
    images: Float[Tensor, "batch 3 height width"],
) -> tuple[Float[Tensor, "batch 1 height width"], Float[Tensor, "batch 2 height width"]]:
    """CMC's two views of an RGB image: its lightness and its colour, each brought to about -1..1."""
    lab = normalise(rgb_to_lab(images), LAB_MEAN, LAB_STD, inplace=True)
    return lab[:, :1], lab[:, 1:]


def _resampling(
    start: Int[Tensor, " batch"],
    length: Int[Tensor, " batch"],
    extent: int,
    size: int,
    images: Tensor,
    *,
    antialias: bool,
    flipped: Bool[Tensor, " batch"] | None = None,
    across: bool = False,
) -> Float[Tensor, "batch to from"]:
    """The matrix of each image that takes an axis of ``extent`` pixels to ``size`` pixels of a box on it.

    It stands to the left of an image, [size, extent], or with ``across`` to its right, [extent, size].
    """
    first, pixels = start.to(images)[:, None], length.to(images)[:, None]
    place = torch.arange(size, device=images.device, dtype=images.dtype) + 0.5
    if flipped is not None:
        place = torch.where(flipped.to(images.device)[:, None], size - place, place)
    centre = place * (pixels / size)
    position = torch.arange(extent, device=images.device, dtype=images.dtype) + 0.5 - first
    # Infinitely far away, a pixel outside the box weighs nothing: cheaper than a mask over the matrix.
    position = torch.where((position > 0) & (position < pixels), position, torch.inf)
    if shrinking := antialias and extent > size:
        reach = (pixels / size).clamp_min(1)
        position, centre = position / reach, centre / reach
    else:
        # Beyond the middle of its last pixel a box goes on as it is there; then all rows sum to one by themselves.
        centre = torch.minimum(centre.clamp_min(0.5), pixels - 0.5)
    weights = position[:, :, None] - centre[:, None, :] if across else position[:, None, :] - centre[:, :, None]
    torch.sub(torch.ones((), dtype=images.dtype, device=images.device), weights.abs_(), out=weights).clamp_min_(0)
    return weights.div_(weights.sum(1 if across else 2, keepdim=True)) if shrinking else weights


def _separable(
    images: Float[Tensor, "batch 3 height width"],
    rows: Float[Tensor, "batch tall height"],
    across: Float[Tensor, "batch width wide"],
) -> Float[Tensor, "batch 3 tall wide"]:
    """A matrix to the left and one to the right of each image's three planes."""
    # Both as they lie in memory: products with a matrix that is merely said to be transposed are slow.
    batch, channels, height, width = images.shape
    tall, wide = rows.shape[1], across.shape[2]
    narrowed = torch.bmm(images.reshape(batch, channels * height, width), across)
    each = rows[:, None].expand(batch, channels, tall, height).reshape(batch * channels, tall, height)
    return torch.bmm(each, narrowed.view(batch * channels, height, wide)).view(batch, channels, tall, wide)


def _adjusted(
    images: Float[Tensor, "batch 3 height width"], factor: Float[Tensor, " batch"], operator: int
) -> Float[Tensor, "batch 3 height width"]:
    adjusted = images.clone(memory_format=torch.contiguous_format)
    _adjust_linearly(adjusted, *_coefficients(factor.to(images), torch.full_like(factor, operator).to(images)))
    return adjusted


def _coefficients(
    factor: Float[Tensor, "*steps batch"], operator: Float[Tensor, "*steps batch"]
) -> tuple[Float[Tensor, "*steps batch 1 1"], Float[Tensor, "*steps batch 1 1"], Float[Tensor, "*steps batch 1 1"]]:
    """What `_adjust_linearly` takes: the share of the plane, how much of it is grey, and how much is the mean grey."""
    saturation, contrast = ((operator == which).to(factor.dtype) for which in (SATURATION, CONTRAST))
    return (1 - factor)[..., None, None], saturation[..., None, None], contrast[..., None, None]


def _adjust_linearly(
    images: Float[Tensor, "batch 3 height width"],
    share: Float[Tensor, "batch 1 1"],
    saturation: Float[Tensor, "batch 1 1"],
    contrast: Float[Tensor, "batch 1 1"],
) -> None:
    """Brightness, contrast or saturation in place, whichever each image is to have.

    All three mix an image with a plane, ``clamp(f x + (1 - f) plane)``: black for brightness, the mean of the grey for
    contrast, the grey itself for saturation.
    """
    pixels = images.flatten(2)
    grey = torch.bmm(_constants(LUMA, images).expand(len(images), 1, 3), pixels)
    level = grey.mean(2, keepdim=True).mul_(contrast)
    plane = grey.mul_(saturation).add_(level)
    pixels.lerp_(plane, share).clamp_(0, 1)


def _turn_hue(images: Float[Tensor, "batch 3 height width"], turns: Float[Tensor, " batch"], *, wrap: bool) -> None:
    """Turn hues in place. Without ``wrap``, by at most a sixth of a turn. The formula is in `adjust_hue`."""
    red, green, blue = images.unbind(1)
    lowest = torch.minimum(red, green)
    torch.minimum(lowest, blue, out=lowest)
    chroma = torch.maximum(red, green)
    torch.maximum(chroma, blue, out=chroma)
    chroma.sub_(lowest)
    hue = (green - red).add_(blue).sub_(lowest).div_(chroma.clamp_min(SMALLEST)).add_(1)
    torch.copysign(hue, green - blue, out=hue)
    sixths = 6 * turns[:, None, None]  # [batch, 1, 1], as a plane is [batch, height, width].
    if wrap:
        hue.add_(sixths)
        hue.sub_(torch.round(hue / 6), alpha=6)
        sixths = torch.zeros_like(sixths)
    # The turned hue is within 4 of red's centre, so within 6 of the others', where | |d| - 3 | is right all around the
    # circle: the distance from the opposite hue. The channel is m + C clamp(that - 1, 0, 1), which is
    # (m - C) + C clamp(that, 1, 2).
    base = lowest.sub_(chroma)
    distance = hue[:, None] + (sixths - _constants((0.0, 2.0, -2.0), images)[:, None])[..., None]
    distance.abs_().sub_(3).abs_().clamp_(1, 2)
    torch.addcmul(base[:, None], chroma[:, None], distance, out=images)


def _switch(values: Tensor, threshold: float, *, below: Tensor, above: Tensor) -> Tensor:
    """``above`` where values exceed the threshold, else ``below``; both finite, and ``below`` is written over."""
    # Several times as fast on a CPU as torch.where, and exact: lerp at 0 and 1 gives its ends.
    return below.lerp_(above, values.sub(threshold).sign_().clamp_min_(0))


def _indices(which: Bool[Tensor, " batch"], images: Tensor) -> Int[Tensor, " chosen"]:
    """Where a mask is set, on the images' device."""
    return which.nonzero()[:, 0].to(images.device)


def _constants(values: tuple[float, ...], images: Tensor) -> Float[Tensor, " channel"]:
    """These numbers as a tensor like the images, to be read only: making it takes longer than a small product."""
    return _cached_constants(values, images.dtype, images.device)


@lru_cache(maxsize=64)
def _cached_constants(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Float[Tensor, " channel"]:
    return torch.tensor(values, dtype=dtype, device=device)


@lru_cache(maxsize=16)
def _shifts(side: int, kernel: int, *, across: bool = False) -> Float[Tensor, "{kernel} {side}*{side}"]:
    """For each tap of a kernel the matrix, or its transpose, that shifts an axis by it and reflects at both ends."""
    taps = torch.arange(kernel)[:, None] - kernel // 2
    source = (torch.arange(side) + taps).abs()
    source = (side - 1) - ((side - 1) - source).abs()
    matrices = torch.nn.functional.one_hot(source, side).float()
    return (matrices.transpose(1, 2) if across else matrices).flatten(1)
