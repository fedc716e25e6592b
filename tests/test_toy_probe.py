"""A new probe is one entry of the table: it is trained with, resumed, compared and reported by the public commands."""

import json
import os
import signal
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from pucl.cli import main
from pucl.evaluation import PROBES
from pucl.evaluation.probe import LEADING, Measured, Number, Probe, ProbedSamples
from pucl.runs.directory import RunDirectory
from small_runs import save_pictures

pytestmark = pytest.mark.filterwarnings("ignore:.*smallest class")


def measure_spread(samples: ProbedSamples, *, scale: float = 1.0) -> Measured:
    """How far samples lie from the mean of their class, and how unlike the lengths of their embeddings are."""
    features, labels = samples.tested
    within = [features[labels == label].std(axis=0).mean() for label in np.unique(labels)]
    lengths = np.linalg.norm(features, axis=1)
    return Measured(
        numbers={
            LEADING: float(scale * np.mean(within) / features.std(axis=0).mean()),
            "lengths": float(lengths.std() / lengths.mean()),
        },
        details={"classes": len(within)},
    )


TOY = Probe(
    about="spread of the classes",
    numbers={
        LEADING: Number(name="spread of the classes", short="spread", higher_is_better=False),
        "lengths": Number(name="spread of the lengths", short="lengths"),
    },
    measure=measure_spread,
    settings={"scale": 0.5},
    monitored=True,
)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line."""
    monkeypatch.setitem(PROBES, "spread", TOY)


def arguments(framework: str, folder: Path) -> list[str]:
    if framework == "simclr":
        data = save_pictures(folder / "pictures.npz", 60, 8)
        return ["simclr", str(data), "--epochs=2", "--batch-size=12", "--dim=8", "--probes=knn,spread"]
    settings = ["--limit=44", "--epochs=2", "--batch-size=22", "--hidden=8", "--layers=2", "--probes=knn,spread"]
    return ["infograph", "shapes", *settings]


@pytest.mark.parametrize("framework", [pytest.param("simclr", marks=pytest.mark.slow), "infograph"])
def test_trained_and_resumed(
    toy: None, framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", *arguments(framework, tmp_path)]
    assert main([*command, "--out", str(tmp_path / "whole")]) == 0
    assert "spread of the classes" in capsys.readouterr().out
    with monkeypatch.context() as context:
        context.setattr("pucl.runs.display.Display.step", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        assert main([*command, "--out", str(tmp_path / "stopped")]) == 143
    assert main([*command, "--out", str(tmp_path / "stopped"), "--resume"]) == 0
    whole, stopped = (RunDirectory(tmp_path / name) for name in ("whole", "stopped"))
    one, other = whole.result(), stopped.result()
    assert one is not None
    assert other is not None
    for name in ("spread", "spread_lengths", "knn", "classes"):
        assert one[name] == other[name]
    assert 0 < one["spread"] < 0.6  # Half of it, by its setting.
    assert one["classes"]["spread"] > 1
    assert [line["spread"] for line in whole.history()] == [line["spread"] for line in stopped.history()]
    assert main(["eval", str(tmp_path / "whole"), "--json", str(tmp_path / "eval.json")]) == 0
    (record,) = json.loads((tmp_path / "eval.json").read_text())["runs"]
    assert record["accuracies"] == record["recorded"]
    assert record["recorded"].keys() == {"knn", "spread", "spread_lengths"}


@pytest.mark.slow
def test_compared_and_reported(toy: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, command = tmp_path / "compared", arguments("infograph", tmp_path)
    options = ["--corrections=plain,deb", "--seeds=2", "--workers=1", "--out", str(out), "--yardstick=spread"]
    assert main(["compare", *command, *options]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split()[:6] == ["row", "tau'", "spread,", "%", "to", "plain"]
    assert any(line.startswith("lengths ") for line in printed)
    record = json.loads((out / "comparison.json").read_text())
    assert record["yardstick"] == "spread"
    assert [set(row["scores"]) for row in record["lines"]] == [{"knn", "spread", "spread_lengths"}] * 2
    assert record["lines"][1]["differences"].keys() == {"knn", "spread", "spread_lengths"}
    assert "spread_lengths_difference" in (out / "comparison.csv").read_text().splitlines()[0]
    page = unescape(next(out.glob("*.html")).read_text())
    for words in ("spread, %", "lengths, %", "points of spread"):
        assert words in page
    assert main(["runs", str(out)]) == 0
    assert "knn " in capsys.readouterr().out
    assert main(["report", str(out), "--out", str(tmp_path / "again.html")]) == 0
    assert "points of spread" in unescape((tmp_path / "again.html").read_text())


@pytest.mark.slow
def test_fewer_is_better_for_some_numbers(toy: None, tmp_path: Path) -> None:
    """The page names the row with the least spread as best."""
    out, command = tmp_path / "compared", arguments("simclr", tmp_path)
    options = ["--corrections=untrained,plain", "--seeds=1", "--out", str(out), "--yardstick=spread"]
    assert main(["compare", *command, *options]) == 0
    rows = json.loads((out / "comparison.json").read_text())["lines"]
    best = min(rows, key=lambda row: row["scores"]["spread"]["mean"])["name"]
    assert f"By the spread of the classes, {best} is best" in unescape(next(out.glob("*.html")).read_text())


def test_a_run_by_default_measures_it_and_without_it_the_record_is_read(
    toy: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [word for word in arguments("simclr", tmp_path) if not word.startswith("--probes")]
    assert main(["train", *command, "--out", str(tmp_path / "run")]) == 0
    result = RunDirectory(tmp_path / "run").result()
    assert result is not None
    assert {"spread", "retrieval", "linear", "fewshot_1"} <= result.keys()
    monkeypatch.delitem(PROBES, "spread")
    assert main(["runs", str(tmp_path)]) == 0
    assert "retrieval " in capsys.readouterr().out


def test_what_is_refused(toy: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = arguments("simclr", tmp_path)
    for name in ("spraed", "svm"):  # Support vector machines are for graphs.
        assert main(["compare", *command, f"--yardstick={name}", "--out", str(tmp_path / "x")]) == 2
        assert f"{name!r} is no yardstick: expected one of knn, spread, spread_lengths" in capsys.readouterr().err
    assert main(["train", *command[:-1], "--probes=svm", "--out", str(tmp_path / "x")]) == 2
    assert "'svm' is no probe: expected one of" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
