r"""How hard a loss pushes each pair of samples apart, and which pairs cost most.

Let :math:`s_{ij}` be the cosine of samples i and j, :math:`u_{ij} = s_{ij} / t` their logit at the temperature t, and
:math:`w_{ij}` the weights of the correction, uniform for plain. The gradient of the loss of anchor i with respect to
:math:`u_{ij}` is a factor of the anchor times :math:`w_{ij}\, g'(u_{ij})`, where g is exp for InfoNCE and softplus for
Jensen-Shannon. So sample j takes the share

.. math:: p_{ij} = \frac{w_{ij}\, g'(u_{ij})}{\sum_{k \ne i} w_{ik}\, g'(u_{ik})}

of the push of anchor i. Over n anchors the pair takes the share :math:`(p_{ij} + p_{ji}) / n` of all. If r is the
probability that the pair is a hidden positive, its *cost* is r times that share: a push that should not be.

Weights are held fixed: some corrections also have a gradient through them, which is not a push of a single pair.

The features of a run are those before its head, while a loss compares after it. The order of pairs is much the same,
the shares are not exactly those of the training.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from pucl.contrast.correction import Correction
from pucl.contrast.loss import ObjectiveName
from pucl.contrast.pairs import BLOCK, Comparison, Pairs
from pucl.shapes import Float, Int, Tensor

Posterior = Callable[[slice], Tensor]
"""Returns r of a block of samples with all samples, [block, sample]."""


@dataclass(frozen=True, kw_only=True)
class CostlyPair:
    """A pair of samples that plain's loss pushes apart.

    Args:
        first: Index of the sample with the smaller index.
        second: Index of the other.
        similarity: Their cosine.
        share: Share of all push that the pair takes, 0 to 1.
        r: Probability that it is a hidden positive; 1 where none is known.
    """

    first: int
    second: int
    similarity: float
    share: float
    r: float

    @property
    def cost(self) -> float:
        """Share of all push that the pair takes without being a true negative."""
        return self.r * self.share


def costliest_pairs(
    features: Float[Tensor, "sample dim"],
    *,
    temperature: float,
    objective: ObjectiveName = "infonce",
    posterior: Posterior | None = None,
    most: int = 100,
) -> tuple[list[CostlyPair], float]:
    """The pairs that cost plain's loss most, the costliest first, and the cost of all pairs together.

    All pairs are compared, in blocks: time grows with the square of the number of samples, memory does not. Pairs of
    cost 0 are left out. Equal costs are ordered by the indices of the samples.

    Args:
        features: Rows of length 1.
        temperature: Cosines are divided by it.
        objective: The loss.
        posterior: R of pairs. None: all pairs count fully, so that the order is that of their similarities, as far as
            both samples have equally many near neighbours.
        most: Number of pairs to return.
    """
    count = len(features)
    totals = torch.cat([_slopes(features, rows, temperature, objective).sum(dim=1) for rows in _blocks(count)])
    found: list[tuple[float, int, int, float, float, float]] = []
    everything = 0.0
    for rows in _blocks(count):
        slopes = _slopes(features, rows, temperature, objective)
        shares = slopes * (1 / totals[rows, None] + 1 / totals) / count
        r = torch.ones_like(shares) if posterior is None else posterior(rows).to(shares.dtype)
        costs = (shares * r).triu(rows.start + 1)  # Each pair once.
        everything += float(costs.sum())
        best, at = costs.flatten().topk(min(most, costs.numel()))
        for cost, place in zip(best.tolist(), at.tolist(), strict=True):
            row, second = divmod(place, count)
            if cost > 0:
                first = rows.start + row
                similarity = float(features[first] @ features[second])
                found.append((-cost, first, second, similarity, float(shares[row, second]), float(r[row, second])))
        found = heapq.nsmallest(most, found)
    pairs = [
        CostlyPair(first=first, second=second, similarity=similarity, share=share, r=r)
        for _, first, second, similarity, share, r in found
    ]
    return pairs, everything


@torch.no_grad()
def shares_on_own_class(
    pairs: Pairs, correction: Correction, labels: Int[Tensor, " sample"], *, objective: ObjectiveName = "infonce"
) -> Float[Tensor, " anchor"]:
    """For each anchor the share of its push, with the weights of a correction, that goes to samples of its class.

    An anchor whose unlabelled samples all weigh nothing pushes nothing: its share is 0.

    Args:
        pairs: All samples as anchors and as unlabelled samples; see `pairs_among`.
        correction: The correction.
        labels: The class of each sample.
        objective: The loss.
    """
    found = []
    for rows in pairs.blocks():
        comparison = pairs.rows(rows).comparison()
        pushes = push_shares(comparison, correction, objective=objective)
        found.append((pushes * (labels[rows, None] == labels)).sum(dim=1))
    return torch.cat(found)


def push_shares(
    comparison: Comparison, correction: Correction, *, objective: ObjectiveName = "infonce"
) -> Float[Tensor, "anchor unlabelled"]:
    """The share of each anchor's push that goes to each of its unlabelled samples; see the formula above."""
    log_weights, number = correction.normalised_log_weights(comparison)
    log_weights = torch.where(number[:, None] > 0, log_weights, -torch.inf)
    return torch.softmax(log_weights + _log_slope(comparison.visible, objective), dim=1).nan_to_num(0.0)


def pairs_among(features: Float[Tensor, "sample dim"], samples: Int[Tensor, " sample"], *, temperature: float) -> Pairs:
    """Each sample as an anchor, and all others as its unlabelled samples.

    Args:
        features: Rows of length 1.
        samples: Indices of the samples in the data, for corrections that remember samples.
        temperature: Cosines are divided by it.
    """
    return Pairs(
        query=features / temperature,
        key=features,
        positive=features.new_full((len(features), 1), 1 / temperature),
        query_ids=samples,
        key_ids=samples,
        query_samples=samples,
        key_samples=samples,
        bound=1 / temperature,
        lowest=-1 / temperature,
        temperature=temperature,
    )


def _blocks(count: int) -> Iterator[slice]:
    """Blocks of rows whose pairs with all samples can be held at once."""
    height = max(1, BLOCK // count)
    return (slice(start, min(start + height, count)) for start in range(0, count, height))


def _slopes(
    features: Float[Tensor, "sample dim"], rows: slice, temperature: float, objective: ObjectiveName
) -> Float[Tensor, "block sample"]:
    """The slope g' of each pair of a block of rows, divided by its largest possible value; 0 for a sample itself."""
    highest = torch.tensor(1 / temperature, dtype=torch.float64)
    logits = (features[rows] @ features.T).double() / temperature
    slopes = (_log_slope(logits, objective) - _log_slope(highest, objective)).exp()
    slopes[torch.arange(len(slopes)), torch.arange(rows.start, rows.stop)] = 0
    return slopes


def _log_slope(logits: Float[Tensor, "*shape"], objective: ObjectiveName) -> Float[Tensor, "*shape"]:
    """The log of g': the logit itself for exp, that of a sigmoid for softplus."""
    return logits if objective == "infonce" else torch.nn.functional.logsigmoid(logits)
