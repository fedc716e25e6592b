"""The measurement: temperatures are chosen on validation images, then rows are compared on test images."""

import json
from pathlib import Path

import pytest

from pucl.config import PLAIN
from pucl.images.config import ImageConfig
from study import diagnosis, plan
from study.__main__ import main

TINY = plan.Subject(
    framework="simclr",
    data="digits",
    seeds=2,
    changes={"epochs": 1, "width": 4, "image_size": 8, "limit": 128, "probes": "retrieval,knn"},
)


def test_choices_are_made_on_validation_images_only() -> None:
    tempered = [subject for subject in plan.SUBJECTS.values() if subject.reference_temperature is not None]
    for subject in tempered:
        for config in plan.choice_part(subject, list(plan.ROWS)).rows.values():
            assert isinstance(config, ImageConfig)
            assert config.validation
        best = dict.fromkeys(plan.ROWS, 0.2)
        for config in plan.final_part(subject, best).rows.values():
            assert isinstance(config, ImageConfig)
            assert not config.validation


def test_rows_are_measured_at_plains_temperature_and_at_their_own() -> None:
    part = plan.final_part(plan.SUBJECTS["simclr-digits"], {PLAIN: 1.0, "pucl": 0.2, "oracle": 1.0})
    temperatures = {row: config.as_json()["temperature"] for row, config in part.rows.items()}
    del temperatures["untrained"]
    assert temperatures == {PLAIN: 1.0, "plain at 0.5": 0.5, "pucl": 1.0, "pucl at 0.2": 0.2, "oracle": 1.0}


def test_graphs_are_compared_without_a_temperature_at_the_prior_of_their_classes() -> None:
    part = plan.final_part(plan.SUBJECTS["infograph-ENZYMES"], dict.fromkeys(plan.ROWS))
    assert set(part.rows) == {"untrained", *plan.ROWS}
    assert {config.as_json()["temperature"] for config in part.rows.values()} == {None}
    assert part.rows["deb"].settings == {"tau_plus": pytest.approx(1 / 6)}
    assert part.rows["pucl"].settings == {"alpha": pytest.approx(0.2), "c": 0.1}
    assert part.rows["clusters-kmeans"].settings == {"k": 6}
    assert "svm" not in part.rows["plain"].choose_probes()


def test_the_published_settings_are_those_for_ten_classes() -> None:
    named = plan.Subject(framework="simclr", data="digits", seeds=1)
    ten = plan.Subject(framework="simclr", data="digits", seeds=1, settings=plan.with_classes(10))
    for row in plan.ROWS:
        assert ten.config(row).make_correction() == named.config(row).make_correction()


@pytest.mark.slow
def test_graphs_need_no_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"epochs": 1, "limit": 64, "batch_size": 32, "hidden": 4, "probes": "retrieval,knn"}
    monkeypatch.setitem(
        plan.SUBJECTS, "infograph-shapes", plan.Subject(framework="infograph", data="shapes", seeds=2, changes=changes)
    )
    command = ["--parts=infograph-shapes", "--rows=plain,oracle", f"--out={tmp_path}", "--workers=1", "--no-page"]
    assert main(command) == 0
    table = json.loads((tmp_path / "rows" / "table.json").read_text())["data"]["infograph-shapes"]
    assert {line["name"] for line in table["lines"]} == {"untrained", "plain", "oracle"}
    assert "inner products" in table["note"]
    assert not (tmp_path / "choice").exists()


@pytest.mark.slow
def test_one_command_makes_both_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(plan.SUBJECTS, "simclr-digits", TINY)
    monkeypatch.setattr(plan, "TEMPERATURES", (0.2, 0.5))
    command = ["--parts=simclr-digits", "--rows=plain,oracle", f"--out={tmp_path}", "--workers=1", "--no-page"]
    assert main(command) == 0
    choice, final = (json.loads((tmp_path / name / "table.json").read_text()) for name in ("choice", "rows"))
    scores = {line["name"]: line["scores"]["retrieval"]["mean"] for line in choice["data"]["simclr-digits"]["lines"]}
    assert set(scores) == {"plain at 0.2", "plain at 0.5", "oracle at 0.2", "oracle at 0.5"}
    best = max((0.2, 0.5), key=lambda temperature: scores[f"plain at {temperature}"])
    lines = {line["name"]: line for line in final["data"]["simclr-digits"]["lines"]}
    assert {"untrained", "plain", "oracle"} <= set(lines)
    assert f"temperature {best:g}" in final["data"]["simclr-digits"]["note"]
    assert lines["plain"]["seeds"] == [0, 1]
    made = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("result.json")}
    assert main(command) == 0
    assert made == {file: file.stat().st_mtime_ns for file in tmp_path.rglob("result.json")}, "nothing is trained again"


def test_rows_need_plain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rows=pucl"]) == 2
    assert "expected it among the rows, got pucl" in capsys.readouterr().err


@pytest.mark.slow
def test_a_diagnosis_is_compared_with_the_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = diagnosis.Case(data="digits", row="untrained", settings={"seed": 0, "limit": 200, "width": 4})
    monkeypatch.setattr(diagnosis, "CASES", {case.name: case})
    arguments = ["--cases", case.name, "--runs", str(tmp_path), "--json", str(tmp_path / "cases.json")]
    assert diagnosis.main(arguments) == 0
    assert case.name in capsys.readouterr().out
    (found,) = json.loads((tmp_path / "cases.json").read_text())["cases"]
    assert found["samples"] == 200
    assert found["truth"] == pytest.approx(0.1, abs=0.01)
    assert found["inside"] in (True, False, None)
    assert (found["share"] is None) == (found["refused"] is not None)
    assert diagnosis.main(["--cases", "none"]) == 2
