"""Frameworks: where positives and unlabelled samples come from. One file each, and one line in the table."""

from pathlib import Path
from typing import Any

import torch

from pucl import processes
from pucl.batch_norm import synchronise_batch_norms
from pucl.config import RunConfig
from pucl.frameworks.cmc import CMC_KIND
from pucl.frameworks.infograph import INFOGRAPH
from pucl.frameworks.kind import FrameworkKind
from pucl.frameworks.moco import MOCO
from pucl.frameworks.pairs import PAIRS
from pucl.frameworks.simclr import SIMCLR
from pucl.modalities import MODALITIES
from pucl.modality import EncoderSource, Modality, Task
from pucl.training.framework import Framework

FRAMEWORKS: dict[str, FrameworkKind] = {kind.name: kind for kind in (SIMCLR, MOCO, CMC_KIND, INFOGRAPH, PAIRS)}
"""By name. A new framework is one file and one name here."""

CPU = torch.device("cpu")


def modality_of(config: RunConfig) -> Modality:
    """The modality of a run's samples."""
    return MODALITIES[config.modality]


def open_data(config: RunConfig, root: Path | None = None) -> Task:
    """Open the data of a run. The root is the directory of data sets; see `pucl.data.root.data_root`."""
    return modality_of(config).open(config, root)


def build_framework(
    config: RunConfig,
    shape: Any,
    *,
    device: torch.device = CPU,
    compiled: bool = False,
    encoder: EncoderSource | None = None,
) -> Framework[Any]:
    """Build the framework of a run with fresh weights, which depend on the seed alone, and move it to its device.

    With several processes, batch norms compute their statistics over the samples of all of them.

    Args:
        config: The run.
        shape: The shape of the samples; see `pucl.modality.Task.shape`.
        device: The device that it is trained on.
        compiled: Compile encoders and heads with torch.compile at their first use.
        encoder: Builds the encoder, instead of the one that the configuration names.
    """
    framework = FRAMEWORKS[config.framework].build(config, shape, encoder)
    if processes.world_size() > 1 and not framework.separate_statistics:
        synchronise_batch_norms(framework, device)
    framework.to(device)
    if compiled:
        for part in framework.parts_to_compile():
            part.compile()
    return framework
