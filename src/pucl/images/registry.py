"""Data sets by name or path."""

from collections.abc import Mapping
from pathlib import Path

from pucl.data.errors import DataError
from pucl.data.root import ROOT_VARIABLE, DataMissingError, data_root
from pucl.data.split import TEST_SHARE, check_share
from pucl.graphs.sources.tu_collection import known_graphs
from pucl.images.imageset import ImageData
from pucl.images.resizing import check_image_size
from pucl.images.source import Found, Source
from pucl.images.sources.arrays import read_npz
from pucl.images.sources.cifar import CIFAR10, CIFAR100
from pucl.images.sources.digits import DIGITS
from pucl.images.sources.fashion import FASHION_MNIST
from pucl.images.sources.folder import read_folder
from pucl.images.sources.stl10 import STL10
from pucl.texts import did_you_mean

SOURCES: Mapping[str, Source] = {source.name: source for source in (DIGITS, CIFAR10, CIFAR100, STL10, FASHION_MNIST)}
"""The data sets that are known by name. A new one is a file in `sources` and a word here."""


def find_source(name: str) -> Source:
    """The known data set of this name; the error names the nearest one."""
    if name not in SOURCES:
        if (graphs := known_graphs(name)) is not None:
            raise DataMissingError(f"{graphs.name} is a set of graphs, not of pictures: `load_graphs` reads it")
        raise DataMissingError(f"no data set {name!r}.{did_you_mean(name, SOURCES)} Known are {', '.join(SOURCES)}")
    return SOURCES[name]


def load(
    name_or_path: str | Path,
    *,
    root: Path | None = None,
    image_size: int | None = None,
    test_share: float = TEST_SHARE,
) -> ImageData:
    """Load a data set.

    Args:
        name_or_path: A known name (digits, cifar10, cifar100, stl10, fashion-mnist), a folder of pictures or a ``.npz``
            file. A folder that is called like a known data set is meant by ``./digits``.
        root: Where known data sets and built arrays are kept, see `data_root`.
        image_size: Side in pixels to bring the pictures to; None leaves them as they are (a folder: see `read_folder`).
        test_share: Share of each class that is held back for tests, where a folder or file has labels and no test set.

    Example:
        >>> load("digits").pretrain.pixels.shape
        (1438, 3, 8, 8)
    """
    check_share(test_share)
    if image_size is not None:
        check_image_size(image_size)
    root = data_root(root)
    if isinstance(name_or_path, str) and name_or_path in SOURCES:
        return _load_known(SOURCES[name_or_path], root, image_size)
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return read_folder(path, root / "arrays", image_size, test_share)
    if path.is_file():
        if path.suffix.lower() == ".npz":
            return read_npz(path, image_size, test_share)
        raise DataError(f"{path} is neither a folder of pictures nor a .npz file, which is what can be read")
    if isinstance(name_or_path, Path) or "/" in name_or_path or path.suffix == ".npz":
        raise DataMissingError(f"there is no folder or file {path}")
    raise DataMissingError(f"{_unknown(name_or_path)}, and there is no folder or file of that name")


def _unknown(name: str) -> str:
    try:
        find_source(name)
    except DataMissingError as error:
        return str(error)
    raise AssertionError(f"{name} is known")


def _load_known(source: Source, root: Path, image_size: int | None) -> ImageData:
    place = source.find(root)
    if place is None and source.forms:
        broken = source.missing(root)
        raise DataMissingError(
            f"{source.name} is not in {root}{f' ({broken})' if broken else ''}: `pucl data get {source.name}` fetches "
            f"it; --root or the environment variable {ROOT_VARIABLE} says where else to look"
        )
    directory, form = place or (root, None)
    return source.read(Found(directory=directory, form=form, cache=root / "arrays", image_size=image_size))
