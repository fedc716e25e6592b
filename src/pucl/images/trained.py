"""The encoder of a finished run on images."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pucl.data.choosing import TEST_SHARE
from pucl.data.errors import DataError
from pucl.evaluation import Labelled, measure, numbers_in, train_and_test
from pucl.evaluation.embed import embed_each
from pucl.images.config import ImageConfig
from pucl.images.embedding import BATCH, embed
from pucl.images.imageset import ImageData, ImageSet
from pucl.images.portable import PixelEncoder, portable_images
from pucl.images.registry import load as load_data
from pucl.images.resizing import resize_pixels
from pucl.images.sources.arrays import to_pixels
from pucl.images.sources.picture import SUFFIXES, fit_square, need_pillow, quiet_decoders, read_picture
from pucl.images.task import ImageTask, limited
from pucl.modality import OwnFormat, Portable, ReportProgress
from pucl.samples import ComparedSamples, EmbeddedData, Indices, Labels, ShownSamples

if TYPE_CHECKING:
    from PIL.Image import Image

    Picture = str | Path | Image | NDArray[Any] | Tensor
    Images = Picture | ImageSet | Sequence[Picture]
else:
    Picture = Images = Any  # Pillow is not needed for arrays.

COMPARED = 256  # Images at a time when views are compared.


class TrainedImages:
    """The encoder of a finished run, in evaluation mode; see `pucl.modality.Trained`.

    Args:
        config: The run.
        module: The framework. It maps uint8 [batch, 3, height, width] of any size to [batch, features].
        image_size: Side of the training images in pixels.
        features: Dimension of the features.

    Example::

        trained = pucl.load("runs/simclr-digits-pucl-seed-0")
        embeddings = trained.encode(["cat.png", "dog.png"])  # float32 [2, features]
    """

    def __init__(self, config: ImageConfig, module: Any, *, image_size: int, features: int) -> None:
        self.config = config
        self.module = module.eval()
        self.image_size = image_size
        self.features = features

    @property
    def encoder(self) -> PixelEncoder:
        """The network as a module of torch, to export it or to train it further. Its output equals that of `encode`."""
        return PixelEncoder(self.module.networks(), self.module.views)

    def portable(self, *, floats: bool = False) -> Portable:
        """The same for ``pucl export``; see `pucl.modality.Trained`."""
        return portable_images(self.encoder, self.encode, self.image_size, floats=floats)

    @property
    def own_formats(self) -> Mapping[str, OwnFormat]:
        """None: every library can load the portable forms."""
        return {}

    def encode(self, images: Images, *, batch_size: int = BATCH) -> NDArray[np.float32]:
        """Compute a row of features for each image.

        Args:
            images: One of

                - an array or tensor [n, h, w], [n, h, w, c] or [n, c, h, w] with 1 or 3 channels, uint8 or floats in
                  0..1; or one image [h, w] or [h, w, 3];
                - a picture of Pillow or its path; or a sequence of pictures, paths and single images;
                - an `ImageSet`;
                - a folder of pictures (rows in the order of names) or a ``.npz`` file (rows in its order);
                - a known name (rows of the parts train, test and pretrain).
            batch_size: Images at a time. It changes speed and memory only.

        Arrays are stretched to the size of the training images. Of a picture, the square in the
        middle is taken, as for a folder.

        Shapes:
            [n, features], float32.
        """
        if batch_size < 1:
            raise ValueError(
                f"batch_size is the number of images to encode at a time: expected 1 or more, got {batch_size}"
            )
        if isinstance(images, ImageSet):
            return embed(self.module, images.pixels, batch_size)
        if isinstance(images, np.ndarray | Tensor):
            return embed(self.module, _pixels_of(images), batch_size)
        if isinstance(images, str | Path) and not _names_picture(images):
            data = self.data(images, test_share=0)
            if data.notes:
                warn("; ".join(data.notes), stacklevel=2)
            return _in_source_order(data, self.embed(data.parts, batch_size=batch_size))
        if not isinstance(images, Sequence) or isinstance(images, str):
            images = [images]
        if len(images) == 0:
            raise DataError("images to encode are at least one, got an empty list")
        batches = [images[start : start + batch_size] for start in range(0, len(images), batch_size)]
        squares = (np.stack([_square(one, self.image_size) for one in batch]) for batch in batches)
        return np.concatenate([embed(self.module, pixels, batch_size) for pixels in squares])

    def embed(
        self,
        sets: Mapping[str, ImageSet],
        *,
        batch_size: int = BATCH,
        progress: ReportProgress = lambda _done, _total: None,
    ) -> dict[str, NDArray[np.float32]]:
        """Compute the features of several sets of images, by name. They may be memory maps."""
        return embed_each(
            sets, lambda images, report: embed(self.module, images.pixels, batch_size, report), progress=progress
        )

    def data(
        self, source: str | Path | None = None, *, root: Path | None = None, test_share: float = TEST_SHARE
    ) -> ImageData:
        """Load the data of the run, or other data in the same way.

        Args:
            source: A known name, a folder or a ``.npz`` file; None for the data of the run.
            root: The data root; see `pucl.images.registry.load`.
            test_share: Share of each class to hold out if the data have no test set; 0 holds out none.
        """
        size, limit = self.config.image_size, None
        if source is None:
            source, size, limit = self.config.data, self.config.size_to_load, self.config.limit
        elif size is None and Path(source).expanduser().is_dir():
            size = self.image_size  # Pictures of a folder may have any size.
        return limited(load_data(source, root=root, image_size=size, test_share=test_share), limit)

    def embed_data(
        self, source: str | Path, *, root: Path | None, progress: ReportProgress, note: Callable[[str], None]
    ) -> EmbeddedData:
        """Embed a data set, each part separately; see `pucl.modality.Trained`."""
        data = self.data(source, root=root, test_share=0.0)
        for text in data.notes:
            note(text)
        rows = self.embed(data.parts, progress=progress)
        return EmbeddedData(
            arrays=_named_arrays(data, rows),
            rows=_in_source_order(data, rows),
            parts={name: len(images) for name, images in data.parts.items()} if len(data.parts) > 1 else {},
        )

    def evaluate(
        self, probes: Sequence[str] | None, *, source: str | None, root: Path | None, progress: ReportProgress
    ) -> tuple[dict[str, float], int]:
        """Fit probes on the training images and test them on the test images; see `pucl.modality.Trained`."""
        chosen = self.config.choose_probes(probes)
        data = self.data(source, root=root)
        if data.test is None or data.train.labels is None or data.test.labels is None:
            raise DataError(
                f"probes compare embeddings with labels: expected images with labels, got {data.name} without; "
                f"`pucl embed` needs none"
            )
        rows = self.embed({"train": data.train, "test": data.test}, progress=progress)
        train, test = Labelled(rows["train"], data.train.labels), Labelled(rows["test"], data.test.labels)
        found = measure(train_and_test(train, test, data.folds), chosen)
        return {name: found[name] for name in numbers_in([found])}, len(data.train)

    def choose_to_show(self, choose: Callable[[Labels | None, int], Indices], *, root: Path | None) -> ShownSamples:
        """Choose images of the test set, or of the training set if there is no test set."""
        data = self.data(root=root)
        part, images = ("training images", data.train) if data.test is None else ("test images", data.test)
        return ShownSamples.of(part, images, choose, self.encode)

    @torch.no_grad()
    def compare_samples(
        self, choose: Callable[[int], Indices], *, root: Path | None, generator: torch.Generator
    ) -> ComparedSamples:
        """Embed two views of each image after the head: the first view of one is compared with the second of others."""
        images = ImageTask(self.config, root).samples
        chosen = choose(len(images))
        blocks = [images.pixels[chosen[start : start + COMPARED]] for start in range(0, len(chosen), COMPARED)]
        views = [self.module.look(torch.from_numpy(np.array(pixels)), generator) for pixels in blocks]
        some = images.subset(chosen)
        return ComparedSamples.of_views(
            views,
            indices=chosen,
            samples=len(images),
            features=self.encode(some),
            labels=some.labels,
            names=some.names,
        )


def _names_picture(path: str | Path) -> bool:
    return Path(path).suffix.lower() in SUFFIXES and not Path(path).expanduser().is_dir()


def _pixels_of(images: NDArray[Any] | Tensor) -> NDArray[np.uint8]:
    """Convert an array of images, or one image, to bytes [n, 3, height, width]."""
    if isinstance(images, Tensor):
        images = images.detach().cpu()
        images = (images.float() if images.is_floating_point() else images).numpy()
    if images.ndim == 3 and images.shape[0] == 3 and images.shape[2] not in (1, 3):
        raise DataError(
            f"an array of shape {list(images.shape)} may be one image in colour or three in grey: "
            f"use images[None] or images[:, None]"
        )
    if images.ndim == 2 or (images.ndim == 3 and images.shape[2] in (1, 3)):
        images = images[None]
    return to_pixels(images)


def _square(picture: Picture, size: int) -> NDArray[np.uint8]:
    """Convert a picture to bytes [3, size, size]: resize its shorter side, then take the square in the middle."""
    if isinstance(picture, np.ndarray | Tensor):
        pixels = _pixels_of(picture)
        if len(pixels) != 1:
            raise DataError(
                f"an entry of a sequence holds one image: expected [h, w] or [h, w, 3], got {list(picture.shape)}"
            )
        square: NDArray[np.uint8] = resize_pixels(pixels, size)[0]
        return square
    need_pillow()
    from PIL import Image, ImageOps  # noqa: PLC0415

    if isinstance(picture, str | Path):
        path = Path(picture).expanduser()
        try:
            with quiet_decoders():
                return read_picture(path, size)
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from error
    if not isinstance(picture, Image.Image):
        raise DataError(
            f"images to encode are arrays, pictures of Pillow, paths or an ImageSet, got {type(picture).__name__}"
        )
    with quiet_decoders():
        return fit_square(ImageOps.exif_transpose(picture), size)


def _in_source_order(data: ImageData, rows: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
    """The rows of all parts as one array, in the order of the folder or file; without names, part by part.

    If there are labels, images were reordered for the split, and their names say where they came from.
    """
    joined = np.concatenate([rows[name] for name in data.parts])
    names = [name for images in data.parts.values() for name in images.names or ()]
    return joined[_source_order(names)] if len(names) == len(joined) else joined


def _source_order(names: Sequence[str]) -> NDArray[np.int64]:
    """Indices that put images in the order of the folder or file. Names are paths in a folder, or rows of a file."""
    keys = np.array(names).astype(np.int64) if all(map(str.isdecimal, names)) else np.array(names)
    return keys.argsort(kind="stable")


def _named_arrays(data: ImageData, rows: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[Any]]:
    """Features, labels and names of each part by name, in the order of the folder or file."""
    arrays: dict[str, NDArray[Any]] = {}
    for part, images in data.parts.items():
        name, prefix = ("embeddings", "") if len(data.parts) == 1 else (part, f"{part}_")
        order = np.arange(len(images)) if images.names is None else _source_order(images.names)
        arrays[name] = rows[part][order]
        if images.labels is not None:
            arrays |= {f"{prefix}labels": images.labels[order], "classes": np.array(images.classes)}
        if images.names is not None:
            arrays[f"{prefix}names"] = np.array(images.names)[order]
    return arrays
