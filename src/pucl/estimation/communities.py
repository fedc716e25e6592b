"""Groups of samples that both halves of the data agree on. Neither a number of groups nor a prior is needed.

Features are whitened, and a graph joins each sample to its nearest neighbours. Communities of high modularity are found
in each half of the samples, and each result is extended to all samples. If the two results agree, the groups are in the
data; if not, they are chance. All constants are here, each with its reason.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.shapes import Float, Int, Tensor

DIRECTIONS = 32  # Most whitened directions. With 16, or with directions less equal, classes separate worse.
PART = 4  # Embeddings of fewer than 128 dimensions: one direction for so many. The weakest are noise.
LEAST = 8  # Fewest directions.
NEIGHBOURS = 10  # In the graph. 5 to 20 find the same communities; fewer break classes, more merge them.
RESOLUTIONS = (0.5, 1.0, 2.0)  # One for each split: coarse ones find whole classes, fine ones keep classes apart.
LARGEST = 5_000  # Most samples among which communities are searched. The others follow their neighbours.
NARROWEST = 4  # Fewest dimensions of embeddings. In two or three, neighbours in noise form groups that repeat.
FEWEST = 60  # Fewest samples: each half must have three times as many as a sample has neighbours.
SHORTEST = 1e-6  # A direction whose standard deviation is below this share of the largest one is rounding noise.
ROUNDS = 3  # Rounds of merging and refining; after the second hardly any sample moves.
REFINEMENTS = 12  # Most passes over the samples in a round.
REPEATABLE = 0.55  # Agreement from which groups are in the data. Noise reaches 0.25, encoders too weak to help 0.43.

Ids = NDArray[np.int64]
Divide = Callable[[Tensor, Ids, float, np.random.Generator], Ids]
"""Divides points into groups: points, the neighbours of each among them, resolution, random numbers -> groups."""


@dataclass(frozen=True)
class Whitening:
    """Centres features, and scales their strongest directions to the same variance.

    Args:
        mean: The mean of the features.
        directions: The directions as columns, each divided by its standard deviation.
    """

    mean: Float[Tensor, " dim"]
    directions: Float[Tensor, "dim direction"]

    @classmethod
    def of(cls, features: Float[Tensor, "sample dim"]) -> "Whitening":
        """Compute the whitening of these features. There are always `DIRECTIONS` columns; unused ones are zero."""
        unit = torch.nn.functional.normalize(features.double(), dim=1)
        mean = unit.mean(dim=0)
        centred = unit - mean
        values, vectors = torch.linalg.eigh(centred.T @ centred / len(unit))
        most = min(DIRECTIONS, max(LEAST, features.shape[1] // PART))
        values, vectors = values.flip(0)[:most], vectors.flip(1)[:, :most]
        there = values > SHORTEST**2 * values[0].clamp_min(1e-30)
        scaled = torch.where(there, vectors / values.clamp_min(1e-300).sqrt(), 0.0)
        columns = scaled.new_zeros(len(mean), DIRECTIONS)
        columns[:, : scaled.shape[1]] = scaled
        return cls(mean.to(features.dtype), columns.to(features.dtype))

    def __call__(self, features: Float[Tensor, "sample dim"]) -> Float[Tensor, "sample direction"]:
        """The whitened features, as unit vectors."""
        unit = torch.nn.functional.normalize(features, dim=1)
        return torch.nn.functional.normalize((unit - self.mean) @ self.directions, dim=1)


@dataclass(frozen=True)
class Partitions:
    """Several ways to divide the same samples.

    Args:
        groups: The group of each sample in each partition, from 0. Columns 2 i and 2 i + 1 are from the two halves of
            split i.
        agreements: Adjusted Rand index of the two columns of each split: 0 by chance, 1 if both are equal.
    """

    groups: Int[Tensor, "sample partition"]
    agreements: tuple[float, ...]

    @property
    def repeatable(self) -> float:
        """The mean agreement of the splits."""
        return float(np.mean(self.agreements))


def repeated_partitions(
    points: Float[Tensor, "sample direction"],
    seed: int,
    divide: "Divide | None" = None,
    *,
    resolutions: Sequence[float] = RESOLUTIONS,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Partitions:
    """Divide halves of the samples, and extend each result to all samples by the majority of their neighbours.

    Args:
        points: Unit vectors, at least `FEWEST`.
        seed: The same seed gives the same partitions.
        divide: Divides a half. None: `communities`.
        resolutions: The resolution of each split.
        progress: Called after each split with the number of splits that are done, and of all.
    """
    numbers = np.random.default_rng(seed)
    # Of three times as many neighbours, enough are in the same half of the samples.
    nearest, count = nearest_points(points, points, 3 * NEIGHBOURS, skip_own=True), len(points)
    columns: list[Ids] = []
    for done, resolution in enumerate(resolutions, 1):
        order = numbers.permutation(count)
        for half in (np.sort(order[: count // 2]), np.sort(order[count // 2 :])):
            near = _within(nearest, half)
            if divide is None:
                groups = communities(near[half], resolution, numbers)
            else:
                groups = divide(points[torch.from_numpy(half)], near[half], resolution, numbers)
            everyone = majority(groups[near])
            everyone[half] = groups
            columns.append(everyone)
        progress(done, len(resolutions))
    agreements = tuple(adjusted_rand(one, other) for one, other in zip(columns[::2], columns[1::2], strict=True))
    return Partitions(torch.from_numpy(np.stack(columns, axis=1)), agreements)


def some_of(count: int, seed: int) -> Int[Tensor, " chosen"]:
    """All of so many samples, or a random `LARGEST` of them."""
    if count <= LARGEST:
        return torch.arange(count)
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))[:LARGEST].sort().values


def communities(neighbours: Ids, resolution: float, numbers: np.random.Generator) -> Ids:
    r"""Find the communities of a graph that joins each sample to its neighbours.

    Components of nearest neighbours are merged as long as the modularity

    .. math:: Q = \frac{1}{2m} \sum_{ij} \Big(A_{ij} - \gamma \frac{d_i d_j}{2m}\Big) [g_i = g_j]

    rises, with :math:`A` the number of edges, :math:`d` its row sums, :math:`2m` their sum and :math:`\gamma` the
    resolution. Then single samples move to the community in which they raise it most. This is Louvain's method,
    vectorised: all pairs that are each other's best are merged at once, and half of the samples that would gain by a
    move are moved at once.

    Args:
        neighbours: Indices of the neighbours of each sample, nearest first.
        resolution: Gamma. Higher values give more, smaller groups.
        numbers: Random numbers that choose the samples to move.

    Returns:
        The community of each sample, numbered from 0.
    """
    groups = _components(neighbours[:, 0])
    for _ in range(ROUNDS):
        merged = _merge(_edges_between(neighbours, groups), resolution)[groups]
        moved = _refine(neighbours, merged, resolution, numbers)
        if np.array_equal(moved, groups):
            break
        groups = moved
    return groups


def divide_by_k_means(count: int) -> Divide:
    """A `Divide` by k-means with this many clusters, as a control for `communities`."""

    def divide(points: Tensor, neighbours: Ids, resolution: float, numbers: np.random.Generator) -> Ids:
        del neighbours, resolution
        here = points.double()
        chosen = here[[int(numbers.integers(len(here)))]]
        for _ in range(min(count, len(here)) - 1):  # k-means++: distant points are chosen more often.
            distance = torch.cdist(here, chosen).amin(dim=1).square().cumsum(dim=0)
            index = int(torch.searchsorted(distance, float(distance[-1]) * float(numbers.random())))
            chosen = torch.cat([chosen, here[[min(index, len(here) - 1)]]])
        for _ in range(25):
            nearest = torch.cdist(here, chosen).argmin(dim=1)
            sizes = torch.bincount(nearest, minlength=len(chosen))[:, None]
            means = torch.zeros_like(chosen).index_add_(0, nearest, here) / sizes.clamp_min(1)
            chosen = torch.where(sizes > 0, means, chosen)
        return _renumbered(nearest.numpy())

    return divide


def nearest_points(
    points: Float[Tensor, "sample direction"],
    reference: Float[Tensor, "other direction"],
    count: int,
    *,
    skip_own: bool = False,
) -> Ids:
    """Indices of the most similar reference points of each point, nearest first, in linear memory.

    Args:
        points: Unit vectors.
        reference: Unit vectors.
        count: Number of neighbours.
        skip_own: Points and reference are the same; no point is its own neighbour.
    """
    found = []
    for start in range(0, len(points), 1024):
        similarity = points[start : start + 1024] @ reference.T
        if skip_own:
            similarity[torch.arange(len(similarity)), torch.arange(start, start + len(similarity))] = -torch.inf
        found.append(similarity.topk(min(count, len(reference)), dim=1).indices)
    indices: Ids = torch.cat(found).cpu().numpy()
    return indices


def follow(
    points: Float[Tensor, "sample direction"],
    reference: Float[Tensor, "other direction"],
    groups: Int[Tensor, "other partition"],
) -> Int[Tensor, "sample partition"]:
    """The groups of further points: in each partition, that of the majority of their neighbours."""
    near = nearest_points(points, reference, NEIGHBOURS)
    of_reference = groups.cpu().numpy()
    columns = [majority(of_reference[near, column]) for column in range(groups.shape[1])]
    return torch.from_numpy(np.stack(columns, axis=1)).to(groups.device)


def majority(votes: Ids) -> Ids:
    """The most frequent number of each row; the smallest of equally frequent ones."""
    rows, most = len(votes), int(votes.max()) + 1
    counts = np.bincount((np.arange(rows)[:, None] * most + votes).ravel(), minlength=rows * most)
    winners: Ids = counts.reshape(rows, most).argmax(axis=1)
    return winners


def adjusted_rand(one: Ids, other: Ids) -> float:
    """Adjusted Rand index of two partitions of the same samples: 1 if they are equal, 0 on average if unrelated."""
    together = _pairs_together(one, other)
    alone, pairs = (_pairs_together(one, one), _pairs_together(other, other)), len(one) * (len(one) - 1)
    chance, highest = alone[0] * alone[1] / pairs, (alone[0] + alone[1]) / 2
    # If both have all samples in one group, or each sample alone, nothing was found.
    return float((together - chance) / (highest - chance)) if highest > chance else 0.0


def mean_square_share(groups: Int[Tensor, "sample partition"]) -> float:
    """Mean over all pairs of samples of the squared share of partitions in which both are in one group.

    The square is a mean over pairs of partitions. Two partitions both have a pair of samples together if the pair is in
    one cell of their contingency table. So no loop over pairs of samples is needed.
    """
    columns, samples = groups.cpu().numpy().T, len(groups)
    if samples < 2:
        return 0.0
    sums = [_pairs_together(one, other) for one in columns for other in columns]
    return float(np.mean(sums) / (samples * (samples - 1)))


def share_of_pairs(groups: Ids) -> float:
    """The share of the pairs of different samples that are in one group."""
    return _pairs_together(groups, groups) / (len(groups) * (len(groups) - 1))


def _pairs_together(one: Ids, other: Ids) -> float:
    """Number of ordered pairs of different samples that are in one group in both partitions."""
    width = int(other.max()) + 1
    cells = np.bincount(one * width + other).astype(np.float64)
    return float((cells * cells).sum() - len(one))


def _within(nearest: Ids, half: Ids) -> Ids:
    """The nearest neighbours of all samples in a half, as indices into it. The nearest is repeated if there are few."""
    index = np.full(len(nearest), -1)
    index[half] = np.arange(len(half))
    found = index[nearest]
    first = np.argsort(found < 0, axis=1, kind="stable")[:, :NEIGHBOURS]
    near = np.take_along_axis(found, first, axis=1)
    nearest_there = np.where(near[:, :1] < 0, np.maximum(index, 0)[:, None], near[:, :1])
    return np.where(near < 0, nearest_there, near)


def _components(nearest: Ids) -> Ids:
    """The connected components of a graph that joins each sample to one other."""
    lowest = np.arange(len(nearest))
    while True:
        new = np.minimum(lowest, lowest[nearest])
        np.minimum.at(new, nearest, new.copy())
        new = new[new]
        if np.array_equal(new, lowest):
            return _renumbered(new)
        lowest = new


def _edges_between(neighbours: Ids, groups: Ids) -> NDArray[np.float64]:
    """Number of edges between each two groups. Edges inside a group count twice."""
    count = int(groups.max()) + 1
    ends = (groups[:, None] * count + groups[neighbours]).ravel()
    one_way = np.bincount(ends, minlength=count * count).reshape(count, count).astype(np.float64)
    return one_way + one_way.T


def _merge(edges: NDArray[np.float64], resolution: float) -> Ids:
    """The new group of each group, after merging pairs while that raises the modularity."""
    groups = np.arange(len(edges))
    while len(edges) > 1:
        degree, all_groups = edges.sum(axis=1), np.arange(len(edges))
        gain = edges - resolution * np.outer(degree, degree) / degree.sum()
        np.fill_diagonal(gain, -np.inf)
        # Relative to the smaller of the two, so that groups grow evenly. Otherwise one group absorbs all.
        best = (gain / np.minimum.outer(degree, degree)).argmax(axis=1)
        merging = (best[best] == all_groups) & (gain[all_groups, best] > 0)
        if not merging.any():
            break
        into = _renumbered(np.where(merging, np.minimum(all_groups, best), all_groups))
        count = int(into.max()) + 1
        cells = (into[:, None] * count + into[None, :]).ravel()
        edges = np.bincount(cells, weights=edges.ravel(), minlength=count * count).reshape(count, count).astype(float)
        groups = into[groups]
    return groups


def _refine(neighbours: Ids, groups: Ids, resolution: float, numbers: np.random.Generator) -> Ids:
    """Move samples to the groups in which they raise the modularity most."""
    samples, width = neighbours.shape
    rows = np.arange(samples)
    degree = width + np.bincount(neighbours.ravel(), minlength=samples).astype(np.float64)
    for _ in range(REFINEMENTS):
        count = int(groups.max()) + 1
        outward = (rows[:, None] * count + groups[neighbours]).ravel()
        inward = (neighbours * count + groups[:, None]).ravel()
        edges = np.bincount(np.concatenate([outward, inward]), minlength=samples * count).reshape(samples, count)
        others = np.bincount(groups, weights=degree, minlength=count)[None, :].repeat(samples, axis=0)
        others[rows, groups] -= degree
        gain = edges - resolution * degree[:, None] * others / degree.sum()
        best = gain.argmax(axis=1)
        moving = gain[rows, best] > gain[rows, groups] + 1e-6
        if not moving.any():
            break
        # If all moved at once, two samples could swap their groups for ever.
        groups = np.where(moving & (numbers.random(samples) < 0.5), best, groups)
    return _renumbered(groups)


def _renumbered(groups: Ids) -> Ids:
    """The same groups, numbered from 0 without gaps."""
    return np.unique(groups, return_inverse=True)[1].reshape(-1)
