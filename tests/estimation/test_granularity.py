"""The share of false negatives as an interval: it holds the truth where groups repeat, and is refused elsewhere."""

import numpy as np
import pytest
import torch
from torch import Tensor

from pucl.estimation.communities import mean_square_share, share_of_pairs
from pucl.estimation.granularity import RESOLUTIONS, Granularity, _standard_error, find_granularity


def nested(coarse: int, fine: int, samples: int, *, noise: float = 0.35) -> tuple[Tensor, Tensor, Tensor]:
    """Samples of `fine` groups inside of each of `coarse` groups, and both numbers of each sample."""
    numbers = torch.Generator().manual_seed(0)
    small = torch.arange(samples) % (coarse * fine)
    large = small % coarse
    centres = 2.0 * torch.randn(coarse, 24, generator=numbers)
    inside = 0.9 * torch.randn(coarse * fine, 24, generator=numbers)
    return centres[large] + inside[small] + noise * torch.randn(samples, 24, generator=numbers), large, small


def interval_of(found: Granularity) -> tuple[float, float]:
    assert found.interval is not None
    assert found.share is not None
    assert found.interval[0] <= found.share <= found.interval[1]
    return found.interval


@pytest.mark.parametrize("groups", [8, 20])
def test_the_interval_holds_the_share_of_separated_groups(groups: int) -> None:
    features, labels, _ = nested(groups, 1, 600)
    low, high = interval_of(find_granularity(features))
    assert low <= share_of_pairs(labels.numpy()) <= high
    assert high < 4 * low  # It says something.


def test_unequal_groups() -> None:
    numbers = torch.Generator().manual_seed(0)
    labels = torch.cat([torch.full((size,), group) for group, size in enumerate([200, 100, 50, 50, 50, 50])])
    features = 2 * torch.randn(6, 24, generator=numbers)[labels] + 0.5 * torch.randn(500, 24, generator=numbers)
    low, high = interval_of(find_granularity(features))
    assert low <= share_of_pairs(labels.numpy()) <= high


def test_two_granularities_that_both_repeat_widen_the_interval() -> None:
    features, large, small = nested(6, 4, 1200, noise=0.8)
    low, high = interval_of(find_granularity(features))
    assert low <= share_of_pairs(small.numpy()) <= high
    assert high > 0.8 * share_of_pairs(large.numpy())


def test_groups_that_are_joined_by_no_neighbours_are_the_coarsest_level() -> None:
    """A limit: if fine groups do not touch, coarser ones are not in the graph of neighbours."""
    features, large, small = nested(6, 4, 1200)
    low, high = interval_of(find_granularity(features))
    assert low <= share_of_pairs(small.numpy()) <= high < share_of_pairs(large.numpy())


@pytest.mark.parametrize("dim", [8, 64])
def test_noise_is_refused(dim: int) -> None:
    found = find_granularity(torch.randn(500, dim, generator=torch.Generator().manual_seed(0)))
    assert found.refused is not None
    assert "do not repeat" in found.refused
    assert (found.share, found.interval, found.groups.shape[1]) == (None, None, 0)
    assert len(found.levels) == len(RESOLUTIONS)


@pytest.mark.parametrize("value", [0.0, 1.0, 1e-3])
def test_one_point_is_refused(value: float) -> None:
    found = find_granularity(torch.full((100, 8), value))
    assert found.refused is not None
    assert "all embeddings are the same" in found.refused


def test_too_few_samples() -> None:
    with pytest.raises(ValueError, match=r"expected at least 60 samples, got 59"):
        find_granularity(torch.randn(59, 4))


def test_the_same_seed_gives_the_same_levels_and_another_seed_others() -> None:
    features, _, _ = nested(10, 1, 300)
    first, again, other = (find_granularity(features, seed=seed) for seed in (0, 0, 1))
    assert first.levels == again.levels
    assert first.levels != other.levels
    assert torch.equal(first.groups, again.groups)


def test_what_repeats_is_what_is_kept() -> None:
    features, _, _ = nested(10, 1, 300)
    found = find_granularity(features)
    assert found.groups.shape == (300, 6 * len(found.repeating))
    assert found.share == pytest.approx(mean_square_share(found.groups))
    best = max(level.agreement for level in found.levels)
    for level in found.levels:
        assert level.repeats == (level.agreement >= max(0.5, 0.8 * best))
        assert level.least <= level.share <= level.most


def test_other_samples_follow() -> None:
    features, labels, _ = nested(8, 1, 700)
    found = find_granularity(features[:400])
    groups = found.groups_of(features[400:])
    together = (groups[:, None] == groups).float().mean(dim=2)
    same = labels[400:, None] == labels[400:]
    assert together[same].mean() > 0.7
    assert together[~same].mean() < 0.1


def test_progress_counts_the_splits() -> None:
    told: list[tuple[int, int]] = []
    find_granularity(torch.randn(80, 4), progress=lambda done, total: told.append((done, total)))
    assert told == [(number, 30) for number in range(1, 31)]


def test_the_standard_error_is_that_of_drawing_samples_again() -> None:
    shares = np.array([0.5, 0.3, 0.1, 0.1])
    numbers = np.random.default_rng(0)
    drawn = [(numbers.multinomial(400, shares) / 400) for _ in range(4000)]
    spread = float(np.std([(each**2).sum() for each in drawn]))
    groups = np.repeat(np.arange(4), (400 * shares).astype(int))
    assert _standard_error(groups) == pytest.approx(spread, rel=0.05)
    assert _standard_error(np.zeros(50, np.int64)) == 0
