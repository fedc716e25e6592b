"""Operators on batches of images in their usual order of axes: crops, normalisation and CIE Lab.

Crops are torchvision's, in floating point from 0 to 1. Colour jitter, greyscale and blur work on planes, see
`pucl.images.views.planes`. Random parameters are drawn in `pucl.images.views.recipes`.
"""

import torch

from pucl.images.views import planes
from pucl.images.views.planes import constants
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


def _switch(values: Tensor, threshold: float, *, below: Tensor, above: Tensor) -> Tensor:
    """``above`` where values exceed the threshold, else ``below``; both finite, and ``below`` is written over."""
    # Several times as fast on a CPU as torch.where, and exact: lerp at 0 and 1 gives its ends.
    return below.lerp_(above, values.sub(threshold).sign_().clamp_min_(0))
