"""A threshold for each sample that is learnt over the data set (GloFND)."""

import math
from dataclasses import dataclass

import torch

from pucl.contrast.correction import Correction, CorrectionState, Reading, StateReport, check_range
from pucl.contrast.pairs import Comparison, Pairs
from pucl.settings import setting
from pucl.shapes import Float, Int, Tensor

BETA1, BETA2, EPSILON = 0.9, 0.98, 1e-8  # Adam's, as in the published program.


@dataclass(frozen=True, kw_only=True)
class GloFND(Correction):
    r"""Leave out the most similar samples, those above a threshold that each anchor learns over the data set.

    A batch holds too few samples to know which of the whole data set are the most similar. Therefore each sample i has
    a threshold :math:`\lambda_i` that is learnt step by step, so that a share :math:`\alpha` of the similarities
    :math:`s_{ij}` lies above it. It moves by Adam, with the gradient

    .. math:: \alpha - \mathrm{mean}_j\, [s_{ij} > \lambda_i]

    over all anchors of the sample in a step. The weights are :math:`w_j \propto [s_{ij} \le \lambda_i]`; odds 0, no
    floor. As in the reference, the threshold moves before it is applied. When a sample is first seen, its threshold is
    the quantile :math:`1 - \alpha` of the similarities. ``dropped=0`` is `Plain`.

    Early in training similarities say little about classes. Nothing is left out in the first `wait` epochs; thresholds
    are learnt in them already. The reference waits for 70 of 200 epochs. The default of 4 is the same share of the
    12 epochs of a short training; for a longer one set `wait` to about a third of the epochs.

    In your own loop pass ``samples`` to the loss and ``ids`` in each call, and call ``end_epoch()`` after each epoch.

    Reference:
        Balmaseda et al., "Discovering Global False Negatives On the Fly for Self-supervised Contrastive Learning",
        ICML 2025.
    """

    dropped: float = setting(
        0.1, "share of an anchor's samples to leave out, 0 <= dropped < 1; about 1/classes; alpha of the reference"
    )
    threshold_rate: float = setting(0.05, "learning rate of the thresholds, > 0")
    wait: int = setting(4, "epochs in which nothing is left out, >= 0; about a third of all epochs")

    def __post_init__(self) -> None:
        share, rate = self.dropped, self.threshold_rate
        check_range("dropped", "the share of samples to leave out", share, "0 <= dropped < 1", 0 <= share < 1)
        check_range("threshold_rate", "the learning rate of the thresholds", rate, "above 0", 0 < rate < math.inf)
        check_range("wait", "the number of epochs in which nothing is left out", self.wait, "0 or more", self.wait >= 0)

    def never_corrects(self, epochs: int) -> str | None:
        """Say so if it waits to the end."""
        if epochs > self.wait:
            return None
        waits = f"GloFND waits for {self.wait} epochs before it leaves anything out, and the training has {epochs}"
        return f"{waits}: set wait to about a third of the epochs"

    def start(self, samples: int | None) -> "GloFNDState":
        """No sample has a threshold yet."""
        if samples is None:
            raise ValueError("GloFND has a threshold for every sample: expected their number, got none; pass samples=")
        return GloFNDState(self, samples)


class GloFNDState(CorrectionState):
    """For each sample its threshold (inf before it is first seen), and Adam's two averages.

    Args:
        settings: The correction.
        samples: Number of samples in the data.
    """

    threshold: Tensor
    first: Tensor
    second: Tensor
    above: Tensor
    epochs: Tensor

    def __init__(self, settings: GloFND, samples: int) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("threshold", torch.full((samples,), math.inf))
        self.register_buffer("first", torch.zeros(samples))
        self.register_buffer("second", torch.zeros(samples))
        self.register_buffer("above", torch.zeros(samples))  # Share of similarities above it when it was last seen.
        self.register_buffer("epochs", torch.zeros((), dtype=torch.int64))

    @property
    def sees(self) -> bool:
        """Whether the epochs to wait for are over."""
        return bool(self.epochs >= self.settings.wait)

    def read(self, pairs: Pairs) -> Correction:
        """Leave out samples above the thresholds, after this step has moved them; none while the correction waits.

        The moved thresholds are used for these pairs and not stored. `commit` computes and stores the same values,
        since all anchors of a sample are in one process. They differ only if a step has several `Pairs`, as for CMC:
        here thresholds move by the anchors of one of them, in `commit` by the anchors of all.
        """
        queries, _ = pairs.sample_ids()
        if self.settings.dropped == 0 or not self.sees:
            return Reading()
        with torch.no_grad():
            threshold, *_ = self._moved(queries, self.see(pairs))

        def weigh(comparison: Comparison) -> Tensor:
            anchors, _ = comparison.sample_ids()
            too_similar = _similarities(comparison) > threshold[anchors][:, None]
            return torch.zeros_like(comparison.unlabelled).masked_fill(too_similar, -math.inf)

        return Reading(weigh, measures=True)

    def see(self, pairs: Pairs) -> Float[Tensor, "anchor 3"]:
        """Each anchor's share of similarities above its threshold, its quantile if it has no threshold yet, its copies.

        The first two are multiplied by the copies, so that sums of rows give means over equal anchors.
        """
        pairs = pairs.measured()
        queries, _ = pairs.sample_ids()
        rows = []
        for block, comparison in zip(pairs.blocks(), pairs.comparisons(), strict=True):
            threshold = self.threshold[queries[block]]
            similarities = _similarities(comparison)
            above = (similarities > threshold[:, None]).sum(dim=1) / comparison.count.clamp_min(1)
            quantile, new = torch.zeros_like(above), threshold.isinf() & (comparison.count > 0)
            if new.any():
                quantile[new] = _quantiles(similarities[new], comparison.count[new], 1 - self.settings.dropped)
            once = (comparison.count > 0).to(above.dtype)
            copies = once if pairs.copies is None else once * pairs.copies[block]
            rows.append(torch.stack([above * copies, quantile * copies, copies], dim=1))
        return torch.cat(rows)

    def commit(self, ids: Int[Tensor, " anchor"] | None, seen: Float[Tensor, "anchor 3"]) -> None:
        """One step of Adam for the samples of the anchors."""
        if ids is None:
            raise ValueError("GloFND has a threshold for every sample: expected their ids, got none; pass ids=")
        self.threshold, self.first, self.second, self.above = self._moved(ids, seen)

    def end_epoch(self) -> None:
        """Count the epoch."""
        self.epochs += 1

    def report(self) -> StateReport:
        """The mean threshold, and the share of similarities above it."""
        known = self.threshold.isfinite()
        if not known.any():
            return StateReport({}, "no sample has a threshold yet")
        threshold, above = float(self.threshold[known].mean()), float(self.above[known].mean())
        wait = self.settings.wait - int(self.epochs)
        what = f"left out from epoch {self.settings.wait + 1} on" if wait > 0 else "left out"
        sentence = f"similarities above {threshold:.2f} on average are {what}, {above:.1%} of an anchor's samples"
        return StateReport({"threshold": threshold, "above": above}, sentence)

    def _moved(
        self, ids: Int[Tensor, " anchor"], seen: Float[Tensor, "anchor 3"]
    ) -> tuple[Float[Tensor, " sample"], ...]:
        """Thresholds, Adam's averages and shares after a step in which these anchors were seen; new tensors."""
        share = self.settings.dropped
        sums = seen.new_zeros(len(self.threshold), 3).index_add_(0, ids, seen)
        met, number = sums[:, 2] > 0, sums[:, 2].clamp_min(torch.finfo(seen.dtype).tiny)
        above, quantile = ((sums[:, column] / number).to(self.threshold.dtype) for column in (0, 1))
        new = met & self.threshold.isinf()
        moves = met & ~new
        gradient = share - above
        first = torch.where(moves, BETA1 * self.first + (1 - BETA1) * gradient, self.first)
        second = torch.where(moves, BETA2 * self.second + (1 - BETA2) * gradient.square(), self.second)
        # The reference corrects Adam's bias by the number of epochs, not of steps.
        epoch = self.epochs.to(first.dtype) + 1
        root = (second / (1 - BETA2**epoch)).sqrt()
        step = self.settings.threshold_rate * (first / (1 - BETA1**epoch)) / (root + EPSILON)
        threshold = torch.where(new, quantile, torch.where(moves, self.threshold - step, self.threshold))
        return threshold, first, second, torch.where(moves, above, torch.where(new, share, self.above))


def _similarities(comparison: Comparison) -> Float[Tensor, "anchor unlabelled"]:
    """Similarities without gradient; -inf where a sample is masked, so that it is above no threshold."""
    similarities = comparison.similarities(comparison.unlabelled)
    return similarities if comparison.mask is None else similarities.masked_fill(~comparison.mask, -math.inf)


def _quantiles(
    values: Float[Tensor, "anchor unlabelled"], count: Float[Tensor, " anchor"], share: float
) -> Float[Tensor, " anchor"]:
    """The quantile of each row, interpolated; a row has this many values, and the others are -inf."""
    rising = values.sort(dim=1).values
    position = share * (count - 1)
    low, skipped = position.floor(), values.shape[1] - count
    high = torch.minimum(low + 1, count - 1)
    ends = [rising.gather(1, (skipped + end).long()[:, None])[:, 0] for end in (low, high)]
    return torch.lerp(ends[0], ends[1], position - low)
