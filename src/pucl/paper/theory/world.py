"""Classes on the sphere whose distributions have closed forms."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch

from pucl.shapes import Float, Int, Tensor

GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))


@dataclass(frozen=True, kw_only=True)
class World:
    r"""Classes on the sphere, each a von Mises-Fisher distribution around its own mean.

    With mean m and concentration :math:`\kappa`, a class has in three dimensions

    .. math::
        \text{density}\quad & \frac{\kappa}{2 \pi (1 - e^{-2 \kappa})}\, e^{\kappa (\langle m, x \rangle - 1)} \\
        \text{expectation}\quad & E\big[e^{\langle v, x \rangle}\big]
            = \frac{Z(|\kappa m + v|)}{Z(\kappa)}, \qquad Z(r) = \frac{\sinh r}{r}

    The height :math:`w = \langle m, x \rangle` is drawn by inverting its distribution function.

    Class 0 is the anchor's class and has the density :math:`p^+`. The other classes are equally frequent and form
    :math:`p^-`.

    Args:
        classes: Number of classes, at least 2. Their means lie evenly on a spiral from pole to pole.
        concentration: kappa > 0.
    """

    classes: int
    concentration: float

    @cached_property
    def means(self) -> Float[Tensor, "class 3"]:
        """The mean direction of every class."""
        turn = torch.arange(self.classes, dtype=torch.float64)
        height = 1 - (2 * turn + 1) / self.classes
        radius = (1 - height**2).sqrt()
        return torch.stack([radius * (GOLDEN_ANGLE * turn).cos(), radius * (GOLDEN_ANGLE * turn).sin(), height], dim=1)

    @cached_property
    def mirrors(self) -> Float[Tensor, "class 3"]:
        """Normals of the planes that reflect the north pole to each class mean."""
        normal = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64) - self.means
        return unit(normal)

    def densities(self, points: Float[Tensor, "point 3"]) -> tuple[Float[Tensor, " point"], Float[Tensor, " point"]]:
        """p+ and p- at these points, per area of the sphere, whose area is 4 pi."""
        kappa = self.concentration
        log_peak = math.log(kappa) - math.log(-2 * math.pi * math.expm1(-2 * kappa))
        density = torch.exp(log_peak + kappa * (points @ self.means.T - 1))
        return density[:, 0], density[:, 1:].mean(dim=1)

    def mean_h(
        self, anchors: Float[Tensor, "anchor 3"], temperature: float
    ) -> tuple[Float[Tensor, " anchor"], Float[Tensor, " anchor"]]:
        """mu+ and mu-: the expectations of h(x, x') over p+ and p- for every anchor x."""
        kappa = self.concentration
        resultant = torch.linalg.vector_norm(kappa * self.means + anchors[:, None] / temperature, dim=2)
        mean = torch.exp(_log_sinh_over(resultant) - _log_sinh_over(torch.tensor(kappa, dtype=torch.float64)))
        return mean[:, 0], mean[:, 1:].mean(dim=1)

    def sample(self, labels: Int[Tensor, "*shape"], generator: torch.Generator) -> Float[Tensor, "*shape 3"]:
        """One point of each of these classes."""
        kappa = self.concentration
        uniform, turn = torch.rand(2, *labels.shape, dtype=torch.float64, generator=generator)
        # The inverse of the distribution function of w, in a form that is accurate for small kappa too.
        height = (1 + torch.log1p(uniform * math.expm1(-2 * kappa)) / kappa).clamp(-1, 1)
        radius = (1 - height**2).sqrt()
        around_pole = torch.stack([radius * (math.tau * turn).cos(), radius * (math.tau * turn).sin(), height], dim=-1)
        # The distribution is symmetric about its mean, so a reflection serves as well as a rotation.
        normal = self.mirrors[labels]
        return around_pole - 2 * (around_pole * normal).sum(dim=-1, keepdim=True) * normal

    def sample_positives(self, *shape: int, generator: torch.Generator) -> Float[Tensor, "*shape 3"]:
        """Points of p+."""
        return self.sample(torch.zeros(shape, dtype=torch.int64), generator)

    def sample_negatives(self, *shape: int, generator: torch.Generator) -> Float[Tensor, "*shape 3"]:
        """Points of p-."""
        return self.sample(torch.randint(1, self.classes, shape, generator=generator), generator)


def unit(vectors: Float[Tensor, "vector 3"]) -> Float[Tensor, "vector 3"]:
    """Each vector divided by its length."""
    length: Tensor = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return vectors / length


def _log_sinh_over(r: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """log(sinh(r) / r), also for r = 0 and for r where sinh overflows."""
    r = r.clamp_min(1e-100)
    return r + torch.log(-torch.expm1(-2 * r) / (2 * r))


def unlabelled_density(
    positive: Float[Tensor, " point"], negative: Float[Tensor, " point"], alpha: float, c: float
) -> Float[Tensor, " point"]:
    r"""p^u by its definition: a sample is drawn, and removed if it is positive and gets labelled.

    .. math:: p^u(x) = \frac{p(x) \Pr(s = 0 \mid x)}{\Pr(s = 0)}, \qquad
              \Pr(s = 0 \mid x) = \Pr(y = 0 \mid x) + (1 - c) \Pr(y = 1 \mid x)

    This does not use Lemma 1, so that the lemma can be checked with it.
    """
    whole = alpha * positive + (1 - alpha) * negative
    is_negative, is_positive = (1 - alpha) * negative / whole, alpha * positive / whole
    return whole * (is_negative + (1 - c) * is_positive) / (1 - alpha * c)
