"""How pairs look to an encoder: are known positives like hidden ones, and are training pairs learnt by heart?"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch

from pucl.corrections import Plain
from pucl.data.choosing import TEST_SHARE
from pucl.data.errors import DataError
from pucl.estimation.bbe import BestBin, bbe
from pucl.estimation.mixture import APART, Mixture, mixture
from pucl.estimation.shares import FEWEST
from pucl.functional import contrastive_loss
from pucl.modality import Features, Progress
from pucl.text.encoders.hashed import HashedNgrams
from pucl.text.textset import TextSet

LOOKED = 2000  # Most pairs of either part that are compared.
UNLABELLED = 100_000  # Most similarities of different pairs: enough for three digits.
MUCH_LOWER = 4  # By which factor bbe is below the mixture, if known positives are closer than hidden ones.
UNSEPARATED = 0.5  # From this bbe on, the encoder does not separate positives from the rest.
ALARM = 0.25  # Share of the lead of training pairs that held-out pairs lack, from which they are learnt by heart.
SURE = 3.0  # Standard errors from which a difference is no chance.

EPOCHS, BATCH, TEMPERATURE, LEARNING_RATE = (
    5,
    128,
    0.05,
    2e-5,
)  # The short training; the defaults of `pucl train pairs`.
TRAINED = 5000  # Most pairs of the short training.

Verdict = Literal["alike", "closer", "unseparated", "unknown"]
"""Whether known positives look like hidden ones: they do, they are closer to each other, or nothing can be said."""

Embed = Callable[[Sequence[str], Progress], Features]
"""Embeds texts, and reports its progress."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """How an encoder sees the two texts of pairs that it was trained on, of held-out pairs, and of different pairs.

    Args:
        encoder: What embedded the texts, in words.
        train: Pairs that were compared, of those that `pucl train pairs` trains on.
        held_out: Pairs that were compared, of those that it holds out.
        train_similarity: Mean cosine of the two texts of a training pair.
        held_out_similarity: The same of held-out pairs.
        unlabelled_similarity: Mean cosine of texts of two held-out pairs.
        error: Standard error of the difference of the first two.
        best_bin: tau' by known positives and unlabelled, of held-out pairs.
        mixture: tau' by the unlabelled alone, of held-out pairs.
    """

    encoder: str
    train: int
    held_out: int
    train_similarity: float
    held_out_similarity: float
    unlabelled_similarity: float
    error: float
    best_bin: BestBin
    mixture: Mixture

    @property
    def verdict(self) -> Verdict:
        """Whether known positives look like hidden ones.

        `bbe` sees both, the mixture hidden ones alone. If known positives are much closer than hidden ones, as two
        augmentations of one sample are, few unlabelled pairs reach them, and bbe is far below the mixture.
        """
        if self.best_bin.tau_plus >= UNSEPARATED:
            return "unseparated"
        if self.mixture.separation < APART:
            return "unknown"
        return (
            "closer"
            if MUCH_LOWER * max(self.best_bin.tau_plus, self.best_bin.slack) < self.mixture.tau_plus
            else "alike"
        )

    @property
    def tau_plus(self) -> float | None:
        """The share of hidden positives, if it can be estimated: by bbe, or by the mixture where bbe is too low."""
        found = {"alike": self.best_bin.tau_plus, "closer": self.mixture.tau_plus, "unknown": self.best_bin.tau_plus}
        return found.get(self.verdict)

    @property
    def memorised(self) -> float:
        """The share of the lead of training pairs over different pairs that held-out pairs lack."""
        lead = self.train_similarity - self.unlabelled_similarity
        return (self.train_similarity - self.held_out_similarity) / lead if lead > 0 else 0.0

    @property
    def alarm(self) -> bool:
        """Whether training pairs are learnt by heart: much closer than held-out ones, and not by chance."""
        gap = self.train_similarity - self.held_out_similarity
        return self.memorised > ALARM and gap > SURE * self.error

    def as_json(self) -> dict[str, Any]:
        """The numbers for a record."""
        derived = {"verdict": self.verdict, "memorised": self.memorised, "alarm": self.alarm}
        return asdict(self) | derived


def look_at_pairs(
    train: TextSet, held_out: TextSet, embed: Embed, encoder: str, *, progress: Progress = lambda _done, _total: None
) -> Look:
    """Compare the two texts of training pairs, of held-out pairs, and of different held-out pairs.

    Args:
        train: Pairs that the encoder was trained on, or would be.
        held_out: Pairs that it was not trained on.
        embed: Embeds texts.
        encoder: What it is, in words.
        progress: Called with the number of texts that are done, and of all.

    Raises:
        DataError: If there are too few held-out pairs for an estimate.
    """
    if min(len(train), len(held_out)) < FEWEST:
        raise DataError(
            f"known and hidden positives are compared on held-out pairs: expected at least {FEWEST}, got "
            f"{len(held_out)} held out, and {len(train)} to train on"
        )
    sides = [side for part in (train, held_out) for side in _some_pairs(part)]
    total, units, done = sum(len(texts) for texts, _ in sides), [], 0
    for texts, _ in sides:

        def report(embedded: float, _count: float, before: int = done) -> None:
            progress(before + embedded, total)

        units.append(torch.nn.functional.normalize(torch.from_numpy(embed(texts, report)), dim=1))
        done += len(texts)
    known = [(units[i] * units[i + 1]).sum(dim=1) for i in (0, 2)]
    cosines, (groups, others) = units[2] @ units[3].T, (sides[2][1], sides[3][1])
    unlabelled = cosines[torch.from_numpy(groups[:, None] != others)]
    if len(unlabelled) > UNLABELLED:
        chosen = torch.randint(len(unlabelled), (UNLABELLED,), generator=torch.Generator().manual_seed(0))
        unlabelled = unlabelled[chosen]
    if len(unlabelled) < FEWEST:
        raise DataError(
            f"texts of different groups are unlabelled: expected at least {FEWEST} pairs of them, got {len(unlabelled)}"
        )
    return Look(
        encoder=encoder,
        train=len(known[0]),
        held_out=len(known[1]),
        train_similarity=float(known[0].mean()),
        held_out_similarity=float(known[1].mean()),
        unlabelled_similarity=float(unlabelled.mean()),
        error=math.sqrt(sum(float(each.var()) / len(each) for each in known)),
        best_bin=bbe(known[1], unlabelled),
        mixture=mixture(unlabelled),
    )


def split_pairs(texts: TextSet) -> tuple[TextSet, TextSet]:
    """The pairs that `pucl train pairs` trains on, and those that it holds out."""
    parts = texts.with_partners().split(TEST_SHARE)
    if parts is None:
        raise DataError(f"a fifth of the pairs is held out: expected more of them, got {len(texts)}")
    train, held_out = parts
    return train.with_partners(), held_out.with_partners()


def short_training(train: TextSet, *, progress: Progress = lambda _done, _total: None) -> tuple[TextSet, Embed]:
    """Train a hashed encoder for seconds, with the plain loss.

    Args:
        train: The pairs; at most 5,000 of them are used.
        progress: Called with the number of steps that are done, and of all.

    Returns:
        The pairs that it was trained on, and the encoder.
    """
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randperm(len(train), generator=generator)[:TRAINED].sort().values.numpy()
    train = train.subset(chosen).with_partners()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoder = HashedNgrams(16384, 128)
    optimiser = torch.optim.Adam(encoder.parameters(), lr=LEARNING_RATE)
    size, done = min(BATCH, len(train)), 0
    total = EPOCHS * (len(train) // size)
    for _ in range(EPOCHS):
        order = torch.randperm(len(train), generator=generator).numpy()
        for start in range(0, len(train) - size + 1, size):
            rows = order[start : start + size]
            draws = torch.rand(len(rows), generator=generator, dtype=torch.float64).numpy()
            first, second = train.batch(rows).sides(draws)
            groups = [torch.from_numpy(side.groups) for side in (first, second)]
            if len(torch.cat(groups).unique()) > 1:
                one, other = encoder(first.texts), encoder(second.texts)
                loss = contrastive_loss(
                    one,
                    other,
                    other,
                    Plain(),
                    temperature=TEMPERATURE,
                    mask=~torch.eye(len(rows), dtype=torch.bool),
                    query_groups=groups[0],
                    unlabelled_groups=groups[1],
                )
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            done += 1
            progress(done, total)
    return train, embed_with(encoder)


def embed_with(encoder: torch.nn.Module) -> Embed:
    """Embed with a module that maps a list of texts to vectors."""

    @torch.no_grad()
    def embed(texts: Sequence[str], progress: Progress) -> Features:
        rows = []
        for start in range(0, len(texts), BATCH):
            rows.append(encoder.eval()(list(texts[start : start + BATCH])).numpy())
            progress(min(start + BATCH, len(texts)), len(texts))
        return np.concatenate(rows)

    return embed


def _some_pairs(texts: TextSet) -> list[tuple[list[str], Any]]:
    """First and second texts of some pairs, each with their groups or classes that must differ to be unlabelled."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randperm(len(texts), generator=generator)[:LOOKED].sort().values.numpy()
    draws = torch.rand(len(rows), generator=generator, dtype=torch.float64).numpy()
    sides = texts.batch(rows).sides(draws)
    return [(side.texts, texts.groups[rows] if texts.seconds is not None else side.ids) for side in sides]
