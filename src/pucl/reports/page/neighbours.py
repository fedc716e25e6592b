"""The nearest samples of each anchor, in few enough bytes for a page."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.choosing import to_show
from pucl.diagnosis.layout2d import Floats, nearest, unit
from pucl.estimation.calibration import CALIBRATED
from pucl.texts import base64_of

NEAREST = 24  # Samples that the page shows for an anchor.
ANCHORS = 12  # Suggested anchors of each kind.
MOST_NUMBERS = 64  # Numbers per sample from which the page computes similarities.


def neighbour_record(features: NDArray[Any], labels: NDArray[np.int64] | None, numbers: int) -> dict[str, Any]:
    """What the page needs to find the nearest samples of any anchor.

    A sample is a byte for each of its first principal components, after its features are scaled to length 1. The page
    computes ``value = low + step * byte``, and cosines as inner products of values.

    Args:
        features: [sample, feature].
        labels: Classes; None if they are unknown.
        numbers: Most components.

    Returns:
        ``low``, ``step`` and ``codes``: the bytes. ``error``: root mean square error of the cosines of neighbours.
        ``kept``: mean share of the true `NEAREST` that the page finds. ``suggested``: anchors to begin with.
    """
    rows = unit(features)
    _, _, directions = np.linalg.svd(rows, full_matrices=False)
    parts = rows @ directions[: min(numbers, MOST_NUMBERS)].T
    low, step = _rounded(parts.min(axis=0)), _rounded(np.maximum(np.ptp(parts, axis=0) / 255, 1e-9))
    codes = np.clip(np.round((parts - low) / step), 0, 255).astype(np.uint8)
    values = low + step * codes.astype(np.float32)
    true_indices, true_similarities = nearest(rows, NEAREST)
    indices, similarities = nearest(values, NEAREST)
    found = np.einsum("sf,snf->sn", values, values[true_indices], optimize=True)
    kept = np.mean([len(np.intersect1d(a, b)) / len(a) for a, b in zip(indices, true_indices, strict=True)])
    return {
        "low": [float(f"{value:.6g}") for value in low],
        "step": [float(f"{value:.6g}") for value in step],
        "codes": base64_of(codes),
        "error": round(float(np.sqrt(np.mean((found - true_similarities) ** 2))), 4),
        "kept": round(float(kept), 3),
        "suggested": suggestions(indices, similarities, labels),
    }


def shown_neighbours(record: dict[str, Any], count: int) -> NDArray[np.int64]:
    """The nearest samples of each anchor as the page computes them, in its order: [sample, neighbour].

    Args:
        record: See `neighbour_record`.
        count: Number of samples.
    """
    codes = np.frombuffer(base64.b64decode(record["codes"]), np.uint8).reshape(count, -1)
    values = (np.array(record["low"]) + np.array(record["step"]) * codes).astype(np.float32)
    return nearest(values.astype(np.float64), NEAREST)[0]


def hidden_record(r: NDArray[np.float32], neighbours: NDArray[np.int64], error: float | None) -> dict[str, Any]:
    """R of each anchor with its nearest samples, in the order of `shown_neighbours`.

    Args:
        r: [sample, neighbour], 0 to 1.
        neighbours: Indices of the neighbours.
        error: Expected calibration error of r; None if it was not measured.

    Returns:
        ``codes``: a byte for each, 255 r. ``checks``: a number for each anchor by which the page sees that it has found
        the same neighbours. ``error``. ``probability``: whether r is shown as a probability; otherwise it is a rank.
    """
    ranks = np.arange(1, neighbours.shape[1] + 1)
    return {
        "codes": base64_of(np.round(255 * r).astype(np.uint8)),
        "checks": base64_of((neighbours @ ranks % 2**16).astype(np.uint16)),
        "error": None if error is None else round(error, 4),
        "probability": error is not None and error <= CALIBRATED,
    }


def suggestions(
    indices: NDArray[np.int64], similarities: Floats, labels: NDArray[np.int64] | None
) -> dict[str, list[dict[str, Any]]]:
    """Anchors to begin with, by kind.

    ``"closest"``: their nearest samples are the most similar. ``"lookalikes"``: their nearest samples are similar and
    have other classes, if those are known. ``"spread"``: some of all samples.

    Args:
        indices: [sample, neighbour], the nearest samples of each.
        similarities: Their similarities.
        labels: Classes.
    """
    closeness = similarities.mean(axis=1)
    same = None if labels is None else labels[indices] == labels[:, None]
    scores = {"closest": closeness}
    if same is not None:
        scores["lookalikes"] = (similarities * ~same).sum(axis=1)
    anchors = {kind: _apart(np.argsort(-score, kind="stable"), indices) for kind, score in scores.items()}
    anchors["spread"] = to_show(labels, len(indices), ANCHORS).tolist()

    def described(anchor: int) -> dict[str, Any]:
        known = {} if same is None else {"same": int(same[anchor].sum())}
        return {"anchor": anchor, "closeness": round(float(closeness[anchor]), 4)} | known

    return {kind: [described(anchor) for anchor in chosen] for kind, chosen in anchors.items()}


def _apart(order: NDArray[np.int64], indices: NDArray[np.int64]) -> list[int]:
    """The first anchors that are no neighbours of earlier ones, which would show the same samples again."""
    chosen: list[int] = []
    covered: set[int] = set()
    for anchor in order.tolist():
        if anchor not in covered and len(chosen) < ANCHORS:
            chosen.append(anchor)
            covered.update(indices[anchor].tolist())
    return chosen


def _rounded(values: Floats) -> Floats:
    """Six significant digits: the precision of numbers in the page."""
    return np.array([f"{value:.6g}" for value in values.tolist()], np.float32)
