"""The texts of a run: how they are loaded, embedded, probed and shown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pucl import processes
from pucl.data.choosing import TEST_SHARE, checksum
from pucl.data.errors import DataError
from pucl.evaluation import PROBES, Labelled, Monitor, Probe, ProbedSamples, measure, train_and_test
from pucl.evaluation.embed import evaluation_mode, finite_rows
from pucl.samples import EmbeddedSamples, Features, Indices, ShownTexts
from pucl.text.config import TextConfig
from pucl.text.groups import check_groups
from pucl.text.registry import load_texts
from pucl.text.textset import TextData, TextSet
from pucl.texts import shortened

TEXTS_AT_ONCE = 128
PAIR_PROBES = ("retrieval",)  # What can be measured without labels: a text searches for its partner.
LONGEST_SHOWN, SHORTEST_SHOWN = 240, 24  # Characters of a text on a page.


@dataclass(frozen=True, kw_only=True)
class TextShape:
    """What a framework must know of the texts to be built.

    Args:
        fetch: Whether a pretrained model may be downloaded by its name: only if the user gave it, not if a file did.
    """

    fetch: bool


def open_texts(config: TextConfig, root: Path | None) -> TextData:
    """The texts of a run: with validation texts for test texts if it asks for them, and as many as it asks for."""
    data = load_texts(config.data, root=root, columns=config.columns)
    if config.validation:
        data = with_validation(data)
    return replace(data, train=data.train.limited(config.limit))


def with_validation(data: TextData) -> TextData:
    """Test on the validation texts of the data instead of the test texts.

    Data that have none are tested on a fifth of the training texts, which are then not trained on.
    """
    if data.validation is not None:
        return replace(data, test=data.validation)
    parts = data.train.split(TEST_SHARE)
    if parts is None:
        raise ValueError(
            f"validation holds a fifth of the training texts out: expected more of them, got {len(data.train)} in "
            f"{data.name}; leave --validation out"
        )
    return replace(data, train=parts[0], test=parts[1])


class TextTask:
    """The texts of a run; see `pucl.modality.Task`."""

    def __init__(self, config: TextConfig, root: Path | None = None) -> None:
        self.config = config
        self.data = open_texts(config, root)
        try:
            self.samples = self.data.train.with_partners()
        except DataError as error:
            raise DataError(
                f"{self.data.name}: {error}; --second-column or --label-column names a column of the file"
            ) from error
        self.labels = self.samples.labels
        self.names = self.samples.texts
        alone = len(self.data.train) - len(self.samples)
        notes = (f"{alone:,} texts are not trained on: each is alone in its class",) if alone else ()
        self.notes = self.data.notes + notes
        if config.uses_groups:
            self.notes += check_groups(self.samples.groups, config.batch_size, self.data.name)
        if self.can_be_probed():
            chosen = fitting_probes(config, self.data)
            self.notes += tuple(each for each in config.skipped_probes() if any(name in each for name in chosen))

    @property
    def shape(self) -> TextShape:
        """The user named the encoder."""
        return TextShape(fetch=True)

    @property
    def embedded(self) -> EmbeddedSamples:
        """The training texts; of pairs, the first ones."""
        texts = self.data.train
        return EmbeddedSamples(count=len(texts), labels=texts.labels, classes=texts.classes)

    def fingerprint(self) -> dict[str, Any]:
        """Numbers that distinguish these texts from others."""
        train, test = self.data.train, self.data.test
        return {
            "samples": len(self.samples),
            "crc": _crc(train),
            "labels": checksum(train.labels),
            "test": None if test is None else [_crc(test), checksum(test.labels)],
        }

    def need_packages(self) -> None:
        """Raise if a package is missing that a probe needs."""
        if self.can_be_probed():
            for probe in fitting_probes(self.config, self.data).values():
                probe.need_packages()

    def monitor(self, framework: nn.Module) -> Callable[[], dict[str, float]] | None:
        """Measure embeddings of training texts."""
        train = self.data.train
        if train.labels is None:
            return None
        monitor = Monitor(train.labels)
        if not monitor.possible:
            return None
        texts = [train.texts[i] for i in monitor.indices]
        return lambda: monitor.measure(embed_texts(framework, texts), PROBES)

    def can_be_probed(self) -> bool:
        """Whether there are test texts, and either labels of at least two classes or pairs to search for."""
        return can_be_probed(self.data)

    def evaluate(self, framework: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
        """Fit probes on the training texts and test them on the test texts; return the features too."""
        probes = fitting_probes(self.config, self.data) if self.can_be_probed() else {}
        samples, embeddings = embed_parts(self.data, lambda texts: embed_texts(framework, texts))
        scores = {} if samples is None else processes.from_first(lambda: measure(samples, probes))
        return scores, embeddings

    def about(self, framework: Any) -> dict[str, Any]:
        """Encoder, and dimension of the features."""
        return {"encoder": self.config.encoder, "features": int(framework.encoder.features)}

    def thumbnails(self, indices: Indices, budget: int) -> tuple[ShownTexts, str]:
        """The texts themselves, the longest cut; of pairs, both texts."""
        train = self.data.train
        longest = max(SHORTEST_SHOWN, min(LONGEST_SHOWN, budget // max(1, len(indices))))
        shown = [train.texts[i] if train.seconds is None else f"{train.texts[i]} / {train.seconds[i]}" for i in indices]
        return ShownTexts(texts=tuple(shortened(text, longest) for text in shown)), ""


@torch.no_grad()
def embed_texts(
    module: nn.Module, texts: Sequence[str], progress: Callable[[int, int], None] = lambda _done, _total: None
) -> Features:
    """Features of each text in evaluation mode, float32 [text, feature].

    Texts of about the same length are embedded together, which takes less time.

    Args:
        module: The framework: maps a `TextBatch` to [text, feature].
        texts: At least one text.
        progress: Called with the number of texts that are done, and of all.
    """
    order = np.argsort([len(text) for text in texts], kind="stable")
    batches = TextSet(texts=tuple(texts))
    rows: list[NDArray[np.float32]] = []
    with evaluation_mode(module):
        for start in range(0, len(order), TEXTS_AT_ONCE):
            indices = order[start : start + TEXTS_AT_ONCE]
            rows.append(finite_rows(module, module(batches.batch(indices)), "texts"))
            progress(start + len(indices), len(order))
    sorted_rows = np.concatenate(rows)
    features = np.empty_like(sorted_rows)
    features[order] = sorted_rows
    return features


def can_be_probed(data: TextData) -> bool:
    """Whether there are test texts, and either labels of at least two classes or pairs to search for."""
    if data.test is None:
        return False
    if data.test.labels is None or data.train.labels is None:
        return data.test.seconds is not None
    return len(np.unique(data.train.labels)) > 1


def fitting_probes(config: TextConfig, data: TextData, names: Sequence[str] | None = None) -> dict[str, Probe]:
    """The probes that these data allow; pairs without labels allow retrieval alone.

    Args:
        config: The run.
        data: The data.
        names: Names of probes; None for those of the run.

    Raises:
        ValueError: If none of them can be used.
    """
    probes = config.choose_probes(names)
    if data.train.labels is not None:
        return probes
    chosen = {name: probe for name, probe in probes.items() if name in PAIR_PROBES}
    if not chosen:
        raise ValueError(
            f"pairs without labels are measured by a search for the partner: expected the probe {PAIR_PROBES[0]}, got "
            f"{', '.join(probes)}"
        )
    return chosen


def embed_parts(
    data: TextData, embed: Callable[[Sequence[str]], Features]
) -> tuple[ProbedSamples | None, dict[str, Any]]:
    """Embed what probes are given, and what a run keeps.

    With labels, probes are given the training and the test texts, of pairs the first ones. Without, they are given both
    texts of each test pair, and its group is their class: a text searches for its partner among all of them.

    Args:
        data: The data.
        embed: Maps texts to features.

    Returns:
        The samples of the probes, None if there are none; and features and labels by name.
    """
    train, test = data.train, data.test
    kept: dict[str, Any] = {"train": embed(train.texts)}
    if train.labels is not None:
        kept["train_labels"] = train.labels
    if test is None or not can_be_probed(data):
        return None, kept
    kept["test"] = embed(test.texts)
    if train.labels is not None and test.labels is not None:
        kept["test_labels"] = test.labels
        return train_and_test(Labelled(kept["train"], train.labels), Labelled(kept["test"], test.labels)), kept
    kept["test_seconds"] = embed(test.seconds or ())
    both = np.concatenate([kept["test"], kept["test_seconds"]])
    return ProbedSamples(splits=(), tested=Labelled(both, np.tile(test.groups, 2))), kept


def _crc(texts: TextSet) -> int:
    content = "\n".join([*texts.texts, *(texts.seconds or ())])
    return checksum(np.frombuffer(content.encode(), np.uint8))
