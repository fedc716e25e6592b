"""Runs on graphs: complete, repeatable to the last digit, the same after a stop, and of use afterwards."""

import json
import os
import signal
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import pucl
from pucl.cli import main
from pucl.config import NOT_TRAINED, row_names
from pucl.data.errors import DataError
from pucl.frameworks.infograph import SHARES, InfoGraph, InfoGraphConfig, Share
from pucl.frameworks.recipes import read_config, recipe
from pucl.functional import local_global_loss
from pucl.graphs.graphset import GraphSet
from pucl.graphs.registry import load_graphs
from pucl.graphs.sources.pyg import from_pyg
from pucl.graphs.task import GraphShape, GraphTask, embed_graphs, limited
from pucl.graphs.trained import TrainedGraphs
from pucl.runs.directory import RunDirectory
from pucl.runs.display import Display
from pucl.runs.run import make_training, run
from pucl.runs.tables import compare_corrections
from pucl.training.loop import Training

COUNT, BATCH = 44, 16  # Three steps an epoch, the last of twelve graphs.


def small(data: str = "shapes", **changes: Any) -> InfoGraphConfig:
    settings: dict[str, Any] = {"limit": COUNT, "epochs": 2, "batch_size": BATCH, "hidden": 8, "layers": 2}
    config = recipe("infograph", data, **(settings | {"probes": "knn", "monitor": 0} | changes))
    assert isinstance(config, InfoGraphConfig)
    return config


def losses(place: Path) -> list[float]:
    return [line["loss"] for line in RunDirectory(place).history()]


def embeddings(place: Path) -> NDArray[np.float32]:
    with np.load(place / "embeddings.npz") as kept:
        rows: NDArray[np.float32] = kept["train"]
    return rows


def test_what_evaluation_needs_is_asked_for_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.svm", None)
    with pytest.raises(DataError, match="the support vector machine needs scikit-learn, which is not installed"):
        run(small(probes="svm"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    run(small(probes="knn"), tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("correction", row_names())
def test_a_run_leaves_a_complete_record(tmp_path: Path, correction: str) -> None:
    config = small(correction=correction, probes="svm,knn", monitor=1)
    result = run(config, tmp_path / "run")
    directory = RunDirectory(tmp_path / "run")
    assert directory.config() == config
    assert directory.result() == result == run(config, tmp_path / "run")
    assert 0 <= result["svm"] <= 1
    assert 0 <= result["knn"] <= 1
    assert len(result["folds"]["svm"]) == len(result["folds"]["knn"]) == len(result["costs"]["svm"]) == 10
    assert result["svm"] == pytest.approx(np.mean(result["folds"]["svm"]))
    assert result["graphs"] == COUNT
    assert result["processor_seconds"] > 0
    columns = load_graphs("shapes").feature_count
    assert embeddings(tmp_path / "run").shape == (COUNT, columns if correction == "raw" else 16)
    trained = pucl.load(tmp_path / "run")
    assert isinstance(trained, TrainedGraphs)
    assert trained.features == embeddings(tmp_path / "run").shape[1]
    if correction in NOT_TRAINED:
        assert result["seconds"] == 0
        return
    assert np.isfinite(result["loss"])
    assert result["samples_per_second"] > 0
    history = directory.history()
    assert [line["step"] for line in history] == [3, 6]
    assert ["knn" in line for line in history] == [False, True]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_digits(tmp_path: Path) -> None:
    results = [run(small(probes="svm,svm_scaled,knn"), tmp_path / name) for name in ("one", "other")]
    for name in ("svm", "svm_scaled", "knn", "folds", "costs", "validation", "loss", "floored"):
        assert results[0][name] == results[1][name], name
    for file in ("encoder.safetensors", "embeddings.npz"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()
    run(small(seed=1), tmp_path / "another")
    assert losses(tmp_path / "another") != losses(tmp_path / "one")


def test_the_monitor_changes_nothing(tmp_path: Path) -> None:
    found = [run(small(monitor=times), tmp_path / str(times))["loss"] for times in (0, 2)]
    assert found[0] == found[1]


def first_step(config: InfoGraphConfig) -> tuple[Training[Any], InfoGraph, Any]:
    """A training before its first step, its framework, and the first batch of graphs."""
    task = GraphTask(config)
    framework = InfoGraph(config, task.shape)
    training = make_training(config, framework, task)
    framework.train()
    return training, framework, training._batch().samples


@pytest.mark.parametrize(
    ("correction", "settings"),
    [("plain", {}), ("deb", {"tau_plus": 0.5}), ("hard", {"tau_plus": 0.5, "beta": 1.0}), ("pucl", {})],
)
@pytest.mark.parametrize("compat", ["hcl", None])
def test_the_loss_of_a_step_is_that_of_the_function(
    correction: str, settings: dict[str, float], compat: str | None
) -> None:
    config = small(correction=correction, settings=settings, compat=compat, share="node")
    training, framework, graphs = first_step(config)
    with torch.no_grad():
        local, whole = framework.encoder(graphs)
        local, whole = framework.local_head(local), framework.whole_head(whole)
        expected = local_global_loss(local, whole, graphs.graph_of, config.make_correction(), compat=config.compat)
    before = next(framework.parameters()).clone()
    training, framework, _ = first_step(config)
    training.advance()
    assert training.tally.means()["loss"] == pytest.approx(float(expected), rel=1e-5)
    assert not torch.equal(next(framework.parameters()), before)


def test_the_published_loss_makes_a_difference(tmp_path: Path) -> None:
    for name, compat in (("published", "hcl"), ("meant", None)):
        run(small(correction="hard", settings={"tau_plus": 0.5, "beta": 1.0}, compat=compat), tmp_path / name)
    assert not np.allclose(losses(tmp_path / "published"), losses(tmp_path / "meant"), rtol=1e-2)


def test_infonce(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a temperature to divide them by, such as 0.5, got none"):
        small(objective="infonce")
    result = run(small(objective="infonce", temperature=0.5), tmp_path / "run")
    assert 0 < result["loss"] < 10
    assert -2 <= result["positive_similarity"] <= 2  # Cosines by 0.5.


@pytest.mark.slow
def test_who_shares_an_estimate(tmp_path: Path) -> None:
    """Without a floor that is reached, an estimate for all is the mean of estimates for some; with one it is not."""
    strong = {"alpha": 0.8, "c": 0.1}
    shares: dict[Share, list[float]] = {}
    for share in SHARES:
        run(small(correction="plain", share=share), tmp_path / f"plain-{share}")
        np.testing.assert_allclose(losses(tmp_path / f"plain-{share}"), losses(tmp_path / "plain-graph"), rtol=1e-4)
        result = run(small(correction="pucl", settings=strong, share=share), tmp_path / share)
        assert 0 < result["floored"] < 1
        shares[share] = losses(tmp_path / share)
    assert len({round(found[-1], 2) for found in shares.values()}) == 3


class StopError(Exception):
    """Stands for whatever ends a program."""


@dataclass
class Stopping(Display):
    """Ends the training after some step, as Ctrl-C does or as a fault does."""

    at: int = 0
    by_signal: bool = False

    def step(self, metrics: Mapping[str, Any]) -> None:
        """Stop here?"""
        if metrics["step"] == self.at:
            if not self.by_signal:
                raise StopError
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(("at", "by_signal"), [(1, True), (2, False), (3, True), (4, False)])
def test_stopped_and_resumed_is_uninterrupted(tmp_path: Path, at: int, by_signal: bool) -> None:
    """In the middle of an epoch, before its smaller last batch, and between epochs."""
    config = small(correction="hard", monitor=2)
    whole = run(config, tmp_path / "whole")
    stopping = Stopping(at=at, by_signal=by_signal)
    with pytest.raises(KeyboardInterrupt if by_signal else StopError):
        # After a fault there is what the last checkpoint had; here that is of every step.
        run(config, tmp_path / "stopped", checkpoint_seconds=1e9 if by_signal else 0.0, display=stopping)
    assert RunDirectory(tmp_path / "stopped").result() is None
    state = RunDirectory(tmp_path / "stopped").state()
    assert state is not None
    assert state["step"] == at + by_signal  # A signal is looked at when the next step is complete.
    resumed = run(config, tmp_path / "stopped")
    assert (tmp_path / "whole" / "encoder.safetensors").read_bytes() == (
        tmp_path / "stopped" / "encoder.safetensors"
    ).read_bytes()
    for name in ("knn", "folds", "loss", "floored"):
        assert whole[name] == resumed[name], name
    lines = [RunDirectory(tmp_path / name).history() for name in ("whole", "stopped")]
    for name in ("epoch", "step", "loss", "knn", "learning_rate"):
        assert [line[name] for line in lines[0]] == [line[name] for line in lines[1]], name


@pytest.mark.slow
def test_auto_on_graphs_is_resumed_bit_by_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With communities of any agreement, in an epoch that they correct."""
    for name, value in {"FEWEST": 20, "OPENS": -1.0, "SHUTS": -1.0}.items():
        monkeypatch.setattr(f"pucl.corrections.clusters.{name}", value)
    config = small(correction="auto", epochs=4)
    whole = run(config, tmp_path / "whole")
    assert whole["correction.removed"] > 0
    last = RunDirectory(tmp_path / "whole").history()[-1]["step"]
    with pytest.raises(StopError):
        run(config, tmp_path / "stopped", checkpoint_seconds=0.0, display=Stopping(at=last - 2))
    resumed = run(config, tmp_path / "stopped")
    same = [name for name in whole if name.startswith(("correction.", "calibration.", "loss", "knn", "folds"))]
    assert {name: whole[name] for name in same} == {name: resumed[name] for name in same}
    weights = [(tmp_path / name / "encoder.safetensors").read_bytes() for name in ("whole", "stopped")]
    assert weights[0] == weights[1]


def test_other_graphs_are_not_continued_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small()
    with pytest.raises(StopError):
        run(config, tmp_path / "run", checkpoint_seconds=0.0, display=Stopping(at=2))
    shapes = load_graphs("shapes")
    others = replace(shapes, edges=shapes.edges[::-1].copy())
    monkeypatch.setattr("pucl.graphs.task.load_graphs", lambda *_args, **_kwargs: others)
    with pytest.raises(ValueError, match="holds a run on other data: it has 44 samples, and now there are 44, or "):
        run(config, tmp_path / "run")


@pytest.mark.parametrize("change", ["labels", "kinds"])
def test_other_labels_or_features_are_other_graphs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    config = small(correction="untrained")
    first = run(config, tmp_path / "run")
    shapes = load_graphs("shapes")
    others = replace(shapes, **{change: getattr(shapes, change)[::-1].copy()})
    monkeypatch.setattr("pucl.graphs.task.load_graphs", lambda *_args, **_kwargs: others)
    with pytest.raises(ValueError, match="holds a run on other data"):
        run(config, tmp_path / "run")
    monkeypatch.undo()
    assert run(config, tmp_path / "run") == first


@pytest.mark.parametrize(("sizes", "possible"), [((20, 1), False), ((20, 2), False), ((20, 3), True), ((9, 9), False)])
def test_graphs_of_too_small_classes_are_trained_on_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int], possible: bool
) -> None:
    shapes = load_graphs("shapes")
    few = replace(shapes.subset(range(sum(sizes))), labels=np.repeat([0, 1], sizes), classes=("a", "b"))
    monkeypatch.setattr("pucl.graphs.task.load_graphs", lambda *_args, **_kwargs: few)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the smallest class")
        result = run(small(limit=None, correction="untrained", probes="svm,knn"), tmp_path / "run")
    assert ("svm" in result) == possible


def test_a_seed_that_is_too_large_for_folds() -> None:
    with pytest.raises(ValueError, match=r"expected below 2\^32 for graphs, got 4294967296"):
        small(seed=2**32)


def test_graphs_without_features_have_the_columns_of_the_run(tmp_path: Path) -> None:
    """Not those that they would have by themselves, whose degrees are counted or scaled by their own."""
    data = pytest.importorskip("torch_geometric.data", reason="the graphs extra is not installed")

    def star(leaves: int) -> Any:
        hub, others = torch.zeros(leaves, dtype=torch.int64), torch.arange(1, leaves + 1)
        edges = torch.stack([torch.cat([hub, others]), torch.cat([others, hub])])
        return data.Data(edge_index=edges, num_nodes=leaves + 1)

    run(small(correction="untrained", features="degree"), tmp_path / "run")
    trained = load_trained(tmp_path / "run")
    assert trained.columns is not None
    stars = [star(leaves) for leaves in (2, 3)]
    expected = trained.encode(from_pyg(stars, features=trained.columns))
    np.testing.assert_array_equal(trained.encode(stars), expected)


def test_fewer_graphs_than_a_batch(tmp_path: Path) -> None:
    result = run(small(batch_size=1000), tmp_path / "run")
    assert [line["step"] for line in RunDirectory(tmp_path / "run").history()] == [1, 2]
    assert np.isfinite(result["loss"])


def test_a_rest_of_one_graph_waits(tmp_path: Path) -> None:
    run(small(limit=2 * BATCH + 1, probes="knn"), tmp_path / "run")
    assert [line["step"] for line in RunDirectory(tmp_path / "run").history()] == [2, 4]


@pytest.mark.parametrize("correction", ["plain", "oracle"])
def test_one_graph_is_none_to_compare_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, correction: str) -> None:
    alone = load_graphs("shapes").subset([5])
    monkeypatch.setattr("pucl.graphs.task.load_graphs", lambda *_args, **_kwargs: alone)
    with pytest.raises(ValueError, match="expected at least 2 samples in the training data, got 1"):
        run(small(correction=correction), tmp_path / "run")
    with pytest.raises(ValueError, match="limit is the number of samples to use: expected at least 2, got 1"):
        limited(load_graphs("shapes"), 1)


def test_labels_too_few_for_folds_cost_no_training(tmp_path: Path) -> None:
    """Eight graphs of four classes: trained and kept, but there is no accuracy to be had."""
    result = run(small(limit=8), tmp_path / "run")
    assert "knn" not in result
    assert len(embeddings(tmp_path / "run")) == 8
    with pytest.raises(ValueError, match="expected labels of two classes or more, and 10 graphs of one class"):
        compare_corrections(small(limit=8), ["plain"], 1, tmp_path / "out")


def test_limit_takes_every_class_alike() -> None:
    labels = limited(load_graphs("shapes"), 20).labels
    assert labels is not None
    assert np.bincount(labels).tolist() == [5, 5, 5, 5]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs") / "pucl"
    run(small(probes="svm,knn"), place)
    return place


def load_trained(place: Path) -> TrainedGraphs:
    trained = pucl.load(place)
    assert isinstance(trained, TrainedGraphs)
    return trained


def test_encodes_as_the_run_did(finished: Path) -> None:
    trained = load_trained(finished)
    graphs = trained.data()
    assert len(graphs) == COUNT
    told: list[tuple[int, int]] = []
    np.testing.assert_array_equal(
        trained.encode(graphs, progress=lambda done, of: told.append((done, of))), embeddings(finished)
    )
    assert told == [(COUNT, COUNT)]
    assert trained.encode(graphs).dtype == np.float32
    assert not any(module.training for module in trained.module.modules())
    file = load_trained(finished / "encoder.safetensors")
    np.testing.assert_array_equal(file.encode(graphs), embeddings(finished))
    np.testing.assert_array_equal(trained.encoder(graphs.batch(range(COUNT)))[1].detach(), embeddings(finished))


def test_graphs_in_every_form(
    finished: Path, few_graphs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUCL_DATA", str(tmp_path))
    trained = load_trained(finished)
    shapes = load_graphs("shapes")
    rows = trained.encode("shapes")
    assert rows.shape == (400, trained.features)
    np.testing.assert_allclose(trained.encode(shapes), rows, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(trained.encode(shapes.subset([3, 70])), rows[[3, 70]], rtol=1e-4, atol=1e-4)
    # The directory has the first eleven of each shape. Its own degrees would be other columns: those of the run are
    # taken.
    assert load_graphs(few_graphs).feature_count != trained.inputs
    for form in (few_graphs, str(few_graphs)):
        np.testing.assert_allclose(trained.encode(form), rows[:COUNT], rtol=1e-4, atol=1e-4)


def test_graphs_of_torch_geometric(finished: Path) -> None:
    pytest.importorskip("torch_geometric", reason="the graphs extra is not installed")
    trained, shapes = load_trained(finished), load_graphs("shapes").subset(range(7))
    np.testing.assert_allclose(trained.encode(shapes.to_pyg()), trained.encode(shapes), rtol=1e-4, atol=1e-4)
    narrow = load_graphs("shapes", features="ones").subset(range(7))
    with pytest.raises(DataError, match="expected 27, got 1 in graphs"):
        trained.encode(narrow.to_pyg())


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        (load_graphs("shapes", features="ones"), "expected 27, got 1 in shapes"),
        ("shape", "no set of graphs 'shape'"),
        ("ENZYME", "Did you mean 'ENZYMES'?"),
        (Path("nowhere"), "there is no directory nowhere"),
        ([], "expected at least one graph, got none"),
    ],
)
def test_what_cannot_be_encoded(finished: Path, graphs: Any, message: str) -> None:
    with pytest.raises(DataError, match=message.replace("?", r"\?")):
        load_trained(finished).encode(graphs)


def test_large_graphs_are_embedded_a_few_at_a_time(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained, shapes = load_trained(finished), load_graphs("shapes").subset(range(30))
    rows = trained.encode(shapes)
    told: list[int] = []
    monkeypatch.setattr("pucl.graphs.task.NODES_AT_ONCE", 20)  # Some of the graphs alone have more.
    few = trained.encode(shapes, progress=lambda done, _: told.append(done))
    np.testing.assert_allclose(few, rows, rtol=1e-4, atol=1e-4)
    assert told[-1] == 30
    assert len(told) > 20


def test_eval_gives_what_the_run_has(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "eval.json"
    assert main(["eval", str(finished), "--json", str(out)]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0].split() == ["run", "data", "SVM,", "%", "kNN,", "%"]
    assert "result.json has" not in printed.err
    (record,) = json.loads(out.read_text())["runs"]
    result = RunDirectory(finished).result()
    assert result is not None
    assert record["accuracies"] == record["recorded"] == {name: result[name] for name in ("svm", "knn")}
    assert record["samples"] == COUNT
    assert main(["eval", str(finished), "--probe=knn", "--data=shapes", "--json", str(out)]) == 0
    (record,) = json.loads(out.read_text())["runs"]
    assert record["accuracies"].keys() == {"knn"}
    assert record["recorded"] == {}
    assert record["samples"] == 400
    capsys.readouterr()
    assert main(["eval", str(finished), "--probe=linear-reference"]) == 2
    assert "'linear-reference' is no probe: expected one of" in capsys.readouterr().err


def test_eval_needs_labels(
    finished: Path, few_graphs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unlabelled = tmp_path / "NONE"
    unlabelled.mkdir()
    for part in ("A", "graph_indicator"):
        (unlabelled / f"NONE_{part}.txt").write_text((few_graphs / f"FEW_{part}.txt").read_text())
    arguments = [str(finished), "--root", str(tmp_path / "root")]
    assert main(["eval", *arguments, "--data", str(unlabelled)]) == 2
    assert "expected graphs with labels, got NONE without; `pucl embed` needs none" in capsys.readouterr().err
    out = tmp_path / "rows.npz"
    assert main(["embed", *arguments, str(unlabelled), "-o", str(out)]) == 0
    with np.load(out) as written:
        assert written.files == ["embeddings"]
        assert written["embeddings"].shape == (COUNT, 16)


def test_embed(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rows.npz"
    assert main(["embed", str(finished), "shapes", "-o", str(out)]) == 0
    assert "graphs: 400; features of each: 16" in capsys.readouterr().out
    shapes = load_graphs("shapes")
    rows = load_trained(finished).encode(shapes)
    with np.load(out) as written:
        np.testing.assert_array_equal(written["embeddings"], rows)
        np.testing.assert_array_equal(written["labels"], shapes.labels)
        assert tuple(written["classes"].tolist()) == shapes.classes
    assert main(["embed", str(finished), "shapes", "-o", str(tmp_path / "rows.npy")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), rows)


@pytest.mark.slow
def test_commands(few_graphs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Train and compare on a directory of graphs, with the options for graphs."""
    root = ["--root", str(tmp_path / "root")]
    settings = ["--epochs=1", "--batch-size=20", "--hidden=8", "--layers=2", "--probes=knn", *root]
    arguments = ["--correction=pucl", "--alpha=0.2", "--share=node", "--features=ones", "--out", str(tmp_path / "run")]
    assert main(["train", "infograph", str(few_graphs), *settings, *arguments]) == 0
    assert "nearest neighbours  " in capsys.readouterr().out
    config = RunDirectory(tmp_path / "run").config()
    assert isinstance(config, InfoGraphConfig)
    assert (config.share, config.features, config.hidden) == ("node", "ones", 8)
    assert config.settings == {"alpha": 0.2}
    arguments = ["--corrections=raw,plain,pucl", "--seeds=1", "--workers=1", "--out", str(tmp_path / "out")]
    assert main(["compare", "infograph", str(few_graphs), *settings, *arguments]) == 0
    printed = capsys.readouterr().out
    assert "raw" in printed
    assert "kNN, %" in printed
    assert (tmp_path / "out" / "scores.png").exists()
    record = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert [line["name"] for line in record["lines"]] == ["raw", "plain", "pucl"]
    assert record["base"] == read_config(record["base"]).as_json()


def test_a_framework_has_its_own_kind_of_configuration() -> None:
    with pytest.raises(ValueError, match="a SimCLRConfig describes runs of simclr, got infograph"):
        replace(recipe("simclr", "digits"), framework="infograph")
    with pytest.raises(ValueError, match="a InfoGraphConfig describes runs of infograph, got simclr"):
        InfoGraphConfig(framework="simclr", data="digits")
    record = small().as_json()
    assert read_config(json.loads(json.dumps(record))) == small()
    with pytest.raises(ValueError, match="known fields only: got .crop. as well"):
        read_config(record | {"crop": 0.2})
    with pytest.raises(ValueError, match="'infogarph' is no framework.* Did you mean 'infograph'"):
        read_config(record | {"framework": "infogarph"})


def test_unlabelled_graphs_are_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = load_graphs("shapes")
    unlabelled: GraphSet = replace(shapes, labels=None, classes=())
    monkeypatch.setattr("pucl.graphs.task.load_graphs", lambda *_args, **_kwargs: unlabelled)
    result = run(small(monitor=1), tmp_path / "run")
    assert "knn" not in result
    with pytest.raises(ValueError, match="expected data with labels, got shapes"):
        run(small(correction="oracle"), tmp_path / "oracle")


def test_half_precision_is_refused() -> None:
    with pytest.raises(ValueError, match="too large for half precision: expected precision float32, got float16"):
        recipe("infograph", "shapes", precision="float16")


def test_features_that_are_not_finite_are_refused() -> None:
    framework = InfoGraph(small(), GraphShape(inputs=load_graphs("shapes").feature_count))
    with torch.no_grad():
        next(framework.encoder.parameters()).fill_(torch.nan)
    with pytest.raises(ValueError, match=r"got NaN or infinity for \d+ of \d+ graphs; .* the training diverged"):
        embed_graphs(framework, load_graphs("shapes"))
