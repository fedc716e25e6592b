"""How good the probabilities of a learning correction are, measured in training."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from image_trainings import make_image_training
from pucl.contrast.correction import Correction, CorrectionState
from pucl.contrast.pairing import pair_views
from pucl.contrast.pairs import Comparison, Pairs
from pucl.contrast.pointwise import Pointwise
from pucl.estimation.calibration import Reliability, reliability
from pucl.frameworks.recipes import recipe
from pucl.runs.directory import RunDirectory
from pucl.runs.posterior import posterior_of, read_state
from pucl.runs.run import run
from pucl.training.calibration import calibration_metrics, measure_calibration, measure_step, random_samples

LABELS = torch.tensor([0, 0, 1, 1, 2])


class Known(CorrectionState):
    """A state that returns fixed probabilities by sample."""

    def __init__(self, hidden: Tensor, *, of_samples: bool = True) -> None:
        super().__init__()
        self.table = hidden
        self.of_samples = of_samples

    def read(self, pairs: Pairs) -> Correction:
        del pairs

        def posterior(comparison: Comparison) -> Tensor:
            anchors, keys = comparison.sample_ids()
            return self.table[anchors][:, keys]

        return Pointwise(posterior=posterior, of_samples=self.of_samples)


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


@pytest.mark.parametrize("samples", [30, 130])
def test_parts_of_processes_are_the_pairs_of_some_samples(samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among 100 samples at most, each with all others, and the same ones in each epoch."""
    monkeypatch.setattr("pucl.training.calibration.SAMPLES", 100)
    generator = torch.Generator().manual_seed(2)
    labels = torch.randint(3, (samples,), generator=generator)
    state = Known(torch.rand(samples, samples, generator=generator))
    (whole,), parts = measured(state, labels, 1, monkeypatch), measured(state, labels, 3, monkeypatch)
    count = min(samples, 100)
    assert whole.pairs == count * (count - 1)
    together = parts[0] + parts[1] + parts[2]
    torch.testing.assert_close(together.counts, whole.counts)
    torch.testing.assert_close(together.outcomes, whole.outcomes)
    torch.testing.assert_close(together.squares, whole.squares)


def measured(
    state: CorrectionState, labels: Tensor, processes: int, monkeypatch: pytest.MonkeyPatch
) -> list[Reliability]:
    """What each of some processes measures, before they add it up."""
    found = []
    for rank in range(processes):
        with monkeypatch.context() as patch:
            patch.setattr("pucl.processes.rank", lambda: rank)  # noqa: B023
            patch.setattr("pucl.processes.world_size", lambda: processes)
            pairs = random_samples(state, labels)
        assert pairs is not None
        found.append(measure_calibration(state, [pairs], labels))
    return found


def test_r_is_measured_where_it_is_known() -> None:
    """In a step if it depends on similarities, and among samples if it depends on these."""
    for of_samples in (True, False):
        state = Known(torch.rand(5, 5), of_samples=of_samples)
        assert (measure_step(state, [pairs_of_five()], LABELS) is None) == of_samples
        assert (random_samples(state, LABELS) is None) != of_samples


def test_after_communities_shut_no_r_is_left_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"FEWEST": 40, "OPENS": -1.0, "SHUTS": -1.0}.items():
        monkeypatch.setattr(f"pucl.corrections.clusters.{name}", value)
    training = make_image_training("simclr", correction="clusters", epochs=4, truth=True)
    for _ in range(9):
        training.advance()
    assert training.calibration is not None
    assert training.calibration.pairs > 0
    monkeypatch.setattr("pucl.corrections.clusters.SHUTS", 2.0)
    for _ in range(3):
        training.advance()
    assert training.calibration is None


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
