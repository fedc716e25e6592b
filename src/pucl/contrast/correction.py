"""What a correction is: a weight for each unlabelled sample, and the odds that an unlabelled sample is a positive."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from pucl.contrast.pairs import Comparison, Pairs
from pucl.shapes import Float, Int, Tensor


class ExtraPositives(NamedTuple):
    """Unlabelled samples that count as positives as well.

    Args:
        indices: For each anchor, the columns of the unlabelled samples. Memory grows with their number.
        weight: Weight of each, >= 0; a given positive has weight 1. A weight of 0 means that the entry is unused.
    """

    indices: Int[Tensor, "anchor extra"]
    weight: Float[Tensor, "anchor extra"]


class WeightTable(NamedTuple):
    """Weights 1 - r(s) that depend on the similarity s alone; see `pucl.contrast.pointwise`.

    Args:
        hidden: r for equal bins of similarity from -1 to 1. It must never fall as the similarity rises.
        most: Largest share of plain's sum that is removed for an anchor.
    """

    hidden: Float[Tensor, " bin"]
    most: float


@dataclass(frozen=True)
class Correction:
    r"""How to treat the unlabelled samples: weights :math:`w` for them and the odds :math:`\omega`.

    Together they estimate the expectation over true negatives of any function :math:`g` of a logit,

    .. math:: E^-[g] = (1 + \omega) \frac{\sum_i w_i\, g(u_i)}{\sum_i w_i} - \omega \, \mathrm{mean}_j\, g(p_j),

    with unlabelled logits :math:`u_i` and positive logits :math:`p_j`. A correction does not depend on the modality,
    the framework or the objective.

    A subclass is a frozen dataclass of its settings (numbers, texts, booleans or None). It overrides what it needs:

    - `odds`: a number, or one number per anchor; `stop_gradient` if their term has no gradient;
    - `tilt`: if the weights are exponentials of the logit; otherwise `log_weights`, for weights of any form;
    - `extra_positives`: if unlabelled samples count as positives as well;
    - `start`: if the correction learns during training; see `CorrectionState`.
    """

    stop_gradient = False
    """Whether the subtracted term, omega times the mean over the positives, is a constant for the gradient."""

    counts_weights = False
    """Whether N in the loss is the sum of the weights of `log_weights` instead of the number of samples.

    The negative term is then the sum of w_i exp(u_i) itself, for weights that are ratios of densities. Jensen-Shannon
    has no N and uses their weighted mean.
    """

    measures = False
    """Whether weights, other than those of a tilt, depend on the size of similarities.

    Scores without bound then get a unit; see `Pairs.measured`.
    """

    of_samples = False
    """Whether `hidden` depends on the samples of a pair alone, and not on their similarity."""

    @property
    def odds(self) -> float | Float[Tensor, " anchor"]:
        """Hidden positives per true negative among the unlabelled samples."""
        return 0.0

    @property
    def tau_plus(self) -> float | Float[Tensor, ""]:
        """tau', the share of hidden positives among the unlabelled, for reports; the mean if anchors differ."""
        share = self.odds / (1 + self.odds)
        return share.mean() if isinstance(share, Tensor) else share

    @property
    def tilt(self) -> float:
        """The b of weights proportional to exp(b * logit); 0 for uniform weights. Not used if `log_weights` is given.

        Scores without bound have another unit; see `Pairs.steepness`.

        Averages of exponentials with such weights can be summed tile by tile, which is much faster.
        """
        return 0.0

    @property
    def weight_table(self) -> WeightTable | None:
        """The weights of `log_weights` as a table over similarities, which InfoNCE can sum tile by tile; None: none."""
        return None

    def log_weights(self, comparison: Comparison) -> Float[Tensor, "anchor unlabelled"]:
        """Log of the weight of every unlabelled sample, up to a constant for each anchor.

        The weights may depend on the logits, on the samples' ids, or on anything that a state remembers of these
        samples. Masked entries are ignored. A weight of zero (-inf) leaves a sample out. An anchor whose weights are
        all zero has no negative term. The gradient flows through the weights unless they are detached.

        This is called for all anchors or for a block of them, and again in the backward pass. The same comparison must
        give the same weights.
        """
        return self.tilt * comparison.steepness * comparison.unlabelled

    def normalised_log_weights(
        self, comparison: Comparison
    ) -> tuple[Float[Tensor, "anchor unlabelled"], Float[Tensor, " anchor"]]:
        """Log weights that sum to one for each anchor, and the number of samples that each anchor's average is over.

        That number is the number of samples, or with `counts_weights` the sum of their weights. It is 0 for an anchor
        without samples, or whose weights are all zero. Its log weights have no meaning.
        Override this only to save time, if `log_weights` are normalised already.
        """
        if self.is_tilted and self.tilt:
            return torch.log_softmax(self.tilt * comparison.steepness * comparison.visible, dim=1), comparison.count
        if self.is_tilted:
            log_weights = (-comparison.count.clamp_min(1).log())[:, None].expand_as(comparison.unlabelled)
            if comparison.mask is not None:
                log_weights = log_weights.masked_fill(~comparison.mask, -torch.inf)
            return log_weights, comparison.count
        log_weights = self.log_weights(comparison)
        if comparison.mask is not None:
            log_weights = torch.where(comparison.mask, log_weights, -torch.inf)
        total = torch.logsumexp(log_weights, dim=1, keepdim=True)
        all_zero = total == -torch.inf
        # The gradient of such a row would be NaN. Only on the CPU can we check for free whether there are any.
        if torch.compiler.is_compiling() or all_zero.device.type != "cpu" or all_zero.any():
            log_weights = log_weights.masked_fill(all_zero, 0.0)
            total = torch.logsumexp(log_weights, dim=1, keepdim=True)
        number = total[:, 0].detach().exp() if self.counts_weights else comparison.count
        return log_weights - total, number.masked_fill(all_zero[:, 0], 0.0)

    def extra_positives(self, comparison: Comparison) -> ExtraPositives | None:  # noqa: ARG002 (for subclasses)
        """Unlabelled samples that count as positives as well; None if there are none.

        They keep their weight among the unlabelled samples unless `log_weights` leaves them out.
        """
        return None

    def hidden(self, comparison: Comparison) -> Float[Tensor, "anchor unlabelled"] | None:  # noqa: ARG002
        """For each pair r, the probability that it is a hidden positive; None for a correction that has no r."""
        return None

    def count(self, met: Float[Tensor, " anchor"], drawn: Float[Tensor, " anchor"] | None) -> Float[Tensor, " anchor"]:
        """N in the loss: the number of samples that the average over the unlabelled represents.

        Args:
            met: Number of unlabelled samples of each anchor.
            drawn: Number of samples that they represent, if that is larger; see `Comparison`.
        """
        return met if drawn is None else torch.where(met > 0, drawn, 0.0)

    def check_samples(self, most: int) -> None:
        """Raise if there are too few samples; `most` is the largest number of unlabelled samples of an anchor."""

    def never_corrects(self, epochs: int) -> str | None:  # noqa: ARG002 (for subclasses)
        """Why a training of so many epochs ends before anything is corrected, with advice; None if it does not."""
        return None

    def start(self, samples: int | None) -> "CorrectionState | None":  # noqa: ARG002 (for subclasses)
        """The state before the first step; None for a correction that does not learn.

        Args:
            samples: Number of samples in the data; their ids are 0 to samples - 1. None if that is not known.
        """
        return None

    @property
    def is_tilted(self) -> bool:
        """Whether `tilt` describes the correction: there are no weights of another form, and no extra positives."""
        kind = type(self)
        return kind.log_weights is Correction.log_weights and kind.extra_positives is Correction.extra_positives

    @property
    def learns(self) -> bool:
        """Whether this correction has a state. A loss then uses what the state returns from `CorrectionState.read`."""
        return type(self).start is not Correction.start


@dataclass(frozen=True, eq=False)
class Reading(Correction):
    """A correction made of functions and numbers: what the state of a learning correction returns for a step.

    Args:
        weigh: Log weights of the unlabelled samples of a comparison; see `Correction.log_weights`. None: uniform.
        odds: Hidden positives per true negative: a number, or one number per anchor.
        attract: Extra positives of a comparison; see `Correction.extra_positives`. None: none.
        measures: Whether `weigh` depends on the size of similarities; see `Correction.measures`.

    Example:
        >>> soft = Reading(lambda comparison: -comparison.unlabelled.detach().relu(), odds=0.1)
    """

    weigh: Callable[[Comparison], Float[Tensor, "anchor unlabelled"]] | None = None
    odds: float | Float[Tensor, " anchor"] = 0.0
    attract: Callable[[Comparison], ExtraPositives | None] | None = None
    measures: bool = False

    def log_weights(self, comparison: Comparison) -> Float[Tensor, "anchor unlabelled"]:
        """The result of `weigh`."""
        return super().log_weights(comparison) if self.weigh is None else self.weigh(comparison)

    def extra_positives(self, comparison: Comparison) -> ExtraPositives | None:
        """The result of `attract`."""
        return None if self.attract is None else self.attract(comparison)

    @property
    def is_tilted(self) -> bool:
        """Whether only the odds differ from plain."""
        return self.weigh is None and self.attract is None


@dataclass(frozen=True)
class StateReport:
    """What a learning correction says about itself at the end of an epoch.

    Args:
        numbers: Named numbers. They become metrics of the epoch, as ``correction.NAME``.
        sentence: One sentence for people, such as "7 clusters hold 93% of the samples". Empty: none.
    """

    numbers: Mapping[str, float] = field(default_factory=dict)
    sentence: str = ""


class CorrectionState(nn.Module):
    """What a correction has learnt so far, as buffers: one row per sample, or numbers of the whole run.

    The buffers are saved with the training and with the loss, and they are the same in all processes. In each step

    1. `read` returns the correction for the pairs of this step, usually a `Reading`,
    2. the loss is computed with it,
    3. `see` takes a row of numbers per anchor from the pairs, such as its embedding or a histogram,
    4. the rows of all processes are gathered, and `commit` updates the buffers.

    At the end of an epoch `end_epoch` is called, then `report`. The training loop does all of this. In your own loop
    `ContrastiveLoss` takes the steps, and you call its ``end_epoch()``.

    A buffer whose shape is not known before the first step is registered without elements, for example
    ``torch.empty(samples, 0)``, and replaced in `commit`. Loading a state gives it the shape that was saved.
    """

    @property
    def sees(self) -> bool:
        """Whether enough is learnt to correct anything. Until then `read` returns plain."""
        return True

    def name_samples(self, batch: int) -> Int[Tensor, " batch"] | None:  # noqa: ARG002 (for subclasses)
        """Names for the samples of a batch, for a state that remembers samples and does not know how many there are.

        A loss asks for them before it makes its pairs. None: samples have the names that the user gives them.

        Args:
            batch: Number of samples, of all processes.
        """
        return None

    def read(self, pairs: Pairs) -> Correction:
        """The correction for these pairs.

        It must hold copies of the buffers, not the buffers: `commit` may run before the backward pass.
        """
        raise NotImplementedError

    def see(self, pairs: Pairs) -> Float[Tensor, "anchor number"]:
        """The numbers to learn from, one row per anchor. Called without gradients, in each process for its own anchors.

        `Pairs.embeddings`, `Pairs.positives` and `Pairs.comparisons` give embeddings and logits.
        """
        raise NotImplementedError

    def commit(self, ids: Int[Tensor, " anchor"] | None, seen: Float[Tensor, "anchor number"]) -> None:
        """Update the buffers. Called without gradients, with the same arguments in all processes.

        Args:
            ids: Sample of each anchor; a sample may occur several times. None if the ids are not known.
            seen: The rows of `see`, of all pairs of the step and of all processes.
        """
        raise NotImplementedError

    def end_epoch(self) -> None:
        """Update what changes once an epoch, such as clusters. Called without gradients, in all processes.

        The buffers of the first process are then copied to the others. Random choices must depend on the buffers
        alone, so that a resumed training makes the same ones. There may have been no `commit` yet: with a queue,
        learning starts when the queue is full.
        """

    def report(self) -> StateReport:
        """Numbers and a sentence about the state, for the record of the run and for ``loss.last.report``."""
        return StateReport()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name, buffer in self.named_buffers(recurse=False):
            saved = state_dict.get(prefix + name)
            if isinstance(saved, Tensor) and 0 in (buffer.numel(), saved.numel()) and saved.ndim == buffer.ndim:
                setattr(self, name, torch.empty_like(saved, device=buffer.device))
        super()._load_from_state_dict(state_dict, prefix, *args)


def check_range(name: str, meaning: str, value: object, allowed: str, fits: bool) -> None:
    """Raise the one sentence by which every setting is refused."""
    if not fits:
        raise ValueError(f"{name} is {meaning}: expected {allowed}, got {value}")
