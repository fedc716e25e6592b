"""The measurement: temperatures are chosen on validation images, then rows are compared on test images."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pucl.config import PLAIN
from pucl.images.config import ImageConfig
from pucl.runs.collection import Collection
from pucl.runs.rows import make_row
from pucl.runs.tables import ComparedRows, Part, Table
from study import diagnosis, plan, size
from study.__main__ import main

RECORDS = Path(__file__).resolve().parents[1] / "records"
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


def test_a_row_without_a_finished_choice_has_no_temperature() -> None:
    table = Table(parts=(), results={"simclr-digits": ComparedRows(rows=(), runs={})})
    with pytest.raises(ValueError, match="simclr-digits: no run of plain finished on validation images"):
        plan.best_temperatures(table, "simclr-digits", [PLAIN])
    plain = make_row(f"{PLAIN} at 0.5", PLAIN, {0: {plan.YARDSTICK: 0.7, "seconds": 1.0}})
    table = Table(parts=(), results={"simclr-digits": ComparedRows(rows=(plain,), runs={})})
    assert plan.best_temperatures(table, "simclr-digits", [PLAIN, "pucl"]) == {PLAIN: 0.5}


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
    ten = plan.Subject(framework="simclr", data="digits", seeds=1, settings=plan.with_classes(10, 12))
    for row in plan.ROWS:
        assert ten.config(row).make_correction() == named.config(row).make_correction()


@pytest.mark.parametrize("study", sorted(path.parent.name for path in RECORDS.glob("study*/rows")))
def test_the_plan_is_that_of_the_records(study: str) -> None:
    """A recipe that changes must not change what was measured, or the same command would measure it again."""
    for table in (path.parent.name for path in (RECORDS / study).glob("*/runs.jsonl")):
        choice = {"validation": True, "probes": plan.YARDSTICK} if table == "choice" else {}
        runs = Collection(RECORDS / study / table)
        for path in runs:
            part, row, _ = path.split("/")
            config = runs.config(path)
            subject = next(each for name, each in plan.SUBJECTS.items() if name.lower() == part)
            planned = subject.config(row.split("-at-")[0], config.as_json()["temperature"], **choice)
            assert config == replace(planned, seed=config.seed), f"{table}/{path}"


def test_sizes_are_looked_at_on_validation_images_with_equal_work() -> None:
    configurations = 0
    for part in size.PARTS.values():
        for config in part.rows.values():
            assert isinstance(config, ImageConfig)
            assert config.validation
            assert config.limit is not None
            assert config.limit * config.epochs == 80_000
            configurations += 1
    assert configurations == 2 * 2 * 3 * len(size.SIZES)


def test_sizes_of_the_records_are_those_of_the_plan() -> None:
    runs = Collection(RECORDS / "study-size")
    for path in runs:
        part, row, _ = path.split("/")
        config = runs.config(path)
        assert config == replace(size.PARTS[part].rows[row], seed=config.seed), path
    assert len(list(runs)) == size.SEEDS * 2 * len(size.PARTS)


def test_cifar_is_measured_where_the_oracle_leads_most() -> None:
    parts = json.loads((RECORDS / "study-size" / "table.json").read_text())["data"]
    for framework, (images, epochs) in plan.SIZES_OF_CIFAR10.items():
        assert (images, epochs) in size.SIZES
        leads = {}
        for name, part in parts.items():
            if name.startswith(f"{framework}-cifar10-"):
                (oracle,) = (line for line in part["lines"] if line["name"] == "oracle")
                leads[name] = oracle["differences"][plan.YARDSTICK]
        above = {name: lead["mean"] for name, lead in leads.items() if lead["low"] > 0}
        assert max(above, key=above.__getitem__) == f"{framework}-cifar10-{images}"


@pytest.mark.slow
def test_a_size_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = replace(TINY, seeds=size.SEEDS)
    rows = {row: tiny.config(row, 0.2, validation=True) for row in (PLAIN, "oracle")}
    part = Part(name="tiny", rows=rows, base=PLAIN, seeds=size.SEEDS, yardstick=plan.YARDSTICK)
    monkeypatch.setattr(size, "PARTS", {"tiny": part})
    assert size.main(["--parts=tiny", f"--out={tmp_path}", "--workers=1", "--no-page"]) == 0
    lines = json.loads((tmp_path / "table.json").read_text())["data"]["tiny"]["lines"]
    assert plan.YARDSTICK in {line["name"]: line["differences"] for line in lines}["oracle"]
    assert size.main(["--parts=simclr-cifar10"]) == 2


@pytest.mark.slow
def test_graphs_need_no_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"epochs": 1, "limit": 64, "batch_size": 32, "hidden": 4, "probes": "retrieval,knn"}
    few = plan.Subject(framework="infograph", data="shapes", seeds=2, changes=changes, rows=("plain", "oracle"))
    monkeypatch.setitem(plan.SUBJECTS, "infograph-shapes", few)
    command = ["--parts=infograph-shapes", f"--out={tmp_path}", "--workers=1", "--no-page"]
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
