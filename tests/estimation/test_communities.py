"""Communities of samples: found where there are groups, disagreed on where there are none."""

import numpy as np
import pytest
import torch
from torch import Tensor

from pucl.estimation import communities
from pucl.estimation.communities import (
    NEIGHBOURS,
    Partitions,
    Whitening,
    adjusted_rand,
    divide_by_k_means,
    follow,
    majority,
    mean_square_share,
    nearest_points,
    repeated_partitions,
)


def grouped(samples: int, groups: int, apart: float, dim: int = 24, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Normal samples around random centres, and their groups."""
    numbers = torch.Generator().manual_seed(seed)
    labels = torch.arange(samples) % groups
    centres = apart * torch.randn(groups, dim, generator=numbers)
    return centres[labels] + torch.randn(samples, dim, generator=numbers), labels


def whitened(features: Tensor) -> Tensor:
    return Whitening.of(features)(features)


def partition(features: Tensor, seed: int = 0) -> Partitions:
    return repeated_partitions(whitened(features), seed)


@pytest.mark.parametrize("groups", [5, 8])
def test_separated_groups_are_found_and_repeat(groups: int) -> None:
    features, labels = grouped(240, groups, apart=3.0)
    found = partition(features)
    assert found.repeatable == pytest.approx(1.0)
    assert found.groups.shape == (240, 6)
    for column in found.groups.T:
        assert adjusted_rand(column.numpy(), labels.numpy()) == pytest.approx(1.0)


@pytest.mark.parametrize("dim", [3, 24, 100])
@pytest.mark.parametrize("seed", range(3))
def test_communities_of_noise_do_not_repeat(dim: int, seed: int) -> None:
    features, _ = grouped(400, 1, apart=0.0, dim=dim, seed=seed)
    assert partition(features, seed).repeatable < 0.4


def test_overlapping_groups_repeat_less() -> None:
    agreement = [partition(grouped(400, 8, apart)[0]).repeatable for apart in (0.3, 0.6, 2.0)]
    assert agreement == sorted(agreement)
    assert agreement[0] < 0.5
    assert agreement[2] > 0.9


def test_the_seed_decides() -> None:
    features, _ = grouped(200, 4, apart=0.5)
    one, again, other = (partition(features, seed) for seed in (1, 1, 2))
    assert torch.equal(one.groups, again.groups)
    assert not torch.equal(one.groups, other.groups)


def test_communities_have_a_high_modularity() -> None:
    """As high as that of the true groups, and higher than with any single sample moved."""
    features, labels = grouped(150, 5, apart=0.8)
    near = nearest_points(whitened(features), whitened(features), NEIGHBOURS, skip_own=True)
    groups = communities.communities(near, 1.0, np.random.default_rng(0))
    found = modularity(near, groups)
    assert found >= modularity(near, labels.numpy()) - 1e-9
    for sample in range(0, 150, 10):
        for group in range(groups.max() + 1):
            moved = groups.copy()
            moved[sample] = group
            assert modularity(near, moved) <= found + 1e-6


def modularity(neighbours: np.ndarray, groups: np.ndarray) -> float:
    """By its definition, from the whole matrix."""
    samples = len(neighbours)
    edges = np.zeros((samples, samples))
    for sample, near in enumerate(neighbours):
        edges[sample, near] += 1
        edges[near, sample] += 1
    degree = edges.sum(axis=1)
    surplus = edges - np.outer(degree, degree) / degree.sum()
    return float((surplus * (groups[:, None] == groups[None, :])).sum() / degree.sum())


def test_higher_resolutions_give_more_communities() -> None:
    features, _ = grouped(300, 1, apart=0.0)
    near = nearest_points(whitened(features), whitened(features), NEIGHBOURS, skip_own=True)
    counts = [communities.communities(near, each, np.random.default_rng(0)).max() + 1 for each in (0.5, 1.0, 4.0)]
    assert counts == sorted(counts)
    assert counts[0] < counts[2]


def test_k_means_finds_as_many_clusters_as_asked_for() -> None:
    features, labels = grouped(240, 4, apart=3.0)
    found = repeated_partitions(whitened(features), 0, divide_by_k_means(4))
    assert found.groups.max() == 3
    assert found.repeatable > 0.6
    three = repeated_partitions(whitened(features), 0, divide_by_k_means(3))
    assert three.groups.max() == 2
    assert adjusted_rand(three.groups[:, 0].numpy(), labels.numpy()) < 1


def test_whitened_features_have_equal_directions() -> None:
    features = torch.randn(500, 128) * torch.linspace(0.1, 5, 128) + 3
    whitening = Whitening.of(features)
    unit = torch.nn.functional.normalize(features, dim=1)
    spread = (unit - whitening.mean) @ whitening.directions
    torch.testing.assert_close(spread.T @ spread / 500, torch.eye(32), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(whitening(features).norm(dim=1), torch.ones(500))


def test_features_of_few_dimensions_are_padded() -> None:
    features = torch.cat([torch.randn(100, 3), torch.zeros(100, 2)], dim=1)
    points = whitened(features)
    assert points.shape == (100, 32)
    assert points.isfinite().all()
    assert (points[:, 3:] == 0).all()


def test_new_samples_follow_their_neighbours() -> None:
    features, labels = grouped(240, 6, apart=3.0)
    points = whitened(features)
    groups = torch.stack([labels[:200], 5 - labels[:200]], dim=1)
    assert torch.equal(follow(points[200:], points[:200], groups), torch.stack([labels[200:], 5 - labels[200:]], dim=1))


def test_majority() -> None:
    assert majority(np.array([[2, 0, 2], [1, 1, 0], [3, 1, 0]])).tolist() == [2, 1, 0]


def test_adjusted_rand() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    numbers = np.random.default_rng(0)
    one, other = numbers.integers(0, 5, 100), numbers.integers(0, 3, 100)
    half = np.where(numbers.random(100) < 0.5, one, other)
    assert adjusted_rand(one, half) == pytest.approx(sklearn.adjusted_rand_score(one, half))
    assert adjusted_rand(one, one) == pytest.approx(1.0)
    assert abs(adjusted_rand(one, other)) < 0.05
    nothing = np.zeros(100, dtype=np.int64)
    assert adjusted_rand(nothing, nothing) == 0.0  # Nothing was found, twice.


def test_mean_square_share_equals_the_loop() -> None:
    groups = torch.randint(0, 3, (30, 4))
    total = sum(float((groups[i] == groups[j]).double().mean() ** 2) for i in range(30) for j in range(30) if i != j)
    assert mean_square_share(groups) == pytest.approx(total / (30 * 29))
    assert mean_square_share(groups[:1]) == 0.0
