"""The command line: find the command, parse its arguments, run it."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress

import pucl
from pucl import signals
from pucl.commands.parser import COMMANDS, Parser, add_command
from pucl.data.unpacking import unpacking_up_to
from pucl.texts import did_you_mean, printable, say


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 a check failed, 2 wrong usage or no space on the disk.

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
        _complain(f"pucl {name}: {printable(str(error))}")  # One line, whatever characters are in it.
        return 2
    except KeyboardInterrupt as stop:
        _complain(f"\npucl {name}: stopped{f', {printable(str(stop))}' if str(stop) else ''}")
        return signals.exit_code(stop)


def _run(name: str, arguments: Sequence[str]) -> int:
    parser = Parser(prog=f"pucl {name}")
    command = add_command(name, parser)
    expand = getattr(command, "expand", list)  # Some commands complete their arguments from a file.
    parsed = parser.parse_args(expand(arguments))
    parsed.command_line = shlex.join(["pucl", name, *arguments])  # For records: the command as it was given.
    with unpacking_up_to(getattr(parsed, "max_unpacked", None)):
        code: int = command.run(parsed)
    return code


def _complain(text: str) -> None:
    with suppress(OSError):  # The terminal may be closed.
        say(text, error=True)


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {purpose}" for name, purpose in COMMANDS.items())
    return f"usage: pucl COMMAND ...\n\n{pucl.__doc__}\n\n{commands}\n\n`pucl COMMAND --help` describes each of them."


if __name__ == "__main__":
    sys.exit(main())
