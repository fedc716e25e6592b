"""Corrections that learn, shown by two that are in no table: clusters of samples, and histograms of similarities.

Each is one file of the tests, `toy_clusters` and `toy_histograms`, and one line in the table of corrections.
"""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from examples import related_views
from image_trainings import FRAMEWORKS, IMAGES, learn_in, make_image_training, resume_bit_by_bit
from pucl import ContrastiveLoss, NTXentLoss, processes
from pucl.adapters import TwoTowerLoss
from pucl.cli import main as pucl_command
from pucl.config import RunConfig
from pucl.contrast.loss import ObjectiveName
from pucl.contrast.pairing import pair_local_global
from pucl.contrast.pairs import Pairs
from pucl.corrections import CORRECTIONS, Correction, CorrectionState, GloFND, Hard, Ratio, Reading, StateReport
from pucl.frameworks import build_framework
from pucl.frameworks.cmc import CMC
from pucl.frameworks.recipes import read_config, recipe
from pucl.functional import corrected_loss, pair_up, pair_views
from pucl.graphs.task import GraphTask
from pucl.runs.directory import RunDirectory
from pucl.runs.run import make_training
from small_runs import save_pictures, small_run
from toy_clusters import Clusters, ClusterState
from toy_histograms import Histograms
from worlds import results_together

TOYS: dict[str, type[Correction]] = {"clusters": Clusters, "histograms": Histograms}
LEARNING = [Clusters(), Clusters(form="hard", keep=0.5), Clusters(attract=True), Histograms(), Histograms(bins=5)]
learning = pytest.mark.parametrize("correction", LEARNING, ids=str)
both_toys = pytest.mark.parametrize(
    "correction", [Clusters(attract=True), Histograms()], ids=["clusters", "histograms"]
)
both_ways = pytest.mark.parametrize("streaming", [False, True], ids=["dense", "streaming"])
pytestmark = pytest.mark.usefixtures("small_tiles")

SAMPLES = 20


def make_pairs(seed: int) -> Pairs:
    """Seven of the samples as anchors, thirteen as unlabelled samples, in three groups that are far from each other."""
    torch.manual_seed(seed)
    samples = torch.randperm(SAMPLES)
    centres = 6 * torch.eye(3, 5, dtype=torch.float64)[samples % 3]
    query, positive = (view + centres[:7] for view in related_views(7, 5))
    unlabelled = torch.randn(13, 5, dtype=torch.float64) + centres[7:]
    return pair_up(query, positive, unlabelled, query_ids=samples[:7], unlabelled_ids=samples[7:])


@torch.no_grad()
def moved_state(correction: Correction, epochs: int = 2) -> CorrectionState:
    """A state after some epochs of four steps."""
    state = correction.start(SAMPLES)
    assert state is not None
    for epoch in range(epochs):
        for step in range(4):
            pairs = make_pairs(4 * epoch + step)
            state.commit(pairs.query_samples, state.see(pairs))
        state.end_epoch()
    return state


@learning
@pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])
def test_a_reading_is_a_correction(correction: Correction, objective: ObjectiveName) -> None:
    """Its weights sum to one and differ, and dense and streaming agree."""
    pairs = make_pairs(7)
    reading = moved_state(correction).read(pairs)
    log_weights, count = reading.normalised_log_weights(pairs.comparison())
    torch.testing.assert_close(log_weights.exp().sum(dim=1)[count > 0], torch.ones(int((count > 0).sum())).double())
    assert log_weights[0].unique().numel() > 1
    outcomes = [
        corrected_loss(pairs, reading, objective=objective, streaming=streaming, floor=0.1)
        for streaming in (False, True)
    ]
    torch.testing.assert_close(outcomes[0].loss, outcomes[1].loss)
    odds = torch.as_tensor(reading.odds)
    torch.testing.assert_close(torch.as_tensor(outcomes[0].tau_plus), (odds / (1 + odds)).mean())


def test_clusters_are_found_when_an_epoch_ends() -> None:
    """Before that, the correction is plain; afterwards samples of one group are in one cluster."""
    state, pairs = moved_state(Clusters(), epochs=0), make_pairs(0)
    assert isinstance(state, ClusterState)
    state.commit(pairs.query_samples, state.see(pairs))
    assert pairs.query_samples is not None
    torch.testing.assert_close(state.embeddings[pairs.query_samples], pairs.embeddings())
    plain = corrected_loss(pairs, NTXentLoss().correction).loss
    torch.testing.assert_close(corrected_loss(pairs, state.read(pairs)).loss, plain)
    moved = moved_state(Clusters())
    assert isinstance(moved, ClusterState)
    known = (moved.cluster >= 0).nonzero()[:, 0]
    assert len(known) > 10
    clusters_of = [set(moved.cluster[known[known % 3 == group]].tolist()) for group in range(3)]
    assert sorted(clusters_of, key=min) == [{0}, {1}, {2}]
    assert (corrected_loss(pairs, moved.read(pairs)).loss != plain).any()


def test_histograms_count_every_pair_once() -> None:
    pairs = make_pairs(3)
    seen = moved_state(Histograms()).see(pairs)
    comparison = pairs.comparison()
    assert torch.equal(seen[:, :8].sum(dim=1), torch.ones(7).double())
    assert torch.equal(seen[:, 8:].sum(dim=1), comparison.count)
    # Similarities of the first anchor, put into bins one by one.
    expected = [0] * 8
    for similarity in (comparison.unlabelled[0] * comparison.temperature).tolist():
        expected[min(int((similarity + 1) * 4), 7)] += 1
    assert seen[0, 8:].tolist() == expected


def test_what_a_state_sees_does_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    state, pairs = moved_state(Histograms()), make_pairs(7)
    in_blocks = state.see(pairs)
    assert len(pairs.blocks()) > 2
    monkeypatch.setattr("pucl.contrast.pairs.BLOCK", 1 << 20)
    assert len(pairs.blocks()) == 1
    assert torch.equal(state.see(pairs), in_blocks)


# In the loss, for anybody's loop.


@pytest.mark.parametrize("correction", [GloFND(dropped=0.1, wait=0), Ratio(), Histograms()], ids=str)
def test_it_learns_in_full_precision_under_autocast(correction: Correction) -> None:
    states = []
    for enabled in (False, True):
        loss, ids = ContrastiveLoss(correction, samples=150), torch.arange(150)
        for step in range(3):
            torch.manual_seed(step)
            views = [view.float() for view in related_views(150, 32)]
            with torch.autocast("cpu", dtype=torch.float16, enabled=enabled):
                loss(*views, ids=ids)
        assert loss.learnt is not None
        states.append(loss.learnt.state_dict())
    for name, value in states[0].items():
        assert value.equal(states[1][name]), name


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32])
def test_ids_may_be_small_integers(dtype: torch.dtype) -> None:
    values = []
    for ids in (torch.arange(8), torch.arange(8, dtype=dtype)):
        loss = ContrastiveLoss(GloFND(dropped=0.1, wait=0), samples=SAMPLES)
        values.append([loss(*some_views(step)[0], ids=ids).item() for step in range(3)])
    assert values[0] == values[1]


def some_views(seed: int) -> tuple[list[Tensor], Tensor]:
    torch.manual_seed(seed)
    return [view.float().requires_grad_() for view in related_views(8, 6)], torch.randperm(SAMPLES)[:8]


def make_loss(correction: Correction, **options: Any) -> ContrastiveLoss:
    return ContrastiveLoss(correction, samples=SAMPLES, **options)


@both_toys
@pytest.mark.parametrize("bank", [0, 16])
@both_ways
def test_a_loss_keeps_what_it_learnt(correction: Correction, bank: int, streaming: bool) -> None:
    """The state moves after the comparison, in training alone, and is part of `state_dict`."""
    loss = make_loss(correction, memory_bank_size=bank, streaming=streaming)
    fresh = {name: value.clone() for name, value in loss.state_dict().items() if name.startswith("learnt")}
    assert len(fresh) == 2
    for seed in range(4):
        views, ids = some_views(seed)
        if seed == 1 and not bank:
            pairs = pair_views(views, ids=ids)
            assert loss.learnt is not None
            expected = corrected_loss(pairs, loss.learnt.read(pairs)).loss.mean()
            torch.testing.assert_close(loss(*views, ids=ids), expected)
        else:
            loss(*views, ids=ids).backward()
            assert views[0].grad is not None
            assert views[0].grad.isfinite().all()
        loss.end_epoch()
    saved = {name: value.clone() for name, value in loss.state_dict().items()}
    assert all(saved[name].shape != value.shape or (saved[name] != value).any() for name, value in fresh.items())
    views, ids = some_views(9)
    with torch.no_grad():
        quiet = loss(*views, ids=ids)
    assert torch.equal(loss.eval()(*views, ids=ids), quiet)
    assert all(torch.equal(value, saved[name]) for name, value in loss.state_dict().items())
    again = make_loss(correction, memory_bank_size=bank, streaming=streaming)
    again.load_state_dict(saved)
    loss.train()
    assert torch.equal(again(*views, ids=ids), loss(*views, ids=ids))
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in loss.state_dict().items())
    again.load_state_dict({name: fresh.get(name, value) for name, value in saved.items()})
    assert all(torch.equal(again.state_dict()[name], value) for name, value in fresh.items())


@both_toys
def test_the_gradient_is_that_before_the_state_moved(correction: Correction) -> None:
    """`forward` moves the state, and streaming computes the weights once more in `backward`."""
    gradients = []
    for streaming in (False, True):
        loss = make_loss(correction, streaming=streaming)
        for seed in range(3):
            views, ids = some_views(seed)
            loss(*views, ids=ids).backward()
            loss.end_epoch()
        gradients.append([view.grad for view in views])
    torch.testing.assert_close(gradients[0], gradients[1])


def test_a_loss_reports_when_an_epoch_ends() -> None:
    loss = make_loss(Clusters())
    for seed in range(3):
        views, ids = some_views(seed)
        loss(*views, ids=ids)
        assert loss.last is not None
        assert loss.last.report is None
    report = loss.end_epoch()
    assert report is not None
    assert report == loss.last.report  # type: ignore[union-attr]
    assert set(report.numbers) == {"clustered", "largest"}
    assert 0 < report.numbers["largest"] < report.numbers["clustered"] <= 1
    assert report.sentence.startswith("3 clusters hold ")
    loss(*views, ids=ids)
    assert loss.last.report == report  # type: ignore[union-attr]
    assert NTXentLoss().end_epoch() is None
    assert CorrectionState().report() == StateReport()


def test_missing_settings_and_ids_are_refused(registered: None) -> None:
    with pytest.raises(ValueError, match="expected their number, got none; pass samples="):
        ContrastiveLoss(Clusters())
    views, _ = some_views(0)
    with pytest.raises(ValueError, match="this correction remembers samples: expected their ids, got none; pass ids="):
        make_loss(Clusters())(*views)
    with pytest.raises(ValueError, match="remembers samples"):
        TwoTowerLoss(make_loss(Clusters()))(*views)  # Its ids are positions in the batch.
    with pytest.raises(ValueError, match="Clusters learns: expected the correction that its state returns"):
        corrected_loss(make_pairs(0), Clusters())
    assert NTXentLoss().state_dict() == {}
    with pytest.raises(ValueError, match="'form' should be a text, got 3"):
        recipe("simclr", "none", correction="clusters", settings={"form": 3})


def test_positions_in_a_batch_are_not_samples() -> None:
    local, whole, graph_of = torch.randn(6, 4), torch.randn(3, 4), torch.tensor([0, 0, 1, 1, 2, 2])
    for temperature in (None, 0.5):
        assert pair_local_global(local, whole, graph_of, temperature=temperature).query_samples is None
    assert pair_views([local, local]).query_samples is None


def test_unknown_keys_have_no_cluster() -> None:
    """A queue may hold keys whose sample is not known, with the id -1."""
    state, pairs = moved_state(Clusters(form="hard")), make_pairs(7)
    unknown = replace(pairs, key_samples=torch.full((13,), -1))
    plain = corrected_loss(pairs, NTXentLoss().correction).loss
    reading = state.read(unknown)
    assert isinstance(reading, Reading)
    reading = replace(reading, odds=0.0)
    torch.testing.assert_close(corrected_loss(unknown, reading).loss, plain)


# Trained by the loop, with every framework.


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the corrections into the table: one line each."""
    for name, kind in TOYS.items():
        monkeypatch.setitem(CORRECTIONS, name, kind)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_image_frameworks_name_their_samples(framework: str) -> None:
    """Which sample each anchor and each unlabelled one is; what leaves out pairs is another thing."""
    training = make_image_training(framework, correction="plain")
    training.advance()
    batch = training._batch()
    for pairs in training.framework.pairs(batch):
        queries, keys = pairs.sample_ids()
        assert torch.equal(queries, batch.ids.repeat(len(pairs.query) // len(batch.ids)))
        assert keys.shape == (pairs.shape[1],)
        assert ((keys >= 0) & (keys < IMAGES)).all()
        if framework == "simclr":
            assert torch.equal(keys, queries)
            assert pairs.period == len(batch.ids)  # Excluded by position: faster.
        if framework == "cmc":
            assert isinstance(training.framework, CMC)
            entries = [bank.entries[keys] for bank in (training.framework.colour_bank, training.framework.light_bank)]
            assert any(torch.allclose(pairs.key, each) for each in entries)


def test_graphs_name_their_samples() -> None:
    config = small_run("plain")
    task = GraphTask(config)
    training = make_training(config, build_framework(config, task.shape), task)
    batch = training._batch()
    (pairs,) = training.framework.pairs(batch)
    queries, keys = pairs.sample_ids()
    assert torch.equal(keys, batch.ids)
    assert torch.equal(queries, batch.ids[batch.samples.graph_of])


@pytest.mark.slow
@pytest.mark.parametrize("correction", TOYS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_training_is_resumed_bit_by_bit(registered: None, framework: str, correction: str, tmp_path: Path) -> None:
    state = resume_bit_by_bit(lambda: make_image_training(framework, correction=correction, epochs=4), tmp_path)
    assert all(value.unique().numel() >= 3 for value in state["correction"].values())


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["simclr", "infograph"])
def test_the_command_trains_resumes_and_reports(
    registered: None, framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings of every type reach the run, a resumed run ends as an uninterrupted one, and the report is recorded."""
    if framework == "simclr":
        data = str(save_pictures(tmp_path / "pictures.npz", 60, 8))
        options = ["--batch-size=12", "--dim=8"]
    else:
        data, options = "shapes", ["--limit=44", "--batch-size=22", "--hidden=8", "--layers=2", "--probes=knn"]
    command = ["train", framework, data, "--epochs=2", *options, "--correction=clusters"]
    command += ["--hidden-share=0.3", "--form=hard", "--attract", "--clusters=4", "--keep=0.5"]
    assert pucl_command([*command, "--out", str(tmp_path / "whole")]) == 0
    with monkeypatch.context() as context:
        context.setattr("pucl.runs.display.Display.step", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        assert pucl_command([*command, "--out", str(tmp_path / "stopped")]) == 143
    assert pucl_command([*command, "--out", str(tmp_path / "stopped"), "--resume"]) == 0
    whole, stopped = (RunDirectory(tmp_path / name) for name in ("whole", "stopped"))
    config: RunConfig = whole.config()
    assert config.settings == {"hidden_share": 0.3, "form": "hard", "attract": True, "clusters": 4, "keep": 0.5}
    assert config.make_correction() == Clusters(hidden_share=0.3, form="hard", attract=True, clusters=4, keep=0.5)
    assert stopped.config() == config
    assert config.as_json() == read_config(json.loads(json.dumps(config.as_json()))).as_json()
    weights = [(each.path / "encoder.safetensors").read_bytes() for each in (whole, stopped)]
    assert weights[0] == weights[1]
    names = ("loss", "tau_plus", "correction.clustered", "correction.largest")
    assert [[line[name] for name in names] for line in whole.history()] == [
        [line[name] for name in names] for line in stopped.history()
    ]
    result = whole.result()
    assert result is not None
    assert {name: result[name] for name in names[2:]} == {name: whole.history()[-1][name] for name in names[2:]}
    assert result["correction.report"].startswith("4 clusters hold ")


def test_settings_of_corrections_in_the_table(tmp_path: Path) -> None:
    """Ring's `rescale`, a boolean, is an option as well."""
    data = save_pictures(tmp_path / "pictures.npz", 40, 8)
    command = ["train", "simclr", str(data), "--epochs=1", "--batch-size=12", "--dim=8", "--correction=ring"]
    assert pucl_command([*command, "--upper=0.5", "--rescale", "--out", str(tmp_path / "run")]) == 0
    assert RunDirectory(tmp_path / "run").config().settings == {"upper": 0.5, "rescale": True}
    with pytest.raises(ValueError, match="'rescale' should be true or false, got 0.5"):
        recipe("simclr", "none", correction="ring", settings={"rescale": 0.5})
    with pytest.raises(ValueError, match="'beta' should be a number, got 'much'"):
        recipe("simclr", "none", correction="oracle", settings={"beta": "much"})
    assert recipe("simclr", "none", correction="oracle", settings={"beta": 1}).make_correction() == Hard(
        tau_plus=0.0, beta=1.0
    )


# In several processes.


def train_together() -> dict[str, Any]:
    """First steps of each framework, and of the loss for anybody's loop."""
    toy: dict[str, Any] = {"correction": "clusters", "settings": {"attract": True}}
    return {framework: learn_in(framework, **toy) for framework in FRAMEWORKS} | {"loss": lose_together()}


def register_and_train() -> dict[str, Any]:
    """The same in a process of its own, which has no fixtures."""
    register(pytest.MonkeyPatch())
    return train_together()


def lose_together() -> dict[str, Any]:
    """The loss for anybody's loop, each process with its part of the batch."""
    loss, losses = make_loss(Clusters(attract=True), gather_distributed=True), []
    for seed in range(4):
        views, ids = some_views(seed)
        rows = slice(0, 5) if processes.rank() == 0 else slice(5, 8)
        rows = rows if processes.world_size() > 1 else slice(0, 8)
        losses.append(loss(*(view.double()[rows] for view in views), ids=ids[rows]).item())
        loss.end_epoch()
    assert loss.learnt is not None
    assert loss.last is not None
    state = {name: value.flatten().tolist() for name, value in loss.learnt.state_dict().items()}
    return {"losses": losses, "state": state, "tau_plus": float(loss.last.tau_plus)}


@pytest.mark.slow
def test_two_processes_learn_as_one(registered: None) -> None:
    reports = results_together(__file__, "register_and_train", 2)
    one = train_together()
    for name, alone in one.items():
        assert reports[0][name]["state"] == reports[1][name]["state"]  # Bit by bit.
        assert reports[0][name]["tau_plus"] == reports[1][name]["tau_plus"]
        assert reports[0][name]["losses"] == pytest.approx(alone["losses"], rel=1e-6)
        assert reports[0][name]["tau_plus"] == pytest.approx(alone["tau_plus"], rel=1e-6)
        assert alone["tau_plus"] > 0
        for part, values in alone["state"].items():
            assert reports[0][name]["state"][part] == pytest.approx(values, rel=1e-6, abs=1e-9)
            assert len(set(values)) > 2
