"""Settings at which every correction is tested, and embeddings that leave its anchors above the floor."""

from collections.abc import Callable

import torch

import oracles
from pucl.corrections import PUCL, Correction, Debiased, Hard, Plain, Ring

EXAMPLES: dict[str, list[Correction]] = {
    "plain": [Plain()],
    "deb": [Debiased(tau_plus=0.1), Debiased(tau_plus=0.02)],
    "hard": [Hard(tau_plus=0.1, beta=1.0), Hard(tau_plus=0.05, beta=0.5)],
    "ring": [Ring(lower=0.1, upper=0.6), Ring(lower=0.0, upper=0.5, rescale=True)],
    "pucl": [PUCL(alpha=0.12, c=0.1), PUCL(alpha=0.1, c=0.5, beta=2.0)],
}
"""By the names in the table of corrections. A new correction needs a line here, and the contract does the rest."""

ALL = [correction for examples in EXAMPLES.values() for correction in examples]


def loop_weights(correction: Correction) -> Callable[[oracles.Vector], list[float]]:
    """The same weights in the oracle's words."""
    if isinstance(correction, Ring):
        assert isinstance(correction.lower, float)
        assert isinstance(correction.upper, float)
        return oracles.band(correction.lower, correction.upper)
    beta = getattr(correction, "beta", 0.0)
    return oracles.tilted(beta) if beta else oracles.uniform


def related_views(batch: int, dim: int, views: int = 2, *, noise: float = 1.0) -> list[torch.Tensor]:
    """Views of random samples in float64, alike enough to be positives and far enough not to floor every anchor."""
    centre = torch.randn(batch, dim, dtype=torch.float64)
    return [centre + noise * torch.randn(batch, dim, dtype=torch.float64) for _ in range(views)]
