"""From a configuration to its data and to its framework, ready to be trained."""

from pathlib import Path
from typing import Any

import torch

from pucl import processes
from pucl.config import RunConfig
from pucl.frameworks import FRAMEWORKS
from pucl.images.encoders.registry import EncoderSource
from pucl.images.encoders.synchronised import synchronise_batch_norms
from pucl.modality import Modality, Task
from pucl.training.framework import Framework

CPU = torch.device("cpu")


def modality_of(config: RunConfig) -> Modality:
    """What the samples of a run are."""
    return FRAMEWORKS[config.framework].modality


def open_data(config: RunConfig, root: Path | None = None) -> Task:
    """Open the data of a run.

    Args:
        config: The run.
        root: Where data are kept; see `pucl.data.root.data_root`.
    """
    return modality_of(config).open(config, root)


def build_framework(
    config: RunConfig,
    shape: Any,
    *,
    device: torch.device = CPU,
    compiled: bool = False,
    encoder: EncoderSource | None = None,
) -> Framework[Any]:
    """Make the framework with fresh weights, which depend on the seed alone, on its device.

    Where several processes work together, batch norms take their statistics over all of them.

    Args:
        config: What to build.
        shape: The shape of the samples; see `pucl.modality.Task.shape`.
        device: Where it will be trained.
        compiled: Let torch.compile translate encoders and heads at their first use.
        encoder: What makes the encoder, in place of what the configuration names.
    """
    own = {} if encoder is None else {"encoder": encoder}
    framework = FRAMEWORKS[config.framework].build(config, shape, **own)
    if processes.world_size() > 1 and not framework.separate_statistics:
        synchronise_batch_norms(framework, device)
    framework.to(device)
    if compiled:
        for part in framework.parts_to_compile():
            part.compile()
    return framework
