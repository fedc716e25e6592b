"""The losses as functions: embeddings in, a loss out.

`contrastive_loss` is for your own training loop. It takes two steps, which are public as well: `pair_up` (or
`pair_views`) makes `Pairs` from embeddings, and `corrected_loss` returns an `Outcome`: the loss of every anchor, the
share of floored anchors, tau' and the mean similarities.

All of them give a `FlooredWarning` if more than half of the anchors are at the floor.
"""

from typing import Literal

from pucl.contrast import loss as contrast
from pucl.contrast.compat import hcl_graph_loss
from pucl.contrast.correction import Correction
from pucl.contrast.loss import ObjectiveName, Outcome, Reduction, reduce
from pucl.contrast.objective import Floor
from pucl.contrast.pairing import Temperature, pair_local_global, pair_up, pair_views
from pucl.contrast.pairs import Pairs
from pucl.floored import FloorWatch
from pucl.precision import full_precision
from pucl.shapes import Bool, Float, Int, Tensor

__all__ = [
    "Outcome",
    "contrastive_loss",
    "corrected_loss",
    "local_global_loss",
    "pair_local_global",
    "pair_up",
    "pair_views",
]

_floor_watch = FloorWatch(once=False)  # Functions have no state: Python's warning filter prevents repetitions.


def contrastive_loss(
    query: Float[Tensor, "anchor dim"],
    positive: Float[Tensor, "anchor dim"] | Float[Tensor, "anchor positive dim"],
    unlabelled: Float[Tensor, "unlabelled dim"] | Float[Tensor, "anchor unlabelled dim"],
    correction: Correction,
    *,
    temperature: Temperature = 0.5,
    reduction: Reduction = "mean",
    objective: ObjectiveName = "infonce",
    floor: Floor = "auto",
    mask: Bool[Tensor, "anchor unlabelled"] | None = None,
    positive_mask: Bool[Tensor, "anchor positive"] | None = None,
    query_ids: Int[Tensor, " anchor"] | None = None,
    unlabelled_ids: Int[Tensor, " unlabelled"] | None = None,
    query_groups: Int[Tensor, " anchor"] | None = None,
    unlabelled_groups: Int[Tensor, " unlabelled"] | None = None,
    normalize: bool = True,
    streaming: bool | None = None,
) -> Float[Tensor, "*reduced"]:
    """The corrected loss of anchors with given positives and given unlabelled samples.

    Args:
        query: One embedding per anchor.
        positive: One or several positives of each anchor.
        unlabelled: Unlabelled samples: one set that all anchors share, or one set for each anchor.
        correction: How to treat the unlabelled samples; see `pucl.corrections`.
        temperature: Cosines are divided by it, > 0. A tensor receives a gradient.
        reduction: ``"mean"`` or ``"sum"`` over the anchors, or ``"none"`` for one value per anchor.
        objective: ``"infonce"`` or ``"jensen_shannon"``.
        floor: Lower limit of the estimate over negatives: ``"auto"``, ``"temperature"``, ``"paper"``, or a share of
            the unlabelled mean; see `pucl.contrast.objective.Floor`.
        mask: True where an unlabelled sample counts for an anchor. None: everywhere.
        positive_mask: True where a positive counts, if anchors have different numbers of positives.
        query_ids: Id of each anchor's sample. An anchor is not compared with unlabelled samples that have its id.
        unlabelled_ids: Id of each unlabelled sample.
        query_groups: Known group of each anchor, -1 for none. Unlabelled samples of its group count as positives.
        unlabelled_groups: Known group of each unlabelled sample.
        normalize: Divide embeddings by their length. If False, they must have length one already.
        streaming: Whether to compute without holding the anchors x unlabelled matrix. None: where that is faster.

    Embeddings in half precision are computed in float32. Of two precisions, the higher one is used.

    Example:
        >>> import torch
        >>> from pucl.corrections import PUCL
        >>> query, positive, queue = torch.randn(8, 16), torch.randn(8, 16), torch.randn(64, 16)
        >>> loss = contrastive_loss(query, positive, queue, PUCL(alpha=0.12, c=0.1), temperature=0.2)
    """
    pairs = pair_up(
        query,
        positive,
        unlabelled,
        temperature=temperature,
        mask=mask,
        positive_mask=positive_mask,
        query_ids=query_ids,
        unlabelled_ids=unlabelled_ids,
        query_groups=query_groups,
        unlabelled_groups=unlabelled_groups,
        normalize=normalize,
    )
    outcome = corrected_loss(pairs, correction, objective=objective, floor=floor, streaming=streaming)
    return reduce(outcome.loss, reduction)


def local_global_loss(
    local: Float[Tensor, "node dim"],
    whole: Float[Tensor, "graph dim"],
    graph_of: Int[Tensor, " node"],
    correction: Correction,
    *,
    reduction: Reduction = "mean",
    floor: Floor = "auto",
    streaming: bool | None = None,
    compat: Literal["hcl"] | None = None,
) -> Float[Tensor, "*reduced"]:
    """InfoGraph's loss. Nodes are anchors; their graph is positive, the other graphs of the batch are unlabelled.

    Args:
        local: One embedding per node.
        whole: One embedding per graph.
        graph_of: Row of each node's graph in `whole`.
        correction: How to treat the other graphs; see `pucl.corrections`.
        reduction: ``"mean"`` or ``"sum"`` over the nodes, or ``"none"`` for one value per node.
        floor: ``"auto"`` or ``"temperature"`` (both are zero here, the least value of softplus), or a share of the
            unlabelled mean.
        streaming: Whether to compute without holding the nodes x graphs matrix. None: where that is faster.
        compat: ``"hcl"`` for the graph loss that HCL's authors published, with its sign errors. It reproduces their
            numbers.
    """
    if compat == "hcl":
        if reduction != "mean":
            raise ValueError(f"compat='hcl' exists as a mean over nodes: expected reduction='mean', got {reduction!r}")
        with full_precision(local.device):
            return hcl_graph_loss(local, whole, graph_of, correction)
    if compat is not None:
        raise ValueError(f"compat names a published behaviour to reproduce: expected 'hcl' or None, got {compat!r}")
    pairs = pair_local_global(local, whole, graph_of)
    outcome = corrected_loss(pairs, correction, objective="jensen_shannon", floor=floor, streaming=streaming)
    return reduce(outcome.loss, reduction)


def corrected_loss(
    pairs: Pairs,
    correction: Correction,
    *,
    objective: ObjectiveName = "infonce",
    floor: Floor = "auto",
    streaming: bool | None = None,
    expected: int | None = None,
) -> Outcome:
    """Average the unlabelled samples under a correction, and compute the loss of every anchor.

    Args:
        pairs: Anchors, positives and unlabelled samples, from `pair_up`, `pair_views` or `pair_local_global`.
        correction: How to treat the unlabelled samples; see `pucl.corrections`. For a correction that learns, pass what
            its state returned from ``read(pairs)``.
        objective: ``"infonce"`` or ``"jensen_shannon"``.
        floor: Lower limit of the estimate over negatives: ``"auto"``, ``"temperature"``, ``"paper"``, or a share of
            the unlabelled mean; see `pucl.contrast.objective.Floor`.
        streaming: Whether to compute without holding the anchors x unlabelled matrix. None: where that is faster.
        expected: Number of unlabelled samples that a queue will hold once it is full. None: as many as there are now.

    Example:
        >>> import torch
        >>> from pucl.corrections import PUCL
        >>> outcome = corrected_loss(pair_views([torch.randn(8, 16), torch.randn(8, 16)]), PUCL(alpha=0.12, c=0.1))
        >>> loss, share = outcome.loss.mean(), outcome.floored
    """
    outcome = contrast.outcome_of(
        pairs, correction, objective=objective, floor=floor, streaming=streaming, expected=expected
    )
    _floor_watch.look(outcome)
    return outcome
