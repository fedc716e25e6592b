"""The encoder of a finished run on images, ready to use."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pucl.config import choose
from pucl.data.errors import DataError
from pucl.data.split import TEST_SHARE
from pucl.evaluation import embed
from pucl.evaluation.scoring import KNN, LINEAR, PROBES, accuracies
from pucl.images.config import ImageConfig
from pucl.images.imageset import ImageData, ImageSet
from pucl.images.registry import load as load_data
from pucl.images.resizing import resize_pixels
from pucl.images.sources.arrays import to_pixels
from pucl.images.sources.picture import SUFFIXES, fit_square, need_pillow, quiet_decoders, read_picture
from pucl.images.task import limited
from pucl.images.views.recipes import Plain, PlainLab
from pucl.modality import ComparedSamples, EmbeddedData, Indices, Labels, Progress, ShownSamples
from pucl.shapes import Float

if TYPE_CHECKING:
    from PIL.Image import Image

    Picture = str | Path | Image | NDArray[Any] | Tensor
    Images = Picture | ImageSet | Sequence[Picture]
else:
    Picture = Images = Any  # Pillow is not needed for arrays.

COMPARED = 256  # Images whose views are made at a time.
BATCH = 512  # As when a run is evaluated: the same batches give the same bits.


class TrainedImages:
    """An encoder that was trained by a run, in evaluation mode.

    Args:
        config: The run that made it.
        module: The framework: takes uint8 [batch, 3, height, width] of any size, gives [batch, features].
        image_size: Side in pixels of the images that it was trained with.
        features: Dimension of what it gives.

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
    def encoder(self) -> "PixelEncoder":
        """The network as a module of torch, to be exported or trained further; it gives what `encode` gives."""
        return PixelEncoder(self.module.networks(), self.module.views.plain)

    def encode(self, images: Images, *, batch_size: int = BATCH) -> NDArray[np.float32]:
        """One row of features for each image.

        Args:
            images: An array or tensor [n, h, w], [n, h, w, c] or [n, c, h, w] with 1 or 3 channels, uint8 or floats in
                0..1; one image [h, w] or [h, w, 3]; a picture of Pillow's, or the path of one; a sequence of those,
                each of its own size; an `ImageSet`; a folder of pictures, in the order of their names; a ``.npz`` file,
                in its own order; or a data set known by name, its parts train, test and pretrain in turn.
            batch_size: Images at a time. Changes nothing but speed and memory.

        Arrays of another size than the encoder was trained with are stretched to it; of a picture the square in the
        middle is taken, as when a folder is read.

        Shapes:
            [n, features], float32.
        """
        if batch_size < 1:
            raise ValueError(
                f"batch_size is how many images are encoded at a time: expected 1 or more, got {batch_size}"
            )
        if isinstance(images, ImageSet):
            return self._rows(images.pixels, batch_size)
        if isinstance(images, np.ndarray | Tensor):
            return self._rows(_pixels_of(images), batch_size)
        if isinstance(images, str | Path) and not _names_picture(images):
            data = self.data(images, test_share=0)
            if data.notes:
                warn("; ".join(data.notes), stacklevel=2)
            return in_order(data, self.embed(parts(data), batch_size=batch_size))
        if not isinstance(images, Sequence) or isinstance(images, str):
            images = [images]
        if len(images) == 0:
            raise DataError("images to encode are at least one, got an empty list")
        batches = [images[start : start + batch_size] for start in range(0, len(images), batch_size)]
        squares = (np.stack([_square(one, self.image_size) for one in batch]) for batch in batches)
        return np.concatenate([self._rows(pixels, batch_size) for pixels in squares])

    def embed(
        self, sets: Mapping[str, ImageSet], *, batch_size: int = BATCH, progress: Progress = lambda _done, _total: None
    ) -> dict[str, NDArray[np.float32]]:
        """The features of several sets of images, which may be memory maps.

        Args:
            sets: Images by name, such as the `parts` of a data set.
            batch_size: Images at a time.
            progress: Is told before each batch, and at the end, how many images are done, and of how many.
        """
        done, total = 0, sum(map(len, sets.values()))

        def prepare(batch: Tensor) -> Tensor:
            nonlocal done
            progress(done, total)
            done += len(batch)
            return batch

        rows = {name: embed(self.module, images.pixels, prepare, batch_size) for name, images in sets.items()}
        progress(total, total)
        return rows

    def data(
        self, source: str | Path | None = None, *, root: Path | None = None, test_share: float = TEST_SHARE
    ) -> ImageData:
        """The data of the run, or other data read as those were.

        Args:
            source: A known name, a folder or a ``.npz`` file; None for what the run was trained on.
            root: Where data are; see `pucl.images.registry.load`.
            test_share: Share of each class that is held back where the data have no test set; 0 keeps them together.
        """
        size, limit = self.config.image_size, None
        if source is None:
            source, limit = self.config.data, self.config.limit
        elif size is None and Path(source).expanduser().is_dir():
            size = self.image_size  # Pictures of a folder have to be brought to some size.
        return limited(load_data(source, root=root, image_size=size, test_share=test_share), limit)

    def embed_data(
        self, source: str | Path, *, root: Path | None, progress: Progress, note: Callable[[str], None]
    ) -> EmbeddedData:
        """Embed a data set: in its own parts, or as one array where it has none; see `pucl.modality.Trained`."""
        data = self.data(source, root=root, test_share=0.0)
        for text in data.notes:
            note(text)
        sets = parts(data)
        rows = self.embed(sets, progress=progress)
        arrays = with_labels(data, rows)
        return EmbeddedData(
            arrays=arrays, rows=in_order(data, rows), parts={name: len(sets[name]) for name in sets if name in arrays}
        )

    def evaluate(
        self, probes: Sequence[str] | None, *, source: str | None, root: Path | None, progress: Progress
    ) -> tuple[dict[str, float], int]:
        """Classifiers fitted on the training images and scored on the test images."""
        probes = (LINEAR, KNN) if probes is None else probes
        for name in probes:
            choose("probe", name, PROBES)
        data = self.data(source, root=root)
        if data.test is None or data.train.labels is None or data.test.labels is None:
            raise DataError(
                f"an accuracy is the share of labels that are found: expected images with labels, got {data.name} "
                f"without; `pucl embed` needs none"
            )
        rows = self.embed({"train": data.train, "test": data.test}, progress=progress)
        found = accuracies(
            rows["train"], data.train.labels, rows["test"], data.test.labels, probes=probes, folds=data.folds
        )
        return found, len(data.train)

    def choose_to_show(self, choose: Callable[[Labels | None, int], Indices], *, root: Path | None) -> ShownSamples:
        """Images of the test set, which no training has seen, where there is one."""
        data = self.data(root=root)
        part, images = ("train", data.train) if data.test is None else ("test", data.test)
        indices = choose(images.labels, len(images))
        chosen = images.subset(indices)
        return ShownSamples(
            part=part, indices=indices, rows=self.encode(chosen), labels=chosen.labels, classes=chosen.classes
        )

    @torch.no_grad()
    def compare_samples(
        self, choose: Callable[[int], Indices], *, root: Path | None, generator: torch.Generator
    ) -> ComparedSamples:
        """Two views of each image, after the head: the first of one with the second of another, or of itself."""
        images = self.data(root=root).pretrain
        chosen = choose(len(images))
        looks = []
        for start in range(0, len(chosen), COMPARED):
            pixels = torch.from_numpy(np.array(images.pixels[chosen[start : start + COMPARED]]))
            looks.append(self.module.look(pixels, generator))
        firsts, seconds = (nn.functional.normalize(torch.cat(views), dim=1) for views in zip(*looks, strict=True))
        cosines = firsts @ seconds.T
        return ComparedSamples(
            cosines=cosines,
            pairs=~torch.eye(len(chosen), dtype=torch.bool),
            positive=cosines.diagonal().numpy().copy(),
            labels=None if images.labels is None else torch.from_numpy(images.labels[chosen]),
            samples=len(images),
        )

    def _rows(self, pixels: NDArray[np.uint8], batch_size: int) -> NDArray[np.float32]:
        return embed(self.module, pixels, lambda batch: batch, batch_size)


class PixelEncoder(nn.Module):
    """A trained network that takes images as they are: resizing and normalisation are inside.

    Args:
        networks: Images to features, in evaluation mode; two for CMC, of lightness and of colour.
        prepare: What brings images to the size and the colours that the networks were trained with.

    Shapes:
        [batch, 3, height, width], uint8 or floats in 0..1, to [batch, features].
    """

    def __init__(self, networks: Sequence[nn.Module], prepare: Plain | PlainLab) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.prepare = prepare
        self.train(any(network.training for network in networks))

    def forward(self, images: Tensor) -> Float[Tensor, "batch feature"]:
        """The features of images, those of several networks side by side."""
        if images.is_floating_point():  # To bytes, as `Trained.encode` does.
            images = (images * 255).round().clamp(0, 255).to(torch.uint8)
        prepared = self.prepare(images)
        parts = prepared if isinstance(prepared, tuple) else (prepared,)
        return torch.cat([network(part) for network, part in zip(self.networks, parts, strict=True)], dim=1)


def parts(data: ImageData) -> dict[str, ImageSet]:
    """The sets of images that a data set is made of, by name, each once."""
    sets = {"train": data.train}
    if data.test is not None:
        sets["test"] = data.test
    if data.pretrain is not data.train:
        sets["pretrain"] = data.pretrain
    return sets


def in_order(data: ImageData, rows: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
    """The rows of all parts as one array: in the order of the folder or file that they came from, else part by part.

    Where there are labels, `pucl.data` puts images in another order to split them, and names say where they were.
    """
    joined = np.concatenate([rows[name] for name in parts(data)])
    names = [name for images in parts(data).values() for name in images.names or ()]
    return joined[source_order(names)] if len(names) == len(joined) else joined


def source_order(names: Sequence[str]) -> NDArray[np.int64]:
    """The indices that put images in the order of the folder or file that they came from.

    Args:
        names: Their names: rows of a file have numbers for names, pictures in a folder have paths.
    """
    keys = np.array(names).astype(np.int64) if all(map(str.isdecimal, names)) else np.array(names)
    return keys.argsort(kind="stable")


def _names_picture(path: str | Path) -> bool:
    return Path(path).suffix.lower() in SUFFIXES and not Path(path).expanduser().is_dir()


def _pixels_of(images: NDArray[Any] | Tensor) -> NDArray[np.uint8]:
    """An array of images, or of one, as bytes [n, 3, height, width]."""
    if isinstance(images, Tensor):
        images = images.detach().cpu()
        images = (images.float() if images.is_floating_point() else images).numpy()
    if images.ndim == 3 and images.shape[0] == 3 and images.shape[2] not in (1, 3):
        raise DataError(
            f"an array of shape {list(images.shape)} may be one image in colour or three in grey: "
            f"say which by images[None] or images[:, None]"
        )
    if images.ndim == 2 or (images.ndim == 3 and images.shape[2] in (1, 3)):
        images = images[None]
    return to_pixels(images)


def _square(picture: Picture, size: int) -> NDArray[np.uint8]:
    """One picture as bytes [3, size, size]: shorter side to the size, then the square in the middle."""
    if isinstance(picture, np.ndarray | Tensor):
        pixels = _pixels_of(picture)
        if len(pixels) != 1:
            raise DataError(f"a sequence holds one image each: expected [h, w] or [h, w, 3], got {list(picture.shape)}")
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
            f"images to encode are arrays, pictures of Pillow's, paths or an ImageSet, got {type(picture).__name__}"
        )
    with quiet_decoders():
        return fit_square(ImageOps.exif_transpose(picture), size)


WHOLE = "embeddings"
"""Name of the array of data that are not in parts."""


def with_labels(data: ImageData, rows: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[Any]]:
    """The embeddings of each part with what is known of its images, in the order in which they came.

    Args:
        data: The images.
        rows: Embeddings of each part.
    """
    arrays: dict[str, NDArray[Any]] = {}
    sets = parts(data)
    for part, images in sets.items():
        name, prefix = (WHOLE, "") if len(sets) == 1 else (part, f"{part}_")
        order = np.arange(len(images)) if images.names is None else source_order(images.names)
        arrays[name] = rows[part][order]
        if images.labels is not None:
            arrays |= {f"{prefix}labels": images.labels[order], "classes": np.array(images.classes)}
        if images.names is not None:
            arrays[f"{prefix}names"] = np.array(images.names)[order]
    return arrays
