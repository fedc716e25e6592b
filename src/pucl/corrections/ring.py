"""Conditional negative sampling in a ring."""

import math
from dataclasses import dataclass

import torch

from pucl.contrast.comparison import Comparison
from pucl.contrast.correction import Anneal, Correction, check_range, ends, settled
from pucl.shapes import Float, Int, Tensor


@dataclass(frozen=True, kw_only=True)
class Ring(Correction):
    r"""Look only at a band of ranks: neither the very closest samples, nor the many far ones.

    Each anchor's N unlabelled samples are ranked from the hardest. Those of rank
    :math:`\lfloor \text{lower} \cdot N \rfloor` up to (not including) :math:`\lfloor \text{upper} \cdot N \rfloor`
    count alike, the others not at all; odds 0. ``Ring(lower=0, upper=1)`` is `Plain`.

    Args:
        lower: Share of the hardest samples that is left out, 0 <= lower < upper.
        upper: Share of samples, from the hardest, at which the band ends, <= 1.
        rescale: Let the band speak for all N samples, so that the size of the loss does not depend on its
            width. Off, as in the reference: N is then the number of samples in the band.

    Both ends may be an `Anneal`; the reference narrows ``upper`` from 1 to 0.1.

    Note:
        A band that holds no sample is an error. Where masks give anchors different numbers of samples, an
        anchor whose own band would be empty keeps the one sample where the band begins.

    Reference:
        Wu et al., "Conditional Negative Sampling for Contrastive Learning of Visual Representations", ICLR 2021.
    """

    lower: float | Anneal = 0.01
    upper: float | Anneal = 0.1
    rescale: bool = False

    def __post_init__(self) -> None:
        for lower, upper in zip(ends(self.lower), ends(self.upper), strict=True):
            check_range(
                "the band from lower to upper",
                "the part of the ranks that counts, as shares from the hardest",
                f"{self.lower} to {self.upper}",
                "0 <= lower < upper <= 1",
                0 <= lower < upper <= 1,
            )

    @property
    def tilt(self) -> None:
        """None: ranks are no function of the logit alone."""
        return None

    def log_weights(self, comparison: Comparison) -> Float[Tensor, "anchor unlabelled"]:
        """Uniform over the band, -inf outside."""
        begin, end = self._band(comparison)
        logits = comparison.visible.detach()
        hardest_first = torch.sort(logits, dim=1, descending=True, stable=True).indices
        rank = torch.empty_like(hardest_first)
        rank.scatter_(1, hardest_first, torch.arange(logits.shape[1], device=logits.device).expand_as(rank))
        inside = (rank >= begin[:, None]) & (rank < end[:, None])
        log_weight = -(end - begin).to(logits.dtype).log()[:, None]
        return torch.where(inside, log_weight, -math.inf)

    def count(self, comparison: Comparison) -> Float[Tensor, " anchor"]:
        """The size of the band, or N with `rescale`."""
        if self.rescale or comparison.drawn is not None:
            return super().count(comparison)
        begin, end = self._band(comparison)
        return torch.where(comparison.count > 0, end - begin, 0).to(comparison.unlabelled.dtype)

    def _band(self, comparison: Comparison) -> tuple[Int[Tensor, " anchor"], Int[Tensor, " anchor"]]:
        lower, upper = settled("lower", self.lower), settled("upper", self.upper)
        if comparison.mask is None:
            samples = comparison.unlabelled.shape[1]
            if int(lower * samples) >= int(upper * samples):
                raise ValueError(
                    f"the band from lower to upper must hold at least one of the {samples} unlabelled samples: "
                    f"{lower} to {upper} are ranks {int(lower * samples)} to {int(upper * samples)}; "
                    f"widen the band or compare with more samples"
                )
        # The shares are of float64, like the ranks that the reference computes from them.
        count = comparison.count.to(torch.float64)
        begin, end = (lower * count).long(), (upper * count).long()
        begin = torch.minimum(begin, count.long() - 1).clamp_min(0)
        return begin, torch.maximum(end, begin + 1)
