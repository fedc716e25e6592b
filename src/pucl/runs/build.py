"""From a configuration to the framework for images that it names."""

import re

import torch
from torch import nn

from pucl import processes
from pucl.frameworks.cmc import CMC
from pucl.frameworks.framework import ImageFramework
from pucl.frameworks.moco import MoCo
from pucl.frameworks.simclr import SimCLR
from pucl.images.encoders.heads import make_head
from pucl.images.encoders.registry import ARCHITECTURES, EncoderSource, is_foreign, make_encoder
from pucl.images.encoders.synchronised import synchronise_batch_norms
from pucl.images.views.recipes import CMCViews, SimCLRViews
from pucl.runs.config import ImageConfig

CPU = torch.device("cpu")
COMPILED = re.compile(r"(slow_)?(encoder|head)|(encoders|heads)\.\d")  # Modules of a framework, by name.


def build_framework(
    config: ImageConfig,
    *,
    samples: int,
    size: int,
    device: torch.device = CPU,
    compiled: bool = False,
    encoder: EncoderSource | None = None,
) -> ImageFramework:
    """The framework with fresh weights, which depend on the seed alone, on its device.

    Where several processes work together, batch norms take their statistics over all of them.

    Args:
        config: What to build.
        samples: Images in the data, of which a bank has an entry each.
        size: Side of the images in pixels.
        device: Where it will be trained.
        compiled: Let torch.compile translate encoders and heads at their first use.
        encoder: What makes the encoder, in place of what the configuration names.
    """
    framework = _fresh(config, config.encoder if encoder is None else encoder, samples=samples, size=size)
    # MoCo's parts of a batch have statistics of their own, which no other process has a part in.
    if processes.world_size() > 1 and not (isinstance(framework, MoCo) and framework.splits > 1):
        synchronise_batch_norms(framework, device)
    framework.to(device)
    if compiled:
        for name, part in framework.named_modules():
            if COMPILED.fullmatch(name):
                part.compile()
    return framework


def _fresh(config: ImageConfig, source: EncoderSource, *, samples: int, size: int) -> SimCLR | MoCo | CMC:
    """The parts that the configuration names, on the CPU."""
    if isinstance(source, str) and is_foreign(source):  # A module may draw random numbers when it is imported.
        make_encoder(source, stem=config.stem, image_size=size)
    torch.manual_seed(config.seed)
    if config.framework == "cmc":
        if isinstance(source, nn.Module):
            raise ValueError("CMC has two encoders: expected a class or function that makes them, got one module")
        light, colour = (
            make_encoder(source, stem=config.stem, in_channels=channels, width=_half(config), image_size=size)
            for channels in (1, 2)
        )
        return CMC(
            light,
            colour,
            make_head("cmc", light.features, dim=config.dim),
            make_head("cmc", colour.features, dim=config.dim),
            CMCViews(size=size, scale=(config.crop, 1.0), flip=config.flip),
            samples=samples,
            dim=config.dim,
            draws=config.draws,
            temperature=config.temperature,
            momentum=config.bank_momentum,
        )
    encoder = make_encoder(source, stem=config.stem, width=config.width, image_size=size)
    views = SimCLRViews(size=size, scale=(config.crop, 1.0), flip=config.flip, blur=config.blur)
    if config.framework == "moco":
        return MoCo(
            encoder,
            make_head("moco-v1", encoder.features, dim=config.dim),
            views,
            temperature=config.temperature,
            queue_size=config.queue_size,
            dim=config.dim,
            momentum=config.key_momentum,
            symmetric=config.symmetric,
            splits=config.splits,
        )
    head = make_head("simclr", encoder.features, dim=config.dim)
    return SimCLR(encoder, head, views, view_count=config.view_count, temperature=config.temperature)


def _half(config: ImageConfig) -> int | None:
    """Half of an encoder's width: CMC's two encoders together have as many features as one."""
    usual = ARCHITECTURES[config.encoder].width if config.encoder in ARCHITECTURES else None
    width = usual if config.width is None else config.width
    return None if width is None else max(1, width // 2)
