r"""A world where everything is known, to hold Lemma 1 and Theorem 1 against numbers.

Classes are von Mises-Fisher laws on the sphere in three dimensions. There the density, exact sampling, and the
expectation of :math:`h(x, x') = e^{\langle x, x' \rangle / t}` all have closed forms, so the losses that the theorem
speaks of can be computed rather than believed:

- *ideal*: N true negatives, drawn from :math:`p^-`. What every correction aims at.
- *standard*: N unlabelled samples, drawn from :math:`p^u`, all taken for negatives.
- *exact*: the paper's :math:`L_{DeCL}`, where the mean over negatives is :math:`\mu_x = E^-[h(x, x')]` itself. This is
  what Theorem 1 bounds.
- *corrected*: the estimator that is used in training, from N unlabelled samples and one or several positives.

The ideal, the standard and the corrected loss are computed by the very functions that a training loop calls.

Anchors are of one class, whose share :math:`\alpha` of the data may be any; the theorem holds anchor by anchor, and so
for whatever mixture of anchors there is.
"""

from pucl.paper.theory.estimates import Estimate, controlled_means
from pucl.paper.theory.lemma import DensityCheck, SampleCheck, check_lemma_densities, check_lemma_samples
from pucl.paper.theory.measure import (
    LossEstimate,
    Row,
    TheoryResult,
    TheorySettings,
    measure_theory,
    theorem_bound,
)
from pucl.paper.theory.trials import Anchors, Trials, run_trials
from pucl.paper.theory.world import World, unlabelled_density

__all__ = [
    "Anchors",
    "DensityCheck",
    "Estimate",
    "LossEstimate",
    "Row",
    "SampleCheck",
    "TheoryResult",
    "TheorySettings",
    "Trials",
    "World",
    "check_lemma_densities",
    "check_lemma_samples",
    "controlled_means",
    "measure_theory",
    "run_trials",
    "theorem_bound",
    "unlabelled_density",
]
