"""The benchmark of a diagnosis: both searches list the same pairs, and the record says what was measured."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.diagnose import DiagnoseReport, Time
from benchmarks.memory import Peak


@pytest.mark.slow
def test_a_small_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "diagnose.json"
    options = ["--samples=1000", "--dim=16", "--classes=10", "--pairs=50", "--threads=1", f"--out={out}"]
    assert main(["diagnose", *options]) == 0
    assert "processor seconds" in capsys.readouterr().out
    record = json.loads(out.read_text())
    low, high = record["interval"]
    assert low <= record["truth"] <= high
    assert record["of_one_class"] > 0.9
    assert "torch" in record["suspects"]


def test_other_pairs_are_a_failure() -> None:
    usual = Time(seconds=1.0, processor_seconds=1.0)
    report = DiagnoseReport(
        diagnosis=usual,
        suspects={"torch": usual},
        peak=Peak(bytes=1),
        share=None,
        interval=None,
        truth=0.1,
        of_one_class=1.0,
        same=0.5,
    )
    assert report.failures() == ["faiss and torch must list the same pairs, but share 50.00% of them"]
    assert replace(report, same=1.0).failures() == replace(report, same=None).failures() == []
    assert "it cannot be told" in report.notes()[1]
