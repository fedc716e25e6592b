"""Data sets of images by name or path."""

from pathlib import Path

from pucl.data.choosing import TEST_SHARE, check_share
from pucl.data.errors import DataError
from pucl.data.root import DataMissingError, data_root
from pucl.data.source import Source
from pucl.images.imageset import ImageData
from pucl.images.resizing import check_image_size
from pucl.images.sources.arrays import read_npz
from pucl.images.sources.cifar import CIFAR10, CIFAR100
from pucl.images.sources.digits import DIGITS
from pucl.images.sources.fashion import FASHION_MNIST
from pucl.images.sources.folder import read_folder
from pucl.images.sources.stl10 import STL10
from pucl.texts import did_you_mean

SOURCES: dict[str, Source[ImageData]] = {
    source.name: source for source in (DIGITS, CIFAR10, CIFAR100, STL10, FASHION_MNIST)
}
"""The data sets that are known by name. A new one is a file in `sources` and an entry here."""


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
            file. A known name is preferred: write ``./digits`` for a folder of that name.
        root: The directory for known data sets and for built arrays; see `data_root`.
        image_size: Resize pictures to this many pixels a side; default: their own size (for a folder: see
            `read_folder`).
        test_share: Share of each class to hold out for tests, if a folder or file has labels but no test set.

    Example:
        >>> load("digits").pretrain.pixels.shape
        (1438, 3, 8, 8)
    """
    check_share(test_share)
    if image_size is not None:
        check_image_size(image_size)
    root = data_root(root)
    if isinstance(name_or_path, str) and name_or_path in SOURCES:
        return SOURCES[name_or_path].load(root, image_size=image_size)
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return read_folder(path, root / "arrays", image_size, test_share)
    if path.is_file():
        if path.suffix.lower() == ".npz":
            return read_npz(path, image_size, test_share)
        raise DataError(f"{path} cannot be read: expected a folder of pictures or a .npz file")
    if isinstance(name_or_path, Path) or "/" in name_or_path or path.suffix == ".npz":
        raise DataMissingError(f"there is no folder or file {path}")
    raise DataMissingError(
        f"no data set {name_or_path!r}.{did_you_mean(name_or_path, SOURCES)} Known are {', '.join(SOURCES)}; and there "
        "is no folder or file of that name"
    )
