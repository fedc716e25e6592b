"""The ratio of two histograms, made monotone."""

import numpy as np
import pytest
import torch

from pucl.estimation.ratio import posterior


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bins", [3, 20, 64])
def test_equals_isotonic_regression(seed: int, bins: int) -> None:
    """scikit-learn's, with the unlabelled counts as weights."""
    reference = pytest.importorskip("sklearn.isotonic").IsotonicRegression()
    generator = torch.Generator().manual_seed(seed)
    positive = torch.randint(0, 30, (bins,), generator=generator).double() * torch.linspace(0, 1, bins)
    unlabelled = torch.randint(1, 50, (bins,), generator=generator).double()
    ratio = 0.2 * (positive / positive.sum()) / (unlabelled / unlabelled.sum())
    expected = reference.fit_transform(np.arange(bins), ratio.numpy(), sample_weight=unlabelled.numpy())
    found = posterior(positive, unlabelled, 0.2)
    np.testing.assert_allclose(found.numpy(), np.clip(expected, 0, 1), rtol=1e-10)
    assert len(found.unique()) > 1


def test_empty_bins() -> None:
    """A bin without pairs takes the value below it; positives alone are certain; before the first pair r is 0."""
    found = posterior(torch.tensor([0.0, 0, 1, 0, 1, 2]), torch.tensor([0.0, 6, 2, 0, 2, 0]), 0.2)
    assert found.tolist() == pytest.approx([0.0, 0.0, 0.25, 0.25, 0.25, 1.0])


def test_averages_to_tau_plus_where_nothing_is_clipped() -> None:
    """Under SCAR the mean of r over the unlabelled is tau', and r is the true posterior."""
    centres = torch.linspace(-0.98, 0.98, 50, dtype=torch.float64)
    hidden, others = (torch.exp(-(((centres - mean) / 0.2) ** 2) / 2) for mean in (0.5, 0.0))
    hidden, others = 0.1 * hidden / hidden.sum(), 0.9 * others / others.sum()
    found = posterior(1000 * hidden, 5000 * (hidden + others), 0.1)
    torch.testing.assert_close(found, hidden / (hidden + others), rtol=1e-9, atol=1e-12)
    assert float(((hidden + others) * found).sum()) == pytest.approx(0.1)
    assert (posterior(1000 * hidden, 5000 * (hidden + others), 0.0) == 0).all()
    same = posterior(others, others, 0.1)  # Nothing tells positives from others.
    torch.testing.assert_close(same, torch.full((50,), 0.1, dtype=torch.float64))


def test_refused() -> None:
    with pytest.raises(ValueError, match="tau_plus is the share .* expected 0 to 1, got 1.5"):
        posterior(torch.ones(3), torch.ones(3), 1.5)
    with pytest.raises(ValueError, match="expected some of both, got none"):
        posterior(torch.ones(3), torch.zeros(3), 0.1)
