"""What the commands of the study share: a parser, the command line for a record, and errors as sentences."""

import argparse
import shlex
import sys
from collections.abc import Callable, Collection, Sequence

from pucl import signals
from pucl.config import check_known, check_once
from pucl.texts import say


def parser_of(module: str, description: str | None) -> argparse.ArgumentParser:
    """A parser for ``python -m MODULE``, without options."""
    return argparse.ArgumentParser(
        prog=f"python -m {module}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def command_line(module: str, arguments: Sequence[str] | None) -> str:
    """The command as it was given, for the record."""
    return shlex.join(["python", "-m", module, *(sys.argv[1:] if arguments is None else arguments)])


def names_of(given: str, meaning: str, known: Collection[str]) -> list[str]:
    """Names that were given separated by commas, each known and given once.

    Args:
        given: The text of the option.
        meaning: What the names are, such as "part".
        known: All such names.
    """
    names = [name for name in given.split(",") if name]
    check_once(f"each {meaning} is measured once", names)
    for name in names:
        check_known(meaning, name, known)
    return names


def exit_code_of(module: str, work: Callable[[], int]) -> int:
    """The exit code of some work: its own, 2 after an error that the user can mend, that of a signal after one."""
    try:
        return work()
    except (ValueError, OSError) as error:
        say(f"{module}: {error}", error=True)
        return 2
    except KeyboardInterrupt as stop:
        say(f"\n{module}: stopped, {stop}", error=True)
        return signals.exit_code(stop)
