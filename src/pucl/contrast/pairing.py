"""Embeddings to pairs: the ways in which anchors find their positives and their unlabelled samples."""

import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import NamedTuple

import torch

from pucl.contrast.embeddings import ABOUT_ONE, as_embeddings, check_alike, check_finite_vectors, trusted_unit, unit
from pucl.contrast.pairs import Pairs
from pucl.shapes import Bool, Float, Int, Tensor

Temperature = float | Float[Tensor, ""]

SMALLEST_TEMPERATURE = 1e-6  # Below it the seven digits of a float32 cosine leave none for a logit.


class Others(NamedTuple):
    """Embeddings of all processes: vectors, ids that leave out pairs, and samples of the data; see `Pairs`."""

    key: Float[Tensor, "other dim"]
    key_ids: Int[Tensor, " other"]
    key_samples: Int[Tensor, " other"] | None


def pair_up(
    query: Float[Tensor, "anchor dim"],
    positive: Float[Tensor, "anchor dim"] | Float[Tensor, "anchor positive dim"],
    unlabelled: Float[Tensor, "unlabelled dim"] | Float[Tensor, "anchor unlabelled dim"],
    *,
    temperature: Temperature = 0.5,
    mask: Bool[Tensor, "anchor unlabelled"] | None = None,
    positive_mask: Bool[Tensor, "anchor positive"] | None = None,
    query_ids: Int[Tensor, " anchor"] | None = None,
    unlabelled_ids: Int[Tensor, " unlabelled"] | None = None,
    normalize: bool = True,
) -> Pairs:
    """Anchors with given positives and given unlabelled samples: a queue, a bank, anything.

    The arguments are those of `pucl.functional.contrastive_loss`.
    """
    check_temperature(temperature)
    temperature = scalar(temperature)
    query = as_embeddings("query", query)
    positive = as_embeddings("positive", positive, axes=(2, 3))
    unlabelled = as_embeddings("unlabelled", unlabelled, axes=(2, 3))
    check_alike(("query", query), ("positive", positive), ("unlabelled", unlabelled))
    _check_device("temperature", temperature, query.device)
    if positive.ndim == 2:
        positive = positive[:, None]
    anchors, samples = len(query), unlabelled.shape[-2]
    if len(positive) != anchors:
        raise ValueError(
            f"positive holds the positives of each anchor: expected one row for each of the {anchors} anchors "
            f"in query, got {len(positive)}"
        )
    if unlabelled.ndim == 3 and len(unlabelled) != anchors:
        raise ValueError(
            f"unlabelled holds a set of samples for each anchor: expected one for each of the {anchors} anchors "
            f"in query, got {len(unlabelled)}"
        )
    if positive.shape[1] == 0 or samples == 0:
        raise ValueError(
            f"an anchor is compared with positives and unlabelled samples: expected at least one of each, "
            f"got {positive.shape[1]} and {samples}"
        )
    _check_mask("mask", mask, (anchors, samples), query.device)
    _check_mask("positive_mask", positive_mask, (anchors, positive.shape[1]), query.device)
    if (query_ids is None) != (unlabelled_ids is None):
        raise ValueError("query_ids and unlabelled_ids are compared with each other: expected both or neither, got one")
    check_ids("query_ids", query_ids, anchors, query.device)
    check_ids("unlabelled_ids", unlabelled_ids, samples, query.device)
    if unlabelled.ndim == 3 and unlabelled_ids is not None:
        raise ValueError(
            "unlabelled_ids name samples shared by all anchors: with a set for each anchor, use mask instead"
        )
    to_unit = unit if normalize else trusted_unit
    query, positive, unlabelled = (
        to_unit("query", query),
        to_unit("positive", positive),
        to_unit("unlabelled", unlabelled),
    )
    dtype = torch.promote_types(torch.promote_types(query.dtype, positive.dtype), unlabelled.dtype)
    query = query.to(dtype) / temperature
    return Pairs(
        query=query,
        key=unlabelled.to(dtype),
        positive=(query[:, None] * positive.to(dtype)).sum(dim=-1),  # No matrix product: autocast would halve it.
        positive_mask=positive_mask,
        query_ids=query_ids,
        key_ids=unlabelled_ids,
        query_samples=query_ids,
        key_samples=unlabelled_ids,
        mask=mask,
        bound=_bound(temperature),
        lowest=-1 / temperature,
        temperature=_detached(temperature),
    )


def pair_views(
    views: Sequence[Float[Tensor, "batch dim"]],
    *,
    temperature: Temperature = 0.5,
    ids: Int[Tensor, " batch"] | None = None,
    samples: Int[Tensor, " batch"] | None = None,
    others: Others | None = None,
    normalize: bool = True,
) -> Pairs:
    """Every view of every sample as an anchor, view after view.

    Its positives are the other views of its sample; its unlabelled samples are all views of all others, 2 (B - 1)
    for a batch of B in two views.

    Args:
        views: Two or more embeddings of the same samples.
        temperature: What cosines are divided by, > 0.
        ids: Which sample each row is of, where one may be in the batch twice; such twins are left out.
        samples: Which sample of the data each row is of, where none is in the batch twice and no ids are given.
            Corrections see it; no pair is left out by it, which is quicker.
        others: What to compare with instead of the views themselves (of which it contains a copy): all that was
            gathered from all processes.
        normalize: Divide embeddings by their length. Off: they are of length one already.
    """
    check_temperature(temperature)
    temperature = scalar(temperature)
    stacked = stack_views(views, normalize=normalize)
    _check_device("temperature", temperature, stacked.device)
    count, batch, _ = stacked.shape
    check_ids("ids", ids, batch, stacked.device)
    check_ids("samples", samples, batch, stacked.device)
    regular = ids is None and others is None
    samples = ids if samples is None else samples
    samples = None if samples is None else samples.repeat(count)
    ids = (torch.arange(batch, device=stacked.device) if ids is None else ids).repeat(count)
    vectors = stacked.flatten(0, 1)
    if others is None:
        if batch < 2:
            raise ValueError(
                "the other samples of a batch are what an anchor is compared with: "
                "expected a batch of at least 2, got 1"
            )
        # Scaled by the root on either side, the matrix of logits stays symmetric.
        query = key = vectors / temperature**0.5
        key_ids, key_samples = ids, samples
    else:
        query, (key, key_ids, key_samples) = vectors / temperature, others
    return Pairs(
        query=query,
        key=key,
        positive=_other_views(stacked) / temperature,
        query_ids=ids,
        key_ids=key_ids,
        query_samples=samples,
        key_samples=key_samples,
        symmetric=others is None,
        period=batch if regular else 0,
        bound=_bound(temperature),
        lowest=-1 / temperature,
        temperature=_detached(temperature),
    )


def pair_local_global(
    local: Float[Tensor, "node dim"],
    whole: Float[Tensor, "graph dim"],
    graph_of: Int[Tensor, " node"],
    *,
    temperature: Temperature | None = None,
) -> Pairs:
    """Nodes as anchors: their own graph is positive, the other graphs of the batch are unlabelled.

    Without a temperature scores are plain inner products, as InfoGraph has them, and have no lowest value. With one
    they are cosines divided by it.
    """
    local, whole = as_embeddings("local", local), as_embeddings("whole", whole)
    check_alike(("local", local), ("whole", whole))
    check_finite_vectors("local", local)
    check_finite_vectors("whole", whole)
    check_ids("graph_of", graph_of, len(local), local.device)
    if local.device.type == "cpu" and not torch.compiler.is_compiling():
        least, most = (int(end) for end in graph_of.aminmax())
        if least < 0 or most >= len(whole):
            raise ValueError(
                f"graph_of is the row of each node's graph in whole: expected 0 to {len(whole) - 1}, "
                f"got {least} to {most}"
            )
    if len(whole) < 2:
        raise ValueError(
            "the other graphs of a batch are what a node is compared with: expected at least 2 graphs, got 1"
        )
    graphs = torch.arange(len(whole), device=whole.device)
    if temperature is not None:
        pairs = pair_up(
            local, whole[graph_of], whole, temperature=temperature, query_ids=graph_of, unlabelled_ids=graphs
        )
        return replace(pairs, query_samples=None, key_samples=None)  # Places in the batch name no samples.
    dtype = torch.promote_types(local.dtype, whole.dtype)
    local, whole = local.to(dtype), whole.to(dtype)
    return Pairs(
        query=local,
        key=whole,
        positive=local.new_empty(len(local), 0),
        own=graph_of,
        query_ids=graph_of,
        key_ids=graphs,
    )


def stack_views(
    views: Sequence[Float[Tensor, "batch dim"]], *, normalize: bool = True
) -> Float[Tensor, "view batch dim"]:
    """The views of a batch as one tensor, checked and of unit length."""
    if len(views) < 2:
        raise ValueError(f"the other view of a sample is its positive: expected at least two views, got {len(views)}")
    named = [(f"z{v}", as_embeddings(f"z{v}", view)) for v, view in enumerate(views)]
    check_alike(*named)
    for name, view in named[1:]:
        if view.shape != named[0][1].shape:
            raise ValueError(
                f"z0 and {name} are views of the same samples: expected the same shape, "
                f"got {tuple(named[0][1].shape)} and {tuple(view.shape)}"
            )
    dtype = named[0][1].dtype
    for _, view in named:
        dtype = torch.promote_types(dtype, view.dtype)
    to_unit = unit if normalize else trusted_unit
    return torch.stack([to_unit(name, view).to(dtype) for name, view in named])


def scalar(temperature: Temperature) -> Temperature:
    """A temperature that is a tensor without axes, whatever axes of length one it has; of float32 or better."""
    if not isinstance(temperature, torch.Tensor):
        return temperature
    number = temperature.reshape(())
    return number.float() if number.dtype in (torch.float16, torch.bfloat16) else number


def check_temperature(temperature: Temperature) -> None:
    """Refuse a temperature that is no number, or too small for float32 (a tensor on an accelerator is believed)."""
    meaning = "temperature is what similarities are divided by"
    value = readable_number(meaning, temperature)
    if value is not None and not SMALLEST_TEMPERATURE <= value < math.inf:
        raise ValueError(f"{meaning}: expected {SMALLEST_TEMPERATURE:g} <= temperature < inf, got {value:g}")


def readable_number(meaning: str, number: object) -> float | None:
    """The value of a number or of a tensor that holds one; None for a tensor that cannot be read without waiting."""
    if not isinstance(number, torch.Tensor):
        if isinstance(number, bool) or not isinstance(number, Real):
            raise TypeError(f"{meaning}: expected a number or a tensor of one, got {number!r}")
        return float(number)
    if number.numel() != 1 or number.is_complex():
        raise ValueError(f"{meaning}: expected one number, got {number.dtype} of shape {tuple(number.shape)}")
    if number.device.type != "cpu" or torch.compiler.is_compiling():
        return None
    return float(number.detach())


def check_ids(name: str, ids: Tensor | None, count: int, device: torch.device) -> None:
    """Refuse ids that do not name each sample by an integer."""
    if ids is None:
        return
    if not isinstance(ids, torch.Tensor):
        raise TypeError(f"{name} names the sample of each row: expected a torch tensor, got {type(ids).__name__}")
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool or tuple(ids.shape) != (count,):
        raise ValueError(
            f"{name} names the sample of each row: expected {count} integers, "
            f"got {ids.dtype} of shape {tuple(ids.shape)}"
        )
    _check_device(name, ids, device)


def _other_views(stacked: Float[Tensor, "view batch dim"]) -> Float[Tensor, "anchor positive"]:
    """Similarities of each view of a sample to its other views."""
    count = len(stacked)
    if count == 2:
        similarity = (stacked[0] * stacked[1]).sum(dim=1)
        return torch.cat([similarity, similarity])[:, None]
    rolled = [(stacked * stacked.roll(shift, dims=0)).sum(dim=-1) for shift in range(1, count)]
    return torch.stack(rolled, dim=-1).flatten(0, 1)


def _check_device(name: str, value: object, device: torch.device) -> None:
    """Refuse a tensor that cannot be used together with embeddings on this device."""
    if isinstance(value, torch.Tensor) and value.device != device and not (value.ndim == 0 and value.is_cpu):
        raise ValueError(f"{name} goes with the embeddings: expected it on {device}, got {value.device}")


def _check_mask(name: str, mask: Tensor | None, shape: tuple[int, int], device: torch.device) -> None:
    if mask is not None and not isinstance(mask, torch.Tensor):
        raise TypeError(f"{name} says which samples count: expected a bool tensor, got {type(mask).__name__}")
    _check_device(name, mask, device)
    if mask is not None and (mask.dtype != torch.bool or tuple(mask.shape) != shape):
        raise ValueError(
            f"{name} says which samples count: expected a bool tensor of shape {shape}, "
            f"got {mask.dtype} of shape {tuple(mask.shape)}"
        )


def _bound(temperature: Temperature) -> float:
    """The largest logit there can be between unit vectors, if that is known without looking."""
    return math.inf if isinstance(temperature, torch.Tensor) else (1 + ABOUT_ONE) ** 2 / temperature


def _detached(temperature: Temperature) -> Temperature:
    return temperature.detach() if isinstance(temperature, torch.Tensor) else temperature
