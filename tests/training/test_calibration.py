"""How good the probabilities of a learning correction are, measured in training."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from pucl.contrast.correction import Correction, CorrectionState
from pucl.contrast.pairing import pair_views
from pucl.contrast.pairs import Comparison, Pairs
from pucl.contrast.pointwise import Pointwise
from pucl.estimation.calibration import reliability
from pucl.frameworks.recipes import recipe
from pucl.runs.directory import RunDirectory
from pucl.runs.posterior import posterior_of, read_state
from pucl.runs.run import run
from pucl.training.calibration import calibration_metrics, measure_calibration

LABELS = torch.tensor([0, 0, 1, 1, 2])


class Known(CorrectionState):
    """A state that returns fixed probabilities by sample."""

    def __init__(self, hidden: Tensor) -> None:
        super().__init__()
        self.table = hidden

    def read(self, pairs: Pairs) -> Correction:
        del pairs

        def posterior(comparison: Comparison) -> Tensor:
            anchors, keys = comparison.sample_ids()
            return self.table[anchors][:, keys]

        return Pointwise(posterior=posterior)


def pairs_of_five() -> Pairs:
    torch.manual_seed(0)
    ids = torch.arange(5)
    return pair_views([torch.randn(5, 4), torch.randn(5, 4)], temperature=0.5, ids=ids, samples=ids)


def test_it_is_the_loop_over_all_pairs() -> None:
    hidden = torch.rand(5, 5, generator=torch.Generator().manual_seed(1)).round(decimals=1)
    found = measure_calibration(Known(hidden), [pairs_of_five()], LABELS)
    squares, count = 0.0, 0
    sums: dict[int, list[float]] = {}
    for anchor in range(5):
        for other in range(5):
            if anchor != other and hidden[anchor, other] > 0:
                r, same = float(hidden[anchor, other]), float(LABELS[anchor] == LABELS[other])
                for _ in range(4):  # Two views of the anchor, each with two views of the other.
                    squares, count = squares + (r - same) ** 2, count + 1
                    gap = sums.setdefault(min(9, int(r * 10 + 1e-6)), [0.0, 0.0])
                    gap[0], gap[1] = gap[0] + r, gap[1] + same
    assert found.pairs == count
    assert found.brier == pytest.approx(squares / count)
    assert found.expected_error == pytest.approx(sum(abs(r - same) for r, same in sums.values()) / count, abs=1e-6)


def test_the_truth_is_calibrated_and_plain_has_nothing_to_measure() -> None:
    same = (LABELS[:, None] == LABELS[None, :]).float()
    metrics = calibration_metrics(measure_calibration(Known(same), [pairs_of_five()], LABELS))
    assert metrics == {"calibration.error": 0, "calibration.brier": 0, "calibration.pairs": 16}
    assert calibration_metrics(measure_calibration(Known(torch.zeros(5, 5)), [pairs_of_five()], LABELS)) == {}


@pytest.mark.slow
def test_the_record_of_a_run_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pucl.corrections.clusters.OPENS", -1.0)  # Whatever the communities are, they are used.
    monkeypatch.setattr("pucl.corrections.clusters.SHUTS", -1.0)
    config = recipe("simclr", "digits", correction="clusters", epochs=3, limit=256, width=4, image_size=8)
    run(config, tmp_path / "run")
    record = RunDirectory(tmp_path / "run")
    last, result = record.history()[-1], record.result()
    assert 0 < last["calibration.error"] <= 1
    assert sum(count for _, _, count in last["calibration.curve"]) == last["calibration.pairs"]
    assert result is not None
    assert result["calibration.curve"] == last["calibration.curve"]
    state = read_state(record.embeddings, config, 256)
    assert state is not None
    samples = np.arange(256)
    r = posterior_of(state, samples, np.repeat(samples[None], 256, axis=0))
    assert r is not None
    assert r.mean() == pytest.approx(result["correction.tau_plus"], abs=0.01)
    # It is the calibration of the r that the run keeps, not of the one that was used in the last epoch.
    labels = np.load(record.embeddings)["train_labels"]
    shown = (r > 0) & ~np.eye(256, dtype=bool)
    found = reliability(torch.from_numpy(r[shown]), torch.from_numpy(labels[:, None] == labels)[shown])
    assert found.pairs == last["calibration.pairs"]
    assert found.expected_error == pytest.approx(last["calibration.error"], abs=1e-6)
    assert found.brier == pytest.approx(last["calibration.brier"], abs=1e-6)
