"""Pictures to learn from: known data sets, folders, files and arrays, all as one uint8 array with its parts."""

from pucl.data.images import DataError, ExtraMissingError, ImageData, ImageSet
from pucl.data.registry import SOURCES, DataMissingError, data_root, load
from pucl.data.sources.arrays import from_array, to_pixels
from pucl.data.split import TEST_SHARE

__all__ = [
    "SOURCES",
    "TEST_SHARE",
    "DataError",
    "DataMissingError",
    "ExtraMissingError",
    "ImageData",
    "ImageSet",
    "data_root",
    "from_array",
    "load",
    "to_pixels",
]
