r"""Lemma 1 taken pointwise: the weight of an unlabelled sample is the probability that it is a true negative.

Lemma 1 says :math:`p^- = (p^u - \tau' p^+) / (1 - \tau')`. Divided by :math:`p^u`, it is a weight for each pair,

.. math:: \frac{p^-}{p^u} = \frac{1 - r}{1 - \tau'}, \qquad r = \tau' \frac{p^+}{p^u} = P(\text{hidden positive}),

which is never negative. Nothing is subtracted, so the odds are 0 and no floor is needed. With :math:`r_i` for the
unlabelled sample i and :math:`h_i = e^{u_i}`,

.. math:: \mu = \frac{\sum_i (1 - r_i)\, h_i}{\sum_i (1 - r_i)}.

A constant r is plain. If r is 1 for pairs of one class and 0 for others, this is the oracle.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from pucl.contrast.correction import Correction, ExtraPositives, WeightTable, check_range
from pucl.contrast.objective import softplus
from pucl.contrast.pairs import Comparison
from pucl.shapes import Float, Int, Tensor

MOST = 0.5  # Largest share of plain's sum that is removed for an anchor.


class Removal(NamedTuple):
    """The part of each anchor's sum that is removed.

    Args:
        hidden: r after the bound; 0 for masked pairs.
        share: Share of plain's sum of exponentials that is removed.
        mean: Mean of r over the unlabelled samples of each anchor. Its mean over the anchors is tau'.
    """

    hidden: Float[Tensor, "anchor unlabelled"]
    share: Float[Tensor, " anchor"]
    mean: Float[Tensor, " anchor"]


def bounded(hidden: Float[Tensor, "anchor unlabelled"], comparison: Comparison, most: float = MOST) -> Removal:
    r"""Scale the r of each anchor so that at most the share `most` of plain's sum is removed.

    .. math:: \sum_i r_i\, g(u_i) \le \text{most} \sum_i g(u_i) \qquad \text{for } g = 1, \exp, \mathrm{softplus}

    With most = 1/2 the sum and the number of samples are at least halves of plain's, so
    :math:`|\log \mu - \log \mu_\text{plain}| \le \log 2` for both objectives, whatever r is. If r never falls as the
    similarity rises, the condition for exp implies the other two. Neither r nor its scale has a gradient.

    Args:
        hidden: r of each pair, the probability that it is a hidden positive. It is clipped to 0 to 1.
        comparison: The logits.
        most: Largest share to remove, 0 to 1. With 1 nothing is scaled.
    """
    logits = comparison.visible.detach()
    r = hidden.detach().to(logits.dtype).clamp(0, 1)
    if comparison.mask is not None:
        r = r.masked_fill(~comparison.mask, 0.0)
    mean = r.sum(dim=1) / comparison.count.clamp_min(1)
    share = (torch.softmax(logits, dim=1) * r).sum(dim=1)
    if most >= 1:
        return Removal(r, share, mean)
    values = softplus(logits)
    tiny = torch.finfo(logits.dtype).tiny
    of_softplus = (values * r).sum(dim=1) / values.sum(dim=1).clamp_min(tiny)
    scale = most / torch.maximum(torch.maximum(share, of_softplus), mean).clamp_min(most if most > 0 else tiny)
    return Removal(r * scale[:, None], share * scale, mean * scale)


@dataclass(frozen=True, eq=False, kw_only=True)
class PointwiseWeights(Correction):
    """Weights 1 - r, odds 0, N unchanged. A subclass says what r is.

    Args:
        tau_plus: tau', the mean of r over the pairs, for reports.
        most: Largest share of plain's sum that is removed for an anchor; see `bounded`. 1: no bound.
    """

    tau_plus: float | Float[Tensor, ""] = 0.0
    most: float = MOST

    def __post_init__(self) -> None:
        check_range("most", "the largest share of plain's sum to remove", self.most, "0 to 1", 0 <= self.most <= 1)

    def hidden(self, comparison: Comparison) -> Float[Tensor, "anchor unlabelled"]:
        """For each pair of a comparison r, the probability that it is a hidden positive.

        It is called for all anchors or for a block of them. The same comparison must give the same r.
        """
        raise NotImplementedError

    def removal(self, comparison: Comparison) -> Removal:
        """The r of each pair after the bound, and the share of plain's sum that it removes."""
        return bounded(self.hidden(comparison), comparison, self.most)

    def log_weights(self, comparison: Comparison) -> Float[Tensor, "anchor unlabelled"]:
        """Log of 1 - r, after the bound."""
        return torch.log1p(-self.removal(comparison).hidden)


@dataclass(frozen=True, eq=False, kw_only=True)
class Pointwise(PointwiseWeights):
    """Weights 1 - r for any r: what a state returns that knows r for each pair. Streamed by blocks of rows.

    Args:
        posterior: Returns r for the pairs of a comparison; see `PointwiseWeights.hidden`.
        attract: Returns extra positives of a comparison; see `Correction.extra_positives`. None: none.
        of_samples: Whether r depends on the samples of a pair alone, and not on their similarity.
        tau_plus, most: See `PointwiseWeights`.

    Example:
        >>> comparison = Comparison(positive=torch.ones(1, 1), unlabelled=torch.zeros(1, 4))
        >>> removing = Pointwise(posterior=lambda _: torch.tensor([[0.5, 0.0, 0.0, 0.0]]))
        >>> removing.normalised_log_weights(comparison)[0].exp()
        tensor([[0.1429, 0.2857, 0.2857, 0.2857]])
    """

    posterior: Callable[[Comparison], Float[Tensor, "anchor unlabelled"]]
    attract: Callable[[Comparison], ExtraPositives] | None = None
    of_samples: bool = False

    def extra_positives(self, comparison: Comparison) -> ExtraPositives | None:
        """The result of `attract`."""
        return None if self.attract is None else self.attract(comparison)

    def hidden(self, comparison: Comparison) -> Float[Tensor, "anchor unlabelled"]:
        """The result of `posterior`."""
        return self.posterior(comparison)


@dataclass(frozen=True, eq=False, kw_only=True)
class PointwiseTable(PointwiseWeights):
    """Weights 1 - r(s) for an r that depends on the similarity s alone. InfoNCE streams it by tiles.

    Args:
        table: r for equal bins of similarity from -1 to 1. It must never fall: then the bound for exp is enough, and
            streaming by tiles computes no other.
        tau_plus, most: See `PointwiseWeights`.
    """

    measures = True

    table: Float[Tensor, " bin"]

    def hidden(self, comparison: Comparison) -> Float[Tensor, "anchor unlabelled"]:
        """The entries of the table."""
        logits = comparison.unlabelled.detach()
        return self.table.to(logits.dtype)[bins_of(logits, comparison, len(self.table))]

    @property
    def weight_table(self) -> WeightTable:
        """The table and its bound."""
        return WeightTable(self.table, self.most)


def bins_of(logits: Float[Tensor, "*shape"], comparison: Comparison, bins: int) -> Int[Tensor, "*shape"]:
    """The bin of each logit's similarity, from 0; see `Comparison.similarities`. Bins are equal parts of -1 to 1.

    A similarity that is no number is in the first bin.
    """
    positions = comparison.similarities(logits) * (bins / 2) + bins / 2
    return positions.nan_to_num_(0.0).clamp_(0, bins - 1).long()
