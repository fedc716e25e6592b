"""Print a script that completes commands, frameworks, data sets, options and their values in a shell.

Save it where the shell looks for such scripts, and open a new shell:

  pucl completion bash > ~/.local/share/bash-completion/completions/pucl
  pucl completion zsh > DIR/_pucl     (DIR is a directory of $fpath)
  pucl completion fish > ~/.config/fish/completions/pucl.fish

The script holds the names that pucl knows now. Print it again after an update.
"""

import argparse
import shlex
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pucl.commands.parser import COMMANDS, Parser, add_command
from pucl.data.errors import ExtraMissingError
from pucl.texts import say

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = ("pucl completion bash > ~/.local/share/bash-completion/completions/pucl",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl completion``."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(arguments: argparse.Namespace) -> int:
    """Build the parsers of all commands, and print the script."""
    if arguments.shell not in SHELLS:
        raise ValueError(f"SHELL is the shell to write for: expected one of {', '.join(SHELLS)}, got {arguments.shell}")
    try:
        import shtab  # noqa: PLC0415 - an extra.
    except ImportError as error:
        raise ExtraMissingError("shell completion", "shtab", "completion") from error
    parser = Parser(prog="pucl", add_help=False)
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, purpose in COMMANDS.items():
        add_command(name, commands.add_parser(name, help=purpose))
    for action in _actions(parser):
        if action.dest == "data" and action.choices:
            completer: Any = _names_and_files(list(action.choices))
        elif action.type is Path:
            completer = shtab.FILE
        else:
            continue
        action.complete = completer  # type: ignore[attr-defined]  # Where shtab looks for it.
    say(shtab.complete(parser, arguments.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of a parser and of all parsers below it."""
    for action in parser._actions:
        yield action
        if action.nargs == argparse.PARSER:
            for below in dict(action.choices or {}).values():
                yield from _actions(below)


def _names_and_files(names: Sequence[str]) -> dict[str, Any]:
    """By shell: what completes these names, and files as well."""
    words = shlex.join(names)
    function = f"_pucl_names_{zlib.crc32(words.encode())}"
    return {
        "bash": function,
        "zsh": function,
        "fish": f"(printf '%s\\n' {words}; __fish_complete_path (commandline -ct))",
        "preamble": {
            "bash": f'{function}() {{\n  compgen -W "{words}" -- "$1"\n  compgen -f -- "$1"\n}}',
            "zsh": f"{function}() {{\n  _alternative 'names:data set:({words})' 'files:path:_files'\n}}",
        },
    }
