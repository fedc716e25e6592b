"""How exactly to compute, where torch.autocast would decide otherwise."""

import contextlib
from contextlib import AbstractContextManager

import torch


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Keep torch.autocast from halving the precision, for the span of a `with`; nothing, where it is off."""
    if not torch.is_autocast_enabled(device.type):
        return contextlib.nullcontext()
    return torch.autocast(device.type, enabled=False)
