"""The dashboard of a grid on a terminal."""

import contextlib
import io
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
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pucl.cli import main
from pucl.paper import graph_settings
from pucl.progress import StatusArea
from pucl.runs import grid
from pucl.runs.display import PROGRESS, Dashboard, Display, ProgressWriter, read_progress
from pucl.runs.grid import Resources, run_grid
from pucl.runs.jobs import Done, Outlook, grid_of
from pucl.runs.tables import compare_rows
from small_runs import ROWS, small_run

METRICS: dict[str, Any] = {"epoch": 3, "epochs": 12, "step": 30, "steps": 120, "loss": 5.3123, "floored": 0.024}
METRICS |= {"samples_per_second": 712.3, "seconds_left": 80.4}


BAR = "━" * 20


def make_dashboard(out: Path, *places: str, workers: int = 2) -> Dashboard:
    for place in places:
        (out / place).mkdir(parents=True, exist_ok=True)
    names = {place: place.replace("/seed-", ", seed ") for place in places}
    rows = {place: (Path(place).parent.name, str(Path(place).parent.parent).strip(".")) for place in places}
    return Dashboard(StatusArea(), names, rows, out, workers, lambda positions: f"{len(positions)} positions")


def drawn(dashboard: Dashboard) -> list[str]:
    """Lines of the dashboard."""
    console = Console(width=100, height=60, color_system=None, file=io.StringIO())
    with console.capture() as captured:
        console.print(dashboard.draw())
    return [plain(line) for line in captured.get().splitlines()]


def plain(line: str) -> str:
    """A line without the spaces at its end, with a complete bar."""
    return re.sub("[━╸╺][━╸╺ ]{19}", BAR, line).rstrip()


def test_runs_and_table(tmp_path: Path) -> None:
    places = [f"part {part}/row {row}/seed-{seed}" for part in (0, 1) for row in range(3) for seed in (0, 1)]
    dashboard = make_dashboard(tmp_path, *places)
    dashboard.finish(places[0], {"knn": 0.614})
    dashboard.finish(places[1], {"knn": 0.6146})
    dashboard.finish(places[8], {"knn": 0.5, "svm": 0.6})
    dashboard.finish(places[9], None)
    dashboard.send(places[10])
    dashboard.send(places[11])
    dashboard.writer(places[10]).step(METRICS)
    assert drawn(dashboard) == [
        "3 of 12 runs done, 1 failed, 2 running, 1 positions",
        f"  part 1/row 2, seed 0: {BAR} epoch 3 of 12, 1 min 20 s left, loss 5.3123, floored 2%",
        f"  part 1/row 2, seed 1: {BAR} starting",
        "        part 0           part 1",
        "─" * 39,
        "row 0   61.43 (2 of 2)   -",
        "row 1   -                60.00 (1 of 2)",
        "row 2   -                -",
    ]


def test_one_part_has_no_name(tmp_path: Path) -> None:
    dashboard = make_dashboard(tmp_path, "plain/seed-0", "plain/seed-1")
    dashboard.finish("plain/seed-0", {"knn": 0.5})
    assert drawn(dashboard) == [
        "1 of 2 runs done, 0 running, 0 positions",
        "        accuracy, %",
        "─" * 22,
        "plain   50.00 (1 of 2)",
    ]


def test_many_runs_leave_room_for_the_table(tmp_path: Path) -> None:
    places = [f"row/seed-{seed}" for seed in range(40)]
    dashboard = make_dashboard(tmp_path, *places, workers=30)
    for place in places:
        dashboard.send(place)
    lines = drawn(dashboard)
    assert lines[8].startswith("  row, seed 7: ")
    assert lines[9] == "  22 more runs"
    assert lines[-1] == "row   -"


def test_many_parts_go_down(tmp_path: Path) -> None:
    lines = drawn(make_dashboard(tmp_path, *(f"part {part}/row {row}/seed-0" for row in (0, 1) for part in range(9))))
    assert lines[1].split() == ["row", "0", "row", "1"]
    assert [line.split("  ")[0] for line in lines[3:]] == [f"part {number}" for number in range(9)]


def test_names_are_shown_as_they_are(tmp_path: Path) -> None:
    """Wide letters take two columns; markup is not interpreted, and what moves the cursor is escaped."""
    dashboard = make_dashboard(tmp_path, "データ[red]x\x1b[2J/seed-0")
    dashboard.send("データ[red]x\x1b[2J/seed-0")
    lines = drawn(dashboard)
    assert lines[1] == f"  データ[red]x\\x1b[2J, seed 0: {BAR} starting"
    assert lines[-1].startswith("データ[red]x\\x1b[2J ")


class Screen:
    """What a terminal makes of what is written to it, as far as that is used here."""

    def __init__(self, columns: int, lines: int) -> None:
        self.size, self.raw = (columns, lines), ""
        self.rows, self.row, self.column, self.broken = [""], 0, 0, 0

    def write(self, text: str) -> None:
        """Letters, line ends, and the sequences for up, for clearing a line, and for colours."""
        self.raw += text
        for up, clear, _colour, end, letter in re.findall(r"\x1b\[(\d+)A|\x1b\[(2K)|(\x1b\[[\d;]*m)|(\r|\n)|(.)", text):
            if up:
                self.row = max(0, len(self.rows) - self.size[1], self.row - int(up))
            elif clear:
                self.rows[self.row] = ""
            elif end == "\r":
                self.column = 0
            elif end == "\n":
                self._down()
            elif letter:
                if self.column == self.size[0]:
                    self.broken += 1
                    self.column = 0
                    self._down()
                line = self.rows[self.row].ljust(self.column)
                self.rows[self.row] = line[: self.column] + letter + line[self.column + 1 :]
                self.column += 1

    @property
    def lines(self) -> list[str]:
        """What a person sees, down to the line of the cursor."""
        return [plain(row) for row in self.rows[: self.row + 1]]

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
        while not condition(rows := self.read().lines):
            assert time.monotonic() < end, "\n".join(rows)
            time.sleep(0.01)
        return rows


@contextlib.contextmanager
def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int = 100, lines: int = 24) -> Iterator[Terminal]:
    """Stderr is a terminal. In the test itself: between a fixture and its test, pytest takes stderr back."""
    terminal = Terminal(columns, lines)
    with os.fdopen(terminal.slave, "w") as slave, monkeypatch.context() as patch:
        patch.setattr("pucl.progress.REDRAWS_PER_SECOND", 50)
        patch.setattr(sys, "stderr", slave)
        for name, value in {"TERM": "xterm", "COLUMNS": columns, "LINES": lines}.items():
            patch.setenv(name, str(value))
        yield terminal


def test_redrawn_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        on_terminal(monkeypatch) as terminal,
        make_dashboard(tmp_path, "plain/seed-0", "plain/seed-1", "deb/seed-0") as shown,
    ):
        print("before", file=sys.stderr)  # As libraries do.
        shown.send("plain/seed-0")
        terminal.wait_for(lambda rows: f"  plain, seed 0: {BAR} starting" in rows)
        shown.writer("plain/seed-0").step(METRICS)
        expected = [
            "before",
            "0 of 3 runs done, 1 running, 1 positions",
            f"  plain, seed 0: {BAR} epoch 3 of 12, 1 min 20 s left, loss 5.3123, floored 2%",
            "        accuracy, %",
            "─" * 19,
            "plain   -",
            "deb     -",
        ]
        terminal.wait_for(lambda rows: rows == expected)
        shown.send("deb/seed-0")
        shown.writer("deb/seed-0").status("probing")
        terminal.wait_for(lambda rows: f"  deb, seed 0:   {BAR} probing" in rows)
        shown.finish("plain/seed-0", {"knn": 0.5, "svm": 0.6})
        shown.finish("deb/seed-0", None)
        shown.say("deb, seed 0: failed: no")
        expected[1:3] = ["deb, seed 0: failed: no", "1 of 3 runs done, 1 failed, 0 running, 0 positions"]
        expected[4:6] = ["─" * 22, "plain   60.00 (1 of 2)"]
        terminal.wait_for(lambda rows: rows == expected)
    screen = terminal.close()
    assert screen.lines == ["before", "deb, seed 0: failed: no", ""]
    assert screen.column == 0


def test_a_narrow_terminal_breaks_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        on_terminal(monkeypatch, columns=24, lines=6) as terminal,
        make_dashboard(tmp_path, *(f"{row}/seed-0" for row in "abcdefgh")) as shown,
    ):
        shown.writer("f/seed-0").step(METRICS)
        rows = terminal.wait_for(lambda rows: any(row.startswith("  f, s") for row in rows))
        assert len(rows) <= 6
    screen = terminal.close()
    assert screen.lines == [""]
    assert screen.broken == 0


def test_after_an_interrupt_it_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop() -> None:
        with on_terminal(monkeypatch) as terminal, make_dashboard(tmp_path, "plain/seed-0") as shown:
            shown.send("plain/seed-0")
            terminals.append(terminal)
            terminal.wait_for(lambda rows: len(rows) == 5)
            raise KeyboardInterrupt

    terminals: list[Terminal] = []
    with pytest.raises(KeyboardInterrupt):
        stop()
    screen = terminals[0].close()
    assert screen.lines[0] == "0 of 1 runs done, 1 running, 0 positions"
    assert (screen.lines[-1], screen.column) == ("", 0)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    shown = make_dashboard(tmp_path, "a/seed-0", "b/seed-0", "c/seed-0", "d/seed-0")
    shown.writer("a/seed-0").status("probing")
    assert drawn(shown)[1] == f"  a, seed 0: {BAR} probing"
    (tmp_path / "a" / "seed-0" / PROGRESS).write_text('{"grid": ')  # Being written: what was known still stands.
    ProgressWriter(file=tmp_path / "b" / "seed-0" / PROGRESS, grid="another").status("probing")
    (tmp_path / "c" / "seed-0" / PROGRESS).mkdir()
    (tmp_path / "d" / "seed-0" / PROGRESS).write_bytes(b"\xff[1]")
    assert drawn(shown)[1] == f"  a, seed 0: {BAR} probing"
    for text in ("[1]", json.dumps({"grid": shown.grid, "epoch": 1})):
        (tmp_path / "d" / "seed-0" / PROGRESS).write_text(text)
        assert read_progress(tmp_path / "d" / "seed-0" / PROGRESS, shown.grid) is None


def test_a_report_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    ProgressWriter(file=tmp_path / "not there" / PROGRESS, grid="x").step(METRICS)


def test_a_report_is_written_now_and_then(tmp_path: Path) -> None:
    """With what is known from before: right after an epoch there is no loss yet."""
    file = tmp_path / PROGRESS
    words: list[str] = []
    report = ProgressWriter(label="a: ", file=file, grid="x", speak=words.append)
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
    with make_dashboard(tmp_path, "plain/seed-0") as shown:
        os.close(master)
        shown.say("nobody hears this")
    with contextlib.suppress(OSError):
        file.close()


def test_how_far_runs_are_says_how_long_the_rest_takes() -> None:
    jobs = grid_of({"plain": small_run()}, 5)
    outlook = Outlook(jobs, workers=2)
    assert outlook.left({}) == "5 to go"
    # One takes 40 s, of which 30 and 10 are left: those, and three more, two at a time.
    places = [job.path for job in jobs]
    assert outlook.left({places[0]: (0.25, 30.0), places[1]: (0.75, 10.0)}) == "about 1 min 20 s left"
    for job in jobs[1:]:
        outlook.note(Done(job=job, result={}, error=None, seconds=10.0))
    assert outlook.left({places[0]: (0.25, 30.0)}) == "about 30 s left"  # Nobody can help with the last one.


def test_no_test_fold_is_looked_at_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    displays: list[Display] = []

    def search(*_: object, display: Display, **__: object) -> tuple[list[graph_settings.VariantResult], list[str]]:
        displays.append(display)
        return [], []

    monkeypatch.setattr(graph_settings, "search_settings", search)
    assert main(["ablate", "graphs", "--out", str(tmp_path)]) == 0
    result = {"svm": 0.9, "svm_scaled": 0.9, "validation": {"svm": 0.5, "svm_scaled": 0.6}}
    assert displays[0].score(result) == 0.6
    assert displays[0].labelled("a").score(result) == 0.6
    assert Display().score(result) == 0.9


@pytest.mark.slow
def test_one_by_one_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deb" / "seed-0").mkdir(parents=True)
    (tmp_path / "deb" / "seed-0" / "thesis.tex").write_text("mine")
    with on_terminal(monkeypatch, columns=1000) as terminal:
        lines = compare_rows(ROWS, 1, tmp_path, resources=Resources(), display=Display(StatusArea())).rows
        (again,) = run_grid(grid_of(ROWS, 1)[:1], tmp_path, Resources(), Display(StatusArea()))
    assert [line.count for line in lines] == [1, 0, 1]
    assert again.seconds == 0
    screen = terminal.close()
    failure, finished, last = screen.lines
    assert failure.startswith("deb, seed 0: failed: ")
    assert finished == "1 of 1 runs are finished already"
    assert last == ""
    assert "  plain, seed 0: " in screen.raw
    assert "\nplain  " in re.sub(r"\x1b\[[\d;]*m|\r", "", screen.raw)
    assert not list(tmp_path.rglob(PROGRESS))


@pytest.mark.slow
def test_side_by_side_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "usable_cores", lambda: 2)
    rows = {"plain": small_run(epochs=20), "deb": small_run("deb", epochs=20)}
    with on_terminal(monkeypatch, 60, 12) as terminal:
        found = run_grid(grid_of(rows, 2), tmp_path, Resources(workers=2), Display(StatusArea()))
    screen = terminal.close()
    assert all(each.error is None for each in found)
    assert screen.lines == [""]
    assert re.search(r"deb, seed 0:.* epoch \d+ of 20, ", screen.raw)
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
        env=os.environ | {"OMP_NUM_THREADS": "1", "TERM": "xterm"},
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
    assert screen.lines[0].startswith("0 of 2 runs done, 2 running, ")
    assert "the same command resumes them" in screen.lines[-2]
    assert (screen.lines[-1], screen.column, screen.broken) == ("", 0, 0)
    for row in ("plain", "pucl"):
        assert (tmp_path / row / "seed-0" / "checkpoint.pt").exists()
