"""The nearest samples of each anchor, in few enough bytes for a page."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.diagnosis.layout2d import Floats, nearest
from pucl.estimation.calibration import CALIBRATED
from pucl.reports.page.schema import Hidden
from pucl.texts import base64_of, fixed

NEAREST = 12  # Samples that the page shows for an anchor.
MOST_NUMBERS = 64  # Numbers per sample from which the page computes similarities.


@dataclass(frozen=True, eq=False, kw_only=True)
class Codes:
    """Samples in bytes, from which the page computes similarities.

    A sample is a byte for each of its first principal components. The page computes ``value = low + step * byte``, and
    cosines as inner products of values.

    Args:
        low: By component.
        step: By component.
        codes: [sample, component].
        error: Root mean square error of the cosines of neighbours.
        kept: Mean share of the true `NEAREST` that the page finds.
    """

    low: tuple[float, ...]
    step: tuple[float, ...]
    codes: NDArray[np.uint8]
    error: float
    kept: float

    def neighbours(self) -> NDArray[np.int64]:
        """The nearest samples of each anchor as the page computes them, in its order: [sample, neighbour]."""
        return nearest(_values(self.low, self.step, self.codes).astype(np.float64), NEAREST)[0]

    def about(self, unit: str, units: str) -> str:
        """How exact the similarities are, given what one sample and several are called."""
        shown = min(NEAREST, len(self.codes) - 1)
        error = "less than 0.001" if self.error < 0.001 else f"about {fixed(self.error, 3)}"
        return (
            f"Similarities are cosines of the encoder\N{RIGHT SINGLE QUOTATION MARK}s features, before the head. This "
            f"page computes them from {len(self.low)} rounded numbers per {unit}: their error is {error}, and on "
            f"average {fixed(shown * self.kept, 1)} of the {shown} truly nearest {units} are shown."
        )


def encode(rows: Floats, numbers: int) -> Codes:
    """Features of length 1, [sample, feature], in at most so many bytes each."""
    _, _, directions = np.linalg.svd(rows, full_matrices=False)
    parts = rows @ directions[: min(numbers, MOST_NUMBERS)].T
    low, step = _rounded(parts.min(axis=0)), _rounded(np.maximum(np.ptp(parts, axis=0) / 255, 1e-9))
    codes = np.clip(np.round((parts - np.array(low)) / np.array(step)), 0, 255).astype(np.uint8)
    values = _values(low, step, codes)
    true_indices, true_similarities = nearest(rows, NEAREST)
    indices, _ = nearest(values, NEAREST)
    found = np.einsum("sf,snf->sn", values, values[true_indices], optimize=True)
    kept = np.mean([len(np.intersect1d(a, b)) / len(a) for a, b in zip(indices, true_indices, strict=True)])
    error = np.sqrt(np.mean((found - true_similarities) ** 2))
    return Codes(low=low, step=step, codes=codes, error=float(error), kept=float(kept))


def hidden_record(r: NDArray[np.float32], neighbours: NDArray[np.int64], error: float | None) -> Hidden:
    """R of each anchor with its nearest samples.

    Args:
        r: [sample, neighbour], 0 to 1.
        neighbours: Indices of the neighbours; see `Codes.neighbours`.
        error: Expected calibration error of r; None if it was not measured.
    """
    ranks = np.arange(1, neighbours.shape[1] + 1)
    shown = "So it is shown as a probability." if is_probability(error) else "So it is shown as a rank among these."
    return Hidden(
        codes=base64_of(np.round(255 * r).astype(np.uint8)),
        checks=base64_of((neighbours @ ranks % 2**16).astype(np.uint16)),
        probability=is_probability(error),
        about="r is the probability, as the correction sees it, that a pair is a hidden positive. "
        f"{about_error(error)} {shown}",
    )


def is_probability(error: float | None) -> bool:
    """Whether r with this calibration error is taken for a probability."""
    return error is not None and error <= CALIBRATED


def about_error(error: float | None) -> str:
    """How good r was when the training ended, in a sentence."""
    if error is None:
        return "Its calibration was not measured: there are no labels, or an earlier version of pucl trained it."
    limit = "" if is_probability(error) else f"; up to {CALIBRATED} it counts as calibrated"
    return f"At the end of the training its expected calibration error was {fixed(error, 3)}, by the labels{limit}."


def _values(low: tuple[float, ...], step: tuple[float, ...], codes: NDArray[np.uint8]) -> NDArray[Any]:
    """The numbers of each sample as the page computes them."""
    return (np.array(low) + np.array(step) * codes).astype(np.float32)


def _rounded(values: Floats) -> tuple[float, ...]:
    """Six significant digits: the precision of numbers in the page."""
    return tuple(float(f"{value:.6g}") for value in values.tolist())
