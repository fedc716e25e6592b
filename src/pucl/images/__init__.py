"""Images: data sources, views, encoders, and the parts of a run that depend on them; see `modality.py`."""

from pucl.images.imageset import ImageData, ImageSet
from pucl.images.registry import SOURCES, load
from pucl.images.sources.arrays import from_array, to_pixels

__all__ = ["SOURCES", "ImageData", "ImageSet", "from_array", "load", "to_pixels"]
