"""A correction that learns, in one file: histograms of similarities give each pair its own share of hidden positives.

With the densities p+ of positive and pu of unlabelled similarities, a pair of similarity s is a hidden positive with
probability r(s) = prior * p+(s) / pu(s). Its weight is 1 - r(s).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pucl.contrast.correction import check_range
from pucl.contrast.pairs import Comparison, Pairs
from pucl.corrections import Correction, CorrectionState, Reading, StateReport

HIGHEST = 0.95  # No pair is certain to be a hidden positive.


@dataclass(frozen=True, kw_only=True)
class Histograms(Correction):
    """Weigh unlabelled samples by the probability that they are true negatives, given their similarity.

    Args:
        prior: Share of hidden positives among the unlabelled, 0 <= prior < 1.
        bins: Bins of the histograms, from similarity -1 to 1.
        decay: Share of the histograms that is kept when an epoch ends.
    """

    prior: float = 0.1
    bins: int = 8
    decay: float = 0.5

    def __post_init__(self) -> None:
        check_range("prior", "the share of hidden positives", self.prior, "0 <= prior < 1", 0 <= self.prior < 1)

    def start(self, samples: int | None) -> "HistogramState":
        return HistogramState(self)


class HistogramState(CorrectionState):
    positive: Tensor
    unlabelled: Tensor

    def __init__(self, settings: Histograms) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("positive", torch.zeros(settings.bins, dtype=torch.float64))
        self.register_buffer("unlabelled", torch.zeros(settings.bins, dtype=torch.float64))

    def read(self, pairs: Pairs) -> Reading:
        log_weight = torch.log1p(-self.hidden()).to(pairs.query.dtype)
        return Reading(lambda comparison: log_weight[self.bin_of(comparison, comparison.unlabelled)])

    def see(self, pairs: Pairs) -> Tensor:
        return torch.cat([self.count(comparison) for comparison in pairs.comparisons()])

    def commit(self, ids: Tensor | None, seen: Tensor) -> None:
        positive, unlabelled = seen.sum(dim=0).split(self.settings.bins)
        self.positive += positive
        self.unlabelled += unlabelled

    def end_epoch(self) -> None:
        self.positive *= self.settings.decay
        self.unlabelled *= self.settings.decay

    def report(self) -> StateReport:
        density = self.unlabelled / self.unlabelled.sum().clamp_min(1e-12)
        hidden, highest = float((density * self.hidden()).sum()), float(self.hidden().max())
        sentence = f"{hidden:.1%} of the unlabelled pairs are taken for positives, at most {highest:.0%} of a bin"
        return StateReport({"hidden": hidden, "highest": highest}, sentence)

    def hidden(self) -> Tensor:
        """r: the probability that an unlabelled pair is a hidden positive, for each bin."""
        densities = [counts / counts.sum().clamp_min(1e-12) for counts in (self.positive, self.unlabelled)]
        return (self.settings.prior * densities[0] / densities[1].clamp_min(1e-12)).clamp_max(HIGHEST)

    def count(self, comparison: Comparison) -> Tensor:
        """For each anchor, its positives in each bin, then its unlabelled samples in each bin."""
        sides = (comparison.positive, comparison.positive_mask), (comparison.unlabelled, comparison.mask)
        counts = []
        for logits, mask in sides:
            once = torch.ones_like(logits, dtype=torch.float64) if mask is None else mask.double()
            zeros = once.new_zeros(len(logits), self.settings.bins)
            counts.append(zeros.scatter_add_(1, self.bin_of(comparison, logits), once))
        return torch.cat(counts, dim=1)

    def bin_of(self, comparison: Comparison, logits: Tensor) -> Tensor:
        similarities = logits.detach() * comparison.temperature
        return ((similarities + 1) / 2 * self.settings.bins).long().clamp(0, self.settings.bins - 1)
