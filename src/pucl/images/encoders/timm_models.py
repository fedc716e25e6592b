"""Models of timm by name: `timm:resnet50`. They bring mean, deviation and size of the images that they expect."""

import importlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pucl.data.errors import ExtraMissingError, reason_of
from pucl.texts import did_you_mean, install

PREFIX = "timm:"


def is_timm(name: str) -> bool:
    """Whether a name is that of a model of timm."""
    return name.startswith(PREFIX)


@dataclass(frozen=True, kw_only=True)
class ExpectedImages:
    """The images that a model was made for.

    Args:
        size: Side in pixels.
        mean: Of red, green and blue, from 0 to 1.
        std: Their standard deviations.
        fixed: Whether the model must be told if images have another size.
    """

    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    fixed: bool


def expected_images(name: str) -> ExpectedImages:
    """The images that a model of timm was made for; where timm does not say, those of ImageNet."""
    timm, model = _find(name)
    try:
        published = timm.get_pretrained_cfg(model)
        known = {} if published is None else published.to_dict()
        found = timm.data.resolve_data_config(args={"in_chans": 3}, pretrained_cfg=known)
    except Exception as error:  # Of timm, about a tag that it does not have.
        raise ValueError(f"encoder {name} is no model that timm describes: {reason_of(error)}") from error
    height, width = found["input_size"][1:]
    if height != width:
        raise ValueError(f"encoder {name} is for images of {height} x {width} pixels: expected a model for squares")
    (red, green, blue), (of_red, of_green, of_blue) = found["mean"], found["std"]
    return ExpectedImages(
        size=int(height),
        mean=(float(red), float(green), float(blue)),
        std=(float(of_red), float(of_green), float(of_blue)),
        fixed=bool(known.get("fixed_input_size", False)),
    )


def make_timm(name: str, *, in_channels: int, image_size: int, pretrained: bool) -> nn.Module:
    """Make a model of timm without its classifier.

    Args:
        name: `timm:NAME`. A tag, as in `timm:resnet50.a1_in1k`, names published weights.
        in_channels: Channels of the images.
        image_size: Height and width of the images.
        pretrained: Start from the published weights, which timm downloads if need be; else from random ones.
    """
    expected = expected_images(name)
    timm, model = _find(name)
    size = {"img_size": image_size} if expected.fixed and image_size != expected.size else {}
    try:
        made: nn.Module = timm.create_model(model, pretrained=pretrained, num_classes=0, in_chans=in_channels, **size)
    except Exception as error:  # Of timm, of its downloads, and of models that take no such size.
        raise ValueError(
            f"timm could not make the encoder {name} for images of {image_size} pixels: {type(error).__name__}: "
            f"{reason_of(error)}"
        ) from error
    return made


def _find(name: str) -> tuple[Any, str]:
    """Import timm, and check the name of a model. Names of the hub and of directories are none."""
    try:
        with torch.random.fork_rng(devices=[]):  # The first import may draw random numbers.
            timm: Any = importlib.import_module("timm")
            importlib.import_module("timm.data")
    except ModuleNotFoundError as error:
        if error.name != "timm":
            raise _broken(name, error) from error
        raise ExtraMissingError(f"the encoder {name}", "timm", "timm") from error
    except (ImportError, RuntimeError, AttributeError) as error:
        # torchvision, which timm needs, raises RuntimeError if its build does not match torch's.
        raise _broken(name, error) from error
    model = name.removeprefix(PREFIX)
    if not timm.is_model(model):
        hint = did_you_mean(model, timm.list_models())
        raise ValueError(f"encoder {name} names a model of timm: timm has no {model!r}.{hint}")
    return timm, model


def _broken(name: str, error: Exception) -> ValueError:
    return ValueError(
        f"the encoder {name} needs timm, which is installed but cannot be imported: {type(error).__name__}: "
        f"{reason_of(error)}. timm needs a torchvision of the same build as torch; {install('timm')}"
    )
