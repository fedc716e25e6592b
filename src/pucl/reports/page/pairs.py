"""The costliest pairs of a group of runs, and how much of its push each run spends on false negatives."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.config import NOT_TRAINED, ORACLES
from pucl.contrast.correction import CorrectionState
from pucl.contrast.knowledge import without_false_negatives
from pucl.diagnosis.layout2d import Floats
from pucl.diagnosis.pushes import Posterior, costliest_pairs, pairs_among, shares_on_own_class
from pucl.reports.page.neighbours import about_error, is_probability
from pucl.reports.page.schema import PagePair, PairList
from pucl.runs.collection import Run
from pucl.runs.posterior import posterior_rows
from pucl.texts import percent

PAIRS = 100  # Pairs of a list.
NO_TEMPERATURE = 1.0  # Stands for that of a loss that has none.
DIGITS = 4  # Significant digits of a share; similarities have as many decimal places.


@dataclass(frozen=True, eq=False, kw_only=True)
class Embedded:
    """The samples of a page as one run embeds them.

    Args:
        row: Name of its row.
        rows: Features of length 1, [sample, feature].
        state: What its correction knows of the samples; None if nothing was kept.
    """

    row: str
    run: Run
    rows: Floats
    state: CorrectionState | None

    @property
    def calibration_error(self) -> float | None:
        """Expected calibration error of its r; None if it was not measured."""
        return (self.run.result or {}).get("calibration.error")

    @property
    def temperature(self) -> float | None:
        """Cosines are divided by it; None for a loss without one."""
        found: float | None = self.run.config.as_json().get("temperature")
        return found


def pair_lists(
    base: Embedded, sources: Sequence[Embedded], samples: NDArray[np.int64], labels: NDArray[np.int64] | None
) -> tuple[PairList, ...]:
    """The costliest pairs of a run, by r of a correction, and by the labels; by similarity alone without both.

    Args:
        base: The run whose features push, with plain's loss.
        sources: Runs whose corrections may know r; the first that does is used.
        samples: Indices of the samples in the data.
        labels: Their classes; None if unknown.
    """
    lists = []
    for source in sources:
        r_of = None if source.state is None else posterior_rows(source.state, samples)
        if r_of is not None:
            about = f"r is the probability that a pair is a hidden positive, as {source.row} sees it without labels."
            about += f" {about_error(source.calibration_error)}"
            probability = is_probability(source.calibration_error)
            lists.append(_pair_list(base, f"r of {source.row}", about, r_of, probability=probability))
            break
    if labels is not None:
        known = torch.from_numpy(labels)

        def same_class(rows: slice) -> torch.Tensor:
            return known[rows, None] == known

        about = "These pairs are of one class, by the labels: r is 1 for them, and 0 for all others."
        lists.append(_pair_list(base, "pairs of one class, by the labels", about, same_class, probability=False))
    if not lists:
        about = (
            "Neither labels nor the r of a correction are known here. So the pairs are those that plain's loss pushes "
            "hardest: they are similar, and need not be hidden positives. A run with --correction auto estimates r."
        )
        lists.append(_pair_list(base, "similarity alone", about, None, probability=False))
    return tuple(lists)


def _pair_list(base: Embedded, name: str, about: str, posterior: Posterior | None, *, probability: bool) -> PairList:
    found, everything = costliest_pairs(
        torch.from_numpy(base.rows),
        temperature=base.temperature or NO_TEMPERATURE,
        objective=base.run.config.objective,
        posterior=posterior,
        most=PAIRS,
    )
    if base.temperature is None:
        about += " This loss has no temperature and compares by inner products. Cosines stand for them here."
    else:
        about += f" The temperature is {base.temperature:g}."
    if posterior is not None:
        about += f" All such pairs together take {percent(everything, 1)} of the push."
    pairs = tuple(
        PagePair(
            first=pair.first,
            second=pair.second,
            similarity=round(pair.similarity, DIGITS),
            share=float(f"{pair.share:.{DIGITS}g}"),
            r=None if posterior is None else round(pair.r, DIGITS),
        )
        for pair in found
    )
    return PairList(name=name, about=about, probability=probability, pairs=pairs)


def own_shares(embedded: Embedded, samples: NDArray[np.int64], labels: NDArray[np.int64] | None) -> Floats | None:
    """For each sample the share of its push that goes to its own class, with the weights of the run's correction.

    None without labels, where nothing was trained, and where the correction learns and nothing of it was kept.
    """
    config = embedded.run.config
    if labels is None or config.correction in NOT_TRAINED:
        return None
    known = torch.from_numpy(labels)
    pairs = pairs_among(
        torch.from_numpy(embedded.rows), torch.from_numpy(samples), temperature=embedded.temperature or NO_TEMPERATURE
    )
    correction = config.make_correction()
    if config.correction in ORACLES:
        pairs = without_false_negatives(pairs, known, known)
    elif embedded.state is not None:
        correction = embedded.state.read(pairs)
    elif correction.learns:
        return None
    shares: Floats = shares_on_own_class(pairs, correction, known, objective=config.objective).numpy()
    return shares


def about_shares(shares: Sequence[tuple[str, Floats | None]], base: str) -> str:
    """How much of its push each row spends on samples of the anchor's class, in a sentence; empty without labels."""
    means = {name: float(each.mean()) for name, each in shares if each is not None}
    if base not in means:
        return ""
    others = [f"{name} {percent(mean, 0)}" for name, mean in means.items() if name != base]
    beside = f" The losses of the other rows, on their own features: {', '.join(others)}." if others else ""
    return f"{percent(means[base], 0)} of the push of {base} goes to samples of the anchor's own class.{beside}"
