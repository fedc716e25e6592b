"""Embeddings as they come from anybody's encoder, checked and made ready."""

import math
from typing import Any

import torch

from pucl.contrast.functions import with_signature
from pucl.precision import full_precision
from pucl.shapes import Float, Tensor

SHORTEST = 1e-12  # A vector shorter than this has no direction that could be trusted.
HALVES = (torch.float16, torch.bfloat16)
DTYPES = (*HALVES, torch.float32, torch.float64)
ABOUT_ONE = 1e-2  # How far from one the length of a unit vector may be: half precision is no better.


class NotFiniteError(ValueError):
    """Embeddings have become infinite, or no numbers at all."""


def as_embeddings(name: str, tensor: Tensor, *, axes: tuple[int, ...] = (2,)) -> Tensor:
    """The tensor in float32 or better, or an error that says what is wrong with it.

    Half precision becomes float32: sums of exponentials need its range and its digits.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} holds embeddings: expected a torch tensor, got {type(tensor).__name__}")
    if tensor.is_nested or tensor.layout != torch.strided:
        kind = "nested" if tensor.is_nested else str(tensor.layout)
        raise TypeError(
            f"{name} holds embeddings: expected a dense tensor, got a {kind} one; convert it with .to_dense()"
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
    """Each vector divided by its length. A zero vector has no direction and stays zero: similarity 0 to all."""
    with torch.no_grad():
        length = torch.linalg.vector_norm(embeddings, dim=-1, keepdim=True)
    check_finite(name, length)
    vectors: Tensor = _Unit.apply(embeddings, length)  # type: ignore[no-untyped-call]
    return vectors


class _Unit(torch.autograd.Function):
    r"""x / |x|, whose gradient is what of the incoming one does not point along x, divided by :math:`|x|`.

    Written out because the automatic one passes over all embeddings twice as often. A zero vector is divided by one: it
    then has a finite gradient that can lead it away from zero.
    """

    @staticmethod
    @with_signature
    def forward(vectors: Tensor, length: Tensor) -> Tensor:
        return vectors * _Unit._scale(length)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        vectors, length = inputs
        ctx.save_for_backward(vectors, output, _Unit._scale(length), length > SHORTEST)

    @staticmethod
    def _scale(length: Tensor) -> Tensor:
        return torch.where(length > SHORTEST, length, 1.0).reciprocal()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        vectors, unit, scale, has_direction = ctx.saved_tensors
        with full_precision(vectors.device):  # Who goes back inside of it has half precision else.
            if torch.is_grad_enabled():  # For second derivatives the length depends on the vector too.
                scale = _Unit._scale(torch.linalg.vector_norm(vectors, dim=-1, keepdim=True))
                unit = vectors * scale
            along = torch.where(has_direction, torch.linalg.vecdot(gradients[0], unit)[..., None], 0.0)
            return torch.addcmul(gradients[0], unit, along, value=-1) * scale, None


def trusted_unit(name: str, embeddings: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
    """The same vectors, said to be of unit length (or zero): checked where looking costs nothing."""
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
    """Stop at embeddings that are not numbers, where looking costs nothing.

    On an accelerator the answer would have to be waited for, and a gradient scaler relies on seeing NaN: there,
    and inside a compiled step, NaN goes through to the loss and to every gradient.
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
    """`check_finite` where nobody needs the lengths themselves.

    One sum of all squares is quicker than a length for each vector, and where it is a number they all are. Where it is
    not, many large numbers may have done it, and the lengths decide.
    """
    if torch.compiler.is_compiling() or vectors.device.type != "cpu":
        return
    numbers = vectors.detach().flatten()
    if not math.isfinite(torch.dot(numbers, numbers).item()):
        check_finite(name, torch.linalg.vector_norm(vectors.detach(), dim=-1, keepdim=True))


def check_alike(first: tuple[str, Tensor], *others: tuple[str, Tensor]) -> None:
    """All embeddings of a comparison must hold numbers, be on one device and of one dimension."""
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
