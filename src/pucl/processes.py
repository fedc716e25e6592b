"""Many processes as one: the only place that knows of torch.distributed.

A loss gathers the embeddings of all processes, takes the loss of its own anchors against all of them, and scales it so
that the *average* of the processes' gradients, which is what DistributedDataParallel forms, is the gradient of one
process that holds the whole batch.
"""

from typing import Any

import torch
import torch.distributed as dist

from pucl.shapes import Float, Tensor


def world_size() -> int:
    """How many processes work together; 1 without torch.distributed."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Which of them this one is."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def gather_sizes(count: int, device: torch.device) -> list[int]:
    """This number of every process, by rank."""
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(world_size())]
    dist.all_gather(sizes, torch.tensor([count], device=device))
    return [int(size) for size in sizes]


def gather(tensor: Tensor, sizes: list[int]) -> Tensor:
    """The rows of all processes, by rank; a gradient goes back to the process that each row came from.

    Args:
        tensor: Rows of this process.
        sizes: How many rows each process has, from `gather_sizes`. They may differ.
    """
    gathered: Tensor = _Gather.apply(tensor, sizes)
    return gathered


def sum_over_processes(tensor: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The sum of this tensor over all processes, without gradient."""
    total = tensor.detach().clone()
    dist.all_reduce(total)
    return total


class _Gather(torch.autograd.Function):
    """Gather whose backward pass adds up what every process found out about each row."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, sizes: list[int]) -> Tensor:
        ctx.sizes = sizes
        longest = max(sizes)
        padded = tensor.new_zeros(longest, *tensor.shape[1:])
        padded[: len(tensor)] = tensor
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total)
        start = sum(ctx.sizes[: rank()])
        return total[start : start + ctx.sizes[rank()]], None
