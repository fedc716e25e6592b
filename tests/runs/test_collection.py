"""Collections: the records of many runs in three files, which say what the directories of the runs say."""

import gzip
import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from page_records import page_of, rows_in, written_run
from pucl import records
from pucl.cli import main
from pucl.records import DamagedError
from pucl.runs import grid
from pucl.runs.catalogue import find_runs
from pucl.runs.collection import ENVIRONMENTS, METRICS, RUNS, Collection, read_run, write_collection
from pucl.runs.display import Display
from pucl.runs.grid import Resources, run_grid
from pucl.runs.jobs import Done, Job, grid_of
from pucl.runs.tables import Part, compare_rows, make_table
from small_runs import ROWS, small_run

RECORDS = Path(__file__).resolve().parents[2] / "records"
FILES = (RUNS, METRICS, ENVIRONMENTS)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two trained runs, one in a directory of an earlier version, and one without training, metrics or environment."""
    top = tmp_path / "runs"
    for seed, name in enumerate(("+PUCL, alpha 0.1", "plain")):
        place = written_run(top / name / f"seed-{seed}", "digits", seed=seed, result={"linear": 0.25 + seed / 3})
        lines = [{"epoch": n, "step": 7 * n, "loss": 1 / (n + seed), "new": [n]} for n in (1, 2, 3)]
        (place / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (place / "environment.json").write_text(json.dumps({"torch": "2.13.0", "threads": 1}))
    written_run(top / "untrained" / "seed-0", "digits", correction="untrained", result={"linear": 1 / 3})
    return top


def collected(top: Path, out: Path) -> Collection:
    assert main(["runs", str(top), "--collect", str(out)]) == 0
    return Collection(out)


@dataclass
class Listening(Display):
    """Keeps what is said."""

    said: list[str] = field(default_factory=list)

    def say(self, words: str) -> None:
        self.said.append(words)


def test_a_collection_says_what_the_directories_say(runs: Path, tmp_path: Path) -> None:
    collection = collected(runs, tmp_path / "out")
    paths = sorted(str(file.parent.relative_to(runs)) for file in runs.rglob("config.json"))
    assert sorted(collection) == paths
    assert len(paths) == 3
    for path in paths:
        directory = read_run(runs / path)
        assert replace(collection.run(path), path=runs / path) == directory
        assert collection.run(path).written == json.loads((runs / path / "config.json").read_text())
    assert len(collection.history("plain/seed-1")) == 3
    assert collection.history("untrained/seed-0") == []
    assert collection.damaged == []
    environments = json.loads((tmp_path / "out" / ENVIRONMENTS).read_text())
    assert sorted(map(len, environments.values())) == [0, 2]  # Each once.


def test_the_same_runs_give_the_same_bytes(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collected(runs, tmp_path / "one")
    monkeypatch.setattr("time.time", lambda: 2e9)  # gzip writes the time by default.
    collected(tmp_path / "one", tmp_path / "two")  # Of a collection as of directories.
    for name in FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_unfinished_and_damaged_runs_are_left_out(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "plain" / "seed-1" / "result.json").unlink()
    (runs / "untrained" / "seed-0" / "config.json").write_text("{")
    assert list(collected(runs, tmp_path / "out")) == ["+PUCL, alpha 0.1/seed-0"]
    assert "(1 run; 2 runs skipped, not finished or damaged)" in capsys.readouterr().out
    assert main(["runs", str(runs), "--state", "begun", "--collect", str(tmp_path / "none")]) == 2
    assert "expected at least one, got none" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    with pytest.raises(ValueError, match="a collection is of finished runs: expected a result"):
        write_collection(tmp_path / "none", {"plain/seed-1": read_run(runs / "plain" / "seed-1")})


def test_runs_of_a_collection_are_listed(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(runs)]) == 0
    table = capsys.readouterr().out.split("\n\n")[0]
    collected(runs, tmp_path / "out")
    capsys.readouterr()
    assert main(["runs", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.split("\n\n")[0] == table
    collected(runs, runs)  # Beside the directories: each run is listed once, and is that of the directory.
    assert [entry.collection for entry in find_runs(runs)] == [None, None, None]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda line: line[:50], r"line 2: expected JSON, got something else at line 1, column"),
        (lambda line: line.replace('"seconds"', '"hours"'), r"line 2: 'result' lacks 'seconds'"),
        (
            lambda line: line.replace('"result": {', '"result": {"retrieval": "high", '),
            r"line 2: 'retrieval' should be a number, got 'high'",
        ),
        (lambda line: line.replace('"epochs": 12', '"epochs": "many"'), r"line 2: 'epochs' should be a whole number"),
        (
            lambda line: line.replace('"path": "', '"path": "../'),
            r"line 2: runs are below it: expected a relative path",
        ),
        (lambda line: line.replace("plain/seed-1", "+PUCL, alpha 0.1/seed-0"), r"line 2: each run has one line"),
    ],
)
def test_a_damaged_line_costs_its_own_run(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil: Any, why: str
) -> None:
    out = tmp_path / "out"
    collected(runs, out)
    lines = (out / RUNS).read_text().splitlines()
    spoiled = spoil(lines[1])
    assert spoiled != lines[1]
    (out / RUNS).write_text("\n".join([lines[0], spoiled, lines[2]]) + "\n")
    capsys.readouterr()
    assert main(["runs", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "3 of 3 runs" in printed
    assert [entry.state for entry in find_runs(out)] == ["finished", "damaged", "finished"]
    told = [line for line in printed.splitlines() if "line 2" in line]
    assert len(told) == 1
    assert f"{out / RUNS} is damaged, or another program wrote it: " in told[0]
    assert re.search(why, told[0])
    page = page_of(tmp_path / "page.html", out)
    assert page.count("runs.jsonl is damaged, or another program wrote it: line 2: ") == 1
    assert len(rows_in(page)) == 2


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        (METRICS, None, f"{RUNS} is damaged, or another program wrote it: {METRICS} should be beside it"),
        (METRICS, b"\x1f\x8b\x08", f"{METRICS} is damaged, or another program wrote it: expected a whole file"),
        (METRICS, b"text", f"{METRICS} is damaged, or another program wrote it: expected a whole file"),
        (
            METRICS,
            gzip.compress(b'{"run": "a", "epoch": 1, "step": 1}\n{"run"', mtime=0),
            f"{METRICS} is damaged.*: line 2: ",
        ),
        (
            METRICS,
            gzip.compress(b'{"run": "a", "epoch": 1, "step": 1, "retrieval": []}\n', mtime=0),
            f"{METRICS} is damaged.*: 'retrieval' should be a number, got a list",
        ),
        (METRICS, gzip.compress(b" " * 10_001, mtime=0), "expected at most 10,000 bytes when unpacked, got more"),
        (ENVIRONMENTS, b"{}", f"{ENVIRONMENTS} is damaged.*: expected the environment '[0-9a-f]*', got None"),
    ],
)
def test_damaged_files_beside_it_are_reported_once(
    runs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes | None,
    why: str,
) -> None:
    monkeypatch.setattr(records, "MOST_BYTES", 10_000)
    out = tmp_path / "out"
    collected(runs, out)
    (out / name).unlink()
    if content is not None:
        (out / name).write_bytes(content)
    with pytest.raises(DamagedError, match=why):
        Collection(out).run("plain/seed-1")
    capsys.readouterr()
    assert main(["report", str(out), "--out", str(tmp_path / "page.html")]) == 1
    told = [line for line in capsys.readouterr().err.splitlines() if re.search(why, line)]
    assert len({line.split("environment '")[0] for line in told}) == 1
    assert len(told) <= 2  # There are two environments.


def test_a_collection_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / RUNS).write_bytes(b"\xff\xfe")
    assert main(["runs", str(tmp_path)]) == 0
    assert "expected text in UTF-8" in capsys.readouterr().out
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "page.html")]) == 1
    assert "expected text in UTF-8" in capsys.readouterr().err


def test_a_grid_ends_with_a_collection(tmp_path: Path) -> None:
    rows = {"+Plain, as it is": small_run(), "raw features": small_run("raw")}
    made = make_table([Part(name="Few Shapes", rows=rows, base="+Plain, as it is", seeds=1)], tmp_path)
    paths = ["few-shapes/plain-as-it-is/seed-0", "few-shapes/raw-features/seed-0"]
    assert made.results["Few Shapes"].runs == {"+Plain, as it is": paths[:1], "raw features": paths[1:]}
    assert [line.name for line in made.results["Few Shapes"].rows] == list(rows)
    collection = Collection(tmp_path)
    assert list(collection) == paths
    assert all(collection.run(path) == read_run(tmp_path / path) for path in paths)


def test_collected_runs_are_finished(tmp_path: Path) -> None:
    """The table of a collection can be made again, and rows can be added, without its directories."""
    first = compare_rows(ROWS, 1, tmp_path, resources=Resources())
    lines = {path: Collection(tmp_path).run(path) for path in Collection(tmp_path)}
    for name in ROWS:
        shutil.rmtree(tmp_path / name)
    display = Listening()
    again = compare_rows(
        {**ROWS, "untrained": small_run("untrained")}, 1, tmp_path, resources=Resources(), display=display
    )
    assert again.rows[: len(ROWS)] == first.rows
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["untrained"]
    assert f"3 runs of these only in {tmp_path / RUNS}; delete it to train them again" in display.said
    now = {path: Collection(tmp_path).run(path) for path in Collection(tmp_path)}
    assert list(now) == [*lines, "untrained/seed-0"]
    assert {path: now[path] for path in lines} == lines


def test_collected_runs_of_another_configuration_are_not(tmp_path: Path) -> None:
    compare_rows({"raw": ROWS["raw"]}, 1, tmp_path, resources=Resources())
    shutil.rmtree(tmp_path / "raw")
    (done,) = run_grid(grid_of({"raw": small_run("untrained")}, 1), tmp_path, Resources())
    assert done.seconds > 0
    assert Collection(tmp_path).config("raw/seed-0").correction == "untrained"


def test_an_interrupted_grid_is_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop_at_second(job: Job, *rest: Any) -> Done:
        if job.path != "plain/seed-0":
            raise KeyboardInterrupt
        return run_job(job, *rest)

    run_job = grid._run
    monkeypatch.setattr(grid, "_run", stop_at_second)
    with pytest.raises(KeyboardInterrupt):
        run_grid(grid_of(ROWS, 1), tmp_path, Resources())
    assert list(Collection(tmp_path)) == ["plain/seed-0"]


def test_a_damaged_run_is_left_out_of_the_collection_of_its_grid(tmp_path: Path) -> None:
    compare_rows(ROWS, 1, tmp_path, resources=Resources())
    (tmp_path / "deb" / "seed-0" / "metrics.jsonl").write_text("{")
    display = Listening()
    run_grid(grid_of(ROWS, 1), tmp_path, Resources(), display)
    assert list(Collection(tmp_path)) == ["plain/seed-0", "raw/seed-0"]
    assert len(display.said) == 2
    assert re.search(r"^deb, seed 0 is left out of the collection: .*metrics.jsonl is damaged", display.said[1])


@pytest.mark.parametrize("content", [b"{\n", b"\xff\xfe"])
def test_a_damaged_collection_is_reported_before_its_runs_are_run_again(tmp_path: Path, content: bytes) -> None:
    rows = {"raw": ROWS["raw"]}
    compare_rows(rows, 1, tmp_path, resources=Resources())
    shutil.rmtree(tmp_path / "raw")
    (tmp_path / RUNS).write_bytes(content)
    display = Listening()
    (done,) = run_grid(grid_of(rows, 1), tmp_path, Resources(), display)
    assert "is damaged" in display.said[0]
    assert display.said[0].endswith("; runs that are only there are run again")
    assert done.seconds > 0


def test_runs_without_an_encoder_are_not_reused(tmp_path: Path) -> None:
    rows = {"raw": ROWS["raw"]}
    compare_rows(rows, 1, tmp_path / "first", resources=Resources())
    shutil.rmtree(tmp_path / "first" / "raw")
    display = Listening()
    run_grid(grid_of(rows, 1), tmp_path / "second", Resources(reuse=(tmp_path / "first",)), display)
    assert f"0 of 1 runs are copied from {tmp_path / 'first'}" in display.said
    assert f"1 run there only in {RUNS}, without an encoder: run again" in display.said
    assert (tmp_path / "second" / "raw" / "seed-0" / "embeddings.npz").exists()


def test_runs_under_names_of_earlier_versions_are_reused(tmp_path: Path) -> None:
    jobs = grid_of({"raw, as it is": ROWS["raw"]}, 1)
    (old,) = run_grid([replace(jobs[0], path="raw, as it is/seed-0")], tmp_path, Resources())
    (new,) = run_grid(jobs, tmp_path, Resources(reuse=(tmp_path,)))
    assert new.job.path == "raw-as-it-is/seed-0"
    assert new.seconds == 0.0
    assert new.result == old.result
    assert [entry.path.parent.name for entry in find_runs(tmp_path)] == ["raw, as it is", "raw-as-it-is"]


def test_rows_that_would_share_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"got '\+PUCL' and 'pucl', which both become 'pucl'"):
        grid_of({"+PUCL": small_run("pucl"), "pucl": small_run("pucl")}, 1)
    parts = [Part(name=name, rows=ROWS, base="plain", seeds=1) for name in ("DD", "dd")]
    with pytest.raises(ValueError, match="got 'DD' and 'dd'"):
        make_table(parts, tmp_path)


def test_the_records_of_the_repository_are_few_and_plainly_named() -> None:
    git = shutil.which("git")
    if git is None or not (RECORDS.parent / ".git").exists():
        pytest.skip("which files are of the repository is known to git alone; others may be new runs")
    listed = subprocess.run([git, "ls-files", "-z", "."], cwd=RECORDS, capture_output=True, text=True, check=True)  # noqa: S603
    files = [RECORDS / name for name in listed.stdout.split("\0") if name]
    assert 30 < len(files) < 130  # Each experiment adds five or so.
    assert sum(file.stat().st_size for file in files) < 24e6
    names = {part for file in files for part in file.relative_to(RECORDS).parts}
    assert [name for name in names if not re.fullmatch(r"[a-z0-9._-]+", name)] == []


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(RECORDS.rglob(RUNS)), ids=lambda file: file.parent.name)
def test_a_record_has_the_runs_of_its_table(file: Path) -> None:
    collection = Collection(file.parent)
    assert collection.damaged == []
    kept = next(file.parent / name for name in ("comparison.json", "table.json") if (file.parent / name).exists())
    record = json.loads(kept.read_text())
    listed = [
        path for part in record.get("data", {"": record}).values() for paths in part["runs"].values() for path in paths
    ]
    assert sorted(listed) == sorted(collection)
    assert all(collection.run(path).environment for path in listed)
