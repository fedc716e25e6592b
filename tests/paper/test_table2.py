"""The paper's Table 2: its rows, its numbers beside ours, and a table that can be stopped."""

import csv
import io
import json
from pathlib import Path

import pytest

from pucl.cli import main
from pucl.frameworks.infograph import InfoGraphConfig
from pucl.frameworks.recipes import recipe
from pucl.paper.graph_settings import BASE, prior_of
from pucl.paper.table2 import DATA, PAPER, ROWS, parts_of_table2
from pucl.runs.directory import RunDirectory
from pucl.runs.rows import TableRow
from pucl.runs.statistics import Difference, Spread
from pucl.runs.tables import ComparedRows, Part, Table, as_csv, as_text, make_table

SOME = "raw features;InfoGraph;+PUCL 0.1;+Hard as published"


@pytest.fixture
def command(few_graphs: Path, tmp_path: Path) -> list[str]:
    """A table of four rows, small enough for a test."""
    arguments = ["table", "2", "--data", str(few_graphs), f"--rows={SOME}", "--seeds=2", "--epochs=1"]
    return [*arguments, "--workers=1", "--root", str(tmp_path / "root"), "--out", str(tmp_path / "out")]


def written(out: Path) -> dict[str, int]:
    names = ("result.json", "metrics.jsonl", "encoder.safetensors", "embeddings.npz", "config.json")
    return {str(file): file.stat().st_mtime_ns for file in out.rglob("*") if file.name in names}


def test_every_row_is_a_run() -> None:
    for changes in ROWS.values():
        assert isinstance(recipe("infograph", "shapes", **changes), InfoGraphConfig)
    assert BASE in ROWS
    assert tuple(PAPER) == DATA
    for numbers in PAPER.values():
        assert numbers.keys() <= ROWS.keys()


@pytest.mark.slow
def test_a_table_and_the_same_again(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 0
    printed = capsys.readouterr().out
    header, _, *rows = printed.splitlines()[1:7]
    assert printed.startswith("FEW\n")
    assert [name in row for name, row in zip(SOME.split(";"), rows, strict=True)] == [True] * 4
    for words in ("SVM, %", "SVM scaled, %", "kNN, %", "to InfoGraph (95 % interval)", "paper"):
        assert words in header
    record = json.loads((tmp_path / "out" / "table.json").read_text())
    assert record["command"].startswith("pucl table 2 --data")
    few = record["data"]["FEW"]
    assert [line["name"] for line in few["lines"]] == SOME.split(";")
    assert few["runs"]["+PUCL 0.1"] == ["few/pucl-0.1/seed-0", "few/pucl-0.1/seed-1"]
    assert record["processor_seconds"] > 0
    lines = {line["name"]: TableRow.from_json({k: v for k, v in line.items() if k != "paper"}) for line in few["lines"]}
    for name, line in lines.items():
        assert line.count == 2
        assert list(line.scores) == ["svm", "svm_scaled", "knn"]
        assert bool(line.differences) == (name != BASE)
        results = [RunDirectory(tmp_path / "out" / place).result() for place in few["runs"][name]]
        assert line.by_seed["svm"] == tuple(100 * result["svm"] for result in results if result is not None)
    assert lines["+PUCL 0.1"].tau_plus == pytest.approx(0.1 * 0.98 / (1 - 0.1 * 0.02))
    assert lines["raw features"].floored is None
    published = RunDirectory(tmp_path / "out" / "few" / "hard-as-published" / "seed-0").config()
    assert isinstance(published, InfoGraphConfig)
    assert published.compat == "hcl"
    table = list(csv.DictReader(io.StringIO((tmp_path / "out" / "table.csv").read_text())))
    assert len(table) == 4 * 3
    assert float(table[0]["accuracy"]) == lines["raw features"].scores["svm"].mean

    before = written(tmp_path / "out")
    assert len(before) == 2 * 4 * 5 - 2  # Raw features have no metrics.
    assert main(command) == 0
    assert written(tmp_path / "out") == before
    assert capsys.readouterr().out == printed
    again = json.loads((tmp_path / "out" / "table.json").read_text())
    assert again == record


@pytest.mark.slow
def test_other_settings(
    command: list[str], few_graphs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A variant of the search, in which every correction has the prior of the classes."""
    (part,) = parts_of_table2([str(few_graphs)], variant="InfoNCE, t 0.5, tilt 1")
    prior = prior_of(str(few_graphs))
    assert part.rows["+DEB"].settings == {"tau_plus": prior}
    assert part.rows["+PUCL"].settings == {"alpha": prior, "c": 0.02, "beta": 1.0}
    assert part.rows["oracle"].settings == {"beta": 1.0}
    assert {(config.objective, getattr(config, "temperature", None)) for config in part.rows.values()} == {
        ("infonce", 0.5)
    }
    assert main([*command, "--variant=5 layers", "--rows=InfoGraph;+PUCL", "--seeds=1"]) == 0
    assert capsys.readouterr().out.startswith(f"FEW (5 layers; prior of the classes {prior:.3f})")
    record = json.loads((tmp_path / "out" / "table.json").read_text())["data"]["FEW"]
    assert (record["config"]["layers"], record["config"]["epochs"]) == (5, 1)


@pytest.mark.slow
def test_what_fails_is_told_and_the_rest_kept(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of one set of graphs nothing comes, of the other one row is short of a seed."""
    for place in ("few/pucl-0.1/seed-0", "shapes/infograph/seed-0", "shapes/infograph/seed-1"):
        (tmp_path / "out" / place).mkdir(parents=True)
        (tmp_path / "out" / place / "thesis.tex").write_text("mine")
    data = command[3]
    assert main([*command, "--data", data, "--rows=InfoGraph;+PUCL 0.1"]) == 1
    printed = capsys.readouterr()
    assert "failed: FEW, +PUCL 0.1, seed 0: " in printed.err
    assert "1 (1 failed)" in printed.out
    assert main([*command, "--data", f"{data},shapes", "--rows=InfoGraph"]) == 1
    printed = capsys.readouterr()
    assert "failed: shapes, InfoGraph, seed 1: " in printed.err
    record = json.loads((tmp_path / "out" / "table.json").read_text())
    assert record["data"].keys() == {"FEW", "shapes"}
    assert len(record["data"]["shapes"]["lines"][0]["failed"]) == 2
    assert main([*command, "--data=shapes", "--rows=InfoGraph"]) == 2
    assert "holds files that are not a run of pucl" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows=+PUKL 0.1"], "'+PUKL 0.1' is no row of Table 2: expected one of raw features, untrained, InfoGraph"),
        (["--rows=+PUKL 0.1"], "Did you mean '+PUCL 0.1'?"),
        (["--rows="], "rows are the methods to compare: expected at least one, each once, got none"),
        (["--rows=+DEB;+DEB"], "expected at least one, each once, got +DEB, +DEB"),
        (["--variant=5 layer"], "Did you mean '5 layers'?"),
        (["--variant=5 layers", "--rows=+PUCL 0.1"], "Did you mean '+PUCL'?"),
        (["--data=shapes,ENZYME"], "Did you mean 'ENZYMES'?"),  # Before anything is run.
        (["--data=,"], "expected at least one, each once, got none"),
        (["--data=DD,dd"], "expected at least one, each once, got DD, DD"),
        (["--data=ENZYMES"], "`pucl data get ENZYMES` fetches it"),
        (["--seeds=0"], "the number of trainings of each row: expected at least 1, got 0"),
        (["--workers=0"], "number of runs at a time: expected at least 1, got 0"),
    ],
)
def test_wrong_arguments(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main([*command, *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_directory_without_a_name_has_one(few_graphs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(few_graphs)
    monkeypatch.setenv("PUCL_DATA", str(tmp_path / "root"))
    parts = parts_of_table2(["."], rows=["raw features"], seeds=1, changes={"probes": "knn"})
    made = make_table(parts, tmp_path / "out")
    assert list(made.results) == ["FEW"]
    assert made.as_json()["data"]["FEW"]["runs"] == {"raw features": ["few/raw-features/seed-0"]}


def line(name: str, mean: float, difference: Difference | None) -> TableRow:
    return TableRow(
        name=name,
        correction="plain",
        tau_plus=0.098 if "PUCL" in name else None,
        scores={"svm": Spread(mean, 1.5, 3), "knn": Spread(mean - 1, 0.5, 3)},
        by_seed={"svm": (mean,) * 3, "knn": (mean - 1,) * 3},
        differences={} if difference is None else {"svm": difference, "knn": difference},
        floored=0.25,
        seconds=3.0,
    )


def made_up(data: str) -> Table:
    rows = (
        line("untrained", 50.0, Difference(-5.0, -6.0, -4.0)),
        line("InfoGraph", 55.0, None),
        line("+PUCL 0.1", 57.0, Difference(2.0, 1.5, 2.5)),
    )
    config = recipe("infograph", data)
    part = Part(name=data, rows={"x": config}, base=BASE, seeds=1, published={"paper": PAPER.get(data, {})})
    return Table(parts=(part,), results={data: ComparedRows(rows=rows, runs={})})


def test_the_papers_numbers_stand_beside() -> None:
    name, header, _, *rows = as_text(made_up("PTC_MR")).splitlines()
    assert name == "PTC_MR"
    assert header.split()[-1] == "paper"
    untrained, plain, pucl = rows
    assert plain.endswith("56.63")
    assert pucl.endswith("58.90")
    assert untrained.endswith("25.0%    3")  # The paper has no such row.
    assert "57.00 ± 1.50" in pucl
    assert "56.00 ± 0.50" in pucl
    assert "+2.00 (+1.50 to +2.50)" in pucl
    assert "0.098" in pucl
    assert all(row.endswith("25.0%    3") for row in as_text(made_up("shapes")).splitlines()[3:])
    assert PAPER["REDDIT-BINARY"]["+PUCL 0.5"] == 88.97


def test_the_papers_numbers_are_of_one_classifier() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(made_up("PTC_MR")))))
    papers = {(row["row"], row["classifier"]): row["paper"] for row in rows}
    assert papers["InfoGraph", "svm"] == "56.63"
    assert papers["InfoGraph", "knn"] == papers["untrained", "svm"] == ""
    assert [row["low"] for row in rows if row["row"] == "+PUCL 0.1"] == ["1.5", "1.5"]
