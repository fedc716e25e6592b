"""Weights from a ratio of two histograms: Lemma 1, pointwise."""

import math
from dataclasses import dataclass

import torch

from pucl.contrast.correction import Correction, CorrectionState, StateReport, check_range
from pucl.contrast.pairs import Comparison, Pairs
from pucl.contrast.pointwise import PointwiseTable, bins_of
from pucl.corrections.plain import Plain
from pucl.estimation.bbe import bbe_of_histograms
from pucl.estimation.ratio import posterior
from pucl.settings import setting
from pucl.shapes import Bool, Float, Int, Tensor

BINS = 64  # Bins of similarity from -1 to 1.
SEEN = 32  # Unlabelled samples of an anchor that are counted in a step: all of them would take longer than the loss.
ANCHORS = 1024  # Anchors that are counted at once: larger blocks take time for memory that is new each time.
LARGEST = 0.5  # A larger estimate of tau' means that the encoder does not separate positives from the rest.


@dataclass(frozen=True, kw_only=True)
class Ratio(Correction):
    r"""Weigh each unlabelled sample by the probability that it is a true negative, given its similarity s.

    .. math:: w_i \propto 1 - r(s_i), \qquad r(s) = \tau' \frac{f^+(s)}{f^u(s)}, \qquad \omega = 0.

    The densities :math:`f^+` of positives and :math:`f^u` of unlabelled pairs are running histograms over all anchors;
    r is made monotone and has no gradient. At most half of plain's sum is removed for an anchor. There is no floor. The
    correction is plain until `warm_up` positives were counted. See `pucl.contrast.pointwise`.

    Caution:
        This rests on SCAR: known positives must look like hidden ones. It holds for real pairs, such as two different
        samples of one class. It fails for two augmentations of one sample, which are far more alike.

    Note:
        Without `tau_plus`, tau' is estimated by `bbe_of_histograms` from the positives of each step. They are counted
        as the encoder sees them before this step pulls them, but earlier epochs have pulled the same samples. As pairs
        are memorised, the estimate falls through the truth. With augmentations it begins too high and ends too low. An
        estimate above one half means that the encoder does not separate positives from the rest; then nothing is
        corrected.

    Example:
        >>> from pucl import ContrastiveLoss
        >>> loss = ContrastiveLoss(Ratio(tau_plus=0.1))
        >>> value = loss(torch.randn(8, 16), torch.randn(8, 16))
        >>> loss.end_epoch().sentence
        'nothing is corrected yet: 16 of 1,000 positives were counted'
    """

    tau_plus: float | None = setting(  # type: ignore[assignment]  # None only before a state has estimated it.
        None, "share of hidden positives among the unlabelled, 0 <= tau_plus < 1; None: estimated in each step"
    )
    warm_up: int = setting(1000, "positives to count before anything is corrected")
    half_life: int = setting(5000, "positives after which an older count weighs half")

    def __post_init__(self) -> None:
        meaning, share = "the share of hidden positives among the unlabelled", self.tau_plus
        check_range("tau_plus", meaning, share, "0 <= tau_plus < 1, or None", share is None or 0 <= share < 1)
        check_range("warm_up", "the positives to count first", self.warm_up, "at least 1", self.warm_up >= 1)
        check_range("half_life", "how long counts last", self.half_life, "at least 1", self.half_life >= 1)

    def start(self, samples: int | None) -> "RatioState":  # noqa: ARG002 (samples are not remembered)
        """Empty histograms."""
        return RatioState(self)


class RatioState(CorrectionState):
    """The histograms, and the table of r that they give.

    Buffers:
        positive, unlabelled: Counts in each bin of similarity; older counts weigh less.
        table: r of each bin; zero while nothing is corrected.
        counted: Positives counted so far, and steps.
        removed: Sums of this epoch: share of plain's sum removed, mean r, number of anchors.
        last: The means of the last epoch: share removed, mean r.
    """

    positive: Tensor
    unlabelled: Tensor
    table: Tensor
    tau_plus: Tensor
    counted: Tensor
    removed: Tensor
    last: Tensor

    def __init__(self, settings: Ratio) -> None:
        super().__init__()
        self.settings = settings
        for name, size in (("positive", BINS), ("unlabelled", BINS), ("table", BINS), ("removed", 3), ("last", 2)):
            self.register_buffer(name, torch.zeros(size, dtype=torch.float64))
        self.register_buffer("tau_plus", torch.zeros((), dtype=torch.float64))
        self.register_buffer("counted", torch.zeros(2, dtype=torch.float64))

    def read(self, pairs: Pairs) -> Correction:  # noqa: ARG002 (the table is the same for all pairs)
        """Weights from the table; plain if the table is empty."""
        return self._weights() or Plain()

    def _weights(self) -> PointwiseTable | None:
        """Weights from the table; None while nothing is corrected."""
        if self._why_not():
            return None
        density = self.unlabelled / self.unlabelled.sum()
        return PointwiseTable(table=self.table.clone(), tau_plus=float((density * self.table).sum()))

    def see(self, pairs: Pairs) -> Float[Tensor, "anchor number"]:
        """For each anchor: its positives and some unlabelled samples counted by bin, and the share that is removed."""
        weights, anchors, pairs = self._weights(), len(pairs.query), pairs.measured()
        seen = torch.zeros(anchors, 2 * BINS + 3, device=pairs.query.device)
        for start in range(0, anchors, ANCHORS):
            rows = slice(start, min(start + ANCHORS, anchors))
            self._count(self._some(pairs.rows(rows)).comparison(), weights, seen[rows])
        return seen if pairs.copies is None else seen.mul_(pairs.copies[:, None])

    def commit(self, ids: Int[Tensor, " anchor"] | None, seen: Float[Tensor, "anchor number"]) -> None:  # noqa: ARG002
        """Add the counts to the histograms, and compute the table anew."""
        counts, removed = seen.split([2 * BINS, 3], dim=1)
        positive, unlabelled = counts.sum(dim=0).double().split(BINS)  # Whole numbers, which float32 adds exactly.
        removed = removed.double().sum(dim=0)
        kept = 0.5 ** (positive.sum() / self.settings.half_life)
        self.positive.mul_(kept).add_(positive)
        self.unlabelled.mul_(kept).add_(unlabelled)
        self.removed += removed
        self.counted += torch.stack([positive.sum(), torch.ones_like(self.tau_plus)])
        if float(self.counted[0]) >= self.settings.warm_up and float(self.unlabelled.sum()) > 0:
            given = self.settings.tau_plus
            tau_plus = bbe_of_histograms(self.positive, self.unlabelled).tau_plus if given is None else given
            self.tau_plus.fill_(tau_plus)
            self.table.copy_(posterior(self.positive, self.unlabelled, tau_plus))

    def end_epoch(self) -> None:
        """Keep the means of this epoch for the report."""
        self.last.copy_(self.removed[:2] / self.removed[2].clamp_min(1))
        self.removed.zero_()

    def report(self) -> StateReport:
        """tau', the share of plain's sum that was removed, the mean of r, and why nothing was removed."""
        removed, hidden = self.last.tolist()
        tau_plus = float(self.tau_plus)
        numbers = {"tau_plus": tau_plus, "removed": removed, "hidden": hidden}
        origin = "estimated" if self.settings.tau_plus is None else "given"
        sentence = f"{removed:.1%} of plain's sum was removed, at tau' {tau_plus:.3g} ({origin})"
        return StateReport(numbers, self._why_not() or sentence)

    def _why_not(self) -> str:
        """Why nothing is corrected; empty if something is."""
        counted, tau_plus = float(self.counted[0]), float(self.tau_plus)
        if counted < self.settings.warm_up:
            return f"nothing is corrected yet: {counted:,.0f} of {self.settings.warm_up:,} positives were counted"
        if self.settings.tau_plus is None and tau_plus > LARGEST:
            return f"nothing is corrected: the encoder does not separate positives, estimated tau' {tau_plus:.2f}"
        if not bool(self.table.any()):
            return f"nothing is corrected: no unlabelled pair looks like a positive, tau' {tau_plus:.2g}"
        return ""

    def _some(self, pairs: Pairs) -> Pairs:
        """The pairs with every n-th unlabelled sample; each step begins at the next one."""
        stride = math.ceil(pairs.shape[1] / SEEN)
        return pairs.columns(slice(int(self.counted[1]) % stride, None, stride))

    def _count(
        self, comparison: Comparison, weights: PointwiseTable | None, seen: Float[Tensor, "anchor number"]
    ) -> None:
        """Fill in the rows of `see` for these anchors, which are zeros."""
        positive, unlabelled, removed = seen.split([BINS, BINS, 3], dim=1)
        _add_counts(positive, bins_of(comparison.positive, comparison, BINS), comparison.positive_mask)
        _add_counts(unlabelled, bins_of(comparison.unlabelled, comparison, BINS), comparison.mask)
        positive, logits = comparison.positive.detach(), comparison.visible.detach()
        removed[:, 2] = positive.sum(dim=1) * 0 + logits.amax(dim=1) * 0 + 1  # NaN stays NaN.
        if weights is not None:
            _, removed[:, 0], removed[:, 1] = weights.removal(comparison)


def _add_counts(
    counts: Float[Tensor, "anchor bin"], bins: Int[Tensor, "anchor sample"], mask: Bool[Tensor, "anchor sample"] | None
) -> None:
    """Count how often each anchor has each bin."""
    once = counts.new_ones(bins.shape) if mask is None else mask.to(counts.dtype)
    counts.scatter_add_(1, bins, once)
