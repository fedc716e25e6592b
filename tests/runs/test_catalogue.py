"""Which runs there are: found, filtered, and never touched."""

import json
from pathlib import Path

import pytest

from pucl.cli import main
from pucl.corrections import CORRECTIONS
from pucl.files import write_json
from pucl.frameworks.recipes import recipe
from pucl.runs.catalogue import find_runs


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A finished run, one that was begun, one that waits, and three that cannot be read."""
    for seed, (name, correction) in enumerate((("a", "plain"), ("b", "pucl"), ("c", "pucl"))):
        config = recipe("simclr", "digits", correction=correction, seed=seed)
        (tmp_path / name).mkdir()
        write_json(tmp_path / name / "config.json", config.as_json())
    write_json(tmp_path / "a" / "result.json", {"linear": 0.875, "knn": 0.5, "seconds": 75.0})
    (tmp_path / "b" / "metrics.jsonl").write_text("{}\n")
    (tmp_path / "deep" / "d").mkdir(parents=True)
    (tmp_path / "deep" / "d" / "config.json").write_text("not json")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "config.json").write_text('{"framework": "simclr", "data": "digits", "hue": 3}')
    (tmp_path / "f").mkdir()
    write_json(tmp_path / "f" / "config.json", recipe("simclr", "digits").as_json())
    write_json(tmp_path / "f" / "result.json", {"retrieval": "high", "seconds": 75.0})
    return tmp_path


def test_states(top: Path) -> None:
    found = {str(each.path.relative_to(top)): each for each in find_runs(top)}
    states = {name: each.state for name, each in found.items()}
    assert states == {
        "a": "finished",
        "b": "begun",
        "c": "waiting",
        "deep/d": "damaged",
        "e": "damaged",
        "f": "damaged",
    }
    assert found["a"].score == ("linear", 0.875)
    assert "hue" in found["e"].problem
    assert "'retrieval' should be a number" in found["f"].problem


def test_the_command(top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(top)]) == 0
    printed = capsys.readouterr().out
    assert "linear 87.50%" in printed
    assert "1 min 15 s" in printed
    assert "6 of 6 runs" in printed
    assert main(["runs", str(top), "--where", "correction=pucl", "--where", "seed=1"]) == 0
    assert "1 of 6 runs" in capsys.readouterr().out
    assert main(["runs", str(top), "--where", "learning-rate=1e-3", "--json", str(top / "list.json")]) == 0
    assert "3 of 6 runs" in capsys.readouterr().out
    assert [each["state"] for each in json.loads((top / "list.json").read_text())["runs"]] == [
        "finished",
        "begun",
        "waiting",
    ]
    assert main(["runs", str(top), "--where", "image_size=16", "--state=finished"]) == 0
    assert "1 of 6 runs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("where", "count"),
    [("alpha=.12", 2), ("alpha=0.2", 0), ("c=0.10", 2), ("temperature=.5", 3), ("data=mine.npz", 0), ("width=none", 3)],
)
def test_settings_count_whether_given_or_not(
    top: Path, capsys: pytest.CaptureFixture[str], where: str, count: int
) -> None:
    assert main(["runs", str(top), "--where", where]) == 0
    printed = capsys.readouterr().out
    assert (f"{count} of 6 runs" if count else "no such run") in printed
    assert ("alpha 0.12, c 0.1" in printed) == bool(count)


def test_runs_of_every_correction_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for correction in CORRECTIONS:
        (tmp_path / correction).mkdir()
        write_json(tmp_path / correction / "config.json", recipe("simclr", "digits", correction=correction).as_json())
    assert main(["runs", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert f"{len(CORRECTIONS)} of {len(CORRECTIONS)} runs" in printed
    assert "warm_up 1000, half_life 5000" in printed  # Of ratio, whose tau_plus is none.


def test_data_are_known_by_their_last_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.npz").touch()
    (tmp_path / "run").mkdir()
    write_json(tmp_path / "run" / "config.json", recipe("simclr", str(tmp_path / "mine.npz")).as_json())
    for name in ("mine.npz", str((tmp_path / "mine.npz").resolve())):
        assert main(["runs", str(tmp_path), "--where", f"data={name}"]) == 0
        assert "1 of 1 run in" in capsys.readouterr().out
    assert main(["runs", str(tmp_path), "--json", str(tmp_path / "nowhere" / "list.json")]) == 2
    assert "--json is a file to write: expected one in an existing directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--where", "seed"], "expected FIELD=VALUE"),
        (["--state", "finish"], "Did you mean 'finished'?"),
        (["missing"], "expected a directory, got nothing of that name"),
    ],
)
def test_wrong_arguments(
    top: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(top)
    (top / "runs").mkdir()
    assert main(["runs", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_fields_that_no_run_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(tmp_path), "--where", "correctoin=pucl"]) == 2
    assert "'correctoin' is no field of a run" in capsys.readouterr().err
    assert main(["runs", str(tmp_path), "--where", "alpha=0.1"]) == 0
