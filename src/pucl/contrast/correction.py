"""What a correction is: how much each unlabelled sample counts, and how contaminated they are."""

import math
from dataclasses import dataclass, fields, replace

import torch

from pucl.contrast.comparison import Comparison
from pucl.shapes import Float, Tensor


@dataclass(frozen=True)
class Anneal:
    """A setting that moves in a straight line while training goes on.

    Args:
        start: Value at the beginning of training.
        end: Value from `until` on.
        until: Share of the training after which `end` is reached, 0 < until <= 1.
        steps: Move in this many equal jumps instead of smoothly; None is smooth.

    Example:
        >>> Anneal(1.0, 0.1, until=0.5).at(0.25)
        0.55
    """

    start: float
    end: float
    until: float = 1.0
    steps: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.until <= 1:
            raise ValueError(
                f"until is the share of the training after which the end value holds: "
                f"expected 0 < until <= 1, got {self.until}"
            )
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"steps is the number of jumps from start to end: expected at least 1, got {self.steps}")

    def at(self, progress: float) -> float:
        """The value once `progress` (0 to 1) of the training is done."""
        if not 0 <= progress <= 1:
            raise ValueError(f"progress is the share of the training that is done: expected 0 to 1, got {progress}")
        way = min(progress / self.until, 1.0)
        if self.steps is not None:
            way = math.floor(way * self.steps) / self.steps
        return (1 - way) * self.start + way * self.end


@dataclass(frozen=True)
class Correction:
    r"""A reading of the unlabelled samples: weights :math:`w` over them and the odds :math:`\omega`.

    Together they give the expectation over true negatives of any function :math:`g` of a logit,

    .. math:: E^-[g] = (1 + \omega) \sum_i w_i\, g(u_i) - \omega \, \mathrm{mean}_j\, g(p_j),

    with unlabelled logits :math:`u_i` and positive logits :math:`p_j`. A correction knows nothing of
    images, graphs, queues or exponentials.

    Subclasses set `odds`, and either `tilt` or `log_weights`.
    """

    @property
    def odds(self) -> float:
        """How many hidden positives there are among the unlabelled for each true negative."""
        return 0.0

    @property
    def tau_plus(self) -> float:
        """tau', the share of hidden positives among the unlabelled: all that the loss sees of a prior."""
        return self.odds / (1 + self.odds)

    @property
    def tilt(self) -> float | None:
        """The b of weights that are proportional to exp(b * logit); None if they are of another form.

        Tilted (b = 0: uniform) averages of exponentials need nothing but log-sums of exponentials, which
        is what lets them be streamed tile by tile. Other weights are streamed row by row.
        """
        return 0.0

    def log_weights(self, comparison: Comparison) -> Float[Tensor, "anchor unlabelled"]:
        """Log of the weight of every unlabelled sample; each row's weights sum to one."""
        if not self.tilt:
            log_weights = (-comparison.count.clamp_min(1).log())[:, None].expand_as(comparison.unlabelled)
            return log_weights if comparison.mask is None else log_weights.masked_fill(~comparison.mask, -math.inf)
        return torch.log_softmax(self.tilt * comparison.visible, dim=1)

    def count(self, met: Float[Tensor, " anchor"], drawn: Float[Tensor, " anchor"] | None) -> Float[Tensor, " anchor"]:
        """N in the loss: for how many samples the average over the unlabelled stands.

        Args:
            met: How many each anchor meets.
            drawn: How many they speak for, where that is more; see `Comparison`.
        """
        return met if drawn is None else torch.where(met > 0, drawn, 0.0)

    def check_samples(self, most: int) -> None:
        """Refuse to work with so few samples, `most` being what the anchor with the most of them meets."""

    def at(self, progress: float) -> "Correction":
        """This correction with its annealed settings as they are after `progress` (0 to 1) of the training."""
        moving = {name: value.at(progress) for name, value in self._settings() if isinstance(value, Anneal)}
        return replace(self, **moving) if moving else self

    def _settings(self) -> list[tuple[str, object]]:
        return [(field.name, getattr(self, field.name)) for field in fields(self)]


def check_range(name: str, meaning: str, value: object, allowed: str, fits: bool) -> None:
    """Raise the one sentence by which every setting is refused."""
    if not fits:
        raise ValueError(f"{name} is {meaning}: expected {allowed}, got {value}")


def check_fixed(name: str, value: object) -> None:
    """Refuse to let a setting move that stays the same in a training."""
    if isinstance(value, Anneal):
        raise ValueError(f"{name} stays the same in a training: expected a number, got {value}")


def ends(value: "float | Anneal") -> tuple[float, float]:
    """The two values between which a setting stays, equal ones if it does not move."""
    return (value.start, value.end) if isinstance(value, Anneal) else (value, value)


def value_at(value: "float | Anneal", progress: float) -> float:
    """A setting after so much of the training, whether it moves or not."""
    return value.at(progress) if isinstance(value, Anneal) else value


def turns(value: "float | Anneal") -> set[float]:
    """The moments between which a setting moves in a line or not at all; for jumps, also those just before."""
    if not isinstance(value, Anneal):
        return {0.0, 1.0}
    jumps = [value.until * jump / value.steps for jump in range(1, value.steps + 1)] if value.steps else []
    return {0.0, value.until, 1.0, *jumps, *(math.nextafter(jump, 0.0) for jump in jumps)}


def settled(name: str, value: "float | Anneal") -> float:
    """The value of a setting at use, when it can no longer be a schedule."""
    if isinstance(value, Anneal):
        raise ValueError(
            f"{name} moves while training goes on: expected a number at use, got {value}; "
            f"take correction.at(progress), or call set_progress on the loss"
        )
    return value
