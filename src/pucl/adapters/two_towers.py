"""The call of CLIP-like training, as in open_clip, and of recommenders with two towers."""

import math
from dataclasses import replace
from typing import Literal, NamedTuple, get_args

import torch

from pucl import processes
from pucl.adapters.adapter import Adapter, check_rows_are_not_remembered, joined
from pucl.contrast.embeddings import as_embeddings, check_alike, unit
from pucl.contrast.knowledge import UNKNOWN, check_some_differ
from pucl.contrast.objectives import OBJECTIVES
from pucl.contrast.pairing import (
    GROUPS_MEAN,
    SMALLEST_TEMPERATURE,
    Temperature,
    check_ids,
    pair_up,
    readable_number,
    scalar,
    stack_views,
)
from pucl.contrast.pairs import Pairs
from pucl.losses import ContrastiveLoss
from pucl.shapes import Float, Int, Tensor

Directions = Literal["both", "first", "second"]
"""The towers whose samples are anchors: both, the first, or the second."""


class _Side(NamedTuple):
    """Samples of one tower.

    Args:
        vectors: Embeddings of length one. The first rows are those of the batch.
        ids: Item of each row, -1 if it is not known.
        groups: Known group of each row, -1 for none; None if no groups are given.
        shift: Number that is added to the logits of each row as a candidate.
    """

    vectors: Float[Tensor, "row dim"]
    ids: Int[Tensor, " row"]
    groups: Int[Tensor, " row"] | None
    shift: Float[Tensor, " row"]


class TwoTowerLoss(Adapter):
    r"""A loss of pucl for two towers, with CLIP's call: ``loss(image_features, text_features, logit_scale)``.

    The towers embed images and texts, or users and items. A sample of either tower is an anchor, its partner is the
    positive, and the partners of all other samples are unlabelled. With the scale s, the logit of anchor i and
    candidate j is

    .. math:: s \cos(x_i, y_j) + b - \log q_j.

    Args:
        loss: Any loss of pucl without a memory bank, except the oracle. Its temperature is used if no logit scale is
            given. With its default floor the loss learns at any logit scale; see `pucl.contrast.objective.Floor`.

    Shapes:
        - features of either tower: [batch, dim], normalised inside.
        - ``logit_scale``: s, a number or 0-d tensor, 1 / temperature (already exponentiated, as open_clip passes it).
          A tensor receives a gradient.
        - ``logit_bias``: b, a number or 0-d tensor. InfoNCE does not depend on it, and its gradient is 0. With
          ``objective="jensen_shannon"`` it is the bias of SigLIP.
        - ``ids``: [batch], integers >= 0, the item of each pair. Pairs of the same item are left out: an *accidental
          hit* is no negative.
        - ``groups``: [batch], integers, the known group of each pair, -1 for none. Partners of one group are positives
          of each other's samples.
        - ``negatives``: [extra, dim], more items of the second tower. They are unlabelled for the anchors of the first
          tower: mixed negatives, or hard ones.
        - ``log_q``: [batch], for each item of the second tower the logarithm of its probability to be in a batch. It is
          subtracted from the logits of the item, the positive's too, for the anchors of the first tower.

    With ``negatives``, ``ids``, ``groups`` and ``log_q`` go on: [batch + extra], first the batch, then the negatives.
    Without ids or groups of their own, negatives are of no known item or group; ``log_q`` must be complete.

    With ``log_q``, or ``logit_bias`` and Jensen-Shannon, the similarities in `last` are those of the shifted logits.

    Reference:
        Radford et al., "Learning Transferable Visual Models From Natural Language Supervision" (CLIP), ICML 2021; Zhai
        et al., "Sigmoid Loss for Language Image Pre-Training" (SigLIP), ICCV 2023; Yi et al.,
        "Sampling-Bias-Corrected Neural Modeling for Large Corpus Item Recommendations" (log q), RecSys 2019; Yang et
        al., "Mixed Negative Sampling for Learning Two-tower Neural Networks in Recommendations", WWW 2020.

    Example:
        >>> import pucl
        >>> loss = TwoTowerLoss(pucl.PUCLLoss(alpha=0.01, c=0.0))
        >>> value = loss(torch.randn(8, 16), torch.randn(8, 16), torch.tensor(14.3))
        >>> items, log_q = torch.tensor([5, 2, 5, 9]), torch.tensor([0.2, 0.1, 0.2, 0.05]).log()
        >>> value = loss(torch.randn(4, 16), torch.randn(4, 16), 20.0, ids=items, log_q=log_q, directions="first")
    """

    def __init__(self, loss: ContrastiveLoss) -> None:
        super().__init__(loss)
        check_rows_are_not_remembered(loss, "expected their number, pass samples= to it, and ids= in each call")

    def forward(
        self,
        image_features: Float[Tensor, "batch dim"],
        text_features: Float[Tensor, "batch dim"],
        logit_scale: float | Float[Tensor, ""] | None = None,
        logit_bias: float | Float[Tensor, ""] | None = None,
        *,
        ids: Int[Tensor, " item"] | None = None,
        groups: Int[Tensor, " item"] | None = None,
        negatives: Float[Tensor, "extra dim"] | None = None,
        log_q: Float[Tensor, " item"] | None = None,
        directions: Directions = "both",
        output_dict: bool = False,
    ) -> Float[Tensor, "*reduced"] | dict[str, Float[Tensor, "*reduced"]]:
        """The mean over the anchors of the chosen towers; with `output_dict` under the name ``"contrastive_loss"``."""
        temperature = self.loss.temperature if logit_scale is None else _temperature(logit_scale)
        bias = None if logit_bias is None else _bias(logit_bias)
        images, texts = stack_views([image_features, text_features])
        batch, items = len(images), texts if negatives is None else _with_negatives(texts, negatives)
        _check_directions(directions, one_way=negatives is not None or log_q is not None)
        _check_log_q(log_q, batch, len(items))
        start = self._start(batch, items, directions, given=(ids, groups, log_q))
        names = _of_items("ids", ids, batch, items, "names the item of each row")
        if ids is None:
            names[:batch] = torch.arange(start, start + batch, device=names.device)  # Each row is an item of its own.
        known = None if groups is None else _of_items("groups", groups, batch, items, GROUPS_MEAN)
        shift = items.new_zeros(len(items)) if log_q is None else -log_q.detach().to(items.dtype)
        first = _Side(images, names[:batch], None if known is None else known[:batch], items.new_zeros(batch))
        second = _Side(items, names, known, shift)
        added = None if OBJECTIVES[self.loss.objective].relative else bias
        both = {"first": (first, second, log_q is not None), "second": (second, first, False)}
        all_pairs = [
            self._pairs(*both[tower], batch, temperature, added) for tower in both if directions in ("both", tower)
        ]
        if ids is None or self.loss.samples is None:  # Then ids are no samples that a correction could remember.
            all_pairs = [replace(pairs, query_samples=None, key_samples=None) for pairs in all_pairs]
        loss = self.loss.settle(joined([self.loss.outcome(pairs) for pairs in all_pairs]))
        self.loss.learn(*all_pairs)
        if isinstance(bias, Tensor) and added is None:
            loss = loss + 0.0 * bias  # A parameter without any gradient would stop DistributedDataParallel.
        return {"contrastive_loss": loss} if output_dict else loss

    def _start(
        self,
        batch: int,
        items: Float[Tensor, "item dim"],
        directions: Directions,
        given: tuple[Tensor | None, ...],
    ) -> int:
        """Number of samples in the processes before this one; 0 for one process.

        It raises in every process if they are called in different ways: they would wait for each other for ever.
        """
        if not self.loss.together:
            return 0
        alike = {
            "the dimension": items.shape[1],
            "the size of a number in bytes": items.element_size(),
            "whether a gradient is needed": int(items.requires_grad and torch.is_grad_enabled()),
            "the number of the direction": get_args(Directions).index(directions),
        }
        names = ("ids", "groups", "log_q")
        alike |= {f"whether {name} is given": int(each is not None) for name, each in zip(names, given, strict=True)}
        return sum(processes.gather_sizes(batch, items.device, alike=alike)[: processes.rank()])

    def _pairs(
        self,
        anchors: _Side,
        candidates: _Side,
        shifted: bool,
        batch: int,
        temperature: Temperature,
        bias: Temperature | None,
    ) -> Pairs:
        """Compare the batch of one tower with the candidates of the other one, of all processes if they gather."""
        partners, others = candidates.vectors[:batch], self._gathered(candidates)
        _check_candidates(others.ids, others.groups)
        pairs = pair_up(
            anchors.vectors[:batch],
            partners,
            others.vectors,
            temperature=temperature,
            query_ids=anchors.ids[:batch],
            unlabelled_ids=others.ids,
            query_groups=None if anchors.groups is None else anchors.groups[:batch],
            unlabelled_groups=others.groups,
            normalize=False,
        )
        if not shifted and bias is None:
            return pairs
        bias = 0.0 if bias is None else bias
        return _shifted(pairs, others.shift + bias, candidates.shift[:batch] + bias)

    def _gathered(self, side: _Side) -> _Side:
        """The samples of this process, or of all processes."""
        if not self.loss.together:
            return side
        sizes = processes.gather_sizes(len(side.ids), side.ids.device)
        groups = None if side.groups is None else processes.gather(side.groups, sizes)
        vectors, ids, shift = (processes.gather(each, sizes) for each in (side.vectors, side.ids, side.shift))
        return _Side(vectors, ids, groups, shift)


def _temperature(logit_scale: float | Float[Tensor, ""]) -> Temperature:
    meaning = "logit_scale is 1 / temperature"
    value = readable_number(meaning, logit_scale)
    if value is not None and not 0 < value < 1 / SMALLEST_TEMPERATURE:
        raise ValueError(f"{meaning}: expected 0 < logit_scale < {1 / SMALLEST_TEMPERATURE:g}, got {value:g}")
    return 1 / scalar(logit_scale)


def _bias(logit_bias: float | Float[Tensor, ""]) -> Temperature:
    meaning = "logit_bias is added to all logits"
    value = readable_number(meaning, logit_bias)
    if value is not None and not math.isfinite(value):
        raise ValueError(f"{meaning}: expected a finite number, got {value:g}")
    return scalar(logit_bias)


def _with_negatives(texts: Float[Tensor, "batch dim"], negatives: Float[Tensor, "extra dim"]) -> Tensor:
    """The items of the second tower: the batch, then additional negatives."""
    negatives = as_embeddings("negatives", negatives)
    check_alike(("text_features", texts), ("negatives", negatives))
    return torch.cat([texts, unit("negatives", negatives).to(texts.dtype)])


def _of_items(
    name: str, given: Int[Tensor, " item"] | None, batch: int, items: Float[Tensor, "item dim"], meaning: str
) -> Int[Tensor, " item"]:
    """A number for each item, -1 where none is given. The numbers of negatives may be left out."""
    numbers = torch.full((len(items),), UNKNOWN, device=items.device)
    if given is None:
        return numbers
    check_ids(name, given, len(items) if len(given) == len(items) else batch, items.device, meaning)
    if name == "ids" and given.device.type == "cpu" and int(given.min()) < 0:
        raise ValueError(f"ids name items: expected none below 0, got {int(given.min())}")
    numbers[: len(given)] = given
    return numbers


def _check_directions(directions: object, *, one_way: bool) -> None:
    if directions not in get_args(Directions):
        raise ValueError(
            f"directions says whose samples are anchors: expected 'both', or 'first' or 'second' for one tower, "
            f"got {directions!r}"
        )
    if directions == "second" and one_way:
        raise ValueError(
            "negatives and log_q are of items of the second tower, with which anchors of the first are compared: "
            "expected the directions 'first' or 'both', got 'second'"
        )


def _check_log_q(log_q: Tensor | None, batch: int, items: int) -> None:
    """Raise for anything but one finite number for each item."""
    if log_q is None:
        return
    meaning = "log_q is the logarithm of the probability that an item is in a batch"
    if not log_q.is_floating_point() or tuple(log_q.shape) != (items,):
        raise ValueError(
            f"{meaning}: expected {items} numbers, for {batch} items of the batch and {items - batch} negatives, "
            f"got {log_q.dtype} of shape {tuple(log_q.shape)}"
        )
    if log_q.device.type == "cpu" and not torch.compiler.is_compiling() and not bool(log_q.isfinite().all()):
        raise ValueError(
            f"{meaning}: expected finite numbers, got {int((~log_q.isfinite()).sum())} of {items} that are not; an "
            f"item that was never counted has the logarithm -inf, so add one to all counts"
        )


def _check_candidates(ids: Int[Tensor, " item"], groups: Int[Tensor, " item"] | None) -> None:
    """Raise if there is nothing to compare an anchor with."""
    if len(ids) < 2:
        raise ValueError("the other samples of a batch are unlabelled: expected a batch of at least 2, got 1")
    if groups is not None:
        check_some_differ(groups)
    if ids.device.type == "cpu" and not torch.compiler.is_compiling() and bool((ids == ids[0]).all()):
        raise ValueError(
            f"ids name items, and an item is no negative of itself: expected two different items or more, got "
            f"{len(ids)} times the item {int(ids[0])}; shuffle the data, take larger batches, or pass negatives="
        )


def _shifted(pairs: Pairs, of_keys: Float[Tensor, " key"], of_positives: Float[Tensor, " anchor"]) -> Pairs:
    """Add a number to the logits of each key, by one more coordinate. Whatever computes logits then has it."""
    query = torch.cat([pairs.query, torch.ones_like(pairs.query[:, :1])], dim=1)
    return replace(
        pairs,
        query=query,
        key=torch.cat([pairs.key, of_keys[:, None]], dim=1),
        positive=pairs.positive + of_positives[:, None],
        shifts=1,
        bound=math.inf,
        lowest=-math.inf,
    )
