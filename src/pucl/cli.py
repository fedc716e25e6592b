"""The command line: find the command, parse its arguments, call it."""

import argparse
import importlib
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import pucl
from pucl import signals
from pucl.data.unpacking import unpacking_up_to
from pucl.texts import did_you_mean, printable, say

COMMANDS = {
    "train": "train one encoder on your images, with corrected negatives, and evaluate it",
    "compare": "train with several corrections and seeds, and show what each was worth",
    "table": "run one of the paper's tables, beside the paper's numbers",
    "ablate": "change one setting at a time, and see what it is worth",
    "eval": "embed data anew with the encoder of a finished run, and measure what classifiers make of it",
    "embed": "write the embeddings of your images to a file",
    "umap": "draw the embeddings of runs side by side, and the similarities of their pairs",
    "prior": "estimate from a run's similarities what share of the negatives are hidden positives",
    "data": "list and get data sets",
    "report": "make one page of runs: table, curves, map of the embeddings, and the nearest samples of any anchor",
    "runs": "list the runs that there are",
    "theory": "check Lemma 1 and Theorem 1 by numbers, and draw the biases against the bound",
    "doctor": "check this installation and what this machine can do",
}
"""Every command is a module of `pucl.commands` with `add_arguments` and `run`, imported only when it is called."""

READ_DATA = {"train", "compare", "table", "ablate", "eval", "embed", "umap", "prior", "data", "report"}
"""Commands that read files of data."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 a check failed, 2 wrong usage or no room on the disk.

    A command that a signal stopped returns 130 (Ctrl-C), 143 (SIGTERM) or 129 (SIGHUP).
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        say(_help())
        return 0
    if arguments[0] == "--version":
        say(f"pucl {pucl.__version__}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS)
        say(f"pucl: no command {name!r}.{hint} The commands are {', '.join(COMMANDS)}.", error=True)
        return 2
    try:
        with signals.raised():
            return _run(name, rest)
    except (ValueError, OSError) as error:
        _complain(f"pucl {name}: {printable(str(error))}")  # One line, whatever names it has in it.
        return 2
    except KeyboardInterrupt as stop:
        _complain(f"\npucl {name}: stopped{f', {printable(str(stop))}' if str(stop) else ''}")
        return signals.exit_code(stop)


def _run(name: str, arguments: Sequence[str]) -> int:
    command = importlib.import_module(f"pucl.commands.{name}")
    parser = _Parser(
        prog=f"pucl {name}", description=command.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_arguments(parser)
    if name in READ_DATA:
        parser.add_argument(
            "--max-unpacked", type=float, metavar="GIB", help="let a packed file of data unpack to so many GiB"
        )
    parsed = parser.parse_args(arguments)
    parsed.command_line = shlex.join(["pucl", name, *arguments])  # For records: what was asked for, as it was asked.
    with unpacking_up_to(getattr(parsed, "max_unpacked", None)):
        code: int = command.run(parsed)
    return code


class _Parser(argparse.ArgumentParser):
    """Parses arguments; what it reports of them goes to a terminal."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def _complain(text: str) -> None:
    with suppress(OSError):  # The terminal may be closed.
        say(text, error=True)


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {purpose}" for name, purpose in COMMANDS.items())
    return f"usage: pucl COMMAND ...\n\n{pucl.__doc__}\n\n{commands}\n\n`pucl COMMAND --help` tells more of each."


if __name__ == "__main__":
    sys.exit(main())
