"""Encoders by name: residual networks of pucl, models of timm, and any module of the user by its import path."""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pucl.images.encoders.resnet import BasicBlock, Bottleneck, ResNet, Stem
from pucl.images.encoders.timm_models import is_timm, make_timm
from pucl.modality import EncoderSource
from pucl.shapes import Float, Tensor
from pucl.texts import did_you_mean


@dataclass(frozen=True)
class Architecture:
    """The settings of a residual network."""

    block: type[BasicBlock] | type[Bottleneck]
    depths: tuple[int, ...]
    width: int


ARCHITECTURES = {
    "resnet18": Architecture(BasicBlock, (2, 2, 2, 2), 64),
    "resnet34": Architecture(BasicBlock, (3, 4, 6, 3), 64),
    "resnet50": Architecture(Bottleneck, (3, 4, 6, 3), 64),
    "small": Architecture(BasicBlock, (1, 1, 1, 1), 32),
}


class Adopted(nn.Module):
    """A module of the user, with the dimension of its output.

    It is wrapped because an attribute `features` may exist already: in VGG and DenseNet it is a layer.
    """

    def __init__(self, module: nn.Module, features: int) -> None:
        super().__init__()
        self.module = module
        self.features = features

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch features"]:
        """Apply the module of the user."""
        vectors: Tensor = self.module(images)
        return vectors


Encoder = ResNet | Adopted
"""A module that maps images [batch, channel, height, width] to [batch, features] and has an attribute `features`."""


def is_foreign(name: str) -> bool:
    """Whether a name is the import path of code that pucl does not know."""
    return ":" in name and not is_timm(name)


def make_encoder(
    source: EncoderSource,
    *,
    stem: Stem = "small",
    in_channels: int = 3,
    width: int | None = None,
    scales: int = 1,
    image_sizes: tuple[int, ...] = (32,),
    pretrained: bool = False,
) -> Encoder:
    """Make an encoder with random weights (from torch's global generator), or a pretrained one of timm.

    Args:
        source: A name: resnet18, resnet34, resnet50 or small (four blocks of 32 to 256 planes, for CPUs);
            `timm:NAME`, see `timm_models`; the import
            path `package.module:callable` of a class or function that makes an `nn.Module`; this class or function
            itself; or a module, which is used as it is.
        stem: `small` for images of up to about 100 pixels, `half` for the same at a quarter of the work, `ordinary` for
            larger images.
        in_channels: Channels of the images: 3, or 1 and 2 for the two views of CMC.
        width: Planes of the first stage; default: 64 (32 for `small`).
        scales: How many of the last stages give features, in a network of pucl; see `ResNet`.
        image_sizes: Heights and widths of the images with which a module of others is tried.
        pretrained: Start from the weights that timm has for the model.

    The user's callable gets the keywords `in_channels`, `stem` and `width` if its signature has them (`width` only if
    it is set), and nothing else. Its module is tried once, in evaluation mode, on two black images, to find its output
    dimension.

    Raises:
        ValueError: If the name is unknown, if the callable cannot be imported or called, or if its result is not an
            `nn.Module` that maps such images to one vector each.

    Example:
        >>> make_encoder("small").features, make_encoder("resnet50", width=32).features
        (256, 1024)
    """
    settings = {"stem": stem, "in_channels": in_channels, "width": width}
    if isinstance(source, nn.Module):
        return Adopted(source, _output_dimension(type(source).__name__, source, in_channels, image_sizes))
    if not isinstance(source, str):
        return _adopt(getattr(source, "__qualname__", repr(source)), source, settings, image_sizes)
    if is_foreign(source):
        with torch.random.fork_rng(devices=[]):  # The first import and call of the user's code may draw random numbers.
            _adopt(source, _find(source), settings, image_sizes)
        return _adopt(source, _find(source), settings, image_sizes)
    if is_timm(source):
        made = make_timm(source, in_channels=in_channels, image_size=image_sizes[0], pretrained=pretrained)
        return Adopted(made, _output_dimension(source, made, in_channels, image_sizes))
    if source not in ARCHITECTURES:
        raise ValueError(
            f"encoder names a network: expected one of {', '.join(ARCHITECTURES)}, timm:NAME, or "
            f"package.module:callable, got {source}.{did_you_mean(source, ARCHITECTURES)}"
        )
    architecture = ARCHITECTURES[source]
    return ResNet(
        architecture.block,
        architecture.depths,
        stem=stem,
        in_channels=in_channels,
        width=architecture.width if width is None else width,
        scales=scales,
    )


def _adopt(path: str, make: Callable[..., object], settings: dict[str, Any], image_sizes: tuple[int, ...]) -> Adopted:
    """Call the user's class or function. The path is for errors."""
    known = inspect.signature(make).parameters
    asked = {name: value for name, value in settings.items() if name in known and value is not None}
    # This runs code of the user: any exception is reported with its path and kept as the cause.
    try:
        module = make(**asked)
    except Exception as error:
        raise ValueError(
            f"encoder {path} is called with {_arguments(asked)} to make a module, but failed: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(module, nn.Module):
        raise ValueError(f"encoder {path} is called to make a module: expected an nn.Module, got {_kind(module)}")
    return Adopted(module, _output_dimension(path, module, settings["in_channels"], image_sizes))


def _find(path: str) -> Callable[..., object]:
    package, _, attributes = path.partition(":")
    if not package or not attributes:
        raise ValueError(f"encoder is the import path of a class or function: expected package.module:name, got {path}")
    # torchvision raises RuntimeError if its build does not match torch's.
    try:
        found: object = importlib.import_module(package)
    except (ImportError, RuntimeError) as error:
        raise ValueError(
            f"encoder {path} needs the module {package}, which cannot be imported "
            f"(PYTHONPATH=. adds the current directory): {type(error).__name__}: {error}"
        ) from error
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            hint = did_you_mean(attribute, dir(found))
            raise ValueError(f"encoder {path} names something in {package}: there is no {attribute}.{hint}")
        found = getattr(found, attribute)
    if isinstance(found, nn.Module):
        raise ValueError(
            f"encoder {path} is called to make a new module for every run: expected a class or function, "
            f"got a module ({type(found).__name__})"
        )
    if not callable(found):
        raise ValueError(f"encoder {path} is called to make a module: expected a class or function, got {_kind(found)}")
    return found


@torch.no_grad()
def _output_dimension(path: str, module: nn.Module, in_channels: int, image_sizes: tuple[int, ...]) -> int:
    """The dimension of the vectors that a module makes of images of each of these sizes."""
    training = module.training
    module.eval()
    dimensions = {}
    for size in image_sizes:
        shape = (2, in_channels, size, size)
        try:
            vectors: object = module(torch.zeros(shape))
        except Exception as error:
            advice = "" if size == image_sizes[0] else "; --coarse 0 leaves small views out"
            raise ValueError(
                f"encoder {path} is tried on images [batch, channel, height, width] of shape {list(shape)}, but "
                f"failed: {type(error).__name__}: {error}{advice}"
            ) from error
        if not isinstance(vectors, Tensor) or vectors.ndim != 2 or len(vectors) != 2:
            got = list(vectors.shape) if isinstance(vectors, Tensor) else _kind(vectors)
            raise ValueError(
                f"encoder {path} gives one vector for each image: expected the shape [2, features] for two, got {got}. "
                f"A feature map needs a pooling and a flatten; timm's models have num_classes=0 for that"
            )
        dimensions[size] = vectors.shape[1]
    module.train(training)
    if len(set(dimensions.values())) > 1:
        raise ValueError(
            f"encoder {path} must give vectors of one dimension for views of all sizes, got {dimensions}; --coarse 0 "
            f"leaves small views out"
        )
    return dimensions[image_sizes[0]]


def _arguments(asked: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in asked.items()) or "no arguments"


def _kind(value: object) -> str:
    return f"{value!r} of type {type(value).__name__}"
