"""The losses as functions: embeddings in, a loss out.

`contrastive_loss` is for a training loop of one's own. It consists of two steps that are public as well: `pair_up` (or
`pair_views`) says who is compared with whom, and `compare` gives an `Outcome` with the loss of every anchor, the share
of floored anchors, tau' and the mean similarities.

All of them raise a `FlooredWarning` when more than half of the anchors are at the floor.
"""

from typing import Literal

from pucl.contrast.compare import ObjectiveName
from pucl.contrast.compare import compare as compare_silently
from pucl.contrast.compat import hcl_graph_loss
from pucl.contrast.correction import Correction
from pucl.contrast.objectives import Floor, Outcome, Reduction, reduce
from pucl.contrast.pairing import Temperature, pair_local_global, pair_up, pair_views
from pucl.contrast.pairs import Pairs
from pucl.floored import FloorWatch
from pucl.precision import full_precision
from pucl.shapes import Bool, Float, Int, Tensor

__all__ = ["Outcome", "compare", "contrastive_loss", "local_global_loss", "pair_local_global", "pair_up", "pair_views"]

_floor_watch = FloorWatch(once=False)  # Functions have no state of their own: Python's filter avoids repetitions.


def compare(
    pairs: Pairs,
    correction: Correction,
    *,
    objective: ObjectiveName = "infonce",
    floor: Floor = "auto",
    streaming: bool | None = None,
    expected: int | None = None,
) -> Outcome:
    """Average the unlabelled samples under a correction, and take the loss of every anchor.

    Args:
        pairs: Who is compared with whom; see `pair_up`, `pair_views` and `pair_local_global`.
        correction: How unlabelled samples are read; see `pucl.corrections`.
        objective: ``"infonce"`` or ``"jensen_shannon"``.
        floor: ``"auto"``, ``"temperature"``, ``"paper"``, or a share of the unlabelled mean; see `Floor`.
        streaming: Never hold the anchors x unlabelled matrix. None: where that is faster.
        expected: How many unlabelled samples there will be once a queue of them is full. None: as many as now.

    Example:
        >>> import torch
        >>> from pucl.corrections import PUCL
        >>> outcome = compare(pair_views([torch.randn(8, 16), torch.randn(8, 16)]), PUCL(alpha=0.12, c=0.1))
        >>> loss, share = outcome.loss.mean(), outcome.floored
    """
    outcome = compare_silently(
        pairs, correction, objective=objective, floor=floor, streaming=streaming, expected=expected
    )
    _floor_watch.look(outcome)
    return outcome


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
    normalize: bool = True,
    streaming: bool | None = None,
) -> Float[Tensor, "*reduced"]:
    """The corrected loss of anchors against given positives and given unlabelled samples.

    Args:
        query: One embedding per anchor.
        positive: Its positive, or several.
        unlabelled: Samples of which nothing is known, shared by all anchors or a set for each.
        correction: How they are read; see `pucl.corrections`.
        temperature: What cosines are divided by, > 0. May be a tensor, and is then learnt with the rest.
        reduction: ``"mean"`` or ``"sum"`` over the anchors, or ``"none"`` for one value each.
        objective: ``"infonce"`` or ``"jensen_shannon"``.
        floor: ``"auto"``, ``"temperature"``, ``"paper"``, or a share of the unlabelled mean; see `Floor`.
        mask: True where an unlabelled sample counts for an anchor.
        positive_mask: True where a positive counts, for anchors with unequal numbers of them.
        query_ids: Which sample each anchor is of. It is never compared with an unlabelled sample of its own id.
        unlabelled_ids: Which sample each unlabelled embedding is of.
        normalize: Divide embeddings by their length. Off: they are of length one already.
        streaming: Never hold the anchors x unlabelled matrix. None: where that is faster.

    Half precision is computed in float32; otherwise mixed precisions in the better one.

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
        normalize=normalize,
    )
    return reduce(compare(pairs, correction, objective=objective, floor=floor, streaming=streaming).loss, reduction)


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
    """InfoGraph's loss: nodes against their own graph and, unlabelled, the other graphs of the batch.

    Args:
        local: One embedding per node.
        whole: One embedding per graph.
        graph_of: The graph of each node.
        correction: How the other graphs are read.
        reduction: ``"mean"`` or ``"sum"`` over the nodes, or ``"none"``.
        floor: ``"auto"`` or ``"temperature"`` (here both are zero, the least value of softplus), or a share of the
            unlabelled mean.
        streaming: Never hold the nodes x graphs matrix. None: where that is faster.
        compat: ``"hcl"`` for HCL's published graph loss, sign defects included, to have its numbers again.
    """
    if compat == "hcl":
        if reduction != "mean":
            raise ValueError(f"compat='hcl' exists as a mean over nodes: expected reduction='mean', got {reduction!r}")
        with full_precision(local.device):
            return hcl_graph_loss(local, whole, graph_of, correction)
    if compat is not None:
        raise ValueError(f"compat names a published behaviour to reproduce: expected 'hcl' or None, got {compat!r}")
    pairs = pair_local_global(local, whole, graph_of)
    outcome = compare(pairs, correction, objective="jensen_shannon", floor=floor, streaming=streaming)
    return reduce(outcome.loss, reduction)
