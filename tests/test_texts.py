"""What people read: numbers that agree, counts in good English, and no control character on a terminal."""

import ast
import json
import re
import sys
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import pucl
from page_records import written_run
from pucl.cli import main
from pucl.images.registry import load
from pucl.progress import StatusArea
from pucl.runs.directory import RunDirectory
from pucl.texts import counted, fixed, percent, printable, say, signed, table

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202e"


@given(st.integers(0, 10**5))
def test_numbers_are_rounded_to_the_even_digit(eighths: int) -> None:
    value = eighths / 8  # Half of them have a tie as their third digit.
    wanted = Decimal(value).quantize(Decimal("0.01"), ROUND_HALF_EVEN)
    assert fixed(value) == str(wanted)
    assert signed(-value) == f"-{wanted}"
    assert percent(value / 100).startswith(fixed(100 * (value / 100)))


def test_one_is_singular() -> None:
    assert [counted(count, "row") for count in (0, 1, 2, 1000)] == ["0 rows", "1 row", "2 rows", "1,000 rows"]


@given(st.text())
def test_only_what_can_be_printed_comes_through(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert printable(shown) == shown
    assert shown == text or not text.isprintable()


def test_every_line_that_is_said_is_printable(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"name {ESCAPES}\nand more")
    say(f"wrong {ESCAPES}", error=True)
    StatusArea().say(f"note {ESCAPES}")
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1] == "and more"
    assert all(line.isprintable() for line in (printed.out + printed.err).splitlines())
    assert r"\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202e" in printed.err


def test_cells_of_a_table_are_one_line_each() -> None:
    assert table([["name", "x"], ["two\nlines\x1b[A", "1"]]).splitlines()[2:] == [r"two\nlines\x1b[A  1"]


def test_commands_print_with_say_alone() -> None:
    """So that no name from a disk reaches a terminal as it is."""
    package = Path(pucl.__file__).parent
    files = [package / "cli.py", *sorted((package / "commands").rglob("*.py"))]
    calls = {
        f"{file.name}:{node.lineno}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert len(files) > 15
    assert calls == set()


def is_clean(printed: str) -> bool:
    return all(line.isprintable() for line in printed.split("\n"))


@pytest.mark.skipif(sys.platform == "win32", reason="such names cannot be made there")
def test_names_on_disk_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Directories, data and broken files, in lists, in what is skipped and in errors."""
    written_run(tmp_path / f"a{ESCAPES}", f"data{ESCAPES}.npz")
    broken = written_run(tmp_path / f"b\nfinished{ESCAPES}", "digits")
    (broken / "config.json").write_text(json.dumps({"framework": ESCAPES}))
    assert main(["runs", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert is_clean(printed.out)
    assert is_clean(printed.err)
    assert r"a\x1b]0;owned" in printed.out
    assert r"b\nfinished" in printed.out
    assert not any(line.startswith("finished") for line in printed.out.splitlines())

    assert main(["report", str(broken), "--out", str(tmp_path / "x.html")]) == 1
    assert main(["prior", str(broken)]) == 2
    assert main(["embed", str(tmp_path / f"nothing{ESCAPES}"), "digits", "-o", str(tmp_path / "x.npy")]) == 2
    with pytest.raises(SystemExit):
        main(["runs", f"--wings{ESCAPES}"])
    printed = capsys.readouterr()
    assert is_clean(printed.out)
    assert is_clean(printed.err)
    assert printed.err.count(r"\x1b]0;owned") >= 4


@pytest.mark.skipif(sys.platform == "win32", reason="such names cannot be made there")
def test_notes_on_damaged_pictures_are_printable(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(2):
        Image.fromarray(np.full((4, 4, 3), 100 * number, np.uint8)).save(folder / f"{number}.png")
    (folder / f"x{ESCAPES}.png").write_bytes(b"none")
    notes = " ".join(load(folder, root=tmp_path / "root").notes)
    assert notes.isprintable()
    assert re.search(r"skipped x\\x1b\]0;owned", notes)


def test_configurations_are_shown_as_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A value of a configuration, which another may have written, is a cell like any other."""
    place = written_run(tmp_path / "run", "x\x1b[31m\nfinished.npz")
    assert RunDirectory(place).config().data.startswith("x\x1b")
    assert main(["runs", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert is_clean(printed)
    assert r"x\x1b[31m\nfinished.npz" in printed
