"""How pairs look to an encoder: are known positives like hidden ones, and are training pairs learnt by heart?"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from pucl.corrections import Plain
from pucl.data.choosing import TEST_SHARE
from pucl.data.errors import DataError
from pucl.estimation.bbe import BestBin, bbe
from pucl.estimation.mixture import APART, Mixture, mixture
from pucl.estimation.shares import FEWEST
from pucl.functional import contrastive_loss
from pucl.modality import EncoderSource, ReportProgress
from pucl.shapes import Float, Tensor
from pucl.text.encoders.hashed import HashedNgrams
from pucl.text.encoders.registry import HASHED, make_encoder
from pucl.text.textset import Indices, TextSet

LOOKED = 2000  # Most pairs of either part that are compared.
UNLABELLED = 100_000  # Most similarities of different pairs: enough for three digits.
MUCH_LOWER = 20  # By which factor bbe is below the mixture, if known positives are closer than hidden ones.
UNSEPARATED = 0.5  # From this bbe on, the encoder does not separate positives from the rest.
ALARM = 1 / 3  # Share of the lead of training pairs that held-out pairs lack, from which they are learnt by heart.
SURE = 3.0  # Standard errors from which a difference is no chance.

EPOCHS, BATCH, TEMPERATURE, LEARNING_RATE = (
    5,
    128,
    0.05,
    2e-5,
)  # The short training; the defaults of `pucl train pairs`.
TRAINED = 2000  # Most pairs of the short training.

Verdict = Literal["alike", "closer", "unseparated"]
"""Whether known positives look like hidden ones: they do, they are closer, or the encoder cannot tell."""


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
        augmentations of one sample are, hardly any unlabelled pair is as close, and bbe is far below the mixture.
        """
        if self.best_bin.tau_plus >= UNSEPARATED:
            return "unseparated"
        return "closer" if MUCH_LOWER * self.best_bin.tau_plus < self.mixture.tau_plus else "alike"

    @property
    def reason(self) -> str:
        """The verdict in words."""
        return {
            "alike": "known positives look like hidden ones",
            "closer": "known positives are closer than hidden ones, or there are hardly any hidden ones",
            "unseparated": "this encoder does not separate partners from other texts",
        }[self.verdict]

    @property
    def doubtful(self) -> bool:
        """Whether the two Gaussians overlap so much that the verdict is a hint and no proof."""
        return self.mixture.separation < APART

    @property
    def tau_plus(self) -> float | None:
        """The share of hidden positives by bbe; None where it cannot be right."""
        return self.best_bin.tau_plus if self.verdict == "alike" else None

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
    train: TextSet,
    held_out: TextSet | None = None,
    encoder: EncoderSource = HASHED,
    *,
    name: str = "",
    progress: ReportProgress = lambda _done, _total: None,
) -> Look:
    """Compare the two texts of training pairs, of held-out pairs, and of different held-out pairs.

    Args:
        train: Pairs that an encoder was trained on, or would be.
        held_out: Pairs that it was not trained on; None: a fifth of `train`, as `pucl train pairs` holds it out.
        encoder: ``"hashed"`` (default): a small encoder is trained on at most 2,000 of the pairs, for seconds. Or the
            directory or name of a model of sentence-transformers, or a module that maps texts to vectors: it is used
            as it is. The difference of training and held-out pairs then means something if it was trained on them.
        name: What the encoder is, in words; by default its source.
        progress: Called with the number of texts that are done, and of all.

    Raises:
        DataError: If there are too few pairs for an estimate, or the encoder cannot be loaded.

    Example:
        >>> from pucl.text import load_texts
        >>> look = look_at_pairs(load_texts("requests").train)
        >>> look.verdict
        'alike'
    """
    if held_out is None:
        train, held_out = split_pairs(train)
    else:
        train, held_out = train.with_partners(), held_out.with_partners()
    if min(len(train), len(held_out)) < FEWEST:
        raise DataError(
            f"known and hidden positives are compared on held-out pairs: expected at least {FEWEST}, got "
            f"{len(held_out)} held out, and {len(train)} to train on"
        )
    if encoder == HASHED:
        train = _some_of(train, TRAINED)
        module: nn.Module = train_briefly(train, progress=progress)
        name = name or f"a hashed encoder after a short training on {len(train):,} of the training pairs"
    else:
        module = make_encoder(encoder, buckets=1, width=1)
        name = name or (encoder if isinstance(encoder, str) else type(encoder).__name__)
    return _compare(train, held_out, module, name, progress)


def _compare(train: TextSet, held_out: TextSet, module: nn.Module, name: str, progress: ReportProgress) -> Look:
    sides = [side for part in (train, held_out) for side in _sides(part)]
    lengths = [len(texts) for texts, _ in sides]
    vectors = _embed(module, [text for texts, _ in sides for text in texts], progress)
    units = nn.functional.normalize(vectors, dim=1).split(lengths)
    known = [(units[i] * units[i + 1]).sum(dim=1) for i in (0, 2)]
    different = torch.from_numpy(sides[2][1][:, None] != sides[3][1])
    different.fill_diagonal_(False)  # The partner of a text with a label may be of another group.
    unlabelled = (units[2] @ units[3].T)[different]
    if len(unlabelled) > UNLABELLED:
        chosen = torch.randint(len(unlabelled), (UNLABELLED,), generator=torch.Generator().manual_seed(0))
        unlabelled = unlabelled[chosen]
    if len(unlabelled) < FEWEST:
        raise DataError(
            f"texts of different groups are unlabelled: expected at least {FEWEST} pairs of them, got {len(unlabelled)}"
        )
    return Look(
        encoder=name,
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
    return parts[0].with_partners(), parts[1].with_partners()


def train_briefly(train: TextSet, *, progress: ReportProgress = lambda _done, _total: None) -> HashedNgrams:
    """Train a hashed encoder with the plain loss, with the default settings of `pucl train pairs`.

    Args:
        train: The pairs.
        progress: Called with the number of pairs that are done, and of all.
    """
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoder = HashedNgrams(16384, 128)
    optimiser = torch.optim.Adam(encoder.parameters(), lr=LEARNING_RATE)
    size, done = min(BATCH, len(train)), 0
    for _ in range(EPOCHS):
        order = torch.randperm(len(train), generator=generator).numpy()
        for start in range(0, len(train) - size + 1, size):
            rows = order[start : start + size]
            draws = torch.rand(len(rows), generator=generator, dtype=torch.float64).numpy()
            first, second = train.batch(rows).sides(draws)
            groups = [torch.from_numpy(side.groups) for side in (first, second)]
            if len(torch.cat(groups).unique()) > 1:  # Otherwise there is nothing to compare with.
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
            done += len(rows)
            progress(done, EPOCHS * (len(train) // size) * size)
    return encoder


@torch.no_grad()
def _embed(module: nn.Module, texts: Sequence[str], progress: ReportProgress) -> Float[Tensor, "text dim"]:
    """Embed texts, those of about the same length together."""
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    blocks = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    rows, done = [], 0
    module.eval()
    for block in blocks:
        rows.append(module([texts[index] for index in block]).float().cpu())
        done += len(block)
        progress(done, len(texts))
    vectors = torch.cat(rows)
    return vectors[torch.tensor(order).argsort()]


def _some_of(texts: TextSet, most: int) -> TextSet:
    """At most so many of the samples, drawn at random."""
    rows = torch.randperm(len(texts), generator=torch.Generator().manual_seed(0))[:most].sort().values.numpy()
    return texts if len(texts) <= most else texts.subset(rows).with_partners()


def _sides(texts: TextSet) -> list[tuple[list[str], Indices]]:
    """First and second texts of some pairs, each with the number that two texts must not share to be unlabelled."""
    some = _some_of(texts, LOOKED)
    draws = torch.rand(len(some), generator=torch.Generator().manual_seed(0), dtype=torch.float64).numpy()
    return [(side.texts, side.groups) for side in some.batch(np.arange(len(some))).sides(draws)]
