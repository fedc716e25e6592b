"""Full precision inside torch.autocast."""

import contextlib
from contextlib import AbstractContextManager

import torch


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """A context in which torch.autocast is off. It costs nothing if autocast is off already."""
    if not torch.is_autocast_enabled(device.type):
        return contextlib.nullcontext()
    return torch.autocast(device.type, enabled=False)
