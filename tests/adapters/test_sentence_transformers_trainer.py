"""Ranking losses in SentenceTransformerTrainer: they train, they report to its logs, and they resume."""

import logging
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer import losses as library

from pucl.adapters.sentence_transformers import CachedRankingLoss, CorrectionCallback, RankingLoss
from pucl.corrections import CORRECTIONS, Ratio
from pucl.evaluation.retrieval import rank_neighbours
from small_sentences import DOCUMENTS, QUERIES, THINGS, gradients, small_model, tokens

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]
ROWS = 192


def pairs(rows: int = ROWS) -> dict[str, list[Any]]:
    """Requests for a thing and sentences about it: rows of one thing are hidden positives of each other."""
    draw = random.Random(0)  # noqa: S311
    made: dict[str, list[Any]] = {"query": [], "document": [], "label": []}
    for row in range(rows):
        thing = row % len(THINGS)
        made["query"].append(f"{draw.choice(QUERIES)} {THINGS[thing]} n{draw.randrange(64)}")
        made["document"].append(f"n{draw.randrange(64)} {draw.choice(DOCUMENTS)} {THINGS[thing]}")
        made["label"].append(thing)
    return made


def trainer_of(model: Any, loss: Any, directory: Path, **settings: Any) -> Any:
    usual: dict[str, Any] = {
        "num_train_epochs": 2,
        "per_device_train_batch_size": 32,
        "learning_rate": 5e-3,
        "logging_steps": 3,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        "seed": 0,
    }
    arguments = SentenceTransformerTrainingArguments(output_dir=str(directory), **(usual | settings))
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=Dataset.from_dict(pairs()).remove_columns("label"), loss=loss
    )
    trainer.add_callback(CorrectionCallback(trainer))
    return trainer


@torch.no_grad()
def retrieval(model: Any) -> float:
    """Mean average precision: each text searches for the texts about the same thing, all in words of their own."""
    texts = [f"{word} {thing} n{number}" for thing in THINGS for number, word in enumerate(QUERIES + DOCUMENTS)]
    embedded = model.eval()(tokens(model, [texts])[0])["sentence_embedding"]
    labels = np.repeat(np.arange(len(THINGS)), len(QUERIES + DOCUMENTS))
    return float(rank_neighbours(embedded.float().numpy(), labels).average_precision.mean())


@pytest.mark.parametrize("name", CORRECTIONS)
@pytest.mark.filterwarnings("ignore::pucl.floored.FlooredWarning")
def test_every_correction_learns_at_scale_20(name: str, tmp_path: Path) -> None:
    model = small_model(tmp_path / "model").float()
    before = retrieval(model)
    loss = RankingLoss(model, name, samples=ROWS)
    trainer = trainer_of(model, loss, tmp_path / "out")
    trainer.train()
    assert gradients(model).isfinite().all()
    assert before < 0.4
    assert retrieval(model) > before + 0.3
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert all(entry["loss"] > 1e-3 for entry in logged), "no loss is nothing"
    assert all(
        {"floored", "tau_plus", "positive_similarity", "unlabelled_similarity"} <= set(entry) for entry in logged
    )
    assert 0 <= logged[0]["floored"] <= 1
    if loss.loss.learnt is None:
        assert logged[0]["tau_plus"] == pytest.approx(float(CORRECTIONS[name]().tau_plus), abs=1e-4)


def test_what_a_correction_believes_goes_to_the_logs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = small_model(tmp_path / "model").float()
    caplog.set_level(logging.INFO, "pucl")
    trainer = trainer_of(model, CachedRankingLoss(model, "auto", samples=ROWS), tmp_path / "out", num_train_epochs=3)
    trainer.train()
    reports = [entry for entry in trainer.state.log_history if "correction.tau_plus" in entry]
    assert len(reports) == 3
    assert reports[0]["correction.tau_plus"] == 0
    assert reports[-1]["correction.tau_plus"] == pytest.approx(1 / len(THINGS), abs=0.05), "it sees the things"
    assert reports[-1]["correction.removed"] > 0
    sentences = [record.getMessage() for record in caplog.records if record.name.startswith("pucl")]
    assert sentences[0] == "epoch 1: plain so far: communities are looked for when epoch 2 ends"
    assert "communities, on which two halves of the samples agree" in sentences[-1]


def test_the_log_of_an_epoch_is_beside_the_report(tmp_path: Path) -> None:
    model = small_model(tmp_path / "model").float()
    trainer = trainer_of(model, RankingLoss(model, "ratio"), tmp_path / "out", logging_strategy="epoch")
    trainer.train()
    for name in ("loss", "floored", "correction.tau_plus"):
        assert [entry["epoch"] for entry in trainer.state.log_history if name in entry] == [1, 2], name


def test_resumes_with_what_was_learnt(tmp_path: Path) -> None:
    """The uninterrupted training and the resumed one have the same weights and histograms."""
    found = []
    for resumed in (False, True):
        model = small_model(tmp_path / "model").float()
        loss = RankingLoss(model, Ratio(tau_plus=0.1, warm_up=1))
        out = tmp_path / f"{resumed}"
        trainer = trainer_of(model, loss, out, save_strategy="epoch")
        trainer.train()
        if resumed:
            model = small_model(tmp_path / "model").float()
            loss = RankingLoss(model, Ratio(tau_plus=0.1, warm_up=1))
            trainer = trainer_of(model, loss, out, save_strategy="epoch")
            trainer.train(resume_from_checkpoint=str(out / "checkpoint-6"))
        found.append([*model.state_dict().values(), *loss.loss.buffers()])
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_inside_another_loss(tmp_path: Path) -> None:
    model = small_model(tmp_path / "model").float()
    for inner in (RankingLoss(model, "pucl"), CachedRankingLoss(model, "pucl")):
        trainer = trainer_of(model, library.MatryoshkaLoss(model, inner, [16, 8]), tmp_path / "out", max_steps=2)
        trainer.train()
        assert inner.last is not None


def test_a_training_without_a_ranking_loss_has_nothing_to_report(tmp_path: Path) -> None:
    model = small_model(tmp_path / "model").float()
    with pytest.raises(ValueError, match="expected a trainer with one, got MultipleNegativesRankingLoss"):
        trainer_of(model, library.MultipleNegativesRankingLoss(model), tmp_path / "out")


def test_the_model_card_has_settings_and_citation(tmp_path: Path) -> None:
    model = small_model(tmp_path / "model").float()
    trainer = trainer_of(model, RankingLoss(model, "ratio"), tmp_path / "out", max_steps=1)
    trainer.train()
    model.save_pretrained(str(tmp_path / "saved"))
    card = (tmp_path / "saved" / "README.md").read_text()
    assert "Ratio(tau_plus=None" in card
    assert "2401.08690" in card


@pytest.mark.filterwarnings("ignore:.pin_memory.:UserWarning")
def test_the_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "sentence-transformers.md").read_text()
    example = page.split("```")[1].removeprefix("python")
    model = 'SentenceTransformer("sentence-transformers/all-MiniLM-L6-v2")'
    assert model in example
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"small": small_model(tmp_path / "model", words=re.findall(r"\w+", example)).float()}
    exec(example.replace(model, "small"), namespace)  # noqa: S102
    assert namespace["trainer"].state.global_step == 3
    assert namespace["loss"].last is not None


@pytest.mark.parametrize("name", CORRECTIONS)
@pytest.mark.filterwarnings("ignore::pucl.floored.FlooredWarning")
def test_no_correction_is_dead_where_pairs_are_aligned(name: str, tmp_path: Path) -> None:
    """As in a pretrained model: every positive is far above the rest. There the floor of the paper stops learning."""
    model = small_model(tmp_path / "model")
    base = torch.randn(1, 32, dtype=torch.float64)
    first = base + torch.randn(64, 32, dtype=torch.float64)
    second = first + 0.4 * torch.randn(64, 32, dtype=torch.float64)
    texts = torch.arange(128).view(64, 2)

    def gradient(loss: RankingLoss) -> torch.Tensor:
        anchors = first.clone().requires_grad_()
        loss.compute_loss_from_embeddings([anchors, second], texts=texts).backward()
        assert anchors.grad is not None
        size: torch.Tensor = anchors.grad.norm()
        return size

    plain = gradient(RankingLoss(model, None))
    assert gradient(RankingLoss(model, name, samples=64)) > 0.02 * plain
    if name == "pucl":
        assert gradient(RankingLoss(model, name, floor="temperature")) < 0.001 * plain
