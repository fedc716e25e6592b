"""A throw-away modality, whole in this file: short texts. One line adds it; the commands then train and show it."""

import json
import os
import signal
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import pucl
from pucl.cli import main
from pucl.config import RunConfig
from pucl.data.choosing import checksum, evenly
from pucl.data.errors import DataError
from pucl.data.source import Found, Source
from pucl.evaluation import PROBES, Labelled, Monitor, measure, numbers_in, train_and_test
from pucl.evaluation.embed import evaluation_mode, finite_rows
from pucl.modalities import MODALITIES
from pucl.modality import EncoderSource, Modality, OwnFormat, Portable, ReportProgress
from pucl.recipe import Recipes
from pucl.samples import ComparedSamples, EmbeddedData, EmbeddedSamples, Indices, Labels, ShownSamples, ShownTexts
from pucl.settings import setting
from pucl.training.framework import Batch, Framework
from small_runs import assert_same_bits

LONGEST = 8  # Words of a text that are read.
VOCABULARY = 512
TOPICS = {
    "weather": ("rain", "wind", "snow", "cloud", "storm", "sun", "fog", "ice"),
    "kitchen": ("salt", "bread", "oven", "spoon", "soup", "plate", "onion", "rice"),
}


OTHER_WORDS = ("and", "the", "one", "with", "then", "more", "here", "now")


# Data: what a sample is, and where samples come from.


@dataclass(frozen=True, eq=False, kw_only=True)
class Texts:
    """Short texts, by number. A batch has the numbers of their words, [text, word]; 0 is no word."""

    name: str
    texts: tuple[str, ...]
    labels: Labels
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def batch(self, indices: Indices) -> Tensor:
        rows = [[1 + zlib.crc32(word.encode()) % (VOCABULARY - 1) for word in self.texts[i].split()] for i in indices]
        return torch.tensor([(row + LONGEST * [0])[:LONGEST] for row in rows])

    def subset(self, indices: Indices) -> "Texts":
        texts = tuple(self.texts[i] for i in indices)
        return Texts(name=self.name, texts=texts, labels=self.labels[indices], classes=self.classes)


def read_texts(path: Path) -> Texts:
    """Read a file with a class, a tabulator and a text in each line."""
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    classes, labels = np.unique([topic for topic, _ in lines], return_inverse=True)
    return Texts(
        name=path.name, texts=tuple(text for _, text in lines), labels=labels, classes=tuple(map(str, classes))
    )


def make_texts(_found: Found) -> Texts:
    """Texts of six words each, of which three are of one of two topics."""
    chance = np.random.default_rng(0)
    labels = np.arange(64) % len(TOPICS)
    words = [tuple(TOPICS.values())[label] for label in labels]
    texts = tuple(" ".join([*chance.choice(each, 3), *chance.choice(OTHER_WORDS, 3)]) for each in words)
    return Texts(name="topics", texts=texts, labels=labels, classes=tuple(TOPICS))


SOURCES = {
    "topics": Source(name="topics", read=make_texts, samples="64", classes=2, size="6", without_files="is made here")
}


def load_texts(data: str, root: Path | None) -> Texts:
    if data in SOURCES:
        return SOURCES[data].load(root or Path())
    if not Path(data).is_file():
        raise DataError(f"texts are a known name or a file: expected topics or a path, got {data}")
    return read_texts(Path(data))


# Settings, views and encoder.


@dataclass(frozen=True, kw_only=True)
class TextConfig(RunConfig):
    """A run on texts."""

    unfit_probes: ClassVar[tuple[str, ...]] = ("svm", "svm_scaled", "linear-reference")

    modality: str = "phrases"
    drop_words: float = setting(0.3, "probability that a view leaves a word out", group="views")
    word_dim: int = setting(16, "dimension of the vector of a word", group="encoder")


@dataclass(frozen=True, kw_only=True)
class DroppedWords:
    """A view of a text is the text without some of its words."""

    drop: float

    def see(self, batch: Batch[Tensor]) -> Tensor:
        kept = torch.rand(batch.whole, LONGEST, generator=batch.generator) >= self.drop
        return batch.samples * kept[batch.part].to(batch.samples.device)

    def __call__(self, samples: Tensor, generator: torch.Generator) -> Tensor:
        return samples * (torch.rand(samples.shape, generator=generator) >= self.drop)

    def plain(self, samples: Tensor) -> Tensor:
        return samples


class BagOfWords(nn.Module):
    """The mean of the vectors of the words."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features
        self.words = nn.EmbeddingBag(VOCABULARY, features, padding_idx=0)

    def forward(self, words: Tensor) -> Tensor:
        vectors: Tensor = self.words(words)
        return vectors


# The data of a run, and the encoder of a finished run.


@torch.no_grad()
def embed_texts(module: nn.Module, texts: Texts) -> NDArray[np.float32]:
    with evaluation_mode(module):
        return finite_rows(module, module(texts.batch(np.arange(len(texts)))), "texts")


def probe_texts(
    config: TextConfig, rows: NDArray[np.float32], labels: Labels, probes: Sequence[str] | None = None
) -> dict[str, Any]:
    """Fit probes on the first half, and test them on the second."""
    half = len(rows) // 2
    samples = train_and_test(Labelled(rows[:half], labels[:half]), Labelled(rows[half:], labels[half:]))
    return measure(samples, config.choose_probes(probes))


class TextTask:
    def __init__(self, config: TextConfig, root: Path | None) -> None:
        self.config = config
        texts = load_texts(config.data, root)
        chosen = np.arange(len(texts)) if config.limit is None else evenly(texts.labels, len(texts), config.limit)
        self.samples = texts.subset(chosen)
        self.labels = self.samples.labels
        self.names = None
        self.notes = ("texts are read up to their eighth word",)
        self.shape = None
        self.embedded = EmbeddedSamples(
            count=len(self.samples), labels=self.samples.labels, classes=self.samples.classes
        )

    def fingerprint(self) -> dict[str, Any]:
        return {
            "samples": len(self.samples),
            "crc": checksum(np.array(self.samples.texts)),
            "labels": checksum(self.labels),
        }

    def need_packages(self) -> None: ...

    def monitor(self, framework: nn.Module) -> Callable[[], dict[str, float]]:
        monitor = Monitor(self.labels)
        return lambda: monitor.measure(embed_texts(framework, self.samples.subset(monitor.indices)), PROBES)

    def can_be_probed(self) -> bool:
        return len(np.unique(self.labels[: len(self.labels) // 2])) > 1

    def evaluate(self, framework: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
        rows = embed_texts(framework, self.samples)
        if not self.can_be_probed():
            return {}, {"train": rows}
        return probe_texts(self.config, rows, self.labels), {"train": rows, "train_labels": self.labels}

    def about(self, framework: Framework[Any]) -> dict[str, Any]:
        return {"features": embed_texts(framework, self.samples).shape[1]}

    def thumbnails(self, indices: Indices, _budget: int) -> tuple[ShownTexts, str]:
        return ShownTexts(texts=tuple(self.samples.texts[i] for i in indices)), ""


class TrainedTexts:
    def __init__(self, config: TextConfig, module: Any, about: Mapping[str, Any]) -> None:
        self.config = config
        self.module = module.eval()
        self.features = int(about["features"])

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        labels = np.zeros(len(texts), np.int64)
        return embed_texts(self.module, Texts(name="", texts=tuple(texts), labels=labels, classes=("",)))

    def embed_data(
        self, source: str | Path, *, root: Path | None, progress: ReportProgress, note: Callable[[str], None]
    ) -> EmbeddedData:
        texts = load_texts(str(source), root)
        note("words that are not in the vocabulary share numbers")
        rows = embed_texts(self.module, texts)
        progress(len(texts), len(texts))
        return EmbeddedData(arrays={"embeddings": rows, "labels": texts.labels}, rows=rows, parts={})

    def evaluate(
        self, probes: Sequence[str] | None, *, source: str | None, root: Path | None, progress: ReportProgress
    ) -> tuple[dict[str, float], int]:
        texts = load_texts(source or self.config.data, root)
        progress(len(texts), len(texts))
        found = probe_texts(self.config, embed_texts(self.module, texts), texts.labels, probes)
        return {name: found[name] for name in numbers_in([found])}, len(texts) // 2

    def choose_to_show(self, choose: Callable[[Labels | None, int], Indices], *, root: Path | None) -> ShownSamples:
        texts = load_texts(self.config.data, root)
        return ShownSamples.of("texts", texts, choose, lambda chosen: embed_texts(self.module, chosen))

    def portable(self, *, floats: bool = False) -> Portable:
        raise ValueError("there is no other form of this encoder")

    @property
    def own_formats(self) -> Mapping[str, OwnFormat]:
        return {}

    @torch.no_grad()
    def compare_samples(
        self, choose: Callable[[int], Indices], *, root: Path | None, generator: torch.Generator
    ) -> ComparedSamples:
        texts = load_texts(self.config.data, root)
        indices = choose(len(texts))
        views = [self.module.look(texts.batch(indices), generator)]
        return ComparedSamples.of_views(
            views,
            indices=indices,
            samples=len(texts),
            features=embed_texts(self.module, texts.subset(indices)),
            labels=texts.labels[indices],
        )


def make_encoder(config: TextConfig, _shape: None, _source: EncoderSource | None) -> BagOfWords:
    return BagOfWords(config.word_dim)


TEXTS = Modality(
    name="phrases",
    unit="phrase",
    word="texts",
    config=TextConfig,
    sources=SOURCES,
    find_source=SOURCES.get,
    columns=("texts", "classes", "words"),
    paths="a file of texts, .tsv",
    reads=lambda path: path.suffix == ".tsv",
    open=TextTask,
    shape_of=lambda _about: None,
    revive=TrainedTexts,
    make_views=lambda config, _shape: DroppedWords(drop=config.drop_words),
    make_encoder=make_encoder,
    probed_on="the second half of the texts",
    labels_needed="in both halves",
    recipes=Recipes(first_look={"topics": {"epochs": 4, "batch_size": 16, "dim": 8, "learning_rate": 0.01}}),
)


# The tests.


@pytest.fixture(scope="module", autouse=True)
def added() -> Iterator[None]:
    MODALITIES[TEXTS.name] = TEXTS  # The one line.
    yield
    del MODALITIES[TEXTS.name]


def train(out: Path, *options: str, data: str = "topics") -> int:
    return main(["train", "simclr", data, "--out", str(out), *options])


@pytest.fixture(scope="module")
def finished(added: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on texts."""
    out = tmp_path_factory.mktemp("texts") / "run"
    assert train(out) == 0
    return out


def test_simclr_is_trained_and_learns(finished: Path) -> None:
    config = json.loads((finished / "config.json").read_text())
    assert (config["framework"], config["modality"], config["word_dim"], config["epochs"]) == (
        "simclr",
        "phrases",
        16,
        4,
    )
    assert "image_size" not in config
    losses = [json.loads(line)["loss"] for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert len(losses) == 4
    assert losses[-1] < losses[0] - 0.1


def test_its_settings_are_options_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path / "run", "--word-dim=5", "--drop-words=0.5", "--epochs=1", "--temperature=0.2") == 0
    assert "texts are read up to their eighth word" in capsys.readouterr().err
    assert pucl.load(tmp_path / "run").features == 5
    assert train(tmp_path / "other", "--image-size=8") == 2
    assert "image_size" in capsys.readouterr().err
    assert main(["train", "simclr", "digits", "--drop-words=0.5"]) == 2
    assert "drop_words" in capsys.readouterr().err
    assert main(["train", "infograph", "topics"]) == 2
    assert "topics is a set of texts, for simclr, moco" in capsys.readouterr().err


def test_moco_takes_it_too(tmp_path: Path) -> None:
    command = ["train", "moco", "topics", "--epochs=2", "--queue-size=16", "--splits=1"]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0


def test_a_stopped_run_ends_with_the_same_bits(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as context:
        context.setattr("pucl.runs.display.Display.step", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        assert train(tmp_path / "run") == 143
    assert train(tmp_path / "run", "--resume") == 0
    assert_same_bits(finished, tmp_path / "run")


@pytest.mark.slow
def test_corrections_are_compared_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", "simclr", "topics", "--corrections=untrained,plain,oracle", "--seeds=1", "--epochs=1"]
    assert main([*command, "--out", str(tmp_path / "all")]) == 0
    assert "oracle" in capsys.readouterr().out
    page = (tmp_path / "all" / "report.html").read_text()
    assert "64 phrases" in page
    assert "rain" in page
    assert main(["report", str(tmp_path / "all"), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert '"kind":"texts"' in page.replace(" ", "")
    assert 'thumbnails.kind === "texts"' in page  # The script of the page shows them.
    assert main(["compare", "simclr", "topics", "--corrections=raw", "--out", str(tmp_path / "raw")]) == 2
    assert "phrases have no features without an encoder" in capsys.readouterr().err


def test_evaluated_embedded_and_listed(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(finished), "--json", str(tmp_path / "scores.json")]) == 0
    record = json.loads((tmp_path / "scores.json").read_text())["runs"][0]
    assert record["accuracies"] == record["recorded"]
    (tmp_path / "own.tsv").write_text("kitchen\tsalt and rice\nweather\train and wind\nweather\tfog\n")
    own = str(tmp_path / "own.tsv")
    assert main(["embed", str(finished), own, "-o", str(tmp_path / "own.npz")]) == 0
    assert "phrases: 3; features of each: 16" in capsys.readouterr().out
    with np.load(tmp_path / "own.npz") as embedded:
        np.testing.assert_array_equal(embedded["embeddings"][2:], pucl.load(finished).encode(["fog"]))
    assert train(tmp_path / "run", "--epochs=1", "--batch-size=2", data=own) == 0
    assert main(["runs", str(tmp_path)]) == 0
    assert "own.tsv" in capsys.readouterr().out
    assert main(["data", "list"]) == 0
    assert "is made here" in capsys.readouterr().out
    assert main(["data", "get", "topics"]) == 0
    assert main(["prior", str(finished)]) == 0
