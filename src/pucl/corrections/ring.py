"""Conditional negative sampling in a ring."""

import math
from dataclasses import dataclass

import torch

from pucl.contrast.correction import Correction, check_range
from pucl.contrast.pairs import Comparison
from pucl.settings import setting
from pucl.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True, kw_only=True)
class Ring(Correction):
    r"""Use a band of ranks only: neither the most similar samples, nor the many dissimilar ones.

    Each anchor's N unlabelled samples are ranked from the hardest. Those of rank
    :math:`\lfloor \text{lower} \cdot N \rfloor` up to (not including) :math:`\lfloor \text{upper} \cdot N \rfloor`
    have the same weight, the others none; odds 0. ``Ring(lower=0, upper=1)`` is `Plain`.

    Note:
        A band without any sample is an error. If masks give anchors different numbers of samples, an anchor whose own
        band would be empty uses the one sample at which the band begins.

    Reference:
        Wu et al., "Conditional Negative Sampling for Contrastive Learning of Visual Representations", ICLR 2021.
    """

    lower: float = setting(0.01, "share of the hardest samples that is left out, 0 <= lower < upper")
    upper: float = setting(0.1, "share of samples, from the hardest, at which the band ends, upper <= 1")
    rescale: bool = setting(
        default=False,
        meaning="multiply the mean over the band by the number of all samples; off, as in the reference, by the number "
        "of samples in the band",
    )

    def __post_init__(self) -> None:
        name, meaning = "the band from lower to upper", "the part of the ranks that counts, as shares from the hardest"
        band, fits = f"{self.lower} to {self.upper}", 0 <= self.lower < self.upper <= 1
        check_range(name, meaning, band, "0 <= lower < upper <= 1", fits)

    def check_samples(self, most: int) -> None:
        """Raise for a band that contains no sample of any anchor."""
        lower, upper = self.lower, self.upper
        if most > 0 and int(lower * most) >= int(upper * most):
            raise ValueError(
                f"the band from lower to upper must hold at least one of the {most} unlabelled samples: "
                f"{lower} to {upper} are ranks {int(lower * most)} to {int(upper * most)}; "
                f"widen the band or compare with more samples"
            )

    def log_weights(self, comparison: Comparison) -> Float[Tensor, "anchor unlabelled"]:
        """Uniform inside the band, -inf outside."""
        begin, end = self._band(comparison.count)
        logits = comparison.visible.detach()
        in_band = (_band_by_values if _numpy_can_read(logits) else _band_by_ranks)(logits, begin, end)
        log_weight = -(end - begin).to(logits.dtype).log()[:, None]
        return torch.where(in_band, log_weight, -math.inf)

    def normalised_log_weights(
        self, comparison: Comparison
    ) -> tuple[Float[Tensor, "anchor unlabelled"], Float[Tensor, " anchor"]]:
        """The weights of `log_weights`, which sum to one already: no masked sample is inside the band."""
        return self.log_weights(comparison), comparison.count

    def count(self, met: Float[Tensor, " anchor"], drawn: Float[Tensor, " anchor"] | None) -> Float[Tensor, " anchor"]:
        """The number of samples in the band of those that were drawn; with `rescale` the number of all samples."""
        if self.rescale:
            return super().count(met, drawn)
        begin, end = self._band(met if drawn is None else drawn)
        return torch.where(met > 0, end - begin, 0).to(met.dtype)

    def _band(self, met: Float[Tensor, " anchor"]) -> tuple[Int[Tensor, " anchor"], Int[Tensor, " anchor"]]:
        """First rank of each anchor's band, and the rank after its last one; the band has at least one rank."""
        # In float64, as in the reference, if the device has it.
        count = met if met.device.type == "mps" else met.to(torch.float64)
        begin, end = (self.lower * count).long(), (self.upper * count).long()
        begin = torch.minimum(begin, count.long() - 1).clamp_min(0)
        return begin, torch.maximum(end, begin + 1)


def _numpy_can_read(logits: Float[Tensor, "anchor unlabelled"]) -> bool:
    """Whether numpy can read the memory of this tensor."""
    if logits.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    try:
        logits.numpy()
    except RuntimeError:  # In a transform of torch.func, a tensor has no memory of its own.
        return False
    return True


def _band_by_ranks(
    logits: Float[Tensor, "anchor unlabelled"], begin: Int[Tensor, " anchor"], end: Int[Tensor, " anchor"]
) -> Bool[Tensor, "anchor unlabelled"]:
    """True where the rank is in the band; of equal logits, the first has the lower rank."""
    hardest_first = torch.sort(logits, dim=1, descending=True, stable=True).indices
    rank = torch.empty_like(hardest_first)
    rank.scatter_(1, hardest_first, torch.arange(logits.shape[1], device=logits.device).expand_as(rank))
    return (rank >= begin[:, None]) & (rank < end[:, None])


def _band_by_values(
    logits: Float[Tensor, "anchor unlabelled"], begin: Int[Tensor, " anchor"], end: Int[Tensor, " anchor"]
) -> Bool[Tensor, "anchor unlabelled"]:
    """The same from the values at the ends of the band: numpy sorts values ten times faster than torch ranks them.

    If equal logits are on both sides of an end, values do not decide, and ranks are used.
    """
    values = logits.numpy().copy()
    values.sort(axis=1)
    rising, last = torch.from_numpy(values), logits.shape[1] - 1
    highest, lowest = rising.gather(1, last - begin[:, None]), rising.gather(1, last - (end - 1)[:, None])
    inside = (logits <= highest) & (logits >= lowest)
    tied = (inside.sum(dim=1) != end - begin).nonzero()[:, 0]
    if len(tied):
        inside[tied] = _band_by_ranks(logits[tied], begin[tied], end[tied])
    return inside
