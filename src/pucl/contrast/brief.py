"""Records of tensors as short texts."""

from dataclasses import fields
from typing import Any

import torch


def brief_repr(record: Any) -> str:
    """A dataclass as text: numbers by value, larger tensors by type and shape. Fields that are None are omitted.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Point:
        ...     centre: torch.Tensor
        ...     weight: torch.Tensor
        >>> brief_repr(Point(torch.zeros(2, 3), torch.tensor(0.5)))
        'Point(centre=float32[2, 3], weight=0.5)'
    """
    shown = ((each.name, getattr(record, each.name)) for each in fields(record) if each.repr)
    parts = [f"{name}={_brief(value)}" for name, value in shown if value is not None]
    return f"{type(record).__name__}({', '.join(parts)})"


def _brief(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if not isinstance(value, torch.Tensor):
        return repr(value)
    if value.ndim == 0 and value.is_floating_point() and value.device.type != "meta":
        return f"{value.item():.4g}"
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
