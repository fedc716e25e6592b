"""What is measured: the subjects with their sizes, the temperatures, and how they are chosen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from pucl.config import PLAIN
from pucl.text.registry import load_texts
from pucl.text.task import with_validation
from pucl.text.textset import TextSet
from study.pairs.domains import DOMAINS
from study.pairs.minilm import LastLayers, before, features_of, load_minilm
from study.pairs.recommender import Recommender
from study.pairs.rows import ROWS
from study.pairs.texts import Head, Part, TextWorld
from study.pairs.world import World

TEMPERATURES = (0.05, 0.1, 0.2, 0.5)
"""What the temperature of each row is chosen from, unless a subject names others."""

BOTH = ("groups-ratio", "groups-auto")
"""Rows with known groups and a correction; they are measured on one subject."""

YARDSTICK = "retrieval"
CHOOSING_SEEDS, SEEDS = 1, 5
"""Seeds with which temperatures are chosen, and with which rows are measured unless a subject has fewer."""

LAYERS = 2  # Layers of the MiniLM that are fine-tuned.


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One part of the measurement.

    Args:
        about: What is trained and tested, in one sentence.
        load: Makes the world from the data root and a directory for what is kept between runs.
        epochs: Passes over the training samples.
        learning_rate: Of Adam.
        rows: The rows that are trained.
        temperatures: What the temperature of each row is chosen from.
        temperatures_of: Another subject, whose temperatures are used, where choosing would take too long.
        seeds: Seeds with which the rows are measured.
    """

    about: str
    load: Callable[[Path | None, Path], World]
    epochs: int
    learning_rate: float = 1e-3
    rows: Sequence[str] = tuple(row for row in ROWS if row not in BOTH)
    temperatures: Sequence[float] = TEMPERATURES
    temperatures_of: str | None = None
    seeds: int = SEEDS


def clinc_domains(root: Path | None, cache: Path) -> TextWorld:
    """CLINC150 with its ten domains for classes: 200 texts of each."""
    domain_of = {intent: number for number, intents in enumerate(DOMAINS.values()) for intent in intents}
    return frozen(root, cache, "clinc150", range(len(DOMAINS)), each=200, domain_of=domain_of)


def frozen(
    root: Path | None,
    cache: Path,
    name: str,
    trained: Sequence[int],
    *,
    each: int,
    domain_of: Mapping[str, int] | None = None,
) -> TextWorld:
    """Texts as features of the frozen MiniLM, and a head to train.

    Args:
        root: The data root.
        cache: Directory of the model and of the features.
        name: Name of the data.
        trained: Classes that are trained on.
        each: Texts of each class.
        domain_of: Coarser classes by the names of classes; None keeps the classes.
    """
    data = load_texts(name, root=root)
    choosing = with_validation(data)
    encoder = load_minilm(cache / "minilm")
    sets = {"train": data.train, "test": data.test, "choosing": choosing.train, "validation": choosing.test}

    def part(key: str) -> Part:
        texts = sets[key]
        if texts is None:
            raise ValueError(f"{name} has no {key} texts: expected some")
        features = torch.from_numpy(features_of(encoder, texts.texts, cache / f"{name}-{key}.npz"))
        return Part(inputs=[features], features=features, labels=_classes(texts, domain_of))

    return TextWorld(
        train=part("train"),
        train_without=part("choosing"),
        validation=part("validation"),
        test=part("test"),
        trained_classes=np.array(trained),
        each=each,
        batch=256,
        build=Head,
    )


def fine_tuned(root: Path | None, cache: Path) -> TextWorld:
    """The domains of CLINC150 with the last layers of the MiniLM: 60 texts of each domain, 1,000 test texts."""
    world, encoder = clinc_domains(root, cache), load_minilm(cache / "minilm")
    data = load_texts("clinc150", root=root)

    def part(whole: Part, texts: TextSet | None, count: int) -> Part:
        chosen = np.random.default_rng(0).permutation(len(whole.labels))[:count]
        inputs = before(encoder, [(texts or data.train).texts[i] for i in chosen], LAYERS, "clinc150")
        return Part(inputs=inputs, features=whole.features[torch.from_numpy(chosen)], labels=whole.labels[chosen])

    train, test = part(world.train, data.train, 2000), part(world.test, data.test, 1000)
    return replace(
        world,
        train=train,
        train_without=train,
        validation=test,  # Not used: the temperatures are those of the frozen MiniLM.
        test=test,
        each=60,
        batch=64,
        build=lambda: LastLayers(encoder, LAYERS),
    )


def _classes(texts: TextSet, domain_of: Mapping[str, int] | None) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    if texts.labels is None:
        raise ValueError("classes say which texts are relevant: expected labels, got none")
    if domain_of is None:
        return texts.labels
    return np.array([domain_of[name] for name in texts.classes], np.int64)[texts.labels]


SUBJECTS = {
    "clinc150-domains": Subject(
        about="CLINC150, ten domains for classes, 2,000 texts, frozen MiniLM and a head",
        load=clinc_domains,
        epochs=30,
        rows=tuple(ROWS),
        temperatures=(0.05, 0.1, 0.2, 0.3, 0.5, 1.0),
    ),
    "clinc150-intents": Subject(
        about="CLINC150, 100 intents with 20 texts each, and 50 intents held out, frozen MiniLM and a head",
        load=lambda root, cache: frozen(root, cache, "clinc150", [label for label in range(150) if label % 3], each=20),
        epochs=20,
    ),
    "banking77": Subject(
        about="Banking77, 50 intents with 40 texts each, and 27 intents held out, frozen MiniLM and a head",
        load=lambda root, cache: frozen(root, cache, "banking77", range(50), each=40),
        epochs=20,
    ),
    "recommender": Subject(
        about="a generated recommender: 1,500 users, 1,500 items of which a fifth is new, two towers",
        load=lambda _root, _cache: Recommender(),
        epochs=30,
        rows=tuple(row for row in ROWS if row not in (*BOTH, "guide")),
    ),
    "clinc150-fine-tuned": Subject(
        about=f"CLINC150, ten domains, 600 texts, the last {LAYERS} layers of the MiniLM fine-tuned",
        load=fine_tuned,
        epochs=5,
        learning_rate=1e-4,
        rows=(PLAIN, "groups", "deb", "ratio", "auto", "guide", "oracle", "supcon"),
        temperatures_of="clinc150-domains",
    ),
}
"""What is measured, by name."""


def best_temperatures(scores: Mapping[tuple[str, float], float], rows: Sequence[str]) -> dict[str, float]:
    """The temperature of each row with the largest score on validation samples."""
    return {row: max((at for known, at in scores if known == row), key=lambda at: scores[row, at]) for row in rows}


def check_rows(rows: Sequence[str]) -> None:
    """Raise if the row is missing that all others are compared with."""
    if PLAIN not in rows:
        raise ValueError(f"all rows are compared with {PLAIN}: expected it among the rows, got {', '.join(rows)}")
