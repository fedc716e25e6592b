r"""Compare probabilities r with labels: reliability curve, Brier score, expected calibration error.

A pair has the outcome y = 1 if both samples are of one class. Probabilities are put into equal bins from 0 to 1.

.. math:: \text{Brier} = \frac{1}{n} \sum_i (r_i - y_i)^2, \qquad
          \text{ECE} = \sum_b \frac{n_b}{n} \Big| \mathrm{mean}_{i \in b}\, r_i - \mathrm{mean}_{i \in b}\, y_i \Big|
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch

from pucl.shapes import Bool, Float, Tensor

BINS = 10
CALIBRATED = 0.1  # Expected calibration error up to which r may be read as a probability. Above, it is a rank.


@dataclass(frozen=True, kw_only=True, eq=False)
class Reliability:
    """Sums over pairs, from which all measures follow. Parts of the pairs can be added: ``first + second``.

    Args:
        counts: Number of pairs in each bin of r.
        hidden: Sum of r in each bin.
        outcomes: Number of pairs of one class in each bin.
        squares: Sum of (r - y)^2 over all pairs.
    """

    counts: Float[Tensor, " bin"]
    hidden: Float[Tensor, " bin"]
    outcomes: Float[Tensor, " bin"]
    squares: Float[Tensor, ""]

    @classmethod
    def empty(cls, device: torch.device, bins: int = BINS) -> "Reliability":
        """The sums of no pairs."""
        zeros = torch.zeros(bins, dtype=torch.float64, device=device)
        return cls(counts=zeros, hidden=zeros, outcomes=zeros, squares=zeros.sum())

    def __add__(self, other: "Reliability") -> "Reliability":
        return Reliability(
            counts=self.counts + other.counts,
            hidden=self.hidden + other.hidden,
            outcomes=self.outcomes + other.outcomes,
            squares=self.squares + other.squares,
        )

    def map(self, function: Callable[[Tensor], Tensor]) -> "Reliability":
        """The same with a function of each sum, such as its sum over processes."""
        return Reliability(**{each.name: function(getattr(self, each.name)) for each in fields(self)})

    @property
    def pairs(self) -> float:
        """Number of pairs."""
        return float(self.counts.sum())

    @property
    def brier(self) -> float:
        """Mean squared error of r; 0 is perfect."""
        return float(self.squares) / self.pairs

    @property
    def expected_error(self) -> float:
        """Expected calibration error: by how much r differs from the observed share, on average over the pairs."""
        return float((self.hidden - self.outcomes).abs().sum()) / self.pairs

    def curve(self) -> list[tuple[float, float, int]]:
        """For each bin that has pairs: mean r, observed share of pairs of one class, number of pairs."""
        rows = zip(self.hidden.tolist(), self.outcomes.tolist(), self.counts.tolist(), strict=True)
        return [(r / count, same / count, round(count)) for r, same, count in rows if count > 0]


def reliability(hidden: Float[Tensor, "*pair"], same_class: Bool[Tensor, "*pair"], *, bins: int = BINS) -> Reliability:
    """Compare the probabilities r of pairs with the labels.

    Args:
        hidden: r of each pair, 0 to 1.
        same_class: Whether both samples of each pair are of one class.
        bins: Number of equal bins of r from 0 to 1; r = 1 is in the last.

    Example:
        >>> found = reliability(torch.tensor([0.1, 0.1, 0.9]), torch.tensor([False, True, True]))
        >>> round(found.brier, 3), round(found.expected_error, 3)
        (0.277, 0.3)
    """
    r, same = hidden.detach().double().flatten(), same_class.flatten().double()
    if r.shape != same.shape:
        raise ValueError(
            f"hidden and same_class describe the same pairs: expected as many of both, got {len(r)} and {len(same)}"
        )
    if bins < 1:
        raise ValueError(f"bins is the number of parts of 0 to 1: expected at least 1, got {bins}")
    wrong = ~((r >= 0) & (r <= 1))
    if wrong.any():
        raise ValueError(f"hidden are probabilities: expected 0 to 1, got {float(r[wrong][0]):g}")
    bin_of = (r * bins).long().clamp_max(bins - 1)
    counts, sums, outcomes = (
        torch.zeros(bins, dtype=r.dtype, device=r.device).index_add_(0, bin_of, weights)
        for weights in (torch.ones_like(r), r, same)
    )
    return Reliability(counts=counts, hidden=sums, outcomes=outcomes, squares=((r - same) ** 2).sum())
