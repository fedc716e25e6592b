"""Batches of images, and the views that a training sees of them."""

from typing import TypeVar

from pucl.images.views.recipe import Drawn, Views
from pucl.precision import full_precision
from pucl.shapes import Tensor
from pucl.training.framework import Batch, Framework

_Drawn = TypeVar("_Drawn", bound=Drawn)
_View = TypeVar("_View")

ImageBatch = Batch[Tensor]
"""A batch of images as they are stored: uint8 [batch, 3, height, width]."""

ImageFramework = Framework[Tensor]
"""A framework whose samples are images: uint8 [batch, 3, height, width]."""


def see(batch: ImageBatch, views: Views[_Drawn, _View]) -> _View:
    """Make one view of each image. Random choices are made for the whole batch, whichever process has which part."""
    height, width = batch.samples.shape[2:]
    parameters = views.draw(batch.whole, batch.generator, height=height, width=width)
    with full_precision(batch.samples.device):  # Colours keep their digits.
        return views.apply(batch.samples, parameters[batch.part])
