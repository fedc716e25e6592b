"""Several processes that work as one. This is the only file that uses torch.distributed.

A loss gathers the embeddings of all processes and computes the loss of its own anchors against all of them. It is
scaled so that the *average* of the processes' gradients, which DistributedDataParallel computes, is the gradient of one
process with the whole batch. ``pucl doctor --world-size 2`` checks this.

In a single process, or without torch.distributed, every function returns the result for that process.
"""

import functools
import importlib
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

# Processes wait this long for each other: longer than the first may take to read a large directory. If one dies,
# torchrun ends the others at once.
LONGEST_WAIT = timedelta(hours=6)

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _outside_compilation(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Let torch.compile call this function without looking inside.

    It would make the collective calls asynchronous and may reorder them by size. Processes with batches of different
    sizes would then wait for each other at different calls.

    Without compilation the function is called as it is. The compiler imports functions whose default argument is the
    process group (torch.distributed.nn). These would keep the group for ever. Its threads would then outlive
    `torch.distributed.destroy_process_group`, and abort a process that ends while they work.
    """
    left_out: Callable[_Arguments, _Result] | None = None

    @functools.wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        nonlocal left_out
        if not torch.compiler.is_compiling():
            return function(*args, **kwargs)
        if left_out is None:  # Not before the first call: the compiler takes a second to import.
            left_out = torch.compiler.disable(function)
        return left_out(*args, **kwargs)

    return call


def world_size() -> int:
    """Number of processes that work together; 1 without torch.distributed."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Number of this process, from 0."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


@_outside_compilation
def gather_sizes(count: int, device: torch.device, *, alike: Mapping[str, int] | None = None) -> list[int]:
    """The count of every process, by rank.

    Args:
        count: Number of rows that this process is about to `gather`.
        device: Device of its tensors.
        alike: Named values that must be equal in all processes, such as the dimension of the rows. If they differ,
            every process raises the same error. Otherwise the processes would wait for each other forever, or
            misread each other's numbers. They are sent together with `count`, at no extra cost.
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
    """The rows of all processes, by rank. The gradient of a row returns to the process that it came from.

    The gradient of a row is the sum of its gradients in all processes, computed during the backward pass. So if one
    process calls ``backward``, all must, and the rows must need a gradient in all processes or in none.

    Args:
        tensor: Rows of this process, of any type. Tensors without gradient (ids, labels) get none.
        sizes: Number of rows of each process, from `gather_sizes`. They may differ.
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
    """The sum of this tensor over all processes. Its gradient is the sum of the processes' gradients."""
    if world_size() == 1:
        return tensor
    total: Tensor = _Sum.apply(tensor)  # type: ignore[no-untyped-call]
    return total


@torch.no_grad()
def average(tensors: Iterable[Tensor]) -> None:
    """Replace each of these tensors by its mean over all processes, in one exchange for each type of number."""
    by_type: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors if world_size() > 1 else ():
        by_type.setdefault(tensor.dtype, []).append(tensor)
    for alike in by_type.values():
        mean = _all_reduce(torch.cat([tensor.flatten() for tensor in alike])).div_(world_size())
        for tensor, values in zip(alike, mean.split([tensor.numel() for tensor in alike]), strict=True):
            tensor.copy_(values.view_as(tensor))


@torch.no_grad()
def copy_from_first(tensors: Iterable[Tensor]) -> None:
    """Replace each of these tensors by that of the first process."""
    for tensor in tensors if world_size() > 1 else ():
        values = tensor.contiguous()
        dist.broadcast(values, src=0)
        tensor.copy_(values)


def average_gradients(module: nn.Module) -> None:
    """Give every process the mean of all processes' gradients.

    A parameter may have a gradient in one process and none in another. All have to take part in the exchange, so those
    without a gradient send zeros.
    """
    if world_size() == 1:
        return
    for parameter in module.parameters():
        if parameter.requires_grad and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    average(parameter.grad for parameter in module.parameters() if parameter.grad is not None)


def any_of(flag: bool, device: torch.device) -> bool:
    """Whether the flag is set in any process; the result is the same in all of them."""
    return flag if world_size() == 1 else bool(_all_reduce(torch.tensor([int(flag)], device=device)))


def from_first(function: Callable[[], _Result]) -> _Result:
    """Call a function in the first process and return its result in all. If it raises ValueError or OSError, all do.

    For work that only one process may do, such as reading and writing the run's directory.
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
            answer[1:] = [
                isinstance(error, OSError),
                str(error),
            ]  # Only its text is sent: not every error can be pickled.
    dist.broadcast_object_list(answer, src=0)
    if raised is not None:
        raise raised
    if answer[2] is not None:
        raise OSError(answer[2]) if answer[1] else ValueError(answer[2])
    result: _Result = answer[0]
    return result


def launched() -> bool:
    """Whether torchrun, or a launcher that sets the same variables, started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def restarted() -> bool:
    """Whether torchrun restarted these processes after one of them died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@contextmanager
def torchrun_world(device: torch.device) -> Iterator[None]:
    """Work together with the processes that torchrun started; alone if it started none.

    Args:
        device: Device of this process. NVIDIA GPUs communicate by NCCL, everything else by gloo.
    """
    if not launched():
        yield
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    # torchrun uses one store for all its attempts. Without a prefix, an attempt may find the address of a process that
    # died, and wait for it forever.
    meeting, number, count = next(dist.rendezvous("env://", timeout=LONGEST_WAIT))  # type: ignore[attr-defined]
    store = dist.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", meeting)  # type: ignore[attr-defined]
    backend = "nccl" if device.type == "cuda" else "gloo"
    _import_before_joining()
    dist.init_process_group(backend, store=store, rank=number, world_size=count, timeout=LONGEST_WAIT)
    try:
        yield
    finally:
        dist.destroy_process_group()


def local_rank() -> int:
    """Number of this process among those of this machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def gloo_is_available() -> bool:
    """Whether torch has gloo, with which processes can work together without an accelerator."""
    return dist.is_available() and dist.is_gloo_available()


@contextmanager
def gloo_world(meeting: Path, *, number: int, count: int, timeout: timedelta) -> Iterator[None]:
    """Work together with other processes of this machine that use the same file.

    A file, unlike a port, cannot be in use by another program.

    Args:
        meeting: A file that does not exist yet; it is removed at the end.
        number: Number of this process, from 0.
        count: Number of processes.
        timeout: How long processes wait for each other.
    """
    _import_before_joining()
    store = dist.FileStore(str(meeting), count)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=number, world_size=count, timeout=timeout)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _import_before_joining() -> None:
    """Import the functions whose default argument is the process group, while there is none.

    The compiler and DistributedDataParallel import them. If a group exists by then, they keep it for ever, and its
    threads abort a process that ends while they work; see `_outside_compilation`.
    """
    importlib.import_module("torch.distributed.nn")


class _Gather(torch.autograd.Function):
    """Gather; the backward pass adds the gradients of all processes for each row."""

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
    @once_differentiable  # A second derivative would ignore the sum: better an error.
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        start = sum(ctx.sizes[: rank()])
        return _all_reduce(gradients[0])[start : start + ctx.sizes[rank()]], None


class _Sum(torch.autograd.Function):
    """Sum; the backward pass adds the gradients of all processes."""

    @staticmethod
    def forward(_ctx: Any, tensor: Tensor) -> Tensor:
        return _all_reduce(tensor)

    @staticmethod
    @once_differentiable
    def backward(_ctx: Any, *gradients: Tensor) -> Tensor:
        return _all_reduce(gradients[0])


def _all_gather(tensor: Tensor) -> Tensor:
    """The tensors of all processes, which have the same shape, stacked by rank."""
    everywhere = tensor.new_empty(world_size(), *tensor.shape)
    dist.all_gather(list(everywhere), tensor.detach().contiguous())
    return everywhere


def _all_reduce(tensor: Tensor) -> Tensor:
    """The sum over all processes of a tensor with any strides."""
    total = tensor.clone(memory_format=torch.contiguous_format)
    if world_size() > 1:
        dist.all_reduce(total)
    return total
