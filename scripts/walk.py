"""Count the files and functions of pucl that a reader has to pass to follow one piece of work.

    python scripts/walk.py                 # a table
    python scripts/walk.py loss --list     # every function that computing one loss calls
    python scripts/walk.py --json FILE     # also write the counts, for a comparison after a change
    python scripts/walk.py --against FILE  # also show counts that were written earlier

A function counts if it is written with `def` in src/pucl and is called at least once during the walk. Lambdas and
comprehensions belong to the function they stand in, class bodies and module bodies are not functions. Calls that a
module makes while it is imported do not count, so it does not matter when modules are imported. A file counts if one of
its functions does.
"""

import argparse
import contextlib
import inspect
import io
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

import pucl
from pucl.cli import main as pucl_command

PACKAGE = Path(pucl.__file__).resolve().parent
PREFIX = f"{PACKAGE}{os.sep}"
STEP = "Training.advance"
"""The function that is one training step. Change this line if the step gets another name."""


@dataclass
class Walk:
    """Collect the functions of pucl that are called while `recording` is active.

    Args:
        inside: Record only the first call of this function, by its qualified name; by default everything.
        until: Stop recording when the first call of this function returns; by default never.
    """

    inside: str | None = None
    until: str | None = None
    called: set["Function"] = field(default_factory=set)
    _last_frame: FrameType | None = None
    _importing: FrameType | None = None
    _done: bool = False

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record calls of this thread and of the threads that it starts."""
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        if (self.inside or self.until) and not self._done:
            raise RuntimeError(f"expected a call of {self.inside or self.until}, which was not made")

    @property
    def counts(self) -> dict[str, int]:
        """How many files and functions were passed."""
        return {"files": len({function.file for function in self.called}), "functions": len(self.called)}

    def _see(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and self._importing is None and frame.f_code.co_name == "<module>":
            self._importing = frame
        elif event == "return" and frame is self._importing:
            self._importing = None
        elif self._importing is not None:
            return
        elif event == "call" and not self._done and _is_ours(frame.f_code):
            name = frame.f_code.co_qualname
            if self._last_frame is None and name in (self.inside, self.until):
                self._last_frame = frame
            if self.inside is None or self._last_frame is not None:
                self.called.add(Function(frame.f_code.co_filename, frame.f_code.co_firstlineno, name))
        elif event == "return" and frame is self._last_frame:
            self._done = True
            self._last_frame = None
            sys.setprofile(None)  # The rest of the command runs at its own speed.


class Function(NamedTuple):
    """A function of pucl. The line distinguishes functions of one name, such as the two sides of a property."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{Path(self.file).relative_to(PACKAGE)}:{self.line} {self.name}"


def _is_ours(code: CodeType) -> bool:
    """Whether this is the body of a `def` in the package."""
    if not code.co_filename.startswith(PREFIX):
        return False
    return bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_name.startswith("<")


def walk_loss() -> Walk:
    """Value and gradient of one loss, as a user's own training loop computes it."""
    torch.manual_seed(0)
    first, second = torch.randn(2, 16, 8).unbind()
    loss, walk = pucl.PUCLLoss(), Walk()
    with walk.recording():
        loss(first.requires_grad_(), second.requires_grad_()).backward()
    return walk


def walk_step() -> Walk:
    """One step of SimCLR, without what leads up to it."""
    return _walk_command(Walk(inside=STEP), TRAIN)


def walk_to_step() -> Walk:
    """The command `pucl train simclr digits` up to the end of its first step."""
    return _walk_command(Walk(until=STEP), TRAIN)


def walk_compare() -> Walk:
    """The command `pucl compare infograph shapes`, with all rows, one seed, probes and reports."""
    return _walk_command(Walk(), COMPARE)


WALKS: dict[str, tuple[str, Callable[[], Walk]]] = {
    "loss": ("PUCLLoss()(z0, z1).backward()", walk_loss),
    "step": ("one training step of SimCLR", walk_step),
    "train": ("pucl train simclr digits, up to its first step", walk_to_step),
    "compare": ("pucl compare infograph shapes", walk_compare),
}
TRAIN = "train simclr digits --correction pucl --limit 256 --epochs 1 --batch-size 64"  # It was the default before.
COMPARE = "compare infograph shapes --limit 44 --epochs 1 --batch-size 22 --seeds 1 --workers 1"


def _walk_command(walk: Walk, command: str) -> Walk:
    """Run a command of pucl in this process, in a directory that is removed afterwards."""
    output = io.StringIO()
    with tempfile.TemporaryDirectory(prefix="pucl-walk-") as directory:
        arguments = [*command.split(), "--out", str(Path(directory) / "out")]
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), walk.recording():
            code = pucl_command(arguments)
    if code != 0:
        raise RuntimeError(f"pucl {command} ended with {code}:\n{output.getvalue()}")
    return walk


def _cell(counts: dict[str, int] | None) -> str:
    return "" if counts is None else f"{counts['files']} files, {counts['functions']} functions"


def _print_table(counts: dict[str, dict[str, int]], earlier: dict[str, dict[str, int]]) -> None:
    for name, (meaning, _) in WALKS.items():
        if name in counts:
            columns = [f"{name:8}", f"{meaning:48}", f"{_cell(counts[name]):26}", _cell(earlier.get(name))]
            print("  ".join(columns).rstrip())


def main() -> int:
    """Take the walks that were asked for and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("walks", nargs="*", metavar="WALK", help=f"which of {', '.join(WALKS)} (default: all)")
    parser.add_argument("--list", action="store_true", help="print every function instead of the counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts to this file")
    parser.add_argument("--against", type=Path, metavar="FILE", help="show the counts in this file in a last column")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.walks if name not in WALKS]:
        parser.error(f"a walk is one of {', '.join(WALKS)}, got {', '.join(unknown)}")
    torch.set_num_threads(1)
    earlier = {} if arguments.against is None else json.loads(arguments.against.read_text())
    walks = {name: WALKS[name][1]() for name in arguments.walks or WALKS}
    if arguments.list:
        for walk in walks.values():
            print("\n".join(map(str, sorted(walk.called))))
    else:
        _print_table({name: walk.counts for name, walk in walks.items()}, earlier)
    if arguments.json is not None:
        counts = {name: walk.counts for name, walk in walks.items()}
        arguments.json.write_text(json.dumps(counts, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
