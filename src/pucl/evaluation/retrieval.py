"""Retrieval: search with every test sample for the other test samples of its class."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from pucl.evaluation.classifier import Features, Labels, as_labels, check_features
from pucl.evaluation.probe import LEADING, Measured, Number, Probe, ProbedSamples

NEAREST = (1, 5, 10)
"""The k of recall at k."""

GAINED = 10  # The k of nDCG at k.

QUERIES = 10_000  # Most queries of a run: with more samples the time would grow as their square.
STEPS = 2**23  # Cosines are rounded to multiples of 1/STEPS, which is about the rounding error of float32.
BLOCK = 2**22  # Cosines that are held at a time: 16 megabytes.
SHARE = 2**19  # Cosines that a thread ranks at a time: few enough for the cache of a processor.

Keys = NDArray[np.int32]
Counts = NDArray[np.integer]
Shares = NDArray[np.float64]


class Ranking(NamedTuple):
    """How well each query finds the samples of its class.

    Args:
        average_precision: [query].
        r_precision: [query].
        recall: At each k of `NEAREST`, [query, k].
        gain: nDCG at 10, [query].
    """

    average_precision: Shares
    r_precision: Shares
    recall: Shares
    gain: Shares

    def means(self) -> dict[str, float]:
        """The means over the queries, by the names of the probe's numbers."""
        numbers = {
            LEADING: self.average_precision.mean(),
            "r_precision": self.r_precision.mean(),
            **{f"recall_{k}": value for k, value in zip(NEAREST, self.recall.mean(axis=0), strict=True)},
            f"ndcg_{GAINED}": self.gain.mean(),
        }
        return {name: float(value) for name, value in numbers.items()}


def rank_neighbours(features: Features, labels: Labels, queries: NDArray[np.integer] | None = None) -> Ranking:
    r"""Rank all other samples by their cosine to each query. A sample is relevant if it has the class of the query.

    With R relevant samples, and :math:`P(s)` the share of relevant ones among all samples that are at least as similar
    to the query as s,

    - average precision is the mean of :math:`P(s_i)` over the relevant samples i,
    - R-precision is the share of relevant samples among the R most similar ones,
    - recall at k is 1 if one of the k most similar samples is relevant, else 0,
    - nDCG at 10 is :math:`\sum_{k=1}^{10} d_k\, [\text{the k-th sample is relevant}] / \sum_{k=1}^{\min(R, 10)} d_k`
      with :math:`d_k = 1 / \log_2(k + 1)`.

    Ties: average precision takes equally similar samples at once, as scikit-learn's ``average_precision_score`` does.
    R-precision, recall and nDCG are means over all orders of equally similar samples. So an encoder that maps all
    samples to one point is at the level of chance. Cosines are rounded to multiples of :math:`2^{-23}`, about the
    rounding error of float32, so that equal embeddings are equally similar.

    The matrix of all pairs is never held: cosines are computed for a block of queries at a time.

    Args:
        features: Embeddings, [sample, dim].
        labels: The class of each sample, [sample].
        queries: Indices of the samples to search with; default: `queries_of`.

    Raises:
        ValueError: If there is no query, or the class of a query has no other sample.

    Example:
        >>> found = rank_neighbours(np.array([[1.0, 0.0], [1.0, 0.2], [0.0, 1.0], [0.9, 0.5]]), np.array([0, 0, 1, 1]))
        >>> found.average_precision.round(2).tolist()
        [1.0, 1.0, 1.0, 0.33]
    """
    x = check_features(features)
    classes = as_labels(labels, len(x), x.device).unique(return_inverse=True)[1].int().cpu().numpy()
    chosen = queries_of(classes) if queries is None else queries
    if len(chosen) == 0 or not np.isin(chosen, queries_of(classes)).all():
        raise ValueError("a query searches for other samples of its class: expected a class of two samples or more")
    units = F.normalize(x.double(), dim=1).float()

    def keys_of(rows: NDArray[np.integer], cosines: Keys) -> Keys:
        keys = _keys(cosines, classes[chosen[rows], None] == classes)
        keys[np.arange(len(rows)), chosen[rows]] = np.iinfo(np.int32).min  # The query itself: first, then dropped.
        keys.sort(axis=1)
        return keys[:, 1:]

    return _rank_all(units[torch.from_numpy(chosen).to(units.device)], units, keys_of)


def rank_items(queries: Features, items: Features, relevant: NDArray[np.bool_]) -> Ranking:
    """Rank items by their cosine to each query, where it is known which items are relevant; see `rank_neighbours`.

    Args:
        queries: Embeddings, [query, dim].
        items: Embeddings, [item, dim].
        relevant: Whether an item is relevant to a query, [query, item].

    Raises:
        ValueError: If a query has no relevant item.

    Example:
        >>> found = rank_items(np.array([[1.0, 0.0]]), np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[False, True]]))
        >>> found.average_precision.tolist(), found.gain.round(2).tolist()
        ([0.5], [0.63])
    """
    searching, searched = (F.normalize(check_features(each).double(), dim=1).float() for each in (queries, items))
    if relevant.shape != (len(searching), len(searched)) or not relevant.any(axis=1).all():
        raise ValueError(
            f"relevant says which items a query searches for: expected at least one of {len(searched)} for each of "
            f"{len(searching)} queries, got shape {relevant.shape} and {int((~relevant.any(axis=-1)).sum())} queries "
            f"without"
        )

    def keys_of(rows: NDArray[np.integer], cosines: Keys) -> Keys:
        keys = _keys(cosines, relevant[rows])
        keys.sort(axis=1)
        return keys

    return _rank_all(searching, searched, keys_of)


def _rank_all(
    searching: torch.Tensor, searched: torch.Tensor, keys_of: Callable[[NDArray[np.integer], Keys], Keys]
) -> Ranking:
    """Rank the second vectors by their cosine to each of the first; `keys_of` sorts the keys of some of the first."""
    ranked: list[Ranking] = []
    with ThreadPoolExecutor(torch.get_num_threads(), thread_name_prefix="pucl-retrieval") as threads:
        for block in _parts(np.arange(len(searching)), len(searched), BLOCK):
            vectors = STEPS * searching[torch.from_numpy(block).to(searching.device)]
            cosines = (vectors @ searched.T).round_().int().cpu().numpy()
            parts = _parts(np.arange(len(block)), len(searched), SHARE)
            ranked += threads.map(lambda part: _rank_keys(keys_of(block[part], cosines[part])), parts)  # noqa: B023
    return Ranking(*(np.concatenate(arrays) for arrays in zip(*ranked, strict=True)))


def queries_of(labels: NDArray[np.integer]) -> NDArray[np.integer]:
    """Indices of the samples whose class has another sample."""
    return np.flatnonzero(np.bincount(labels)[labels] > 1)


def _parts(rows: NDArray[np.integer], columns: int, most: int) -> list[NDArray[np.integer]]:
    """Rows in parts that have about `most` elements each."""
    return np.array_split(rows, -(-len(rows) * columns // most))


def _keys(cosines: Keys, relevant: NDArray[np.bool_]) -> Keys:
    """A key for each pair: twice the rounded cosine, plus 1 if the sample is relevant.

    One sort of integers, which is quick, brings both into order, from the least to the most similar.
    """
    keys = cosines << 1
    keys |= relevant
    return keys


def _rank_keys(keys: Keys) -> Ranking:
    """The numbers of some queries from their sorted keys."""
    starts = _tie_starts(keys)
    rows, count = starts.shape
    # The relevant samples of all queries, in the order of rising similarity, as indices into the flat arrays.
    relevant = np.flatnonzero(keys & 1)
    row = relevant // count
    row_ends = np.searchsorted(relevant, np.arange(1, rows + 1) * count)
    total = np.diff(row_ends, prepend=0)

    def relevant_from(column: Counts) -> Counts:
        """For each row, the number of relevant samples in this column or a later one."""
        later: Counts = row_ends - np.searchsorted(relevant, np.arange(rows) * count + column)
        return later

    # Average precision: relevant samples that are tied begin at the same column.
    own_start = starts.ravel()[relevant]
    first = np.flatnonzero(np.diff(row * count + own_start, prepend=-1))
    first_of_tie = np.repeat(first, np.diff(first, append=len(relevant)))
    precision = (row_ends[row] - first_of_tie) / (count - own_start)
    average_precision = np.bincount(row, precision) / total

    # R-precision: the tied samples at the boundary fill the places that are left in proportion.
    start, end = _tie_at(starts, count - total)
    above, tied = relevant_from(end), relevant_from(start) - relevant_from(end)
    r_precision = (above + tied * (total - (count - end)) / (end - start)) / total

    # Recall at k: no sample above those that are tied with the nearest relevant one is relevant.
    start, end = _tie_at(starts, relevant[row_ends - 1] % count)
    recall = [_chance_of_hit(k - (count - end), end - start, relevant_from(start)) for k in NEAREST]

    # nDCG: the sample at a place is one of those that are tied there, each as likely as the others.
    nearest = np.arange(min(GAINED, count))
    discount = 1 / np.log2(nearest + 2)
    gain, end = np.zeros(rows), np.full(rows, count)
    for place, column in enumerate(count - 1 - nearest):
        start = starts[:, column].astype(np.int64)
        if place:  # The tie ends where that of the column behind it does, or at this column.
            end = np.where(starts[:, column + 1] == start, end, column + 1)
        gain += discount[place] * (relevant_from(start) - relevant_from(end)) / (end - start)
    gain /= discount.cumsum()[np.minimum(total, len(nearest)) - 1]
    return Ranking(average_precision, r_precision, np.stack(recall, axis=1), gain)


def _tie_starts(keys: Keys) -> NDArray[np.int32]:
    """For each sample, the first column with an equal cosine."""
    cosines = keys >> 1
    columns = np.arange(keys.shape[1], dtype=np.int32)
    starts = np.zeros_like(cosines)
    np.multiply(cosines[:, 1:] != cosines[:, :-1], columns[1:], out=starts[:, 1:])
    return np.maximum.accumulate(starts, axis=1, out=starts)


def _tie_at(starts: NDArray[np.int32], column: Counts) -> tuple[Counts, Counts]:
    """For each row, the first column that is tied with a given column, and the one after the last."""
    start = np.take_along_axis(starts, column[:, None], axis=1)[:, 0]
    ends = [np.searchsorted(row, first, side="right") for row, first in zip(starts, start, strict=True)]
    return start.astype(np.int64), np.array(ends)


def _chance_of_hit(drawn: Counts, tied: Counts, relevant: Counts) -> Shares:
    """The probability that one of `drawn` samples is relevant, drawn without replacement from tied ones."""
    miss = np.ones(len(tied))
    for number in range(max(NEAREST)):
        left = np.maximum(tied - relevant - number, 0) / np.maximum(tied - number, 1)
        miss *= np.where(number < drawn, left, 1)
    return 1 - miss


def _measure(samples: ProbedSamples, *, queries: int = QUERIES) -> Measured:
    """Means over the queries. If there are more than `queries`, a random part of them is used, always the same."""
    features, labels = samples.tested
    possible = queries_of(labels)
    if len(possible) == 0:
        return Measured(numbers={})
    found = rank_neighbours(features, labels, np.sort(np.random.default_rng(0).permutation(possible)[:queries]))
    return Measured(numbers=found.means())


RETRIEVAL = Probe(
    about="search with each test sample for the others of its class: mean average precision, R-precision, recall at k, "
    "nDCG",
    numbers={
        LEADING: Number(name="mean average precision of retrieval", short="mAP"),
        "r_precision": Number(name="R-precision of retrieval", short="R-precision"),
        **{f"recall_{k}": Number(name=f"recall at {k} of retrieval", short=f"recall@{k}") for k in NEAREST},
        f"ndcg_{GAINED}": Number(name=f"nDCG at {GAINED} of retrieval", short=f"nDCG@{GAINED}"),
    },
    measure=_measure,
    monitored=True,
)
