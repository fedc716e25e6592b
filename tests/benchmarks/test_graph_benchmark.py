"""The benchmark of graphs: that it measures what it says. How fast anything is, no test says."""

import importlib.util
import json
import statistics
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from benchmarks import graph
from benchmarks import svm as svm_benchmark
from benchmarks.__main__ import main
from benchmarks.graph import CORRECTION_SETTINGS, Settings
from benchmarks.graph_steps import BareLoss, BareNetwork, Watched, as_usual, in_epochs, make_steps
from benchmarks.timing import FEWEST, MOST, Timings
from pucl.contrast.pairs import Pairs
from pucl.corrections import CORRECTIONS
from pucl.evaluation import SVMResult
from pucl.frameworks.infograph import InfoGraph, InfoGraphConfig, build
from pucl.graphs.folding import fold
from pucl.graphs.graphset import GraphBatch, GraphSet
from pucl.graphs.registry import load_graphs
from pucl.graphs.task import GraphTask
from pucl.runs.run import make_training
from pucl.training.framework import Batch
from pucl.training.loop import Training

needs_sklearn = pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="scikit-learn is not installed")

CONTENDERS = {"training", "network", "gin", "batch", "loss", "optimiser"}
if importlib.util.find_spec("torch_geometric") is not None:
    CONTENDERS.add("torch_geometric")
    with warnings.catch_warnings(action="ignore"):  # What it says when it is imported is not ours to mend.
        importlib.import_module("torch_geometric.nn")
QUICKLY = ["--data=shapes", "--limit=16", "--seconds=0.02", "--threads=1", "--folds=2", "--inner-folds=2"]


def run_bench(tmp_path: Path, *options: str) -> dict[str, Any]:
    """What `python -m benchmarks graph` writes with these options."""
    out = tmp_path / "figures.json"
    assert main(["graph", *QUICKLY, "--out", str(out), *options]) == 0
    record: dict[str, Any] = json.loads(out.read_text())
    return record


def small_training(correction: str = "pucl", **changes: Any) -> tuple[Training[GraphBatch], InfoGraph]:
    """A training on a few graphs, and the same network once more."""
    settings = {"limit": 16, "batch_size": 8, "epochs": MOST, "learning_rate": 1e-3} | changes
    config = InfoGraphConfig(
        framework="infograph",
        data="shapes",
        correction=correction,
        settings=CORRECTION_SETTINGS[correction],
        **settings,
    )
    task = GraphTask(config)
    frameworks = [build(config, task.shape) for _ in range(2)]
    return make_training(config, frameworks[0].train(), task), frameworks[1]


# The command


@needs_sklearn
def test_both_tables_are_printed_and_all_figures_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = run_bench(tmp_path, "--scale", "--batch-size=8")
    assert [(row["data"], row["correction"]) for row in record["training"]] == [("shapes", "plain"), ("shapes", "pucl")]
    for row in record["training"]:
        assert (row["graphs"], row["batch"], row["steps_per_epoch"]) == (16, 8, 2)
        assert set(row["contenders"]) == CONTENDERS
        assert {"training/network", "training/gin", "network/gin"} <= set(row["ratios"])
        for figures in row["contenders"].values():
            assert 0 < figures["milliseconds"]["lower_quartile"] <= figures["milliseconds"]["upper_quartile"]
    assert [(row["name"], row["graphs"], row["scaled"], row["equal"]) for row in record["svm"]] == [
        ("shapes", 16, False, True),
        ("shapes", 16, True, True),
    ]
    assert (record["made_up"], record["notes"]) == ([], [])
    assert record["aims"] == {"training/network": 1.3, "sklearn/ours": 2.5}
    printed = capsys.readouterr()
    training, its_words, evaluation, words = printed.out.split("\n\n")
    assert training.splitlines()[0].split()[:2] == ["training", "correction"]
    assert [line.split()[:2] for line in training.splitlines()[3:]] == [["shapes", "plain"], ["shapes", "pucl"]]
    assert "(aim: <= 1.3)" in training
    assert "times as long as GIN alone." in " ".join(its_words.split())
    assert len(evaluation.splitlines()) == 3 + 2
    assert "(aim: >= 2.5)" in evaluation
    assert "equal in 2 of 2." in words
    assert max(map(len, [*training.splitlines(), *evaluation.splitlines()])) <= 110
    assert "1 of 2: training on shapes with plain" in printed.err
    assert "evaluation of shapes, scaled: ours, round 1 of 1" in printed.err


@needs_sklearn
def test_record_says_how_it_was_made(tmp_path: Path) -> None:
    record = run_bench(tmp_path, "--corrections=plain", "--root", str(tmp_path))
    words = record["command"].split()
    assert words[:4] == ["python", "-m", "benchmarks", "graph"]
    assert {"--data=shapes", "--limit=16", "--corrections=plain", "--batch-size=128", "--no-scale"} <= set(words)
    assert record["settings"]["root"] == str(tmp_path)
    assert record["versions"]["torch"] == torch.__version__
    assert record["machine"]["threads"] == 1
    again = run_bench(tmp_path, *[word for word in words[4:] if not word.startswith("--out")])
    assert again["settings"] == record["settings"]


def test_training_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = run_bench(tmp_path, "--no-svm", "--corrections=plain,deb,hard,ring,pucl")
    assert [row["correction"] for row in record["training"]] == list(CORRECTIONS)
    assert record["svm"] == []
    assert len(capsys.readouterr().out.split("\n\n")) == 2
    row = record["training"][0]
    turns = [row["contenders"][name]["nanoseconds_by_round"] for name in ("training", "network")]
    if row["unit"] == "epoch":  # Of one step each.
        by_epoch = [one / two for one, two in zip(*turns, strict=True)]
        assert row["ratios"]["training/network"]["median"] == pytest.approx(statistics.median(by_epoch))


@needs_sklearn
def test_embeddings_of_sets_that_are_not_there_are_made_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--data=shapes,ptc", "--root", str(tmp_path), "--corrections=plain"]
    record = run_bench(tmp_path, *options)
    assert [row["data"] for row in record["training"]] == ["shapes"]
    assert [(row["name"], row["graphs"], row["classes"]) for row in record["svm"]] == [
        ("shapes", 16, 4),
        ("ptc", 16, 2),
    ]
    assert record["made_up"] == ["ptc"]
    (note,) = record["notes"]
    assert note.startswith("Not trained on: ptc, not found")
    printed = capsys.readouterr()
    assert "continuing without a data set: PTC_MR is not in" in printed.err
    lines = printed.out.split("\n\n")[2].splitlines()[3:]
    assert ["made up" in line for line in lines] == [False, True]
    record = run_bench(tmp_path, *options, "--no-training")
    assert (record["training"], record["notes"], len(record["svm"])) == ([], [], 2)
    record = run_bench(tmp_path, *options, "--no-svm")
    assert ([row["data"] for row in record["training"]], record["svm"], record["made_up"]) == (["shapes"], [], [])
    assert record["notes"] == [note]


@needs_sklearn
def test_embeddings_are_those_of_the_untrained_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {}

    def measured(settings: Any, embeddings: Any, progress: Any) -> Any:
        given.update(embeddings)
        return []

    monkeypatch.setattr(graph, "measure_svm", measured)
    settings = Settings(data=("shapes",), limit=16, threads=1, training=False, folds=2)
    assert graph.measure_graphs(settings, lambda _: None).svm == []
    features, labels = given["shapes"]
    assert features.shape == (16, 96)
    assert np.bincount(labels).tolist() == [4, 4, 4, 4]


@needs_sklearn
def test_another_accuracy_fails_the_benchmark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    another = SVMResult(accuracies=(0.0, 0.0), costs=(1.0, 1.0), validation=())
    monkeypatch.setattr(svm_benchmark, "cross_validated_svm", lambda *_, **__: another)
    assert main(["graph", *QUICKLY, "--no-training"]) == 1
    printed = capsys.readouterr()
    assert "must give the same accuracy and choose the same C on every fold, but do not: shapes" in printed.err
    assert "NO" in printed.out


@needs_sklearn
def test_set_too_small_for_the_folds_is_not_evaluated(tmp_path: Path) -> None:
    record = run_bench(tmp_path, "--no-training", "--folds=5")  # There are four graphs of each shape.
    assert record["svm"] == []
    assert record["notes"] == [
        "Not evaluated: shapes, without labels of two classes, 5 graphs in one of them and three in another."
    ]


def test_without_scikit_learn_nothing_is_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "sklearn" else find(name))
    record = run_bench(tmp_path, "--no-training")
    assert record["svm"] == []
    assert record["notes"] == ["Not evaluated: scikit-learn is not installed: pip install scikit-learn."]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", ""], "sets of graphs are what is measured: expected different names, got none$"),
        (["--data", "shape", "--no-svm"], "no set of graphs 'shape'. "),
        (["--data", "shape"], "no set of graphs 'shape'. "),
        (["--data", "DD", "--no-svm", "--root", "/no/such/directory"], "DD is not in /no/such/directory"),
        (["--corrections", "plain,plain"], "corrections are what is measured: .* got plain, plain$"),
        (["--corrections", "hcl"], "'hcl' is no correction: expected one of plain, deb, hard, ring, pucl"),
        (["--no-training", "--no-svm"], "expected one of them or both, got neither$"),
        (["--limit", "1"], "limit is how many graphs of a set are used: expected at least 2, got 1$"),
        (["--batch-size", "1"], "batch_size is the number of graphs in a step: expected at least 2, got 1$"),
        (["--threads", "0"], "threads is how many cores torch may use: expected at least 1, got 0$"),
        (["--seconds", "0"], "seconds is about how long a correction is timed on a set: .* got 0.0$"),
        (["--folds", "1"], "folds is in how many parts the graphs are held back: expected at least 2, got 1$"),
        (["--rounds", "0"], "rounds is how often each contender is timed: expected at least 1, got 0$"),
        (["--out", "/no/such/directory/figures.json"], "out is the file for the figures: .* got /no/such/directory"),
    ],
)
def test_wrong_options_are_refused(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("benchmarks graph: ")
    with pytest.raises(ValueError, match=message):
        raise ValueError(line)


# What is measured


def test_contenders_have_the_batch_of_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    training, framework = small_training()
    of_training, given = [], []
    bare = BareNetwork(framework)
    pairs, run = training.framework.pairs, bare.run

    def watch_training(batch: Batch[GraphBatch]) -> list[Pairs]:
        of_training.append(batch.samples)
        return pairs(batch)

    def watch_network(graphs: GraphBatch) -> None:
        given.append(graphs)
        run(graphs)

    monkeypatch.setattr(training.framework, "pairs", watch_training)
    monkeypatch.setattr(bare, "run", watch_network)
    steps = make_steps(training, bare, training.data)
    assert set(steps) == CONTENDERS
    for _ in range(3):
        for step in steps.values():
            step()
    assert [batch.graphs for batch in of_training] == [8, 8, 8]
    assert len(of_training[0].x) != len(of_training[1].x)  # No batch is like another.
    for batch, other in zip(of_training, given, strict=True):
        assert batch.x is other.x
    again = steps["batch"]()
    assert isinstance(again, GraphBatch)
    assert again.x is not given[2].x
    torch.testing.assert_close(again.x, given[2].x)


def test_bare_networks_have_graphs_as_they_are_where_a_training_has_them_folded() -> None:
    training, framework = small_training()
    graphs = training.data
    assert isinstance(graphs, GraphSet)
    training.data = fold(graphs, 3)
    bare = BareNetwork(framework)
    steps = make_steps(training, bare, graphs)
    assert set(steps) == CONTENDERS | {"whole_batch", "folded_network"}
    nodes = {}
    for name, step in steps.items():
        step()
        nodes[name] = len(bare.projected[0]) if hasattr(bare, "projected") else 0
    watched = training.data
    assert isinstance(watched, Watched)
    assert nodes["network"] == len(watched.whole.x) > len(watched.batch_made.x) == nodes["folded_network"]
    assert watched.whole.copies is None


def test_training_is_not_moved_by_the_others() -> None:
    """The other contenders have weights of their own, which stay."""
    (training, framework), (alone, _) = small_training(), small_training()
    bare = BareNetwork(framework)
    before = [parameter.detach().clone() for parameter in framework.parameters()]
    steps = make_steps(training, bare, training.data)
    for _ in range(3):
        for step in steps.values():
            step()
        alone.advance()
    for one, two in zip(training.module.parameters(), alone.module.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0)
    for parameter, old in zip(framework.parameters(), before, strict=True):
        assert parameter.grad is not None  # So the optimiser had something to do.
        torch.testing.assert_close(parameter.detach(), old, rtol=0, atol=1e-10)


def test_bare_network_is_forward_and_backward_of_encoder_and_heads() -> None:
    _, framework = small_training()
    bare = BareNetwork(framework)
    graphs = load_graphs("shapes").batch(range(0, 400, 50))
    bare.run(graphs)
    first = [parameter.grad for parameter in framework.parameters()]
    assert all(gradient is not None for gradient in first)
    bare.run(graphs)
    for parameter, gradient in zip(framework.parameters(), first, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)  # Not summed up from step to step.
    framework.zero_grad()
    bare.run_encoder(graphs)
    assert all(parameter.grad is not None for parameter in framework.encoder.parameters())
    heads = [*framework.local_head.parameters(), *framework.whole_head.parameters()]
    assert all(parameter.grad is None for parameter in heads)


def test_network_of_torch_geometric_is_the_same_network() -> None:
    pytest.importorskip("torch_geometric", reason="the graphs extra is not installed")
    _, framework = small_training()
    ours, usual = BareNetwork(framework.double()), BareNetwork(as_usual(framework))
    graphs = load_graphs("shapes").batch(range(0, 400, 50))
    graphs = replace(graphs, x=graphs.x.double())
    for network in (ours, usual):
        network.run(graphs)
    torch.testing.assert_close(usual.projected, ours.projected)
    for own, other in zip(framework.parameters(), usual.framework.parameters(), strict=True):
        torch.testing.assert_close(other.grad, own.grad)


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_bare_loss_is_that_of_the_training(correction: str) -> None:
    """Its gradients, sent through the heads and the encoder, are those of a first step."""
    training, framework = small_training(correction, batch_size=16, learning_rate=1e-30)
    bare = BareNetwork(framework)
    data = training.data = Watched(training.data, training.data)
    training.advance()
    bare.run(data.batch_made)
    loss = BareLoss(bare, training)
    for _ in range(2):  # The second does not add to the first.
        loss.run(data.batch_made)
    local, whole = loss.given.vectors
    framework.zero_grad()
    nodes, graphs = framework.encoder(data.batch_made)
    torch.autograd.backward(
        [framework.local_head(nodes), framework.whole_head(graphs)], [_gradient(local), _gradient(whole)]
    )
    for own, of_training in zip(framework.parameters(), training.module.parameters(), strict=True):
        assert of_training.grad is not None
        torch.testing.assert_close(own.grad, of_training.grad, rtol=1e-3, atol=1e-5)


def _gradient(tensor: torch.Tensor) -> torch.Tensor:
    assert tensor.grad is not None
    return tensor.grad


def test_steps_are_summed_up_to_epochs_where_there_are_enough() -> None:
    steps = Timings({"a": [1, 2, 3, 4, 5, 6, 7], "b": [10] * 7})
    epochs, unit = in_epochs(steps, 2)
    assert (epochs.nanoseconds, unit) == ({"a": [3, 7, 11], "b": [20] * 3}, "epoch")
    assert in_epochs(steps, 3) == (steps, "step")  # Two epochs are fewer than three.
    absent = Timings({"a": [1] * 6, "b": [10, None, 10, 10, 10, 10]})
    assert in_epochs(absent, 2) == (absent, "step")
    assert FEWEST == 3


def test_every_correction_has_its_settings() -> None:
    assert list(CORRECTION_SETTINGS) == list(CORRECTIONS)
    for name, settings in CORRECTION_SETTINGS.items():
        CORRECTIONS[name](**settings)


def test_steps_go_on_for_as_long_as_rounds_can() -> None:
    config = graph._config("shapes", Settings(data=("shapes",)))
    assert config.epochs >= MOST + 2  # Two to get warm; an epoch has a step at least.
