"""What to do with pairs before a training, and what to set for it.

The numbers come from the measurement on real pairs, docs/pairs.md.
"""

from dataclasses import dataclass

from pucl.estimation.granularity import COMMON
from pucl.text.look import Look
from pucl.texts import percent

FEW = 0.01  # A smaller share of anchors is not worth any work.
GIANT = 10  # A group of more than one in so many pairs joins what does not belong together.


@dataclass(frozen=True, kw_only=True)
class Recommended:
    """Settings of `pucl train pairs`, and why.

    Args:
        batch_size: Pairs of a batch.
        correction: How to treat the unlabelled.
        temperature: Cosines are divided by it; sentence-transformers calls 1 / temperature the scale.
        reasons: Why, by setting; each a part of a sentence.
    """

    batch_size: int
    correction: str
    temperature: float
    reasons: dict[str, str]

    @property
    def options(self) -> str:
        """The settings as options of the command line."""
        return f"--batch-size {self.batch_size} --correction {self.correction} --temperature {self.temperature:g}"


def recommend(look: Look | None, *, known: float | None, largest: int, pairs: int, batch_size: int) -> Recommended:
    """What to set.

    Args:
        look: How the pairs look to an encoder; None if no encoder was asked.
        known: Share of hidden positives among the negatives by the labels; None without.
        largest: Pairs of the largest group.
        pairs: Number of pairs.
        batch_size: Pairs of a batch as the user has them.
    """
    share = known if known is not None else None if look is None else look.tau_plus
    origin = "by the labels" if known is not None else "by bbe"
    reasons = {"groups": "known positives are then in the numerator, and never negatives"}
    size, reasons["batch size"] = batch_size, "as given: more pairs do not change the share of false negatives"
    if 2 * largest > batch_size and not is_giant(largest, pairs):
        size = min(pairs, 4 * largest)
        reasons["batch size"] = f"one group has {largest:,} pairs, and a batch needs others to compare it with"
    correction, temperature = "plain", 0.2
    if share is None:
        why = "no encoder was asked" if look is None else look.reason
        reasons["correction"] = f"{why}, so the share of hidden positives is not known"
    elif share < COMMON:
        reasons["correction"] = (
            f"about {percent(share, 1)} of the negatives are false {origin}: too few for a correction to help, so "
            f"collect more known positives"
        )
    else:
        correction, temperature = "auto", 0.3
        reasons["correction"] = f"about {percent(share, 0)} of the negatives are false {origin}: the classes are coarse"
    scale = f"the scale of sentence-transformers is then {1 / temperature:.2g}"
    reasons["temperature"] = (
        f"best for {'coarse' if share is not None and share >= COMMON else 'fine'} classes; {scale}"
    )
    return Recommended(batch_size=size, correction=correction, temperature=temperature, reasons=reasons)


def is_giant(largest: int, pairs: int) -> bool:
    """Whether a group is so large that it joins what does not belong together."""
    return largest > max(2, pairs // GIANT)


def advise(*, anchors: tuple[float, float], largest: int, pairs: int, batch_size: int, commonest: str) -> str:
    """What to do with the pairs, in one sentence.

    Args:
        anchors: Share of the anchors that meet a known positive among their negatives: by equal texts, and by
            near-duplicates too.
        largest: Pairs of the largest group.
        pairs: Number of pairs.
        batch_size: Pairs of a batch.
        commonest: The text that occurs most often.
    """
    same, near = anchors
    if is_giant(largest, pairs):
        return (
            f"First remove pairs with the commonest texts, such as {commonest!r}, which tie {largest:,} of {pairs:,} "
            f"pairs together: such texts say little about what a pair means."
        )
    if same >= FEW:
        return (
            f"Give the loss the groups, as `pucl train pairs` does, or keep one pair of each: otherwise "
            f"{percent(same, 1)} of the anchors of a batch of {batch_size:,} push a known positive away."
        )
    if near >= FEW:
        return (
            f"Look at the near-duplicates, and keep one of each: they reach {percent(near, 1)} of the anchors of a "
            f"batch of {batch_size:,}."
        )
    return f"Nothing needs to be done: known positives reach fewer than {percent(FEW, 0)} of the anchors of a batch."
