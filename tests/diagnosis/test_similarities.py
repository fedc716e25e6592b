"""Similarities of finished runs, layouts of their embeddings, and the commands `pucl prior` and `pucl umap`."""

import argparse
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from pucl.commands import prior, umap
from pucl.data.errors import DataError
from pucl.diagnosis import layout2d, similarities
from pucl.diagnosis.layout2d import lay_out, lay_out_runs
from pucl.diagnosis.similarities import measure_similarities
from pucl.frameworks.cmc import CMC, CMCConfig
from pucl.frameworks.recipes import recipe
from pucl.frameworks.simclr import SimCLR
from pucl.graphs.trained import TrainedGraphs
from pucl.runs.run import run
from pucl.runs.trained import load
from small_runs import fitting, load_images

IMAGES = ("simclr", "moco", "cmc")
PNG = b"\x89PNG"


@pytest.fixture(scope="session")
def runs(pictures: Path, few_graphs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run of each framework; one more without labels, and one that was not trained."""
    places = tmp_path_factory.mktemp("runs")
    tiny: dict[str, Any] = {"epochs": 1, "batch_size": 12, "dim": 8}
    with np.load(pictures) as file:
        np.savez(places / "unlabelled.npz", images=file["images"])
    configs = {
        **{name: recipe(name, str(pictures), **tiny, **fitting(name, queue_size=24, draws=24)) for name in IMAGES},
        "infograph": recipe("infograph", str(few_graphs), epochs=1, batch_size=16, hidden=8, probes="knn"),
        "unlabelled": recipe("simclr", str(places / "unlabelled.npz"), **tiny),
        "untrained": recipe("simclr", str(pictures), correction="untrained", **tiny),
    }
    for name, config in configs.items():
        run(config, places / name)
    return {name: places / name for name in configs}


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two features for a layout: umap-learn takes half a minute to be compiled."""

    monkeypatch.setattr(layout2d, "lay_out", lambda embeddings: np.ascontiguousarray(embeddings[:, :2]))
    monkeypatch.setitem(sys.modules, "umap", ModuleType("umap"))


def call(command: ModuleType, arguments: list[str]) -> int:
    """As the command line calls it."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    parsed = parser.parse_args(arguments)
    parsed.command_line = "pucl ..."
    code: int = command.run(parsed)
    return code


@pytest.mark.slow
@pytest.mark.parametrize("framework", IMAGES)
def test_images(runs: dict[str, Path], framework: str) -> None:
    found = measure_similarities(runs[framework])
    count = found.anchors
    assert found.positive is not None
    assert found.same_class is not None
    assert found.other_class is not None
    assert count == len(found.positive) == len(load_images(runs[framework]).data().pretrain)
    assert len(found.unlabelled) == count * (count - 1) == len(found.same_class) + len(found.other_class)
    # The kinds together are the whole, and the truth is the share of the first.
    assert np.sort(np.concatenate([found.same_class, found.other_class])).tolist() == np.sort(found.unlabelled).tolist()
    assert found.truth == pytest.approx(len(found.same_class) / len(found.unlabelled))
    assert found.tau_plus == pytest.approx(found.config.make_correction().tau_plus)
    assert found.best_bin is not None
    assert found.known == ("lightness and colour of one image" if framework == "cmc" else "two views of one image")
    assert np.abs(found.unlabelled).max() <= 1 + 1e-5
    assert json.loads(json.dumps(found.as_json()))["estimates"].keys() == {"bbe", "mixture"}


def test_views_of_one_image_are_closer(runs: dict[str, Path]) -> None:
    found = measure_similarities(runs["simclr"])
    assert found.positive is not None
    assert found.positive.mean() > found.unlabelled.mean()


def test_what_is_compared(runs: dict[str, Path]) -> None:
    """After the head: two views of an image in SimCLR, lightness and colour of one view in CMC; against loops."""
    for name in ("simclr", "cmc"):
        trained = load_images(runs[name])
        images = torch.from_numpy(trained.data().pretrain.pixels)
        generator = torch.Generator().manual_seed(5)
        torch.randperm(len(images), generator=generator)  # Which samples; here all of them, in their order.
        module = trained.module
        with torch.no_grad():
            if isinstance(module, CMC):
                parts = module.views(images, generator)
                rows = [module.heads[i](module.encoders[i](parts[i])) for i in range(2)]
            else:
                assert isinstance(module, SimCLR)
                rows = [module.head(module.encoder(module.views(images, generator))) for _ in range(2)]
        found = measure_similarities(runs[name], seed=5)
        assert found.positive is not None
        np.testing.assert_allclose(found.positive, torch.cosine_similarity(*rows).numpy(), atol=1e-5)
        others = [
            float(torch.cosine_similarity(first, second, dim=0))
            for i, first in enumerate(rows[0])
            for j, second in enumerate(rows[1])
            if i != j
        ]
        np.testing.assert_allclose(found.unlabelled, others, atol=1e-5)


def test_graphs_have_no_views(runs: dict[str, Path]) -> None:
    found = measure_similarities(runs["infograph"])
    assert found.positive is None
    assert found.best_bin is None
    assert found.anchors == 44
    assert len(found.unlabelled) == 44 * 43 // 2
    assert found.truth == pytest.approx(4 * (11 * 10 / 2) / (44 * 43 / 2))
    assert found.as_json()["estimates"].keys() == {"mixture"}
    trained = load(runs["infograph"])
    assert isinstance(trained, TrainedGraphs)
    rows = trained.encode(trained.data())
    assert found.unlabelled[0] == pytest.approx(rows[0] @ rows[1] / np.linalg.norm(rows[0]) / np.linalg.norm(rows[1]))


def test_without_labels_and_without_training(runs: dict[str, Path]) -> None:
    found = measure_similarities(runs["unlabelled"])
    assert found.same_class is found.other_class is None
    assert found.truth is None
    assert found.best_bin is not None
    assert measure_similarities(runs["untrained"]).tau_plus is None


def test_samples_and_pairs_are_drawn_by_the_seed(runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarities, "PAIRS", 100)
    one, again, other = (measure_similarities(runs["simclr"], anchors=25, seed=seed) for seed in (0, 0, 1))
    assert one.anchors == 25
    assert len(one.unlabelled) == 100
    assert one.as_json() == again.as_json() != other.as_json()


def test_pairs_met_in_a_step() -> None:
    tiny = recipe("simclr", "digits", batch_size=64, view_count=3)
    assert tiny.pairs_met(1000) == (2, 3 * 63)
    assert tiny.pairs_met(20) == (2, 3 * 19)
    assert recipe("moco", "digits", queue_size=512).pairs_met(1000) == (1, 512)
    cmc = recipe("cmc", "digits", draws=256)
    assert isinstance(cmc, CMCConfig)
    assert cmc.pairs_met(1000) == (1, 256)
    assert replace(cmc, draws=4096).pairs_met(1000) == (1, 999)
    assert recipe("infograph", "shapes", batch_size=128).pairs_met(400) == (1, 127)


def test_similarities_refused(runs: dict[str, Path], tmp_path: Path, pictures: Path) -> None:
    with pytest.raises(ValueError, match="anchors is the number of samples to compare: expected at least 20, got 3"):
        measure_similarities(runs["simclr"], anchors=3)
    with pytest.raises(ValueError, match="is not a run of pucl"):
        measure_similarities(tmp_path)
    run(recipe("simclr", str(pictures), correction="untrained", dim=8, limit=10), tmp_path / "small")
    with pytest.raises(ValueError, match="expected at least 20, got 10"):
        measure_similarities(tmp_path / "small")


@pytest.mark.usefixtures("flat")
def test_layouts_show_the_same_samples(runs: dict[str, Path]) -> None:
    said: list[str] = []
    images, again, graphs = lay_out_runs(
        [runs["unlabelled"], runs["unlabelled"], runs["infograph"]], points=16, report=said.append
    )
    assert images.indices.tolist() == again.indices.tolist()
    assert images.part == "training images"
    assert images.labels is None
    assert graphs.part == "graphs"
    assert graphs.labels is not None
    assert np.bincount(graphs.labels).tolist() == [4] * 4
    assert "knn" in graphs.result
    trained = load_images(runs["unlabelled"])
    rows = trained.encode(trained.data().train)
    np.testing.assert_allclose(images.points, rows[images.indices, :2], atol=1e-5)
    assert len(said) == 6


@pytest.mark.usefixtures("flat")
def test_layouts_refused(runs: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="points is the number of samples in a layout: expected at least 16"):
        lay_out_runs([runs["simclr"]], points=10)
    # Twelve of the sixty pictures are the test set.
    with pytest.raises(ValueError, match="expected 16 or more, got 12"):
        lay_out_runs([runs["simclr"]])


def test_embeddings_that_have_no_layout() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    for wrong, message in (
        (rows[:10], r"at least 16 embeddings .* got \[10, 3\]"),
        (rows[:, :1], r"2 features or more.* got \[40, 1\]"),
        (np.where(rows > 1, np.float32(np.nan), rows), "expected finite numbers, got NaN"),
        (np.ones_like(rows), "got the same for all"),
    ):
        with pytest.raises(ValueError, match=message):
            lay_out(wrong)


def test_umap_missing(runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(DataError, match=r"umap-learn, which is not installed: pip install '\.\[umap\]'"):
        lay_out(np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32))
    with pytest.raises(DataError, match="umap-learn"):
        call(umap, [str(runs["simclr"])])


@pytest.mark.slow
def test_umap_itself() -> None:
    """The same embeddings have the same layout, copies among them do no harm, and groups stay together."""
    random = np.random.default_rng(0)
    labels = np.arange(90) % 3
    rows = (4 * np.eye(8)[labels] + 0.3 * random.normal(size=(90, 8))).astype(np.float32)
    rows[60:] = rows[:30]
    one, again = lay_out(rows), lay_out(rows)
    np.testing.assert_array_equal(one, again)
    assert one.shape == (90, 2)
    assert one.dtype == np.float32
    distances = np.linalg.norm(one[:, None] - one, axis=2) + 1e9 * np.eye(90)
    assert (labels[distances.argmin(1)] == labels).all()
    lay_out(rows[:16])


def test_prior_command(runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("simclr", "infograph", "untrained")
    file = tmp_path / "prior.json"
    assert call(prior, [*(str(runs[name]) for name in names), "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert lines[0].split("  ")[0] == "run"
    assert all(str(runs[name]) in printed for name in names)
    record = json.loads(file.read_text())
    assert record["command"] == "pucl ..."
    simclr, graphs, untrained = record["runs"]
    assert f"{simclr['estimates']['bbe']['tau_plus']:.4f}" in lines[2]
    assert f"{simclr['truth']:.4f}" in lines[2]
    assert f"{simclr['estimates']['mixture']['alpha']:.4f}, {simclr['estimates']['mixture']['c']:.4f}" in lines[2]
    assert "bbe" not in graphs["estimates"]
    assert untrained["tau_plus"] is None
    words = " ".join(lines)
    for said in (
        "bbe compares known positives (two views of one image) with pairs of different samples",
        "bbe is too low",
        "bbe is too high",
        "The estimates are not bounds: compare them with the truth, which labels give.",
    ):
        assert said in words
    assert simclr["pairs"]["positive"] == simclr["anchors"]
    assert f"{simclr['pairs']['positive']:,}  " in lines[2]
    assert f"{simclr['pairs']['unlabelled']:,}  " in lines[2]
    assert ("?" in "".join(lines[2:5])) == ("A question mark means" in " ".join(lines))


@pytest.mark.parametrize(("error", "said"), [(0.3, "It is above that in"), (0.05, ""), (None, "")])
def test_prior_has_the_r_of_the_run(
    runs: dict[str, Path], error: float | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, file = tmp_path / "run", tmp_path / "prior.json"
    shutil.copytree(runs["simclr"], place)
    result = json.loads((place / "result.json").read_text())
    result |= {"correction.removed": 0.2, "correction.tau_plus": 0.125}
    result |= {} if error is None else {"calibration.error": error}
    (place / "result.json").write_text(json.dumps(result))
    assert call(prior, [str(place), str(runs["cmc"]), "--json", str(file)]) == 0
    with_r, without = json.loads(file.read_text())["runs"]
    assert with_r["estimates"]["r"]["tau_plus"] == 0.125
    assert with_r["estimates"]["r"]["calibration_error"] == error
    assert "r" not in without["estimates"]
    lines = capsys.readouterr().out.splitlines()
    assert re.split("  +", lines[0])[4:7] == ["mean r", "ECE", "truth"]
    assert "0.1250" in lines[2]
    assert ("0.3000" in lines[2]) == (error == 0.3)
    assert lines[2].rstrip().endswith("{alpha:.4f}, {c:.4f}".format(**with_r["estimates"]["r"]))
    words = " ".join(lines)
    assert "mean r is tau' as the run's own correction sees it" in words
    assert ("It is above that in" in words) == bool(said)


def test_the_mean_of_r_is_what_a_correction_reports() -> None:
    assert (
        similarities._mean_r({"correction.removed": 0.1, "correction.hidden": 0.2, "correction.tau_plus": 0.3}) == 0.2
    )
    assert similarities._mean_r({"correction.threshold": 0.1, "correction.tau_plus": 0.3}) is None
    assert similarities._mean_r({"correction.removed": 0.1, "correction.tau_plus": "x"}) is None


def test_prior_refuses(runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="in an existing directory"):
        call(prior, [str(runs["simclr"]), "--json", str(tmp_path / "nowhere" / "x.json")])
    with pytest.raises(ValueError, match="anchors is the number"):
        call(prior, [str(runs["simclr"]), "--anchors=2"])


@pytest.mark.slow
@pytest.mark.usefixtures("flat")
def test_umap_command(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [str(runs["unlabelled"]), str(runs["infograph"])]
    out = tmp_path / "new" / "picture.png"
    pictures = [out, *(out.with_name(f"picture-similarities-{number}.png") for number in (1, 2))]
    assert call(umap, [*places, "--points=20", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert all(picture.read_bytes().startswith(PNG) for picture in pictures)
    assert sorted(path.name for path in out.parent.iterdir()) == sorted(
        [*(picture.name for picture in pictures), "picture.npz"]
    )
    header = printed.splitlines()[0].split()
    assert header[:9] == ["run", "tau'", "used", "bbe", "mixture", "truth", "known", "positives", "pairs"]
    assert all(str(picture) in printed for picture in pictures)
    with np.load(out.with_suffix(".npz")) as file:
        assert set(file.files) == {"runs", "1_points", "1_indices", "2_points", "2_indices", "2_labels", "2_classes"}
        assert file["runs"].tolist() == places
        assert file["2_points"].shape == (20, 2)
        assert len(file["2_labels"]) == 20

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert call(umap, [*places, "--out", str(out), "--no-similarities"]) == 0
    printed = capsys.readouterr().out
    assert "figures:      not drawn: figures are drawn with matplotlib" in printed
    assert "mixture" not in printed
    assert not out.exists()


def test_umap_refuses(runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a name that ends in .png, got"):
        call(umap, [str(runs["simclr"]), "--out", str(tmp_path / "x.jpg")])
    assert list(tmp_path.iterdir()) == []
