"""The nearest neighbours of some samples among all: exact, by faiss if it is installed, otherwise by torch."""

import importlib.util
from collections.abc import Callable
from typing import Any

import torch

from pucl.shapes import Float, Int, Tensor

KEYS = 1 << 14  # Keys of a tile. A tile of queries and keys takes 64 MiB.
QUERIES = 1 << 10
Progress = Callable[[int, int], None]


def nearest_of(
    queries: Float[Tensor, "anchor dim"],
    own: Int[Tensor, " anchor"],
    keys: Float[Tensor, "sample dim"],
    count: int,
    *,
    progress: Progress = lambda _done, _total: None,
    use_faiss: bool | None = None,
) -> tuple[Int[Tensor, "anchor neighbour"], Float[Tensor, "anchor neighbour"]]:
    """Indices and cosines of the most similar keys of each query, the most similar first.

    Args:
        queries: Vectors of length 1.
        own: The key that is each query's own sample, which is no neighbour of it.
        keys: Vectors of length 1.
        count: Number of neighbours; fewer if there are fewer keys.
        progress: Called with the number of queries that are done, and of all.
        use_faiss: Whether faiss searches. None: if it is installed. Both ways return the same, but for rounding and the
            order of neighbours that are equally similar.
    """
    count = min(count, len(keys) - 1)
    use_faiss = faiss_is_installed() if use_faiss is None else use_faiss
    index = _faiss_index(keys) if use_faiss else None
    found = []
    for start in range(0, len(queries), QUERIES):
        block, mine = queries[start : start + QUERIES], own[start : start + QUERIES]
        # One more than is wanted, since the sample itself may be among them.
        best, at = _by_tiles(block, keys, count + 1) if index is None else _by_faiss(block, index, count + 1)
        found.append(_without(mine, at, best, count))
        progress(start + len(block), len(queries))
    return torch.cat([indices for indices, _ in found]), torch.cat([cosines for _, cosines in found])


def faiss_is_installed() -> bool:
    """Whether the package faiss can be imported."""
    return importlib.util.find_spec("faiss") is not None


def _faiss_index(keys: Tensor) -> Any:
    import faiss  # noqa: PLC0415 (an extra)

    index = faiss.IndexFlatIP(keys.shape[1])
    index.add(keys.contiguous().numpy())
    return index


def _by_faiss(queries: Tensor, index: Any, count: int) -> tuple[Tensor, Tensor]:
    cosines, indices = index.search(queries.contiguous().numpy(), count)
    return torch.from_numpy(cosines), torch.from_numpy(indices)


def _by_tiles(queries: Tensor, keys: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest inner products and their indices, tile by tile."""
    best, at = queries.new_empty(len(queries), 0), torch.empty(len(queries), 0, dtype=torch.int64)
    for start in range(0, len(keys), KEYS):
        tile = queries @ keys[start : start + KEYS].T
        values, indices = tile.topk(min(count, tile.shape[1]), dim=1)
        best, at = torch.cat([best, values], dim=1), torch.cat([at, indices + start], dim=1)
        best, order = best.topk(min(count, best.shape[1]), dim=1)
        at = at.gather(1, order)
    return best, at


def _without(own: Tensor, at: Tensor, best: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Leave out the sample itself, or the last neighbour where the sample is not among them."""
    mine = at == own[:, None]
    last = torch.zeros_like(mine)
    last[:, -1] = ~mine.any(dim=1)
    kept = ~(mine | last)
    return at[kept].reshape(-1, count), best[kept].reshape(-1, count)
