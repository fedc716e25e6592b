"""Check the embeddings of any encoder, and divide them by their length."""

import inspect
import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from pucl.precision import full_precision
from pucl.shapes import Float, Tensor

SHORTEST = 1e-12  # A shorter vector has no reliable direction.
_Function = TypeVar("_Function", bound=Callable[..., Any])

HALVES = (torch.float16, torch.bfloat16)
DTYPES = (*HALVES, torch.float32, torch.float64)
ABOUT_ONE = 1e-2  # Tolerance for the length of a unit vector: half precision has no better.


class NotFiniteError(ValueError):
    """Embeddings hold infinite values or NaN."""


def as_embeddings(name: str, tensor: Tensor, *, axes: tuple[int, ...] = (2,)) -> Tensor:
    """Return the tensor in float32 or better, or raise an error that says what is wrong with it.

    Half precision becomes float32: sums of exponentials need its range and precision.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} holds embeddings: expected a torch tensor, got {type(tensor).__name__}")
    if tensor.is_nested or tensor.layout != torch.strided:
        layout = "nested" if tensor.is_nested else str(tensor.layout)
        raise TypeError(
            f"{name} holds embeddings: expected a dense tensor, got a {layout} one; convert it with .to_dense()"
        )
    if tensor.dtype not in DTYPES:
        raise TypeError(
            f"{name} holds embeddings: expected a floating-point tensor of 16, 32 or 64 bits, got {tensor.dtype}"
        )
    if tensor.ndim not in axes:
        layouts = " or ".join({2: "[batch, dim]", 3: "[anchor, sample, dim]"}[ndim] for ndim in axes)
        raise ValueError(f"{name} holds embeddings: expected the shape {layouts}, got {tuple(tensor.shape)}")
    if tensor.shape[-1] == 0 or len(tensor) == 0:
        raise ValueError(
            f"{name} holds embeddings: expected at least one, of at least one dimension, got {tuple(tensor.shape)}"
        )
    return tensor.float() if tensor.dtype in HALVES else tensor


def unit(name: str, embeddings: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
    """Divide each vector by its length. A zero vector stays zero: its similarity to everything is 0."""
    with torch.no_grad():
        length = torch.linalg.vector_norm(embeddings, dim=-1, keepdim=True)
        check_finite(name, length)
        has_direction = length > SHORTEST
        scale = torch.where(has_direction, length, 1.0).reciprocal()
    vectors: Tensor = _Unit.apply(embeddings, scale, has_direction)  # type: ignore[no-untyped-call]
    return vectors


def with_signature(forward: _Function) -> _Function:
    """Store the signature of a function with it.

    torch asks for the signature of ``forward`` at every call of a function that has a ``setup_context``. Finding it
    takes as long as ten small operations.
    """
    setattr(forward, "__signature__", inspect.signature(forward))  # noqa: B010 (functions have no such attribute)
    return forward


class _Unit(torch.autograd.Function):
    r"""x / |x|. Its gradient is the part of the incoming gradient that is orthogonal to x, divided by :math:`|x|`.

    Written by hand, since autograd would pass over all embeddings twice as often. A zero vector has the scale one: its
    gradient is finite and can move it away from zero.
    """

    @staticmethod
    @with_signature
    def forward(vectors: Tensor, scale: Tensor, _has_direction: Tensor) -> Tensor:
        return vectors * scale

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        vectors, scale, has_direction = inputs
        ctx.save_for_backward(vectors, output, scale, has_direction)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        vectors, unit, scale, has_direction = ctx.saved_tensors
        with full_precision(vectors.device):  # Backward inside autocast would otherwise use half precision.
            if torch.is_grad_enabled():  # For second derivatives, the length depends on the vector too.
                length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
                scale = torch.where(has_direction, length, 1.0).reciprocal()
                unit = vectors * scale
            along = torch.where(has_direction, torch.linalg.vecdot(gradients[0], unit)[..., None], 0.0)
            return torch.addcmul(gradients[0], unit, along, value=-1) * scale, None, None


def trusted_unit(name: str, embeddings: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
    """Return vectors that should have unit length (or zero) already. On the CPU, where that is free, check it."""
    if torch.compiler.is_compiling() or embeddings.device.type != "cpu":
        return embeddings
    length = torch.linalg.vector_norm(embeddings.detach(), dim=-1, keepdim=True)
    check_finite(name, length)
    if length.max() > 1 + ABOUT_ONE:
        raise ValueError(
            f"{name} with normalize=False: expected vectors of length one, got one of length {length.max():.4g}; "
            f"leave normalize on to have them divided by their length"
        )
    return embeddings


def check_finite(name: str, length: Float[Tensor, "*batch 1"]) -> None:
    """Raise for embeddings that are not finite, on the CPU, where checking is free.

    On an accelerator a check would have to wait for the device, and a gradient scaler relies on seeing NaN. There, and
    in compiled code, NaN passes on to the loss and to every gradient.
    """
    if torch.compiler.is_compiling() or length.device.type != "cpu":
        return
    finite = length.detach().isfinite()
    if not finite.all():
        wrong = finite.numel() - int(finite.sum())
        raise NotFiniteError(
            f"{name} holds embeddings: expected finite numbers, got NaN, infinite or overflowing values in {wrong} of "
            f"{finite.numel()} vectors; lower the learning rate, or look for a division by zero in the encoder"
        )


def check_finite_vectors(name: str, vectors: Float[Tensor, "*batch dim"]) -> None:
    """`check_finite` for vectors whose lengths are not needed.

    One sum of all squares is faster than a length for each vector. If it is finite, all vectors are. If it is not, many
    large numbers may have overflowed, and the lengths decide.
    """
    if torch.compiler.is_compiling() or vectors.device.type != "cpu":
        return
    numbers = vectors.detach().flatten()
    if not math.isfinite(torch.dot(numbers, numbers).item()):
        check_finite(name, torch.linalg.vector_norm(vectors.detach(), dim=-1, keepdim=True))


def check_alike(first: tuple[str, Tensor], *others: tuple[str, Tensor]) -> None:
    """Raise if embeddings that are compared are on different devices, or of different dimensions."""
    dim = first[1].shape[-1]
    for name, tensor in others:
        if tensor.device != first[1].device:
            raise ValueError(
                f"{first[0]} and {name} are compared with each other: expected both on one device, "
                f"got {first[1].device} and {tensor.device}"
            )
        if tensor.shape[-1] != dim:
            # MoCo keeps its queue as [dim, size].
            hint = (
                f"; {name} holds one embedding per row, so pass {name}.T"
                if tensor.ndim == 2 and len(tensor) == dim
                else ""
            )
            raise ValueError(
                f"{first[0]} and {name} are compared with each other: expected the same dimension, "
                f"got {dim} and {tensor.shape[-1]}{hint}"
            )
    if first[1].device.type == "meta":
        raise ValueError(
            f"{first[0]} holds embeddings: expected numbers, got a tensor on the meta device, which has none"
        )
