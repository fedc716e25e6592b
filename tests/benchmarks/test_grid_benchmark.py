"""The benchmark of grids: the same numbers with one worker and with two, and a speed-up of rounds."""

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.grid import Settings


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "grid.json"
    assert main(["grid", "--epochs=1", "--runs=2", "--workers=2", "--rounds=1", f"--out={out}"]) == 0
    assert "times as fast as with one" in capsys.readouterr().out
    record = json.loads(out.read_text())
    assert record["equal"]
    assert record["seconds"].keys() == {"1", "2"}
    assert record["speedups"] == [record["seconds"]["1"][0] / record["seconds"]["2"][0]]
    assert record["command"].startswith("python -m benchmarks grid --framework=infograph --data=shapes")


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="runs is how many there are: expected at least 1, got 0"):
        Settings(runs=0)
