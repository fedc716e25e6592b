"""Calibration of probabilities against loops and scikit-learn."""

import pytest
import torch

from pucl.estimation.calibration import reliability


@pytest.mark.parametrize("bins", [1, 7, 10])
def test_equals_loops_and_scikit_learn(bins: int) -> None:
    metrics, curves = pytest.importorskip("sklearn.metrics"), pytest.importorskip("sklearn.calibration")
    generator = torch.Generator().manual_seed(bins)
    hidden = torch.rand(40, 25, generator=generator, dtype=torch.float64) ** 3
    hidden[0, :2] = torch.tensor([0.0, 1.0])
    same = torch.rand(40, 25, generator=generator) < 0.3 + 0.4 * hidden
    found = reliability(hidden, same, bins=bins)
    rows, error = list(zip(hidden.flatten().tolist(), same.flatten().tolist(), strict=True)), 0.0
    for b in range(bins):
        inside = [(r, y) for r, y in rows if b / bins <= r < (b + 1) / bins or (r == 1 and b == bins - 1)]
        if inside:
            error += abs(sum(r for r, _ in inside) - sum(y for _, y in inside)) / len(rows)
    assert found.expected_error == pytest.approx(error, rel=1e-12)
    assert found.brier == pytest.approx(sum((r - y) ** 2 for r, y in rows) / len(rows), rel=1e-12)
    assert found.brier == pytest.approx(metrics.brier_score_loss(same.flatten(), hidden.flatten()), rel=1e-12)
    observed, predicted = curves.calibration_curve(same.flatten(), hidden.flatten(), n_bins=bins)
    assert [row[0] for row in found.curve()] == pytest.approx(predicted.tolist())
    assert [row[1] for row in found.curve()] == pytest.approx(observed.tolist())
    assert sum(row[2] for row in found.curve()) == found.pairs == 1000


def test_parts_add_up() -> None:
    hidden, same = torch.rand(30), torch.rand(30) < 0.5
    whole = reliability(hidden, same)
    parts = reliability(hidden[:11], same[:11]) + reliability(hidden[11:], same[11:])
    assert parts.brier == pytest.approx(whole.brier)
    assert parts.expected_error == pytest.approx(whole.expected_error)
    torch.testing.assert_close(torch.tensor(parts.curve()), torch.tensor(whole.curve()))


def test_truth_is_calibrated_and_certainty_is_not() -> None:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.rand(20_000, generator=generator)
    same = torch.rand(20_000, generator=generator) < hidden
    assert reliability(hidden, same).expected_error < 0.02
    assert reliability(hidden.round(), same).expected_error > 0.2
    assert reliability(same.float(), same).brier == 0


def test_refused() -> None:
    with pytest.raises(ValueError, match="hidden are probabilities: expected 0 to 1, got 1.5"):
        reliability(torch.tensor([0.5, 1.5]), torch.tensor([True, False]))
    with pytest.raises(ValueError, match="bins is the number of parts"):
        reliability(torch.tensor([0.5]), torch.tensor([True]), bins=0)
