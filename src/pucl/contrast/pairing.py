"""Make pairs from embeddings: which positives and which unlabelled samples each anchor has."""

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple

import torch

from pucl.contrast.embeddings import ABOUT_ONE, as_embeddings, check_alike, check_finite_vectors, trusted_unit, unit
from pucl.contrast.knowledge import check_some_differ, with_groups
from pucl.contrast.pairs import Pairs
from pucl.shapes import Bool, Float, Int, Tensor

Temperature = float | Float[Tensor, ""]

GROUPS_MEAN = "names the known group of each row, -1 for none"  # What `check_ids` says of groups.
SMALLEST_TEMPERATURE = 1e-6  # Below it, a float32 logit has no correct digits left.


class Others(NamedTuple):
    """Embeddings of all processes: vectors, ids that exclude pairs, samples of the data, and groups; see `Pairs`."""

    key: Float[Tensor, "other dim"]
    key_ids: Int[Tensor, " other"]
    key_samples: Int[Tensor, " other"] | None
    key_groups: Int[Tensor, " other"] | None = None


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
    query_groups: Int[Tensor, " anchor"] | None = None,
    unlabelled_groups: Int[Tensor, " unlabelled"] | None = None,
    normalize: bool = True,
) -> Pairs:
    """Anchors with given positives and given unlabelled samples, such as a queue or a bank.

    The arguments are those of `pucl.functional.contrastive_loss`.
    """
    query = as_embeddings("query", query)
    positive = as_embeddings("positive", positive, axes=(2, 3))
    unlabelled = as_embeddings("unlabelled", unlabelled, axes=(2, 3))
    check_alike(("query", query), ("positive", positive), ("unlabelled", unlabelled))
    temperature = _as_temperature(temperature, query.device)
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
    if (query_groups is None) != (unlabelled_groups is None):
        raise ValueError(
            "query_groups and unlabelled_groups are compared with each other: expected both or neither, got one"
        )
    check_ids("query_ids", query_ids, anchors, query.device)
    check_ids("unlabelled_ids", unlabelled_ids, samples, query.device)
    check_ids("query_groups", query_groups, anchors, query.device, GROUPS_MEAN)
    check_ids("unlabelled_groups", unlabelled_groups, samples, query.device, GROUPS_MEAN)
    if unlabelled.ndim == 3 and (unlabelled_ids is not None or unlabelled_groups is not None):
        raise ValueError(
            "unlabelled_ids and unlabelled_groups belong to samples shared by all anchors: with a set for each anchor, "
            "use mask instead"
        )
    to_unit = unit if normalize else trusted_unit
    dtype = torch.promote_types(torch.promote_types(query.dtype, positive.dtype), unlabelled.dtype)
    query = to_unit("query", query).to(dtype) / temperature
    positive = to_unit("positive", positive).to(dtype)
    pairs = Pairs(
        query=query,
        key=to_unit("unlabelled", unlabelled).to(dtype),
        # Not a matrix product: autocast would use half precision.
        positive=(query[:, None] * positive).sum(dim=-1),
        positive_mask=positive_mask,
        query_ids=query_ids,
        key_ids=unlabelled_ids,
        query_samples=query_ids,
        key_samples=unlabelled_ids,
        mask=mask,
        **_limits(temperature),
    )
    if query_groups is None or unlabelled_groups is None:
        return pairs
    return with_groups(pairs, query_groups, unlabelled_groups)


def pair_views(
    views: Sequence[Float[Tensor, "batch dim"]],
    *,
    temperature: Temperature = 0.5,
    ids: Int[Tensor, " batch"] | None = None,
    samples: Int[Tensor, " batch"] | None = None,
    groups: Int[Tensor, " batch"] | None = None,
    others: Others | None = None,
    normalize: bool = True,
) -> Pairs:
    """Every view of every sample as an anchor, view after view.

    Its positives are the other views of its sample. Its unlabelled samples are all views of the other samples:
    2 (B - 1) for a batch of B in two views. With groups, all views of the other samples of its group are positives
    too, and not unlabelled.

    Args:
        views: Two or more embeddings of the same samples.
        temperature: Cosines are divided by it, > 0.
        ids: Sample of each row, if a sample may be in the batch twice. Pairs of the same sample are excluded.
        samples: Sample of each row, if no sample is in the batch twice and no ids are given. Corrections see it; it
            excludes no pairs, which is faster.
        groups: Known group of each row, >= 0; -1 for a row without one.
        others: Embeddings gathered from all processes (including these views), to compare with instead of the views.
        normalize: Divide embeddings by their length. If False, they must have length one already.
    """
    stacked = stack_views(views, normalize=normalize)
    temperature = _as_temperature(temperature, stacked.device)
    count, batch, _ = stacked.shape
    check_ids("ids", ids, batch, stacked.device)
    check_ids("samples", samples, batch, stacked.device)
    check_ids("groups", groups, batch, stacked.device, GROUPS_MEAN)
    regular = ids is None and others is None
    samples = ids if samples is None else samples
    samples = None if samples is None else samples.repeat(count)
    ids = (torch.arange(batch, device=stacked.device) if ids is None else ids).repeat(count)
    vectors = stacked.flatten(0, 1)
    groups = None if groups is None else groups.repeat(count)
    if others is None:
        if batch < 2:
            raise ValueError(
                "an anchor is compared with the other samples of its batch: expected a batch of at least 2, got 1"
            )
        # Both sides are scaled by the root, so that the matrix of logits stays symmetric.
        query = key = vectors / temperature**0.5
        key_ids, key_samples, key_groups = ids, samples, groups
    else:
        query, (key, key_ids, key_samples, key_groups) = vectors / temperature, others
    pairs = Pairs(
        query=query,
        key=key,
        positive=_other_views(stacked) / temperature,
        query_ids=ids,
        key_ids=key_ids,
        query_samples=samples,
        key_samples=key_samples,
        symmetric=others is None,
        period=batch if regular else 0,
        **_limits(temperature),
    )
    if groups is None or key_groups is None:
        return pairs
    check_some_differ(key_groups)
    return with_groups(pairs, groups, key_groups)


def pair_local_global(
    local: Float[Tensor, "node dim"],
    whole: Float[Tensor, "graph dim"],
    graph_of: Int[Tensor, " node"],
    *,
    temperature: Temperature | None = None,
) -> Pairs:
    """Nodes as anchors: their own graph is positive, the other graphs of the batch are unlabelled.

    Without a temperature, logits are inner products without bound, as in InfoGraph. With one, they are cosines divided
    by it.
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
        raise ValueError("a node is compared with the other graphs of its batch: expected at least 2 graphs, got 1")
    graphs = torch.arange(len(whole), device=whole.device)
    if temperature is not None:
        pairs = pair_up(
            local, whole[graph_of], whole, temperature=temperature, query_ids=graph_of, unlabelled_ids=graphs
        )
        # Positions in the batch are not samples of the data.
        return replace(pairs, query_samples=None, key_samples=None)
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
    """Check the views of a batch, give them unit length, and stack them."""
    if len(views) < 2:
        raise ValueError(f"the other view of a sample is its positive: expected at least two views, got {len(views)}")
    named = [(f"z{v}", as_embeddings(f"z{v}", view)) for v, view in enumerate(views)]
    check_alike(*named)
    first = named[0][1]
    for name, view in named[1:]:
        if view.shape != first.shape:
            raise ValueError(
                f"z0 and {name} are views of the same samples: expected the same shape, "
                f"got {tuple(first.shape)} and {tuple(view.shape)}"
            )
    dtype = functools.reduce(torch.promote_types, [view.dtype for _, view in named])
    to_unit = unit if normalize else trusted_unit
    return torch.stack([to_unit(name, view).to(dtype) for name, view in named])


def scalar(temperature: Temperature) -> Temperature:
    """Return a number unchanged, and a tensor of one element as a 0-d tensor of float32 or better."""
    if not isinstance(temperature, torch.Tensor):
        return temperature
    number = temperature.reshape(())
    return number.float() if number.dtype in (torch.float16, torch.bfloat16) else number


def check_temperature(temperature: Temperature) -> None:
    """Raise for a temperature that is no number, or too small for float32. A tensor on an accelerator is not read."""
    meaning = "temperature is what similarities are divided by"
    value = readable_number(meaning, temperature)
    if value is not None and not SMALLEST_TEMPERATURE <= value < math.inf:
        raise ValueError(f"{meaning}: expected {SMALLEST_TEMPERATURE:g} <= temperature < inf, got {value:g}")


def readable_number(meaning: str, number: object) -> float | None:
    """The value of a number or of a tensor with one element; None if it is on an accelerator or in compiled code."""
    if not isinstance(number, torch.Tensor):
        if isinstance(number, bool) or not isinstance(number, Real):
            raise TypeError(f"{meaning}: expected a number or a tensor of one, got {number!r}")
        return float(number)
    if number.numel() != 1 or number.is_complex():
        raise ValueError(f"{meaning}: expected one number, got {number.dtype} of shape {tuple(number.shape)}")
    if number.device.type != "cpu" or torch.compiler.is_compiling():
        return None
    return float(number.detach())


def check_ids(
    name: str, ids: Tensor | None, count: int, device: torch.device, meaning: str = "names the sample of each row"
) -> None:
    """Raise for ids that are not one integer for each row."""
    if ids is None:
        return
    if not isinstance(ids, torch.Tensor):
        raise TypeError(f"{name} {meaning}: expected a torch tensor, got {type(ids).__name__}")
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool or tuple(ids.shape) != (count,):
        raise ValueError(f"{name} {meaning}: expected {count} integers, got {ids.dtype} of shape {tuple(ids.shape)}")
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
    """Raise for a tensor on another device than the embeddings."""
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


def _as_temperature(temperature: Temperature, device: torch.device) -> Temperature:
    """Check a temperature; a tensor becomes a 0-d one."""
    check_temperature(temperature)
    if not isinstance(temperature, torch.Tensor):
        return temperature
    number = scalar(temperature)
    _check_device("temperature", number, device)
    return number


def _limits(temperature: Temperature) -> dict[str, Any]:
    """The fields of `Pairs` that say how large logits of unit vectors are. The value of a tensor is not read."""
    if isinstance(temperature, torch.Tensor):
        return {"bound": math.inf, "lowest": -1 / temperature, "temperature": temperature.detach()}
    return {"bound": (1 + ABOUT_ONE) ** 2 / temperature, "lowest": -1 / temperature, "temperature": temperature}
