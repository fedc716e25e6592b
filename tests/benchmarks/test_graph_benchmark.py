"""The benchmark of graphs: that it measures what it says."""

import importlib.util
import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import graph
from benchmarks import svm as svm_benchmark
from benchmarks.__main__ import main
from benchmarks.graph import CORRECTION_SETTINGS, GraphSettings
from benchmarks.graph_steps import as_usual, in_epochs, make_steps, run_network
from benchmarks.steps import repeat_loss, watch
from benchmarks.svm import SVMProtocol, measure_svm
from benchmarks.timing import FEWEST, MOST, Timings
from pucl.corrections import CORRECTIONS
from pucl.evaluation import SVMResult
from pucl.frameworks.infograph import InfoGraph, InfoGraphConfig
from pucl.graphs.folding import fold
from pucl.graphs.graphset import GraphBatch, GraphSet
from pucl.graphs.task import GraphTask
from pucl.runs.run import make_training
from pucl.training.loop import Training

needs_sklearn = pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="scikit-learn is not installed")

CONTENDERS = {"training", "whole_batch", "network", "loss"}
if importlib.util.find_spec("torch_geometric") is not None:
    CONTENDERS.add("torch_geometric")
QUICKLY = ["--data=shapes", "--limit=16", "--seconds=0.02", "--threads=1", "--folds=2", "--inner-folds=2"]


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands time each contender twice."""
    monkeypatch.setattr("benchmarks.timing.FEWEST", 2)


def run_bench(tmp_path: Path, *options: str) -> dict[str, Any]:
    """The record of `python -m benchmarks graph` with these options."""
    out = tmp_path / "figures.json"
    assert main(["graph", *QUICKLY, "--out", str(out), *options]) == 0
    record: dict[str, Any] = json.loads(out.read_text())
    return record


def small_training(correction: str = "pucl", **changes: Any) -> tuple[Training[GraphBatch], InfoGraph, GraphSet]:
    """A training on a few graphs, the same network once more, and the graphs."""
    settings = {"limit": 16, "batch_size": 8, "epochs": MOST, "learning_rate": 1e-3} | changes
    config = InfoGraphConfig(
        framework="infograph",
        data="shapes",
        correction=correction,
        settings=CORRECTION_SETTINGS[correction],
        **settings,
    )
    task = GraphTask(config)
    trained, other = (InfoGraph(config, task.shape).train() for _ in range(2))
    return make_training(config, trained, task), other, task.graphs


@pytest.mark.slow
@needs_sklearn
def test_both_tables_are_printed_and_all_figures_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = run_bench(tmp_path, "--scale", "--batch-size=8")
    assert [(row["data"], row["correction"]) for row in record["training"]] == [("shapes", "plain"), ("shapes", "pucl")]
    for row in record["training"]:
        assert (row["graphs"], row["batch"], row["steps_per_epoch"]) == (16, 8, 2)
        assert set(row["contenders"]) == CONTENDERS
        assert {"training/network", "loss/network"} <= set(row["ratios"])
        for figures in row["contenders"].values():
            assert 0 < figures["milliseconds"]["lower_quartile"] <= figures["milliseconds"]["upper_quartile"]
    assert [(row["name"], row["graphs"], row["dim"], row["scaled"], row["equal"]) for row in record["svm"]] == [
        ("shapes", 16, 96, False, True),
        ("shapes", 16, 96, True, True),
    ]
    assert record["aims"] == {"training/network": 1.3, "sklearn/ours": 2.5}
    printed = capsys.readouterr()
    training, evaluation, _ = printed.out.split("\n\n")
    assert [line.split()[:2] for line in training.splitlines()[2:]] == [["shapes", "plain"], ["shapes", "pucl"]]
    assert "(aim: <= 1.3)" in training
    assert [line.split()[-1] for line in evaluation.splitlines()[2:]] == ["yes", "yes"]
    assert "(aim: >= 2.5)" in evaluation
    assert "1 of 2: training on shapes with plain" in printed.err
    assert "evaluation of shapes, scaled: ours, round 1 of 1" in printed.err


@pytest.mark.slow
def test_training_alone(tmp_path: Path) -> None:
    record = run_bench(tmp_path, "--no-svm", f"--corrections={','.join(CORRECTIONS)}")
    assert [row["correction"] for row in record["training"]] == list(CORRECTIONS)
    assert record["svm"] == []
    row = record["training"][0]
    turns = [row["contenders"][name]["nanoseconds_by_round"] for name in ("training", "network")]
    if row["unit"] == "epoch":  # Of one step each.
        by_epoch = [one / two for one, two in zip(*turns, strict=True)]
        assert row["ratios"]["training/network"]["median"] == pytest.approx(statistics.median(by_epoch))


@needs_sklearn
def test_another_accuracy_fails_the_benchmark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    another = SVMResult(accuracies=(0.0, 0.0), costs=(1.0, 1.0), validation=())
    monkeypatch.setattr(svm_benchmark, "svm_on_splits", lambda *_, **__: another)
    assert main(["graph", *QUICKLY, "--no-training"]) == 1
    printed = capsys.readouterr()
    assert "must give the same accuracy and choose the same C on every fold, but do not: shapes" in printed.err
    assert "NO" in printed.out


@needs_sklearn
@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_evaluations_take_turns_and_agree(jobs: int) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    embedded = rng.standard_normal((40, 6)) + labels[:, None], labels
    reported: list[str] = []
    protocol = SVMProtocol(folds=2, inner_folds=2, jobs=jobs)
    (row,) = measure_svm({"small": embedded}, protocol, 2, reported.append)
    assert (row.name, row.graphs, row.dim, row.classes, row.equal) == ("small", 40, 6, 2, True)
    assert len(row.accuracies) == 2
    assert {name: len(times) for name, times in row.seconds.items()} == {"sklearn": 2, "sklearn jobs": 2, "ours": 2}
    assert row.ratios["sklearn"] == pytest.approx(np.median(np.divide(row.seconds["sklearn"], row.seconds["ours"])))
    assert len(reported) == 6


def test_contenders_have_the_graphs_of_the_training() -> None:
    training, framework, graphs = small_training()
    steps = make_steps(training, framework, graphs)
    assert set(steps) == CONTENDERS
    given: list[GraphBatch] = []
    framework.encoder.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    trained: list[GraphBatch] = []
    training.framework.encoder.register_forward_pre_hook(lambda _, inputs: trained.append(inputs[0]))
    for _ in range(3):
        for step in steps.values():
            step()
    assert [batch.graphs for batch in trained] == [8, 8, 8]
    assert len(trained[0].x) != len(trained[1].x)  # No batch is like another.
    for batch, other in zip(trained, given, strict=True):
        torch.testing.assert_close(batch.x, other.x)


def test_bare_networks_get_graphs_that_are_not_folded() -> None:
    training, framework, graphs = small_training()
    training.data = fold(graphs, 3)
    steps = make_steps(training, framework, graphs)
    assert set(steps) == CONTENDERS | {"folded_network"}
    given: list[GraphBatch] = []
    framework.encoder.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    for step in steps.values():
        step()
    whole, folded = given
    assert len(whole.x) > len(folded.x)
    assert whole.copies is None
    assert folded.copies is not None


def test_training_is_not_moved_by_the_others() -> None:
    """The other contenders have weights of their own, which stay."""
    (training, framework, graphs), (alone, _, _) = small_training(), small_training()
    before = [parameter.detach().clone() for parameter in framework.parameters()]
    steps = make_steps(training, framework, graphs)
    for _ in range(3):
        for step in steps.values():
            step()
        alone.advance()
    for one, two in zip(training.framework.parameters(), alone.framework.parameters(), strict=True):
        assert torch.equal(one, two)
    assert all(torch.equal(now, old) for now, old in zip(framework.parameters(), before, strict=True))


def test_bare_network_is_that_of_torch_geometric() -> None:
    """Forward and backward of encoder and heads; gradients are not summed up from step to step."""
    pytest.importorskip("torch_geometric", reason="the graphs extra is not installed")
    _, framework, graphs = small_training()
    batch = graphs.batch(range(16))
    batch = replace(batch, x=batch.x.double())
    ours, usual = framework.double(), as_usual(framework)
    for _ in range(2):
        run_network(ours, batch)
    run_network(usual, batch)
    for own, other in zip(ours.parameters(), usual.parameters(), strict=True):
        assert own.grad is not None
        torch.testing.assert_close(other.grad, own.grad)


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_repeated_loss_is_that_of_the_training(correction: str) -> None:
    """Its gradients, sent through the heads and the encoder, are those of a first step."""
    training, framework, _ = small_training(correction, batch_size=16, learning_rate=1e-30)
    seen = watch(training)
    training.advance()
    training.learnt = training.correction.start(len(training.data))  # As before the first step.
    (leaves,) = repeat_loss(seen.comparisons, training)
    (pairs,) = framework.pairs(seen.batch)
    outputs = [(pairs.query, leaves.query), (pairs.key, leaves.key), (pairs.positive, leaves.positive)]
    used = [(output, leaf.grad) for output, leaf in outputs if leaf.grad is not None]
    torch.autograd.backward([output for output, _ in used], [gradient for _, gradient in used])
    for own, of_training in zip(framework.parameters(), training.framework.parameters(), strict=True):
        assert of_training.grad is not None
        torch.testing.assert_close(own.grad, of_training.grad, rtol=1e-3, atol=1e-5)


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


def test_there_are_steps_for_all_rounds() -> None:
    config = graph._config("shapes", GraphSettings(data=("shapes",)))
    assert config.epochs >= MOST + 2  # Two to get warm; an epoch has a step at least.
