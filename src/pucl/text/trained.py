"""The encoder of a finished run on texts."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pucl.data.choosing import TEST_SHARE
from pucl.data.errors import DataError
from pucl.evaluation import measure, numbers_in
from pucl.evaluation.embed import embed_each
from pucl.modality import OwnFormat, Portable, ReportProgress
from pucl.samples import ComparedSamples, EmbeddedData, Features, Indices, Labels, ShownSamples
from pucl.text.config import TextConfig
from pucl.text.registry import load_texts
from pucl.text.task import can_be_probed, embed_parts, embed_texts, fitting_probes, open_texts
from pucl.text.textset import TextData, TextSet

COMPARED = 256  # Pairs at a time when they are compared.


class TrainedTexts:
    """The encoder of a finished run, in evaluation mode; see `pucl.modality.Trained`.

    Args:
        config: The run.
        module: The framework. It maps a `TextBatch` to [text, features].
        features: Dimension of the features.

    Example::

        trained = pucl.load("runs/pairs-requests-pucl-seed-0")
        embeddings = trained.encode(["play some jazz", "will it rain?"])  # float32 [2, features]
    """

    def __init__(self, config: TextConfig, module: Any, *, features: int) -> None:
        self.config = config
        self.module = module.eval()
        self.features = features

    @property
    def encoder(self) -> nn.Module:
        """The network alone: maps a list of texts to [text, features]."""
        encoder: nn.Module = self.module.get_submodule("encoder")
        return encoder

    def portable(self, *, floats: bool = False) -> Portable:
        """The encoder without pucl; see `pucl.modality.Trained`."""
        if floats:
            raise ValueError("--floats is about the pixels of images: leave it out for an encoder of texts")
        made: Portable = self._of_encoder("portable")()
        return made

    @property
    def own_formats(self) -> Mapping[str, OwnFormat]:
        """That of sentence-transformers, if the encoder is one of its models."""
        formats: Mapping[str, OwnFormat] = self._of_encoder("own_formats")
        return formats

    def _of_encoder(self, name: str) -> Any:
        if not hasattr(self.encoder, name):
            raise ValueError(
                f"export knows pucl's encoders of texts and those of sentence-transformers, got "
                f"{type(self.encoder).__name__}: export it with its own library"
            )
        return getattr(self.encoder, name)

    def encode(self, texts: str | Sequence[str] | TextSet) -> Features:
        """One row of features for each text; of pairs, for each first text.

        Args:
            texts: A text, a list of texts, or a `TextSet`.

        Shapes:
            [text, features], float32.
        """
        if isinstance(texts, TextSet):
            return embed_texts(self.module, texts.texts)
        given: list[Any] = [texts] if isinstance(texts, str) else list(texts)
        kinds = {type(each).__name__ for each in given if not isinstance(each, str)}
        if kinds or not given:
            came = "an empty list" if not given else ", ".join(sorted(kinds))
            raise DataError(f"texts to encode are one string or a list of strings, got {came}")
        return embed_texts(self.module, given)

    def data(
        self, source: str | Path | None = None, *, root: Path | None = None, test_share: float = TEST_SHARE
    ) -> TextData:
        """Load the data of the run, or other data in the same way.

        Args:
            source: A known name or a file; None for the data of the run.
            root: The data root; see `pucl.text.registry.load_texts`.
            test_share: Share of another file to hold out for tests; 0 holds out none.
        """
        if source is None:
            return open_texts(self.config, root)
        return load_texts(source, root=root, columns=self.config.columns, test_share=test_share)

    def embed_data(
        self, source: str | Path, *, root: Path | None, progress: ReportProgress, note: Callable[[str], None]
    ) -> EmbeddedData:
        """Embed a data set: each part, and of pairs the first and the second texts; see `pucl.modality.Trained`."""
        data = self.data(source, root=root, test_share=0.0)
        for text in data.notes:
            note(text)
        sides: dict[str, tuple[str, ...]] = {}
        arrays: dict[str, NDArray[Any]] = {}
        for part, texts in data.parts.items():
            name, prefix = ("embeddings", "") if len(data.parts) == 1 else (part, f"{part}_")
            sides[name] = texts.texts
            if texts.seconds is not None:
                sides[f"{prefix}seconds"] = texts.seconds
            if texts.labels is not None:
                arrays |= {f"{prefix}labels": texts.labels, "classes": np.array(texts.classes)}
        rows = embed_each(
            sides,
            lambda texts, report: embed_texts(self.module, texts, lambda done, _: report(done)),
            progress=progress,
        )
        parts = {name: len(each) for name, each in sides.items()} if len(sides) > 1 else {}
        return EmbeddedData(arrays=rows | arrays, rows=np.concatenate(list(rows.values())), parts=parts)

    def evaluate(
        self, probes: Sequence[str] | None, *, source: str | None, root: Path | None, progress: ReportProgress
    ) -> tuple[dict[str, float], int]:
        """Fit probes on the training texts and test them on the test texts; see `pucl.modality.Trained`."""
        data = self.data(source, root=root)
        chosen = fitting_probes(self.config, data, probes)
        if not can_be_probed(data):
            raise DataError(
                f"probes compare embeddings with labels, or search for the partner of a text: expected texts with "
                f"labels, or pairs, got {data.name} without; `pucl embed` needs none"
            )
        samples, _ = embed_parts(data, lambda texts: embed_texts(self.module, texts, progress))
        found = {} if samples is None else measure(samples, chosen)
        return {name: found[name] for name in numbers_in([found])}, len(data.train)

    def choose_to_show(self, choose: Callable[[Labels | None, int], Indices], *, root: Path | None) -> ShownSamples:
        """Choose test texts, or training texts if there are no test texts."""
        data = self.data(root=root)
        part, texts = ("training texts", data.train) if data.test is None else ("test texts", data.test)
        return ShownSamples.of(part, texts, choose, self.encode)

    @torch.no_grad()
    def compare_samples(
        self, choose: Callable[[int], Indices], *, root: Path | None, generator: torch.Generator
    ) -> ComparedSamples:
        """Embed both texts of each pair: the first text of one is compared with the second texts of others."""
        texts = self.data(root=root).train.with_partners()
        chosen = choose(len(texts))
        blocks = [chosen[start : start + COMPARED] for start in range(0, len(chosen), COMPARED)]
        sides = [self.module.look(texts.batch(block), generator) for block in blocks]
        some = texts.subset(chosen)
        return ComparedSamples.of_views(
            sides,
            indices=chosen,
            samples=len(texts),
            features=self.encode(some),
            labels=some.labels,
            names=some.texts,
        )
