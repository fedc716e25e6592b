"""What a correction is: how much each unlabelled sample counts, and how contaminated the unlabelled samples are."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from pucl.contrast.comparison import Comparison
from pucl.contrast.pairs import Pairs
from pucl.shapes import Float, Int, Tensor


class ExtraPositives(NamedTuple):
    """Unlabelled samples that count as positives as well.

    Args:
        place: Which of the unlabelled samples they are, for each anchor. Memory grows with their number.
        weight: How much each counts, >= 0, where a given positive counts 1. A weight of 0 leaves a place unused.
    """

    place: Int[Tensor, "anchor extra"]
    weight: Float[Tensor, "anchor extra"]


@dataclass(frozen=True)
class Correction:
    r"""A reading of the unlabelled samples: weights :math:`w` over them and the odds :math:`\omega`.

    Together they give the expectation over true negatives of any function :math:`g` of a logit,

    .. math:: E^-[g] = (1 + \omega) \frac{\sum_i w_i\, g(u_i)}{\sum_i w_i} - \omega \, \mathrm{mean}_j\, g(p_j),

    with unlabelled logits :math:`u_i` and positive logits :math:`p_j`. A correction knows nothing of images, graphs,
    queues or exponentials.

    A subclass is a frozen dataclass of its settings (numbers, texts, booleans or None). It overrides what it needs:

    - `odds`, a number or one number per anchor;
    - `tilt`, if the weights are exponentials of the logit, or else `log_weights`, for weights of any other form;
    - `extra_positives`, if unlabelled samples count as positives as well;
    - `start`, if it learns while the encoder is trained; see `CorrectionState`.
    """

    @property
    def odds(self) -> float | Float[Tensor, " anchor"]:
        """How many hidden positives there are among the unlabelled for each true negative."""
        return 0.0

    @property
    def tau_plus(self) -> float | Float[Tensor, ""]:
        """tau', the share of hidden positives among the unlabelled, for reports; the mean if anchors differ."""
        share = self.odds / (1 + self.odds)
        return share.mean() if isinstance(share, Tensor) else share

    @property
    def tilt(self) -> float:
        """The b of weights that are proportional to exp(b * logit). It has no meaning beside own `log_weights`.

        Tilted averages (b = 0: uniform) of exponentials are log-sums of exponentials, which can be summed tile by tile.
        """
        return 0.0

    def log_weights(self, comparison: Comparison) -> Float[Tensor, "anchor unlabelled"]:
        """Log of the weight of every unlabelled sample, up to a constant for each anchor.

        The weights may be any function of the logits, of the samples' ids, or of what a reading remembers of these
        samples. Entries that the comparison masks are ignored. A weight of zero (-inf) leaves a sample out; an anchor
        with weights of zero only has no negative term. The gradient flows through the weights unless they are detached.

        This is called for all anchors at once or for a block of them, and again in the backward pass: the same
        comparison must give the same weights.
        """
        return self.tilt * comparison.unlabelled

    def extra_positives(self, comparison: Comparison) -> ExtraPositives | None:  # noqa: ARG002 (for subclasses)
        """Unlabelled samples that count as positives as well; None if there are none.

        Unless `log_weights` leaves them out, they keep their weight among the unlabelled.
        """
        return None

    def count(self, met: Float[Tensor, " anchor"], drawn: Float[Tensor, " anchor"] | None) -> Float[Tensor, " anchor"]:
        """N in the loss: for how many samples the average over the unlabelled stands.

        Args:
            met: How many unlabelled samples each anchor has.
            drawn: How many they stand for, if that is more; see `Comparison`.
        """
        return met if drawn is None else torch.where(met > 0, drawn, 0.0)

    def check_samples(self, most: int) -> None:
        """Raise if so few samples are too few, `most` being the number of the anchor that has the most."""

    def start(self, samples: int | None) -> "CorrectionState | None":  # noqa: ARG002 (for subclasses)
        """The state before the first step, for a correction that learns; None for one that does not.

        Args:
            samples: How many samples the data have; their ids are 0 to samples - 1. None if that is not known.
        """
        return None

    @property
    def is_tilted(self) -> bool:
        """Whether `tilt` says all: no weights of another form, and no extra positives."""
        kind = type(self)
        return kind.log_weights is Correction.log_weights and kind.extra_positives is Correction.extra_positives

    @property
    def learns(self) -> bool:
        """Whether this correction has a state, so that a reading must be made for each step."""
        return type(self).start is not Correction.start


class CorrectionState(nn.Module):
    """What a correction has learnt so far, as buffers.

    The buffers are saved with the training and with the loss, and are the same in all processes. In each step

    1. `read` gives a correction that does not learn, for the pairs of this step,
    2. the loss is computed with it,
    3. `see` takes from the pairs, for each anchor, the numbers that matter,
    4. these are gathered over all processes, and `commit` moves the buffers.
    """

    def read(self, pairs: Pairs) -> Correction:
        """The correction for these pairs.

        It must hold copies, not views, of the buffers: `commit` may run before the backward pass.
        """
        raise NotImplementedError

    def see(self, pairs: Pairs) -> Float[Tensor, "anchor number"]:
        """What the state learns from, a row for each anchor. Called without gradients, in each process."""
        raise NotImplementedError

    def commit(self, ids: Int[Tensor, " anchor"] | None, seen: Float[Tensor, "anchor number"]) -> None:
        """Move the buffers. Called without gradients, with the same arguments in all processes.

        Args:
            ids: Which sample each anchor is of; a sample may be there several times. None if nobody said.
            seen: The rows of `see`, of all comparisons of the step and of all processes.
        """
        raise NotImplementedError


def check_range(name: str, meaning: str, value: object, allowed: str, fits: bool) -> None:
    """Raise the one sentence by which every setting is refused."""
    if not fits:
        raise ValueError(f"{name} is {meaning}: expected {allowed}, got {value}")


def normalised_log_weights(
    correction: Correction, comparison: Comparison
) -> tuple[Float[Tensor, "anchor unlabelled"], Float[Tensor, " anchor"]]:
    """Log of the weights with a sum of one for each anchor, and of how many samples each anchor has an average.

    An anchor with no sample, or with weights of zero only, has an average of none; its log weights mean nothing.
    """
    if correction.is_tilted and correction.tilt:
        return torch.log_softmax(correction.tilt * comparison.visible, dim=1), comparison.count
    if correction.is_tilted:
        log_weights = (-comparison.count.clamp_min(1).log())[:, None].expand_as(comparison.unlabelled)
        if comparison.mask is not None:
            log_weights = log_weights.masked_fill(~comparison.mask, -torch.inf)
        return log_weights, comparison.count
    log_weights = correction.log_weights(comparison)
    if comparison.mask is not None:
        log_weights = torch.where(comparison.mask, log_weights, -torch.inf)
    total = torch.logsumexp(log_weights, dim=1, keepdim=True)
    none = total == -torch.inf
    # Their gradient would be NaN. Only on the CPU is it known without waiting whether there are any.
    if torch.compiler.is_compiling() or none.device.type != "cpu" or none.any():
        log_weights = log_weights.masked_fill(none, 0.0)
        total = torch.logsumexp(log_weights, dim=1, keepdim=True)
    return log_weights - total, comparison.count.masked_fill(none[:, 0], 0.0)
