"""Settings at which every correction is tested, and embeddings that leave its anchors above the floor."""

from collections.abc import Callable

import torch

import oracles
from pucl.corrections import (
    BCL,
    PUCL,
    Auto,
    Clusters,
    Correction,
    Debiased,
    GloFND,
    Hard,
    Plain,
    PointwiseTable,
    Ratio,
    Ring,
)
from pucl.functional import pair_views

EXAMPLES: dict[str, list[Correction]] = {
    "plain": [Plain()],
    "deb": [Debiased(tau_plus=0.1), Debiased(tau_plus=0.02)],
    "hard": [Hard(tau_plus=0.1, beta=1.0), Hard(tau_plus=0.05, beta=0.5)],
    "ring": [Ring(lower=0.1, upper=0.6), Ring(lower=0.0, upper=0.5, rescale=True)],
    "pucl": [PUCL(alpha=0.12, c=0.1), PUCL(alpha=0.1, c=0.5, beta=2.0)],
    "bcl": [BCL(tau_plus=0.1, auc=0.8, hardness=0.7), BCL(tau_plus=0.0, auc=0.5, hardness=0.9)],
    "glofnd": [GloFND(dropped=0.3, wait=0)],
    "auto": [Auto()],
    "clusters": [Clusters(), Clusters(shuffled=True), Clusters(k=3)],
    "ratio": [Ratio(tau_plus=0.05, warm_up=1)],
}
"""By the names in the table of corrections. A new correction needs a line here, and the contract does the rest."""

LEARNING = [correction for examples in EXAMPLES.values() for correction in examples if correction.learns]


def loop_weights(correction: Correction, temperature: float) -> Callable[[oracles.Vector], list[float]]:
    """The same weights in the oracle's words."""
    if isinstance(correction, PointwiseTable):
        return oracles.pointwise(correction.table.tolist(), temperature)
    if isinstance(correction, BCL):
        weights = oracles.bayesian(correction.tau_plus, correction.auc, correction.hardness)
        return lambda unlabelled: [weight / sum(weights(unlabelled)) for weight in weights(unlabelled)]
    if isinstance(correction, Ring):
        assert isinstance(correction.lower, float)
        assert isinstance(correction.upper, float)
        return oracles.band(correction.lower, correction.upper)
    beta = getattr(correction, "beta", 0.0)
    return oracles.tilted(beta) if beta else oracles.uniform


def loop_count(correction: Correction, unlabelled: oracles.Vector) -> float:
    """N in the loss, in the oracle's words."""
    if isinstance(correction, BCL):
        return sum(oracles.bayesian(correction.tau_plus, correction.auc, correction.hardness)(unlabelled))
    if isinstance(correction, Ring) and not correction.rescale:
        in_band = loop_weights(correction, 1.0)(unlabelled)
        return sum(weight > 0 for weight in in_band)
    return len(unlabelled)


def related_views(batch: int, dim: int, views: int = 2, *, noise: float = 1.0) -> list[torch.Tensor]:
    """Views of random samples in float64, alike enough to be positives and far enough not to floor every anchor."""
    centre = torch.randn(batch, dim, dtype=torch.float64)
    return [centre + noise * torch.randn(batch, dim, dtype=torch.float64) for _ in range(views)]


def brief(correction: Correction) -> str:
    """A name for a parameter of a test: a table of numbers is too long."""
    return "PointwiseTable" if isinstance(correction, PointwiseTable) else str(correction)


@torch.no_grad()
def learnt(correction: Correction) -> Correction:
    """The correction itself, or for one that learns what its state returns after a few steps."""
    generator = torch.Generator().manual_seed(1)
    state = correction.start(None)
    if state is None:
        return correction
    for _ in range(5):
        centre = torch.randn(30, 5, dtype=torch.float64, generator=generator)
        noise = torch.randn(2, 30, 5, dtype=torch.float64, generator=generator)
        pairs = pair_views([centre + noise[0], centre + noise[1]])
        state.commit(None, state.see(pairs))
    return state.read(pairs)


ALL = [
    learnt(correction)
    for examples in EXAMPLES.values()
    for correction in examples
    if not correction.learns or isinstance(correction, Ratio)
]
"""What the contract holds: corrections that do not learn, and a table of r that `Ratio` has learnt."""
