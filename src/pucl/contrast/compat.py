"""Published behaviour that is kept only to reproduce published numbers."""

import math
from typing import Literal

import torch

from pucl.contrast.correction import Correction
from pucl.contrast.loss import Outcome
from pucl.contrast.objective import softplus
from pucl.contrast.pairing import pair_local_global
from pucl.contrast.pairs import Pairs
from pucl.shapes import Float, Int, Tensor

Compat = Literal["hcl"]
COMPATS: tuple[Compat, ...] = ("hcl",)
"""The methods whose published behaviour is available."""

SMALLEST = 1e-30  # Divisor if all scores are zero.


def hcl_graph_loss(
    local: Float[Tensor, "node dim"],
    whole: Float[Tensor, "graph dim"],
    graph_of: Int[Tensor, " node"],
    correction: Correction,
    copies: Float[Tensor, " node"] | None = None,
) -> Float[Tensor, ""]:
    r"""The graph loss of HCL as its authors published it, defects included.

    With scores T of nodes against graphs, :math:`\tau` the share of hidden positives and G graphs,

    .. math:: L = \mathrm{mean}_{i,g \ne b(i)}\,[\,r_{ig}\,\frac{\mathrm{sp}(T_{ig})}{1 - \tau} - \ln 2\,]
              - \mathrm{mean}_i\,[\,\ln 2 - \mathrm{sp}(-T_{i,b(i)}) - \frac{\tau}{1 - \tau}\,\mathrm{sp}(T_{i,b(i)})\,]

    Compared with the corrected expectation: the positive term is *added* instead of subtracted; the weights
    :math:`r = \exp(-2 \beta T / \max |T|)` favour *easy* graphs; pairs that should be masked take part as T = 0, in
    the row means of r and as constants in both sums. A node counts as many times as `copies` says.

    Use `Hard` with the Jensen-Shannon objective for the loss that was intended.
    """
    tau, beta = correction.tau_plus, correction.tilt
    if not correction.is_tilted or correction.stop_gradient or isinstance(tau, Tensor):
        raise ValueError(
            f"compat='hcl' is for corrections with a tilt and one prior (Debiased, Hard, PUCL with its gradient), "
            f"got {correction}"
        )
    pairs = pair_local_global(local, whole, graph_of)
    nodes, graphs = len(local) if copies is None else copies.sum(), len(whole)

    def total(part: Tensor) -> Tensor:
        return part.sum() if copies is None else copies.to(part.dtype) @ part.sum(dim=1)

    own = graph_of[:, None] == torch.arange(graphs, device=whole.device)
    scores = pairs.query @ pairs.key.T
    positive, negative = scores * own, scores * ~own
    log2 = math.log(2.0)
    positive_part = log2 - softplus(-positive) - tau / (1 - tau) * softplus(positive)
    # For masked pairs, the reference subtracts the first two terms at T = 0, but not the third.
    positive_mean = total(positive_part) / nodes
    if beta == 0:
        negative_part = (softplus(negative) - log2) / (1 - tau)
    else:
        largest = torch.maximum(negative.max(), negative.min().abs()).clamp_min(SMALLEST)
        hardness = torch.exp(-2 * beta * negative / largest)
        hardness = hardness / hardness.mean(dim=1, keepdim=True)
        negative_part = hardness * softplus(negative) / (1 - tau) - log2
    return total(negative_part) / (nodes * (graphs - 1)) - positive_mean


def outcome_as_published(pairs: Pairs, correction: Correction) -> Outcome:
    """The outcome of HCL's published loss. It is defined as a mean over nodes, so every node gets that mean."""
    if pairs.query_ids is None:
        raise ValueError("HCL's loss compares nodes with graphs: expected pairs that know the graph of each node")
    loss = hcl_graph_loss(pairs.query, pairs.key, pairs.query_ids, correction, pairs.copies)
    anchors, graphs = pairs.shape
    positive, query = pairs.positives().detach(), pairs.query.detach()
    others = query.sum(dim=0) @ pairs.key.detach().sum(dim=0) - positive.sum()
    return Outcome(
        loss=loss.expand(anchors),
        floored=loss.new_zeros(()),
        tau_plus=correction.tau_plus,
        positive_similarity=positive.mean(),
        unlabelled_similarity=others / (anchors * (graphs - 1)),
        floor="temperature",
    )
