"""Many processes as one: the only place that knows of torch.distributed.

A loss gathers the embeddings of all processes, takes the loss of its own anchors against all of them, and scales it so
that the *average* of the processes' gradients, which is what DistributedDataParallel forms, is the gradient of one
process that holds the whole batch. ``pucl doctor --world-size 2`` checks that it is so.

Alone, or without torch.distributed, every function here gives what one process has.
"""

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd.function import once_differentiable

from pucl.shapes import Float, Tensor

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _outside_compilation(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Let torch.compile call this function without looking inside.

    It would make asynchronous copies of the collective calls and may reorder them by size; processes with batches of
    different sizes would then wait for each other in different places.
    """
    left_out: Callable[_Arguments, _Result] | None = None

    @functools.wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        nonlocal left_out
        if left_out is None:  # Not before the first call: the compiler takes a second to import.
            left_out = torch.compiler.disable(function)
        return left_out(*args, **kwargs)

    return call


def world_size() -> int:
    """How many processes work together; 1 without torch.distributed."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Which of them this one is."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


@_outside_compilation
def gather_sizes(count: int, device: torch.device, *, alike: Mapping[str, int] | None = None) -> list[int]:
    """This number of every process, by rank.

    Args:
        count: The number of this process: how many rows it is about to `gather`.
        device: Where its tensors are.
        alike: Facts that must be the same everywhere, by name, such as the dimension of the rows. Where they differ,
            every process raises the same error here; without that the processes would wait for each other in vain, or
            take each other's numbers for something else. They travel with `count`, at no further cost.
    """
    alike = alike or {}
    if world_size() == 1:
        return [count]
    everywhere = _all_gather(torch.tensor([count, *alike.values()], device=device)).tolist()
    sizes, *facts = zip(*everywhere, strict=True)
    for name, values in zip(alike, facts, strict=True):
        if len(set(values)) > 1:
            by_rank = ", ".join(f"{value} in process {number}" for number, value in enumerate(values))
            raise ValueError(
                f"{name} goes for all processes that gather their samples: expected one value, got {by_rank}"
            )
    return list(sizes)


@_outside_compilation
def gather(tensor: Tensor, sizes: list[int]) -> Tensor:
    """The rows of all processes, by rank; a gradient goes back to the process that each row came from.

    The gradient of a row is the sum of what all processes found out about it. It is summed while the backward pass
    runs, so if one process calls ``backward`` all must, and the rows must need a gradient in all processes or in none.

    Args:
        tensor: Rows of this process, of any type; those without gradient (ids, labels) stay without.
        sizes: How many rows each process has, from `gather_sizes`. They may differ.
    """
    if len(sizes) != world_size() or len(tensor) != sizes[rank()]:
        raise ValueError(
            f"sizes says how many rows each process has: expected {world_size()} numbers, {len(tensor)} for this "
            f"process ({rank()}), got {sizes}"
        )
    if world_size() == 1:
        return tensor
    gathered: Tensor = _Gather.apply(tensor, sizes)  # type: ignore[no-untyped-call]
    return gathered


@_outside_compilation
def sum_over_processes(tensor: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The sum of this tensor over all processes, without gradient."""
    return _all_reduce(tensor.detach())


def sum_with_gradient(tensor: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The sum of this tensor over all processes; the gradient is what all processes together found out about it."""
    if world_size() == 1:
        return tensor
    total: Tensor = _Sum.apply(tensor)  # type: ignore[no-untyped-call]
    return total


@torch.no_grad()
def average(tensors: Iterable[Tensor]) -> None:
    """Replace each of these tensors by its mean over all processes, in one exchange for each type of number.

    Args:
        tensors: Gradients, or running statistics: the same ones, in the same order, in every process.
    """
    by_type: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors if world_size() > 1 else ():
        by_type.setdefault(tensor.dtype, []).append(tensor)
    for alike in by_type.values():
        mean = _all_reduce(torch.cat([tensor.flatten() for tensor in alike])).div_(world_size())
        for tensor, values in zip(alike, mean.split([tensor.numel() for tensor in alike]), strict=True):
            tensor.copy_(values.view_as(tensor))


def average_gradients(module: nn.Module) -> None:
    """Give every process the mean of all processes' gradients.

    A parameter that has a gradient here but not there (or not yet) would throw the exchange out of step, so those
    without one send zeros.
    """
    if world_size() == 1:
        return
    for parameter in module.parameters():
        if parameter.requires_grad and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    average(parameter.grad for parameter in module.parameters() if parameter.grad is not None)


def any_of(flag: bool, device: torch.device) -> bool:
    """Whether this is so in any process: all of them are told the same."""
    return flag if world_size() == 1 else bool(_all_reduce(torch.tensor([int(flag)], device=device)))


def from_first(function: Callable[[], _Result]) -> _Result:
    """What a function gives in the first process, in all of them; where it raises a ValueError or OSError, all do.

    For what only one may do, such as reading and writing the run's directory.
    """
    if world_size() == 1:
        return function()
    answer: list[Any] = [None, None, None]
    raised: ValueError | OSError | None = None
    if rank() == 0:
        try:
            answer[0] = function()
        except (ValueError, OSError) as error:
            raised = error
            answer[1:] = [isinstance(error, OSError), str(error)]  # Its words: not every error travels.
    dist.broadcast_object_list(answer, src=0)
    if raised is not None:
        raise raised
    if answer[2] is not None:
        raise OSError(answer[2]) if answer[1] else ValueError(answer[2])
    result: _Result = answer[0]
    return result


def launched() -> bool:
    """Whether torchrun (or what sets the same variables) started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def restarted() -> bool:
    """Whether torchrun started these processes anew, after one of them died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@contextmanager
def torchrun_world(device: torch.device, *, timeout: timedelta = timedelta(hours=6)) -> Iterator[None]:
    """Work with the processes that torchrun started beside this one; alone where it started none.

    Args:
        device: Of this process. Accelerators of NVIDIA talk by NCCL, everything else by gloo.
        timeout: How long to wait for each other before giving up: longer than the first may take to read a large
            folder while the others wait. When one dies, torchrun ends the others at once.
    """
    if not launched():
        yield
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    # torchrun keeps one store for all its attempts: without names of its own, an attempt may find the address of a
    # process that died, and wait for it for ever.
    meeting, number, count = next(dist.rendezvous("env://", timeout=timeout))  # type: ignore[attr-defined]
    store = dist.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", meeting)  # type: ignore[attr-defined]
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=number, world_size=count, timeout=timeout)
    try:
        yield
    finally:
        dist.destroy_process_group()


def local_rank() -> int:
    """Which process of this machine this one is."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def gloo_is_available() -> bool:
    """Whether processes can work together on any machine, with or without an accelerator."""
    return dist.is_available() and dist.is_gloo_available()


@contextmanager
def gloo_world(meeting: Path, *, number: int, count: int, timeout: timedelta) -> Iterator[None]:
    """Work with other processes of this machine that meet at the same file.

    A file, unlike a port, is never in use by somebody else.

    Args:
        meeting: A file that does not exist yet; it is removed in the end.
        number: Which of the processes this one is, from 0.
        count: How many there are.
        timeout: How long to wait for each other before giving up.
    """
    store = dist.FileStore(str(meeting), count)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=number, world_size=count, timeout=timeout)
    try:
        yield
    finally:
        dist.destroy_process_group()


class _Gather(torch.autograd.Function):
    """Gather whose backward pass adds up what every process found out about each row."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, sizes: list[int]) -> Tensor:
        ctx.sizes = sizes
        longest = max(sizes)
        if min(sizes) == longest:
            return _all_gather(tensor).flatten(0, 1)
        padded = tensor.new_zeros(longest, *tensor.shape[1:])
        padded[: len(tensor)] = tensor
        return torch.cat([part[:size] for part, size in zip(_all_gather(padded), sizes, strict=True)])

    @staticmethod
    @once_differentiable  # A second derivative would go through the sum as if it were not there: better none.
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        start = sum(ctx.sizes[: rank()])
        return _all_reduce(gradients[0])[start : start + ctx.sizes[rank()]], None


class _Sum(torch.autograd.Function):
    """Sum whose backward pass adds up what every process found out about it."""

    @staticmethod
    def forward(_ctx: Any, tensor: Tensor) -> Tensor:
        return _all_reduce(tensor)

    @staticmethod
    @once_differentiable
    def backward(_ctx: Any, *gradients: Tensor) -> Tensor:
        return _all_reduce(gradients[0])


def _all_gather(tensor: Tensor) -> Tensor:
    """The tensors of all processes, of one shape everywhere, stacked by rank."""
    everywhere = tensor.new_empty(world_size(), *tensor.shape)
    dist.all_gather(list(everywhere), tensor.detach().contiguous())
    return everywhere


def _all_reduce(tensor: Tensor) -> Tensor:
    """The sum over all processes, of a tensor with whatever strides."""
    total = tensor.clone(memory_format=torch.contiguous_format)
    if world_size() > 1:
        dist.all_reduce(total)
    return total
