"""The r of a finished run: kept with its embeddings, and read again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pucl.contrast.correction import CorrectionState
from pucl.corrections import Clusters, Ratio
from pucl.corrections.clusters import PARTITIONS, ClusterState
from pucl.frameworks.recipes import recipe
from pucl.runs.posterior import kept_state, posterior_of, read_state
from pucl.samples import EmbeddedSamples

SAMPLES = 7
LABELS = np.array([0, 0, 0, 1, 1, 1, 1])


def seeing() -> ClusterState:
    """A state that sees: random communities, and one sample that is in none."""
    state = Clusters().start(SAMPLES)
    state.opened.fill_(True)
    state.groups.copy_(torch.randint(2, (SAMPLES, PARTITIONS), generator=torch.Generator().manual_seed(0)))
    state.groups[5] = -1
    state.features = torch.randn(SAMPLES, 16)
    return state


def keep(state: CorrectionState | None, count: int = SAMPLES, labels: Any = LABELS) -> dict[str, Any]:
    return kept_state(state, SAMPLES, LABELS, EmbeddedSamples(count=count, labels=labels, classes=()))


def test_what_is_read_is_the_loop_over_the_communities(tmp_path: Path) -> None:
    state, file = seeing(), tmp_path / "embeddings.npz"
    kept = keep(state)
    assert "correction.features" not in kept  # As large as the embeddings, and only learnt from.
    np.savez(file, train=np.zeros((SAMPLES, 2)), **kept)
    again = read_state(file, recipe("simclr", "digits", correction="clusters"), SAMPLES)
    assert again is not None
    samples = np.array([6, 2, 5, 0])
    neighbours = np.array([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
    r = posterior_of(again, samples, neighbours)
    assert r is not None
    groups = state.groups.tolist()
    for place, sample in enumerate(samples):
        for rank, other in enumerate(samples[neighbours[place]]):
            both = [one == two != -1 for one, two in zip(groups[sample], groups[other], strict=True)]
            assert r[place, rank] == pytest.approx((sum(both) / PARTITIONS) ** 2)
    assert 0 < r.max() < 1
    assert (r[2] == 0).all()


def test_nothing_is_kept_without_r_or_of_other_samples() -> None:
    assert keep(seeing())
    assert keep(None) == {}
    assert keep(Clusters().start(SAMPLES)) == {}  # It sees nothing yet, and is plain.
    ratio = Ratio(tau_plus=0.1).start(SAMPLES)
    ratio.counted += 5000
    ratio.table += 0.5
    assert keep(ratio) == {}  # By the similarity of views.
    assert keep(seeing(), count=SAMPLES + 1) == {}
    assert keep(seeing(), labels=LABELS[::-1]) == {}


def test_other_arrays_are_refused_and_missing_ones_are_no_r(tmp_path: Path) -> None:
    file, config = tmp_path / "embeddings.npz", recipe("simclr", "digits", correction="auto")
    np.savez(file, train=np.zeros((SAMPLES, 2)))
    assert read_state(file, config, SAMPLES) is None
    assert read_state(file, recipe("simclr", "digits", correction="oracle"), SAMPLES) is None
    np.savez(file, **keep(seeing()))
    assert read_state(file, recipe("simclr", "digits", correction="pucl"), SAMPLES) is None
    with pytest.raises(ValueError, match="what the correction has learnt does not fit its 9 samples"):
        read_state(file, config, 9)
    words: dict[str, Any] = {"correction.groups": np.array(["a", "b"])}
    np.savez(file, **words)
    with pytest.raises(ValueError, match="does not fit"):
        read_state(file, config, SAMPLES)
