"""Many runs: what is finished is left alone, and what fails is told of and stops nothing."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pucl.cli import main
from pucl.config import RunConfig
from pucl.frameworks.recipes import recipe
from pucl.images.registry import load
from pucl.progress import StatusArea
from pucl.runs import grid
from pucl.runs.catalogue import find_runs
from pucl.runs.collection import RUNS
from pucl.runs.directory import RunDirectory
from pucl.runs.display import Display
from pucl.runs.grid import Resources, run_grid
from pucl.runs.jobs import Done, Job, Outlook, grid_of
from pucl.runs.rows import TableRow, as_csv, as_text, make_row
from pucl.runs.run import run
from pucl.runs.tables import compare_corrections, compare_rows
from small_runs import ROWS, save_pictures, small_run


def block(place: Path) -> None:
    """Put something into a run's directory with which it cannot be one."""
    place.mkdir(parents=True)
    (place / "thesis.tex").write_text("mine")


def written(out: Path) -> dict[str, int]:
    """When each file of the runs was written; locks are opened anew each time."""
    return {
        str(file): file.stat().st_mtime_ns for file in out.rglob("*/seed-*/*") if file.is_file() and file.suffix != ""
    }


def test_seed_after_seed() -> None:
    jobs = grid_of(ROWS, 2, "shapes")
    assert [job.path for job in jobs[:4]] == [
        "shapes/plain/seed-0",
        "shapes/deb/seed-0",
        "shapes/raw/seed-0",
        "shapes/plain/seed-1",
    ]
    assert jobs[3].name == "shapes, plain, seed 1"
    assert jobs[3].config == replace(ROWS["plain"], seed=1)
    with pytest.raises(ValueError, match="expected at least 1, got 0"):
        grid_of(ROWS, 0)


def test_finished_jobs_are_skipped(tmp_path: Path) -> None:
    jobs = grid_of(ROWS, 1)
    first = run_grid(jobs[:2], tmp_path, Resources())
    before = written(tmp_path)
    assert len(before) >= 2 * 5
    both = run_grid(jobs, tmp_path, Resources())
    assert [each.job for each in both] == jobs
    assert [each.result for each in both[:2]] == [each.result for each in first]
    assert before.items() <= written(tmp_path).items()
    assert (tmp_path / "raw" / "seed-0" / "result.json").exists()


def test_finished_runs_of_another_grid_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = grid_of(ROWS, 1)
    first = run_grid(jobs[:2], tmp_path / "first", Resources())
    (tmp_path / "first" / "deb" / "seed-0" / "result.json").unlink()  # Begun, not finished.
    renamed = [replace(job, path=f"again/{job.path}") for job in jobs[:2]]
    block(tmp_path / "taken" / renamed[0].path)
    ran: list[str] = []

    def watched(config: RunConfig, *rest: Any, **more: Any) -> dict[str, Any]:
        ran.append(config.correction)
        return run(config, *rest, **more)

    monkeypatch.setattr(grid, "run", watched)
    second = run_grid(renamed, tmp_path / "second", Resources(reuse=(tmp_path / "first",)))
    assert ran == ["deb"]
    assert second[0].result == first[0].result
    copied = tmp_path / "second" / renamed[0].path
    assert {file.name for file in copied.iterdir()} >= {"config.json", "metrics.jsonl", "result.json"}
    assert not list(tmp_path.rglob("*.part"))
    taken = run_grid(renamed, tmp_path / "taken", Resources(reuse=(tmp_path / "first", tmp_path / "second")))
    assert "holds files that are not a run" in str(taken[0].error)
    assert taken[1].result == second[1].result


def test_runs_on_other_data_are_not_copied(tmp_path: Path) -> None:
    mine = save_pictures(tmp_path / "mine.npz", 48, 16)
    jobs = grid_of({"untrained": recipe("simclr", str(mine), correction="untrained", width=8, dim=8)}, 1)
    (before,) = run_grid(jobs, tmp_path / "before", Resources())
    save_pictures(mine, 60, 16)
    (after,) = run_grid(jobs, tmp_path / "after", Resources(reuse=(tmp_path / "before",)))
    assert before.result is not None
    assert after.result is not None
    assert after.result["data"] != before.result["data"]


def test_of_several_finished_runs_the_one_on_these_data_is_copied(tmp_path: Path) -> None:
    mine = save_pictures(tmp_path / "mine.npz", 60, 16)
    jobs = grid_of({"untrained": recipe("simclr", str(mine), correction="untrained", width=8, dim=8)}, 1)
    run_grid(jobs, tmp_path / "old", Resources())
    save_pictures(mine, 48, 16)
    (before,) = run_grid(jobs, tmp_path / "new", Resources())
    for order in (("old", "new"), ("new", "old")):
        reuse = tuple(tmp_path / name for name in order)
        (after,) = run_grid(jobs, tmp_path / "-".join(order), Resources(reuse=reuse))
        assert after.result == before.result


def test_what_hinders_a_copy_is_left_to_the_run(tmp_path: Path) -> None:
    """A copy that was killed is no run; a file in the way fails that one job."""
    jobs = grid_of(ROWS, 1)
    run_grid(jobs[:1], tmp_path / "first", Resources())
    (tmp_path / "first" / "plain" / "seed-0").rename(tmp_path / "first" / "plain" / ".seed-0.1.part")
    (tmp_path / "first" / RUNS).unlink()
    assert not list(find_runs(tmp_path / "first"))
    run_grid(jobs[2:], tmp_path / "first", Resources())
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "raw").write_text("a file")
    (raw,) = run_grid(jobs[2:], tmp_path / "second", Resources(reuse=(tmp_path / "first",)))
    assert raw.error is not None
    assert (tmp_path / "second" / "raw").read_text() == "a file"


def test_a_copy_has_no_other_runs_in_it(tmp_path: Path) -> None:
    jobs = grid_of(ROWS, 1)
    run_grid([replace(jobs[2], path="")], tmp_path / "runs", Resources())
    (inner,) = run_grid(jobs[2:], tmp_path / "runs" / "grid", Resources(reuse=(tmp_path / "runs",)))
    assert inner.result is not None
    (again,) = run_grid([replace(jobs[2], path="x")], tmp_path / "runs" / "more", Resources(reuse=(tmp_path / "runs",)))
    assert again.result == inner.result
    assert all(file.is_file() for file in (tmp_path / "runs" / "more" / "x").iterdir())


def test_a_place_to_copy_from_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="the directory to search for runs: expected a directory, got nothing of that name"
    ):
        run_grid(grid_of(ROWS, 1), tmp_path, Resources(reuse=(tmp_path / "nowhere",)))


def test_places_are_for_one_job_each(tmp_path: Path) -> None:
    job = Job(name="plain", path="plain", config=small_run())
    with pytest.raises(ValueError, match="expected a path for each job, got one twice"):
        run_grid([job, job], tmp_path, Resources())
    with pytest.raises(ValueError, match="number of runs at a time: expected at least 1, got 0"):
        Resources(workers=0)


def test_one_that_fails_does_not_stop_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    block(tmp_path / "deb" / "seed-0")
    comparison = compare_rows(ROWS, 2, tmp_path, resources=Resources(), display=Display(StatusArea()))
    plain, deb, raw = comparison.rows
    assert plain.failed == raw.failed == ()
    assert plain.count == raw.count == 2
    assert deb.count == 1
    (words,) = deb.failed
    assert words.startswith("deb, seed 0: ")
    assert "holds files that are not a run of pucl" in words
    # Differences are between runs of the same seed, of which one is left.
    assert deb.differences["knn"].mean == pytest.approx(deb.by_seed["knn"][0] - plain.by_seed["knn"][1])
    assert deb.differences["knn"].low is None
    assert "[2 of 6] deb, seed 0: failed: " in capsys.readouterr().err
    assert "1 (1 failed)" in as_text(comparison.rows)
    assert as_csv(comparison.rows).splitlines()[2].endswith(",1")
    assert TableRow.from_json(json.loads(json.dumps(deb.as_json()))) == deb
    assert (tmp_path / "deb" / "seed-0" / "thesis.tex").read_text() == "mine"


@pytest.mark.parametrize(
    ("file", "content"),
    [("result.json", '{"knn": 0.5'), ("result.json", "[1]"), ("config.json", "[1]"), ("config.json", None)],
)
def test_a_damaged_run_is_told_and_the_rest_goes_on(tmp_path: Path, file: str, content: str | None) -> None:
    jobs = grid_of({"plain": ROWS["plain"]}, 2)
    run_grid(jobs[:1], tmp_path, Resources())
    damaged = tmp_path / jobs[0].path / file
    if content is None:
        damaged.unlink()
    else:
        damaged.write_text(content)
    first, second = run_grid(jobs, tmp_path, Resources())
    assert first.error is not None
    assert file in first.error or "holds files that are not a run" in first.error
    assert second.error is None
    assert not damaged.exists() if content is None else damaged.read_text() == content


def test_runs_on_other_data_do_not_count(tmp_path: Path) -> None:
    mine = save_pictures(tmp_path / "mine.npz", 48, 16)
    config = recipe("simclr", str(mine), correction="untrained", width=8, dim=8)
    jobs = grid_of({"untrained": config}, 2)
    run_grid(jobs[:1], tmp_path / "out", Resources())
    save_pictures(mine, 60, 16)
    first, second = run_grid(jobs, tmp_path / "out", Resources())
    assert first.error is not None
    assert "holds a run on other data" in first.error
    assert second.error is None
    comparison = compare_rows({"untrained": config}, 2, tmp_path / "out", resources=Resources())
    assert comparison.runs == {"untrained": ["untrained/seed-1"]}  # What failed is not of these data.
    assert comparison.rows[0].seeds == (1,)


def test_other_labels_and_other_tests_are_other_data(tmp_path: Path) -> None:
    mine = save_pictures(tmp_path / "mine.npz", 48, 16)
    jobs = grid_of({"untrained": recipe("simclr", str(mine), correction="untrained", width=8, dim=8)}, 1)
    (before,) = run_grid(jobs, tmp_path / "out", Resources())
    with np.load(mine) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    data = load(mine)
    assert data.test is not None
    assert data.test.names is not None
    tests = images.copy()
    tests[[int(name) for name in data.test.names]] ^= 1
    for changed in ({"images": images, "labels": labels[::-1]}, {"images": tests, "labels": labels}):
        np.savez(mine, **changed)
        (after,) = run_grid(jobs, tmp_path / "out", Resources())
        assert after.error is not None
        assert "holds a run on other data" in after.error
    np.savez(mine, images=images, labels=labels)
    (again,) = run_grid(jobs, tmp_path / "out", Resources())
    assert again.result == before.result


@pytest.mark.slow
def test_a_deadly_run_fails_alone(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "MOST_DEATHS", 1)
    small: dict[str, Any] = {"epochs": 1, "batch_size": 12, "dim": 8}
    deadly = recipe("simclr", str(pictures), encoder="small_runs:deadly_encoder", **small)
    good = recipe("simclr", str(pictures), width=8, **small)
    rows = {"deadly": deadly, "good": good, "better": replace(good, correction="deb")}
    done = run_grid(grid_of(rows, 1), tmp_path, Resources(workers=2))
    assert [each.error is None for each in done] == [False, True, True]
    assert "its process died several times, also when it ran alone" in str(done[0].error)


def test_a_row_of_which_nothing_came(tmp_path: Path) -> None:
    """Also of that which all are compared with: the others then stand alone."""
    block(tmp_path / "plain" / "seed-0")
    plain, deb, raw = compare_rows(ROWS, 1, tmp_path, resources=Resources()).rows
    assert plain.count == 0
    assert plain.scores == {}
    assert plain.by_seed == {}
    assert deb.differences == raw.differences == {}
    assert "0 (1 failed)" in as_text((plain, deb, raw))
    assert len({len(row.split(",")) for row in as_csv((plain, deb, raw)).splitlines()}) == 1
    assert as_text((plain,)).splitlines()[0].startswith("row")


def test_all_that_fail_have_one_mistake(tmp_path: Path) -> None:
    rows = {name: replace(config, data="shape") for name, config in ROWS.items()}
    with pytest.raises(ValueError, match="no set of graphs 'shape'"):
        compare_rows(rows, 1, tmp_path, resources=Resources())


@pytest.mark.slow
def test_the_command_says_what_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    block(tmp_path / "deb" / "seed-0")
    command = ["compare", "infograph", "shapes", "--limit=44", "--epochs=1", "--hidden=8", "--probes=knn", "--seeds=1"]
    command += ["--workers=1", "--out", str(tmp_path)]
    assert main([*command, "--corrections=plain,deb"]) == 1
    printed = capsys.readouterr()
    assert "failed: deb, seed 0: " in printed.err
    assert "0 (1 failed)" in printed.out
    (tmp_path / "deb" / "seed-0" / "thesis.tex").unlink()
    before = written(tmp_path / "plain")
    assert main([*command, "--corrections=plain,deb"]) == 0
    assert written(tmp_path / "plain") == before
    lines = json.loads((tmp_path / "comparison.json").read_text())["lines"]
    assert [line["failed"] for line in lines] == [[], []]
    capsys.readouterr()
    again = [*command[:-1], str(tmp_path / "again"), "--corrections=plain,deb", f"--reuse={tmp_path}", "--no-page"]
    assert main(again) == 0
    assert f"2 of 2 runs are copied from {tmp_path}" in capsys.readouterr().err
    assert json.loads((tmp_path / "again" / "comparison.json").read_text())["lines"] == lines


@pytest.mark.slow
def test_two_workers_find_what_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(grid, "usable_cores", lambda: 2)  # One thread for each, as for this process.
    block(tmp_path / "two" / "deb" / "seed-1")
    block(tmp_path / "one" / "deb" / "seed-1")
    corrections = list(ROWS)
    one, two = (
        compare_corrections(
            small_run(), corrections, 2, tmp_path / name, resources=Resources(workers=workers), display=display
        )
        for name, workers, display in (("one", 1, Display()), ("two", 2, Display(StatusArea())))
    )
    for mine, theirs in zip(one.rows, two.rows, strict=True):
        assert mine.name == theirs.name
        assert mine.by_seed == theirs.by_seed
        assert mine.differences == theirs.differences
        assert mine.floored == theirs.floored
        assert len(mine.failed) == len(theirs.failed) == (mine.name == "deb")
    for correction in corrections:
        files = [tmp_path / name / correction / "seed-0" / "encoder.safetensors" for name in ("one", "two")]
        assert files[0].read_bytes() == files[1].read_bytes()
    told = capsys.readouterr().err
    assert "[6 of 6]" in told
    assert "deb, seed 1: failed: " in told
    assert ": done in " in told


def test_the_outlook_learns_from_runs_of_the_same_kind() -> None:
    jobs = grid_of({"plain": small_run(), "deb": small_run("deb")}, 3)
    outlook = Outlook(jobs[1:], workers=2)  # The first was there before.

    def done(job: Job, seconds: float, error: str | None = None, result: dict[str, Any] | None = None) -> Done:
        return Done(job=job, result=None if error else result or {}, error=error, seconds=seconds)

    outlook.note(done(jobs[1], 90, "no"))
    assert outlook.left() == "4 to go"
    outlook.note(done(jobs[2], 100))
    assert outlook.left() == "about 2 min 30 s left"  # Three at 100 s, two at a time.
    outlook.note(done(jobs[3], 20))
    assert outlook.left() == "about 1 min 0 s left"  # One of each kind.
    outlook.note(done(jobs[4], 2, result={"seconds": 90, "evaluation_seconds": 10}))  # Begun by an earlier grid.
    assert outlook.left() == "about 20 s left"  # There is nothing for the other worker.


def test_a_line_of_no_runs() -> None:
    line = make_row("deb", "deb", {}, failed=["deb, seed 0: no"])
    assert (line.count, line.tau_plus, line.floored, line.seconds) == (0, None, None, 0.0)
    assert line.scores == {}
    assert line.differences == {}


def is_held(lock: Path) -> bool:
    with lock.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def wait_until(condition: Any, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_workers_leave_with_their_parent(tmp_path: Path) -> None:
    """Killed with the means against which nothing can be done: what it held is free, and the next call goes on."""
    command = [sys.executable, "-m", "pucl", "compare", "infograph", "shapes", "--epochs=100000", "--probes=knn"]
    command += ["--corrections=plain,deb", "--seeds=1", "--workers=2", "--out", str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
    locks = [tmp_path / row / "seed-0" / ".lock" for row in ("plain", "deb")]
    try:
        wait_until(lambda: all(lock.exists() and is_held(lock) for lock in locks) or process.poll() is not None, 120)
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    wait_until(lambda: not any(map(is_held, locks)), 30)
    assert RunDirectory(tmp_path / "plain" / "seed-0").result() is None


@pytest.mark.slow
def test_ctrl_c_saves_what_is_going_on(few_graphs: Path, tmp_path: Path) -> None:
    """As a terminal does it: the signal reaches the grid and its workers. The same command then goes on."""
    command = [sys.executable, "-m", "pucl", "compare", "infograph", str(few_graphs), "--corrections=plain,pucl"]
    command += ["--seeds=1", "--epochs=40000", "--batch-size=16", "--probes=knn", "--workers=2", "--out", str(tmp_path)]
    command += ["--checkpoint-seconds=1"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(  # noqa: S603
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    rows = [tmp_path / name / "seed-0" for name in ("plain", "pucl")]
    # However busy the machine, one of them is at its training then.
    wait_until(lambda: any((row / "checkpoint.pt").exists() for row in rows), 120)
    interrupted = time.time() - 0.1  # The clock of a file system may be a little behind.
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "the same command resumes them" in errors
    kept = [row / "checkpoint.pt" for row in rows if (row / "checkpoint.pt").exists()]
    assert max(file.stat().st_mtime for file in kept) >= interrupted
    assert not any((row / "result.json").exists() for row in rows)


EPOCHS = 40


def compare_few(graphs: Path, out: Path, workers: int) -> list[str]:
    """A comparison in which one row is done at once and others take a while."""
    command = ["compare", "infograph", str(graphs), "--corrections=raw,plain,pucl", "--seeds=1", "--no-page"]
    command += [f"--epochs={EPOCHS}", "--batch-size=22", "--hidden=8", "--layers=2", "--probes=knn", "--monitor=0"]
    return [*command, f"--workers={workers}", "--out", str(out)]


def start(command: list[str]) -> "subprocess.Popen[str]":
    """In a process group of its own, on two cores: one thread for each of two workers, as for this process."""
    program = "import os, sys\n"
    program += "if hasattr(os, 'sched_setaffinity'): os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])\n"
    program += "import pucl.cli; sys.exit(pucl.cli.main())"
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", program, *command, "--checkpoint-seconds=0.02"],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def numbers_of(out: Path) -> list[dict[str, Any]]:
    """The rows of a comparison, but for how long they took."""
    lines = json.loads((out / "comparison.json").read_text())["lines"]
    return [{name: value for name, value in line.items() if not name.endswith("seconds")} for line in lines]


def step_of(row: Path) -> int:
    """At which step a run's last checkpoint is; 0 where there is none, or none any more."""
    with suppress(OSError, ValueError):
        state = RunDirectory(row).state()
        return 0 if state is None else int(state["step"])
    return 0


def weights_of(out: Path) -> dict[str, bytes]:
    return {str(file.relative_to(out)): file.read_bytes() for file in sorted(out.rglob("encoder.safetensors"))}


@pytest.fixture(scope="module")
def uninterrupted(few_graphs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("uninterrupted")
    assert main(compare_few(few_graphs, out, workers=1)) == 0
    return out


@pytest.mark.slow
def test_a_killed_grid_goes_on_to_the_same_table(few_graphs: Path, tmp_path: Path, uninterrupted: Path) -> None:
    """SIGKILL for the grid and its workers at once, when a run is finished and another is in the middle.

    It goes on in this process, which starts sooner than two workers do.
    """
    process = start(compare_few(few_graphs, tmp_path, workers=2))
    rows = [tmp_path / name / "seed-0" for name in ("plain", "pucl")]
    finished = tmp_path / "raw" / "seed-0" / "result.json"

    def in_the_middle() -> bool:
        begun = finished.exists() and all((row / "config.json").exists() for row in rows)
        return begun and any(0 < step_of(row) < EPOCHS for row in rows)

    try:
        wait_until(lambda: in_the_middle() or process.poll() is not None, 120)
        assert process.poll() is None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert not (tmp_path / "comparison.json").exists()
    assert any(0 < step_of(row) < 2 * EPOCHS for row in rows)
    before = finished.stat().st_mtime_ns
    assert main(compare_few(few_graphs, tmp_path, workers=1)) == 0
    assert finished.stat().st_mtime_ns == before
    assert numbers_of(tmp_path) == numbers_of(uninterrupted)
    assert weights_of(tmp_path) == weights_of(uninterrupted)


@pytest.mark.slow
def test_two_grids_in_one_directory(
    few_graphs: Path, tmp_path: Path, uninterrupted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What one is at, the other leaves alone and tells of; calling once more gives the table as of one grid."""
    first = start(compare_few(few_graphs, tmp_path, workers=1))
    row = tmp_path / "plain" / "seed-0"
    wait_until(lambda: (row / "checkpoint.pt").exists() or first.poll() is not None, 120)
    assert first.poll() is None
    second = main(compare_few(few_graphs, tmp_path, workers=1))
    told = capsys.readouterr().err
    _, errors = first.communicate(timeout=240)
    assert first.returncode in (0, 1), errors  # 1 where the second was at a run just then.
    assert second == 1
    assert "is in use by another process" in told
    assert main(compare_few(few_graphs, tmp_path, workers=1)) == 0
    assert numbers_of(tmp_path) == numbers_of(uninterrupted)
    assert weights_of(tmp_path) == weights_of(uninterrupted)


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced(few_graphs: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pucl", "compare", "infograph", str(few_graphs), "--corrections=plain,pucl"]
    command += ["--seeds=1", "--epochs=80", "--batch-size=16", "--probes=knn", "--workers=2", "--out", str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
    row = tmp_path / "plain" / "seed-0"
    end = time.monotonic() + 120
    while not (row / "config.json").exists() and time.monotonic() < end:
        time.sleep(0.05)
    workers = [
        int(place.name)
        for place in Path("/proc").iterdir()
        if place.name.isdigit()
        and f"PPid:\t{process.pid}\n" in _read(place / "status")
        and "LokyProcess" in _read(place / "cmdline")
    ]
    assert workers
    os.kill(workers[0], signal.SIGKILL)
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert "failed" not in errors
    assert "plain" in output


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "which does not answer"),
        ("here", "expected HOST:PORT, auto or local"),
        ("here:there", "expected HOST:PORT, auto or local"),
    ],
)
def test_a_cluster_that_is_not_there(tmp_path: Path, address: str, message: str) -> None:
    pytest.importorskip("ray", reason="the ray extra is not installed")
    with pytest.raises(ValueError, match=message):
        run_grid(grid_of(ROWS, 1), tmp_path / "out", Resources(ray=address))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_ray_gives_the_numbers_of_this_machine(few_graphs: Path, tmp_path: Path) -> None:
    """A real cluster, of this machine alone."""
    pytest.importorskip("ray", reason="the ray extra is not installed")
    command = [sys.executable, "-m", "pucl", "compare", "infograph", str(few_graphs), "--corrections=plain,pucl"]
    command += ["--seeds=2", "--epochs=3", "--batch-size=16", "--probes=svm,knn", "--workers=2"]
    for name, more in (("cores", []), ("ray", ["--ray=local"])):
        environment = os.environ | {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
        done = subprocess.run(  # noqa: S603
            [*command, *more, "--out", str(tmp_path / name)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    one, other = (json.loads((tmp_path / name / "comparison.json").read_text())["lines"] for name in ("cores", "ray"))
    assert [line["by_seed"] for line in one] == [line["by_seed"] for line in other]
