"""A grid of runs on a terminal: lines that renew themselves in place, and what stays."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pucl.cli import main
from pucl.paper import graph_settings
from pucl.progress import Line
from pucl.runs import grid, live
from pucl.runs.compare import compare_rows, grid_of
from pucl.runs.display import PROGRESS, Display, Report, read_report
from pucl.runs.grid import Done, Means, Outlook, run_grid
from pucl.runs.live import Cell, Live, Picture, block
from small_runs import ROWS, small_run

METRICS: dict[str, Any] = {"epoch": 3, "epochs": 12, "step": 30, "steps": 120, "loss": 5.3123, "floored": 0.024}
METRICS |= {"samples_per_second": 712.3, "seconds_left": 80.4}


def seen(rows: int = 3, parts: int = 2, going: int = 2) -> Picture:
    cells = {
        (f"row {row}", f"part {part}"): Cell(runs=5, scores=(61.4, 61.46)[: row % 3])
        for part in range(parts)
        for row in range(rows)
    }
    return Picture(
        runs=90,
        done=12,
        failed=1,
        left="about 23 min 0 s left",
        going={f"part 1, row {number}, seed 0": "epoch 3 of 12, 4 s left, loss 5.3123" for number in range(going)},
        cells=cells,
        latest=list(reversed(cells)),
    )


def test_the_block() -> None:
    assert block(seen(), 100, 24) == [
        "12 of 90 runs done, 1 failed, 2 going on, about 23 min 0 s left",
        "  part 1, row 0, seed 0: epoch 3 of 12, 4 s left, loss 5.3123",
        "  part 1, row 1, seed 0: epoch 3 of 12, 4 s left, loss 5.3123",
        "       part 0          part 1",
        "-------------------------------------",
        "row 0  -               -",
        "row 1  61.40 (1 of 5)  61.40 (1 of 5)",
        "row 2  61.43 (2 of 5)  61.43 (2 of 5)",
    ]


def test_one_part_has_no_name() -> None:
    picture = Picture(runs=2, done=1, failed=0, left="1 to go", cells={("plain", ""): Cell(runs=2, scores=(50.0,))})
    assert block(picture, 80, 24) == [
        "1 of 2 runs done, 0 going on, 1 to go",
        "       accuracy, %",
        "---------------------",
        "plain  50.00 (1 of 2)",
    ]


@pytest.mark.parametrize("shape", [(3, 2, 2), (20, 1, 0), (9, 9, 8), (2, 30, 40), (0, 0, 0)])
def test_never_larger_than_the_terminal(shape: tuple[int, int, int]) -> None:
    picture = seen(*shape)
    for columns in (1, 2, 20, 37, 80, 200):
        for lines in (1, 2, 3, 5, 8, 12, 30):
            drawn = block(picture, columns, lines)
            assert 1 <= len(drawn) <= max(1, lines - 1)
            assert all(len(line) < columns for line in drawn)
            assert drawn[0].startswith("12 of 90 runs done"[: columns - 1])


def test_what_changed_last_is_shown_where_not_all_can_be() -> None:
    picture = replace(seen(rows=9, parts=4), latest=[("row 7", "part 3"), ("row 1", "part 2")])
    drawn = block(picture, 42, 10)
    assert drawn[3:] == [
        "       part 2          part 3",
        "-------------------------------------",
        "row 0  -               -",
        "row 1  61.40 (1 of 5)  61.40 (1 of 5)",
        "row 7  61.40 (1 of 5)  61.40 (1 of 5)",
        "not shown: 6 rows and 2 columns",
    ]


def test_many_runs_leave_half_to_the_table() -> None:
    drawn = block(seen(rows=9, going=30), 80, 13)
    assert drawn[4].startswith("  part 1, row 3, ")
    assert drawn[5] == "  and 26 more"
    assert drawn[-1] == "not shown: 6 rows"
    assert len(drawn) == 12


def test_many_parts_go_down() -> None:
    drawn = block(seen(rows=2, parts=9, going=0), 60, 24)
    assert drawn[1].split() == ["row", "0", "row", "1"]
    assert [line.split("  ")[0] for line in drawn[3:]] == [f"part {number}" for number in range(9)]


def test_names_that_are_no_plain_letters() -> None:
    """Wide letters take two columns, and what moves the cursor is not let through."""
    picture = replace(seen(), going={"データ\x1b[2J": "starting"})
    assert block(picture, 12, 24)[1] == "  データ\\x1"
    assert block(picture, 40, 24)[1] == "  データ\\x1b[2J: starting"
    assert block(picture, 8, 24)[1] == "  デー"


class Screen:
    """What a terminal makes of what is written to it, as far as that is used here."""

    def __init__(self, columns: int, lines: int) -> None:
        self.size, self.raw = (columns, lines), ""
        self.rows, self.row, self.column, self.broken = [""], 0, 0, 0

    def write(self, text: str) -> None:
        """Letters, line ends, and the sequences for up, for clearing what follows, and for clearing a line."""
        self.raw += text
        for up, clear, end, letter in re.findall(r"\x1b\[(\d+)A|\x1b\[([JK])|(\r|\n)|(.)", text):
            if up:
                self.row = max(0, len(self.rows) - self.size[1], self.row - int(up))
            elif clear:
                self.rows[self.row] = self.rows[self.row][: self.column]
                if clear == "J":
                    del self.rows[self.row + 1 :]
            elif end == "\r":
                self.column = 0
            elif end == "\n":
                self._down()
            else:
                if self.column == self.size[0]:
                    self.broken += 1
                    self.column = 0
                    self._down()
                line = self.rows[self.row].ljust(self.column)
                self.rows[self.row] = line[: self.column] + letter + line[self.column + 1 :]
                self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")


class Terminal:
    """A terminal of this size. Programs write to its slave."""

    def __init__(self, columns: int, lines: int) -> None:
        self.master, self.slave = pty.openpty()
        termios.tcsetwinsize(self.slave, (lines, columns))
        self._size, self._written = (columns, lines), b""
        self._end = threading.Event()
        self._reader = threading.Thread(
            target=self._read, daemon=True
        )  # One that nobody reads would make its writers wait.
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # All have closed the slave.
            while True:
                if select.select([self.master], [], [], 0.1)[0]:
                    self._written += os.read(self.master, 65536)
                elif self._end.is_set():
                    return

    def read(self) -> Screen:
        """What has come so far; a letter or a sequence may be half there."""
        screen = Screen(*self._size)
        screen.write(self._written.decode(errors="ignore"))
        return screen

    def close(self) -> Screen:
        """What came in all."""
        self._end.set()
        self._reader.join()
        os.close(self.master)
        return self.read()

    def wait_for(self, condition: Callable[[list[str]], bool], seconds: float = 60) -> list[str]:
        """What is on the screen once it is so."""
        end = time.monotonic() + seconds
        while not condition(rows := self.read().rows):
            assert time.monotonic() < end, "\n".join(rows)
            time.sleep(0.01)
        return rows


@contextlib.contextmanager
def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int = 100, lines: int = 24) -> Iterator[Terminal]:
    """Stderr is a terminal. In the test itself: between a fixture and its test, pytest takes stderr back."""
    terminal = Terminal(columns, lines)
    with os.fdopen(terminal.slave, "w") as slave, monkeypatch.context() as patch:
        patch.setattr(live, "RENEWAL_SECONDS", 0.01)
        patch.setattr(sys, "stderr", slave)
        yield terminal


def make_live(out: Path, *places: str) -> Live:
    for place in places:
        (out / place).mkdir(parents=True)
    names = {place: place.replace("/seed-", ", seed ") for place in places}
    rows = {place: (place.split("/")[0], "") for place in places}
    return Live(names, rows, out, 2, lambda positions: f"{len(positions)} positions")


def test_renewed_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        on_terminal(monkeypatch) as terminal,
        make_live(tmp_path, "plain/seed-0", "plain/seed-1", "deb/seed-0") as shown,
    ):
        print("before", file=sys.stderr)  # As a cluster does when it is connected to.
        shown.send("plain/seed-0")
        terminal.wait_for(lambda rows: "  plain, seed 0: starting" in rows)
        shown.report("plain/seed-0").step(METRICS)
        expected = [
            "before",
            "0 of 3 runs done, 1 going on, 1 positions",
            "  plain, seed 0: epoch 3 of 12, 1 min 20 s left, loss 5.3123, floored 2%",
            "       accuracy, %",
            "------------------",
            "plain  -",
            "deb    -",
            "",
        ]
        terminal.wait_for(lambda rows: rows == expected)
        shown.send("deb/seed-0")
        shown.report("deb/seed-0").status("probing")
        terminal.wait_for(lambda rows: "  deb, seed 0: probing" in rows)
        shown.finish("plain/seed-0", {"knn": 0.5, "svm": 0.6})
        shown.finish("deb/seed-0", None)
        shown.say("deb, seed 0: failed: no")
        expected[1:3] = ["deb, seed 0: failed: no", "1 of 3 runs done, 1 failed, 0 going on, 0 positions"]
        expected[4:6] = ["---------------------", "plain  60.00 (1 of 2)"]
        terminal.wait_for(lambda rows: rows == expected)
    screen = terminal.close()
    assert screen.rows == ["before", "deb, seed 0: failed: no", ""]
    assert screen.column == 0


def test_a_narrow_terminal_breaks_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        on_terminal(monkeypatch, columns=24, lines=6) as terminal,
        make_live(tmp_path, *(f"{row}/seed-0" for row in "abcdefgh")) as shown,
    ):
        shown.report("f/seed-0").step(METRICS)
        rows = terminal.wait_for(lambda rows: "  f, seed 0: epoch 3 of" in rows)
        assert len(rows) <= 6
    screen = terminal.close()
    assert screen.rows == [""]
    assert screen.broken == 0


def test_a_terminal_that_was_made_narrower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has broken the lines that are there, so that there are more of them to go over."""
    with on_terminal(monkeypatch) as terminal, make_live(tmp_path, "plain/seed-0") as shown:
        shown.send("plain/seed-0")
        terminal.wait_for(lambda rows: [len(row) for row in rows] == [41, 25, 18, 18, 8, 0])
        monkeypatch.setattr(live, "terminal_size", lambda: os.terminal_size((20, 24)))
        shown.say("now")
    assert "\x1b[8A\r\x1b[J" in terminal.close().raw  # Three and two for the first lines, and three more.


def test_after_an_interrupt_it_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = make_live(tmp_path, "plain/seed-0")
    shown.send("plain/seed-0")

    def stop() -> None:
        with on_terminal(monkeypatch) as terminal, shown:
            terminals.append(terminal)
            terminal.wait_for(lambda rows: len(rows) == 6)
            raise KeyboardInterrupt

    terminals: list[Terminal] = []
    with pytest.raises(KeyboardInterrupt):
        stop()
    screen = terminals[0].close()
    assert screen.rows[0] == "0 of 1 runs done, 1 going on, 0 positions"
    assert (screen.rows[-1], screen.column) == ("", 0)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    shown = make_live(tmp_path, "a/seed-0", "b/seed-0", "c/seed-0", "d/seed-0")
    shown.report("a/seed-0").status("probing")
    assert shown.picture().going == {"a, seed 0": "probing"}
    (tmp_path / "a" / "seed-0" / PROGRESS).write_text('{"grid": ')  # Being written: what was known still stands.
    Report(file=tmp_path / "b" / "seed-0" / PROGRESS, grid="another").status("probing")
    (tmp_path / "c" / "seed-0" / PROGRESS).mkdir()
    (tmp_path / "d" / "seed-0" / PROGRESS).write_bytes(b"\xff[1]")
    assert shown.picture().going == {"a, seed 0": "probing"}
    for text in ("[1]", json.dumps({"grid": shown.grid, "epoch": 1})):
        (tmp_path / "d" / "seed-0" / PROGRESS).write_text(text)
        assert read_report(tmp_path / "d" / "seed-0" / PROGRESS, shown.grid) is None


def test_a_report_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    Report(file=tmp_path / "not there" / PROGRESS, grid="x").step(METRICS)


def test_a_report_is_written_now_and_then(tmp_path: Path) -> None:
    """With what is known from before: right after an epoch there is no loss yet."""
    file = tmp_path / PROGRESS
    words: list[str] = []
    report = Report(label="a: ", file=file, grid="x", speak=words.append)
    report.epoch(METRICS | {"knn": 0.5})
    report.step({name: value for name, value in METRICS.items() if name not in ("loss", "floored")})
    first = json.loads(file.read_text())
    assert (first["loss"], first["knn"], first["grid"]) == (5.3123, 0.5, "x")
    report.step(METRICS | {"epoch": 4})
    assert json.loads(file.read_text())["epoch"] == 3
    report.say("warning: too hot")
    assert words == ["a: warning: too hot"]


def test_a_terminal_that_is_gone_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    file = os.fdopen(slave, "w")
    monkeypatch.setattr(sys, "stderr", file)
    with make_live(tmp_path, "plain/seed-0") as shown:
        os.close(master)
        shown.say("nobody hears this")
    with contextlib.suppress(OSError):
        file.close()


def test_how_far_runs_are_says_how_long_the_rest_takes() -> None:
    jobs = grid_of({"plain": small_run()}, 5)
    outlook = Outlook(jobs, workers=2)
    assert outlook.left({}) == "5 to go"
    # One takes 40 s, of which 30 and 10 are left: those, and three more, two at a time.
    places = [job.place for job in jobs]
    assert outlook.left({places[0]: (0.25, 30.0), places[1]: (0.75, 10.0)}) == "about 1 min 20 s left"
    for job in jobs[1:]:
        outlook.note(Done(job=job, result={}, error=None, seconds=10.0))
    assert outlook.left({places[0]: (0.25, 30.0)}) == "about 30 s left"  # Nobody can help with the last one.


def test_no_test_fold_is_looked_at_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    displays: list[Display] = []

    def search(*_: object, display: Display, **__: object) -> tuple[list[graph_settings.Setting], list[str]]:
        displays.append(display)
        return [], []

    monkeypatch.setattr(graph_settings, "search_settings", search)
    assert main(["ablate", "graphs", "--out", str(tmp_path)]) == 0
    result = {"svm": 0.9, "svm_scaled": 0.9, "validation": {"svm": 0.5, "svm_scaled": 0.6}}
    assert displays[0].score(result) == 0.6
    assert displays[0].labelled("a").score(result) == 0.6
    assert Display().score(result) == 0.9


def test_one_by_one_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deb" / "seed-0").mkdir(parents=True)
    (tmp_path / "deb" / "seed-0" / "thesis.tex").write_text("mine")
    with on_terminal(monkeypatch, columns=1000) as terminal:
        lines = compare_rows(ROWS, 1, tmp_path, means=Means(), display=Display(Line())).lines
        (again,) = run_grid(grid_of(ROWS, 1)[:1], tmp_path, Means(), Display(Line()))
    assert [line.count for line in lines] == [1, 0, 1]
    assert again.seconds == 0
    screen = terminal.close()
    failure, finished, last = screen.rows
    assert failure.startswith("deb, seed 0: failed: ")
    assert finished == "1 of 1 runs are finished already"
    assert last == ""
    assert "  plain, seed 0: " in screen.raw
    assert "\nplain  " in screen.raw
    assert not list(tmp_path.rglob(PROGRESS))


@pytest.mark.slow
def test_side_by_side_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "usable_cores", lambda: 2)
    rows = {"plain": small_run(epochs=20), "deb": small_run("deb", epochs=20)}
    with on_terminal(monkeypatch, 60, 12) as terminal:
        found = run_grid(grid_of(rows, 2), tmp_path, Means(workers=2), Display(Line()))
    screen = terminal.close()
    assert all(each.error is None for each in found)
    assert screen.rows == [""]
    assert re.search(r"deb, seed 0: epoch \d+ of 20, .* left, loss \d", screen.raw)
    assert "(1 of 2)" in screen.raw
    assert screen.broken == 0
    assert not list(tmp_path.rglob(PROGRESS))


@pytest.mark.slow
def test_ctrl_c_on_a_terminal(few_graphs: Path, tmp_path: Path) -> None:
    """Typed, while both trainings are seen to go on: both are saved, and the terminal is left in order."""
    terminal = Terminal(100, 24)
    program = "import fcntl, sys, termios; fcntl.ioctl(2, termios.TIOCSCTTY, 0)\n"
    program += "import pucl.cli; sys.exit(pucl.cli.main())"
    command = ["compare", "infograph", str(few_graphs), "--corrections=plain,pucl", "--seeds=1", "--epochs=40000"]
    command += ["--batch-size=16", "--probes=knn", "--workers=2", "--out", str(tmp_path)]
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", program, *command],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdin=terminal.slave,
        stdout=terminal.slave,
        stderr=terminal.slave,
        start_new_session=True,
    )
    os.close(terminal.slave)
    try:
        terminal.wait_for(lambda rows: sum("of 40000" in row for row in rows) == 2, 120)
        os.write(terminal.master, b"\x03")
        assert process.wait(60) == 130
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        screen = terminal.close()
    assert screen.rows[0].startswith("0 of 2 runs done, 2 going on, ")
    assert "the same command goes on" in screen.rows[-2]
    assert (screen.rows[-1], screen.column, screen.broken) == ("", 0, 0)
    for row in ("plain", "pucl"):
        assert (tmp_path / row / "seed-0" / "checkpoint.pt").exists()
