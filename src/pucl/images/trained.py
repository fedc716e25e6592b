"""The encoder of a finished run, ready to use."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict
from warnings import warn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pucl.data.errors import DataError
from pucl.data.split import TEST_SHARE
from pucl.evaluation import embed
from pucl.graphs.features import NodeFeatures
from pucl.graphs.task import build_infograph
from pucl.graphs.trained import TrainedGraphs
from pucl.images.encoders.registry import EncoderSource, is_foreign
from pucl.images.imageset import ImageData, ImageSet
from pucl.images.registry import load as load_data
from pucl.images.resizing import resize_pixels
from pucl.images.sources.arrays import to_pixels
from pucl.images.sources.picture import SUFFIXES, fit_square, need_pillow, quiet_decoders, read_picture
from pucl.images.task import limited
from pucl.images.views.recipes import Plain, PlainLab
from pucl.records import DamagedError, MismatchError, conform
from pucl.runs.build import build_framework
from pucl.runs.config import GraphConfig, ImageConfig, RunConfig
from pucl.runs.directory import RunDirectory
from pucl.runs.weights import load_weights, read_weights
from pucl.shapes import Float
from pucl.training.loop import module_of

if TYPE_CHECKING:
    from PIL.Image import Image

    Picture = str | Path | Image | NDArray[Any] | Tensor
    Images = Picture | ImageSet | Sequence[Picture]
else:
    Picture = Images = Any  # Pillow is not needed for arrays.

Progress = Callable[[int, int], None]

BATCH = 512  # As when a run is evaluated: the same batches give the same bits.


class Trained:
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

    def __init__(self, config: ImageConfig, module: nn.Module, *, image_size: int, features: int) -> None:
        self.config = config
        self.module = module.eval()
        self.image_size = image_size
        self.features = features

    @property
    def encoder(self) -> "PixelEncoder":
        """The network as a module of torch, to be exported or trained further; it gives what `encode` gives."""
        found = self.module.get_submodule("encoders" if self.config.framework == "cmc" else "encoder")
        networks = list(found) if isinstance(found, nn.ModuleList) else [found]
        views: Any = self.module.views
        return PixelEncoder(networks, views.plain)

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


def load(run: str | Path, *, encoder: EncoderSource | None = None) -> Trained | TrainedGraphs:
    """Load the encoder of a finished run. No code is run that a file names.

    Args:
        run: The run's directory, or its ``encoder.safetensors`` alone.
        encoder: For a run that was trained with an encoder of your own, that encoder again: what makes it (a class,
            function or ``"package.module:callable"``), or a module of the same layers. The file's weights are put into
            it.

    Raises:
        ValueError: If it is no run, one that is not finished, or one whose encoder must be named.
    """
    path = Path(run).expanduser()
    weights = path if path.is_file() else _weights_of(RunDirectory(path))
    state, about = read_weights(weights)
    try:
        config = RunConfig.from_json(about["config"])
    except ValueError as error:
        raise DamagedError(weights, str(error)) from error
    _check_encoder(config, encoder, weights)
    with torch.random.fork_rng(devices=[]):  # Building draws first weights, which is no business of the caller's.
        if isinstance(config, GraphConfig):
            inputs, columns = _graph_inputs(weights, about)
            module = build_infograph(config, inputs)
            load_weights(module, state, weights)
            return TrainedGraphs(config, module, columns=columns, inputs=inputs, features=about["features"])
        if not isinstance(config, ImageConfig):
            raise TypeError(f"a run is on images or on graphs, got a {type(config).__name__}")
        size = _image_size(weights, about)
        # Memory is of no use any more, so it may be as small as it can be.
        small = replace(config, queue_size=1)
        framework = build_framework(small, samples=2, size=size, encoder=encoder)
    load_weights(module_of(framework), state, weights)
    return Trained(config, module_of(framework), image_size=size, features=about["features"])


def _weights_of(directory: RunDirectory) -> Path:
    if not directory.weights.exists():
        directory.config()  # Raises where this is no run at all.
        raise ValueError(
            f"{directory.path} holds a run that is not finished, so there is no {directory.weights.name} yet: "
            f"the same `pucl train` with --resume goes on with it"
        )
    return directory.weights


def _check_encoder(config: RunConfig, encoder: EncoderSource | None, weights: Path) -> None:
    """Refuse to take the name of code from a file, and code where none is needed."""
    if not isinstance(config, ImageConfig) or not is_foreign(config.encoder):
        if encoder is not None:
            raise ValueError(f"{weights} holds an encoder of pucl's own: expected no other encoder to be named")
    elif encoder is None:
        raise ValueError(
            f"{weights} was trained with an encoder that is not pucl's; the file calls it {config.encoder!r}. pucl "
            f"runs no code that a file names. If you know and trust that code, name it yourself: "
            f"pucl.load(..., encoder=...), or --encoder package.module:callable on the command line"
        )


class _AboutImages(TypedDict):
    image_size: int


class _AboutGraphs(TypedDict):
    inputs: int
    columns: dict[str, Any] | None


def _image_size(weights: Path, about: Mapping[str, Any]) -> int:
    try:
        return int(conform(about, _AboutImages, "its note")["image_size"])
    except MismatchError as error:
        raise DamagedError(weights, str(error)) from error


def _graph_inputs(weights: Path, about: Mapping[str, Any]) -> tuple[int, NodeFeatures | None]:
    """How many columns a node has, and what they are."""
    try:
        known = conform(about, _AboutGraphs, "its note")
        columns = None if known["columns"] is None else NodeFeatures.from_record(known["columns"])
    except (ValueError, TypeError, LookupError) as error:
        raise DamagedError(weights, f"its note on the columns of nodes cannot be read: {error}") from error
    return known["inputs"], columns


def load_images(run: str | Path, *, encoder: EncoderSource | None = None) -> Trained:
    """Load the encoder of a finished run on images; see `load`.

    Raises:
        ValueError: Also if the run was on graphs.
    """
    trained = load(run, encoder=encoder)
    if not isinstance(trained, Trained):
        raise ValueError(f"{run} is a run on graphs: expected one on images")
    return trained


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
