"""The paper's Table 1: its rows and numbers, its budgets, and bundled data where the real ones are absent."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pucl.cli import main
from pucl.frameworks.cmc import CMCConfig
from pucl.frameworks.moco import MoCoConfig
from pucl.frameworks.simclr import SimCLRConfig
from pucl.images.config import ImageConfig
from pucl.paper.table1 import AUTHORS, BASE, BUDGETS, DATA, FRAMEWORKS, PAPER, ROWS, parts_of_table1
from pucl.runs.collection import Collection
from pucl.runs.jobs import grid_of
from pucl.runs.tables import Part, as_text, make_table
from pucl.texts import slug
from small_runs import small_run


def test_every_row_of_every_budget_is_a_run(tmp_path: Path) -> None:
    for budget in BUDGETS:
        parts = parts_of_table1(budget, root=tmp_path)
        for part in parts:
            assert tuple(part.rows) == ROWS
            assert part.base == BASE
            assert all(isinstance(config, ImageConfig) for config in part.rows.values())
    seeds = {part.name: part.seeds for part in parts_of_table1("small")}
    assert len(seeds) == 9
    assert (seeds.pop("simclr-cifar10"), set(seeds.values())) == (5, {3})


def test_the_budget_is_that_of_the_record() -> None:
    """A recipe that changes must not change what was measured, or the same command would measure it again."""
    runs = Collection(Path(__file__).resolve().parents[2] / "records" / "images" / "table-1")
    jobs = {
        job.path: job.config for part in parts_of_table1("small") for job in grid_of(part.rows, part.seeds, part.name)
    }
    for path in runs:
        assert runs.config(path) == jobs["/".join(map(slug, path.split("/")))], path


def test_published_numbers_are_of_rows() -> None:
    assert tuple(PAPER) == FRAMEWORKS
    for table in (PAPER, AUTHORS):
        for by_data in table.values():
            for data, numbers in by_data.items():
                assert data in DATA
                assert numbers.keys() <= set(ROWS)
    assert PAPER["simclr"]["stl10"]["+PUCL"] == 85.62
    assert PAPER["moco"]["cifar100"]["+Ring"] == 66.96
    assert PAPER["cmc"]["cifar10"]["+DEB"] == 88.12


def test_the_paper_has_its_numbers_of_unlabelled_samples() -> None:
    """510 from a batch, 4,096 from the queue and from the bank."""
    parts = {part.name: part.rows["plain"] for part in parts_of_table1("paper")}
    simclr, moco, cmc = (parts[f"{name}-cifar10"] for name in ("simclr", "moco", "cmc"))
    assert isinstance(simclr, SimCLRConfig)
    assert isinstance(moco, MoCoConfig)
    assert isinstance(cmc, CMCConfig)
    assert 2 * (simclr.batch_size - 1) == 510
    assert moco.queue_size == cmc.draws == 4096
    assert {config.as_json()["encoder"] for config in (simclr, moco, cmc)} == {"resnet50"}


@pytest.mark.slow
def test_bundled_data_stand_in_and_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["table", "1", "--budget=quick", "--frameworks=simclr", "--rows=untrained;plain;+PUCL", "--seeds=1"]
    command += ["--epochs=1", "--workers=1", "--no-page", f"--root={tmp_path / 'root'}", f"--out={tmp_path / 'out'}"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("simclr-digits (bundled, in place of cifar10, cifar100, stl10, which are absent)")
    assert "authors" in printed
    record = json.loads((tmp_path / "out" / "table.json").read_text())
    part = record["data"]["simclr-digits"]
    assert "in place of" in part["note"]
    assert [line["name"] for line in part["lines"]] == ["untrained", "plain", "+PUCL"]
    assert part["lines"][1]["paper"] is None  # The paper's numbers are not of digits.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget=smal"], "Did you mean 'small'?"),
        (["--rows=+PUKL"], "Did you mean '+PUCL'?"),
        (["--frameworks=simclrr"], "Did you mean 'simclr'?"),
        (["--data=cifar10"], "`pucl data get cifar10` fetches it"),
    ],
)
def test_wrong_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    common = ["table", "1", "--root", str(tmp_path / "root"), "--out", str(tmp_path / "out")]
    assert main([*common, *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["2", "--budget=quick"], "--budget is for table 1"),
        (["1", "--variant=5 layers"], "--variant is for table 2"),
        (["3"], "'3' is no table of the paper: expected one of 1, 2"),
    ],
)
def test_options_of_another_table(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["table", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_no_oracle_where_training_images_have_no_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of STL10: the rest of the table is run, and says so."""
    monkeypatch.setattr("pucl.runs.tables.has_labels", lambda *_: False)
    config = small_run(probes="knn")
    rows = {"plain": config, "oracle": replace(config, correction="oracle")}
    made = make_table([Part(name="shapes", rows=rows, base="plain", seeds=1)], tmp_path)
    assert [line.name for line in made.results["shapes"].rows] == ["plain"]
    assert "shapes (no oracle, since the training samples have no labels)" in as_text(made)
    with pytest.raises(ValueError, match="the oracle uses the labels of the training samples: shapes has no"):
        make_table([Part(name="shapes", rows={"oracle": rows["oracle"]}, base="plain", seeds=1)], tmp_path)
