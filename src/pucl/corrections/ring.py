"""Conditional negative sampling in a ring."""

import math
from dataclasses import dataclass

import torch

from pucl.contrast.comparison import Comparison
from pucl.contrast.correction import Correction, check_range
from pucl.shapes import Bool, Float, Int, Tensor


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

    Note:
        A band that holds no sample is an error. Where masks give anchors different numbers of samples, an
        anchor whose own band would be empty keeps the one sample where the band begins.

    Reference:
        Wu et al., "Conditional Negative Sampling for Contrastive Learning of Visual Representations", ICLR 2021.
    """

    lower: float = 0.01
    upper: float = 0.1
    rescale: bool = False

    def __post_init__(self) -> None:
        check_range(
            "the band from lower to upper",
            "the part of the ranks that counts, as shares from the hardest",
            f"{self.lower} to {self.upper}",
            "0 <= lower < upper <= 1",
            0 <= self.lower < self.upper <= 1,
        )

    def check_samples(self, most: int) -> None:
        """Refuse a band that holds no sample of any anchor."""
        lower, upper = self.lower, self.upper
        if most > 0 and int(lower * most) >= int(upper * most):
            raise ValueError(
                f"the band from lower to upper must hold at least one of the {most} unlabelled samples: "
                f"{lower} to {upper} are ranks {int(lower * most)} to {int(upper * most)}; "
                f"widen the band or compare with more samples"
            )

    def log_weights(self, comparison: Comparison) -> Float[Tensor, "anchor unlabelled"]:
        """0 inside the band, -inf outside."""
        begin, end = self._band(comparison.count)
        logits = comparison.visible.detach()
        between = _between_values if _numpy_reads(logits) else _between_ranks
        return torch.where(between(logits, begin, end), logits.new_zeros(()), -math.inf)

    def count(self, met: Float[Tensor, " anchor"], drawn: Float[Tensor, " anchor"] | None) -> Float[Tensor, " anchor"]:
        """The size of the band, or N with `rescale`."""
        if self.rescale or drawn is not None:
            return super().count(met, drawn)
        begin, end = self._band(met)
        return torch.where(met > 0, end - begin, 0).to(met.dtype)

    def _band(self, met: Float[Tensor, " anchor"]) -> tuple[Int[Tensor, " anchor"], Int[Tensor, " anchor"]]:
        """First rank of each anchor's band, and the one after its last: at least one rank."""
        # The shares are of float64, like the ranks that the reference computes from them, where a device has it.
        count = met if met.device.type == "mps" else met.to(torch.float64)
        begin, end = (self.lower * count).long(), (self.upper * count).long()
        begin = torch.minimum(begin, count.long() - 1).clamp_min(0)
        return begin, torch.maximum(end, begin + 1)


def _numpy_reads(logits: Float[Tensor, "anchor unlabelled"]) -> bool:
    """Whether numpy can read these numbers where they are."""
    if logits.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    try:
        logits.numpy()
    except RuntimeError:  # Within a transform of torch.func a tensor has no memory of its own.
        return False
    return True


def _between_ranks(
    logits: Float[Tensor, "anchor unlabelled"], begin: Int[Tensor, " anchor"], end: Int[Tensor, " anchor"]
) -> Bool[Tensor, "anchor unlabelled"]:
    """Whose rank is in the band; of equal logits the first is the harder."""
    hardest_first = torch.sort(logits, dim=1, descending=True, stable=True).indices
    rank = torch.empty_like(hardest_first)
    rank.scatter_(1, hardest_first, torch.arange(logits.shape[1], device=logits.device).expand_as(rank))
    return (rank >= begin[:, None]) & (rank < end[:, None])


def _between_values(
    logits: Float[Tensor, "anchor unlabelled"], begin: Int[Tensor, " anchor"], end: Int[Tensor, " anchor"]
) -> Bool[Tensor, "anchor unlabelled"]:
    """The same from the values at the ends of the band: numpy sorts values alone an order faster than torch ranks them.

    Where equal logits lie on both sides of an end, values do not tell, and ranks do.
    """
    values = logits.numpy().copy()
    values.sort(axis=1)
    rising, last = torch.from_numpy(values), logits.shape[1] - 1
    highest, lowest = rising.gather(1, last - begin[:, None]), rising.gather(1, last - (end - 1)[:, None])
    inside = (logits <= highest) & (logits >= lowest)
    tied = (inside.sum(dim=1) != end - begin).nonzero()[:, 0]
    if len(tied):
        inside[tied] = _between_ranks(logits[tied], begin[tied], end[tied])
    return inside
