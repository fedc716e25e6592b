"""The rows: what is known of the pairs, and which correction treats the rest."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from pucl.config import ATTRACTING_ORACLE, ORACLE, PLAIN, SettingValue
from pucl.contrast.loss import Outcome
from pucl.contrast.pairs import Pairs
from pucl.contrast.streaming import pair_counts
from pucl.corrections import CORRECTIONS
from pucl.losses.contrastive import ContrastiveLoss
from pucl.shapes import Bool, Tensor

KNOWN = 4  # Known positives of an anchor in the rows with groups.
TRUTH, GUIDE = "truth", "guide"
C = 0.1  # Share of the positives that is labelled, as in the paper.


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one row of a table is trained with.

    Args:
        correction: The correction.
        prior: Settings of the correction that follow from the share of hidden positives, which these rows are given.
        known: Known positives of each anchor.
        at_once: How many of them are in the numerator together. The others take turns.
        related: Which pairs are taken out of the unlabelled: the relevant ones (`TRUTH`), those that the untrained
            model finds closer than the anchor's positive (`GUIDE`, as in GIST), or none.
        attract: Whether related pairs become positives, and known ones too where a sample is in several groups.
    """

    correction: str = PLAIN
    prior: Callable[[float], dict[str, SettingValue]] = lambda _share: {}
    known: int = 1
    at_once: int = 1
    related: str = ""
    attract: bool = False

    @property
    def kind(self) -> str:
        """The row as tables of pucl name it: its correction, or which oracle it is."""
        if self.related == TRUTH:
            return ATTRACTING_ORACLE if self.attract else ORACLE
        return self.correction


ROWS = {
    PLAIN: Row(),
    "one-of-four": Row(known=KNOWN),
    "groups": Row(known=KNOWN, at_once=KNOWN, attract=True),
    "deb": Row(correction="deb", prior=lambda share: {"tau_plus": share}),
    "pucl": Row(correction="pucl", prior=lambda share: {"alpha": share, "c": C}),
    "hard": Row(correction="hard", prior=lambda share: {"tau_plus": share, "beta": 1.0}),
    "ratio": Row(correction="ratio"),
    "auto": Row(correction="auto"),
    "groups-ratio": Row(correction="ratio", known=KNOWN, at_once=KNOWN, attract=True),
    "groups-auto": Row(correction="auto", known=KNOWN, at_once=KNOWN, attract=True),
    "guide": Row(related=GUIDE),
    "oracle": Row(related=TRUTH),
    "supcon": Row(related=TRUTH, attract=True),
}
"""The trained rows."""


class KnowingLoss(ContrastiveLoss):
    """A loss that may be told, before each call, which pairs are related. They are left out, or attracted.

    Args:
        row: What is trained.
        temperature: Cosines are divided by it.
        prior: Share of hidden positives among the unlabelled, for the corrections that are given it.
        samples: Number of samples, for corrections that remember them.

    Attributes:
        related: Which pairs are related; None if nothing is known.
        once: Whether rows of one sample count as one positive. A popular item has many rows in a batch; if each of them
            were a positive, popularity would count twice.
    """

    def __init__(self, row: Row, *, temperature: float, prior: float, samples: int) -> None:
        correction = CORRECTIONS[row.correction](**row.prior(prior))
        super().__init__(correction, temperature=temperature, samples=samples, streaming=False)
        self.row = row
        self.related: Bool[Tensor, "anchor unlabelled"] | None = None
        self.once = False

    def outcome(self, pairs: Pairs, *, expected: int | None = None) -> Outcome:
        """The outcome of these pairs, after what is known of them is used."""
        if self.related is not None:
            drawn = pair_counts(pairs) if self.row.related == TRUTH else None  # The oracle keeps N.
            if self.row.attract:
                pairs = attracted(pairs, self.related, once=self.once)
            else:
                pairs = replace(left_out(pairs, self.related), drawn=drawn)
        return super().outcome(pairs, expected=expected)


def left_out(pairs: Pairs, related: Bool[Tensor, "anchor unlabelled"]) -> Pairs:
    """Compare no anchor with the keys that are related to it."""
    return replace(pairs, mask=~related, symmetric=False, period=0)


def attracted(pairs: Pairs, related: Bool[Tensor, "anchor unlabelled"], *, once: bool = False) -> Pairs:
    """Make positives of the keys that are related to an anchor, except those that are excluded already.

    Args:
        pairs: The pairs, with ids.
        related: Which keys are related to which anchors.
        once: Whether of the keys with one id only the first becomes a positive. The others are left out.
    """
    if pairs.key_ids is None or (counted := pairs.counting()) is None:
        raise ValueError("no anchor attracts itself: expected ids of anchors and keys, got none")
    more = related & counted
    if once:
        same = pairs.key_ids[:, None] == pairs.key_ids
        more = more & ~same.tril(diagonal=-1).any(dim=1)
    given = torch.ones_like(pairs.positive, dtype=torch.bool) if pairs.positive_mask is None else pairs.positive_mask
    return replace(
        left_out(pairs, related),
        positive=torch.cat([pairs.positive, pairs.query @ pairs.key.T], dim=1),
        positive_mask=torch.cat([given, more], dim=1),
    )
