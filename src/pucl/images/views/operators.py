"""The operators that views are made of: whole batches at once, each image with parameters of its own.

They are torchvision's, in floating point from 0 to 1: the same weights, borders and clamps, without a loop over images
and without rounding to 8 bits in between. All of them are functions of their arguments; where chance comes in is
`pucl.images.views.recipes`, and how the work is done is `pucl.images.views.planes`.

Parameters may be on the CPU while images are elsewhere. That is even the better way: what decides about the *shape* of
the work (how many images are blurred) is then known without waiting for the device.
"""

import torch

from pucl.images.views import planes
from pucl.images.views.planes import BRIGHTNESS, CONTRAST, HUE, SATURATION, constants, indices
from pucl.shapes import Bool, Float, Int, Tensor

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
    return planes.as_images(planes.crop(images, top, left, height, width, size, flipped=flipped, antialias=antialias))


def flip(
    images: Float[Tensor, "batch 3 height width"], which: Bool[Tensor, " batch"]
) -> Float[Tensor, "batch 3 height width"]:
    """Mirror some images left to right."""
    chosen = indices(which, images)
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
    """Turn the hue of each image by a share of the full circle, at the same saturation and value of HSV.

    Args:
        images: From 0 to 1.
        factor: Turns, of any size and sign.
    """
    return _adjusted(images, factor, HUE)


def jitter(
    images: Float[Tensor, "batch 3 height width"],
    factors: Float[Tensor, "batch 4"],
    order: Int[Tensor, "batch 4"],
    which: Bool[Tensor, " batch"],
) -> Float[Tensor, "batch 3 height width"]:
    """Adjust brightness, contrast, saturation and hue of some images, in an order of its own for each.

    Args:
        images: From 0 to 1.
        factors: Columns `BRIGHTNESS`, `CONTRAST`, `SATURATION` (1 changes nothing) and `HUE` (0 changes nothing).
        order: A permutation of these four column numbers for each image, the first to be applied first.
        which: Images that are adjusted at all.
    """
    order, factors = order.cpu(), factors.cpu()
    sequence, groups = planes.by_turn_of_hue(order, which.cpu())
    chosen = sequence[: sum(groups)]
    colours = _planes_of(images.index_select(0, chosen.to(images.device)))
    planes.jitter(colours, factors[chosen], order[chosen], groups)
    return images.index_copy(0, chosen.to(images.device), colours.transpose(0, 1))


def greyscale(
    images: Float[Tensor, "batch 3 height width"], which: Bool[Tensor, " batch"]
) -> Float[Tensor, "batch 3 height width"]:
    """Replace red, green and blue of some images by ``.2989 r + .587 g + .114 b``."""
    colours = _planes_of(images)
    planes.greyscale(colours, which)
    return planes.as_images(colours)


def blur(
    images: Float[Tensor, "batch 3 height width"],
    sigma: Float[Tensor, " batch"],
    kernel: int,
    which: Bool[Tensor, " batch"],
) -> Float[Tensor, "batch 3 height width"]:
    r"""Convolve some images with a Gaussian, cut off at ``kernel`` pixels and made to sum to one.

    Rows and columns are blurred by a matrix each, :math:`B = \sum_k g_k S_k` with weights
    :math:`g_k \propto e^{-k^2 / 2\sigma^2}` and shifts :math:`S_k` that reflect at the border: ``dcb|abcd|cba``.

    Args:
        images: Of any range.
        sigma: Width of each image's Gaussian in pixels, above 0; of no importance where ``which`` is False.
        kernel: Side of the window, odd; at most ``2 * side - 1`` of the images.
        which: Images that are blurred.
    """
    colours = _planes_of(images)
    planes.blur(colours, sigma, kernel, which)
    return planes.as_images(colours)


def normalise(
    images: Float[Tensor, "batch channel height width"],
    mean: tuple[float, ...],
    std: tuple[float, ...],
    *,
    inplace: bool = False,
) -> Float[Tensor, "batch channel height width"]:
    """Shift and scale each channel: ``(x - mean) / std``."""
    normal = images if inplace else images.clone()
    for channel, shift, scale in zip(normal.unbind(1), mean, std, strict=True):
        torch.add(constants((-shift / scale,), images), channel, alpha=1 / scale, out=channel)  # In one pass.
    return normal


def rgb_to_lab(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch 3 height width"]:
    r"""Colours as the eye orders them: lightness L (0 to 100), green to red a, blue to yellow b.

    sRGB is made linear (:math:`((c + .055)/1.055)^{2.4}`, or c/12.92 up to .04045), mixed into X, Y, Z relative to the
    white of D65, and with :math:`f(t) = t^{1/3}` (or 7.787 t + 16/116 up to .008856)

    .. math:: L = 116 f(Y) - 16, \quad a = 500 (f(X) - f(Y)), \quad b = 200 (f(Y) - f(Z)).
    """
    linear = images.add(0.055).div_(1.055).pow_(2.4)
    linear = _switch(images, 0.04045, below=images / 12.92, above=linear)
    white = constants(WHITE, images)[:, None]
    mixture = torch.stack([constants(row, images) for row in XYZ_OF_RGB]) / white
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


def _adjusted(
    images: Float[Tensor, "batch 3 height width"], factor: Float[Tensor, " batch"], operator: int
) -> Float[Tensor, "batch 3 height width"]:
    colours = _planes_of(images)
    planes.adjust(colours, factor, operator)
    return planes.as_images(colours)


def _planes_of(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "3 batch height width"]:
    return images.transpose(0, 1).clone(memory_format=torch.contiguous_format)


def _switch(values: Tensor, threshold: float, *, below: Tensor, above: Tensor) -> Tensor:
    """``above`` where values exceed the threshold, else ``below``; both finite, and ``below`` is written over."""
    # Several times as fast on a CPU as torch.where, and exact: lerp at 0 and 1 gives its ends.
    return below.lerp_(above, values.sub(threshold).sign_().clamp_min_(0))
