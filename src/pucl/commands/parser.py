"""The commands by name, and their parsers."""

import argparse
import importlib
import re
import shutil
import textwrap
from collections.abc import Iterable
from types import ModuleType
from typing import Any, NoReturn

from pucl.texts import did_you_mean, printable

COMMANDS = {
    "diagnose": "how many negatives of your embeddings are false, and what do they cost",
    "suspects": "list the pairs of samples that are probably false negatives",
    "train": "train one encoder with a correction, and evaluate it",
    "compare": "train with several corrections and seeds, and compare the results",
    "eval": "measure the embeddings of finished runs with probes",
    "embed": "write the embeddings of your data to a file",
    "export": "take an encoder away: ONNX or TorchScript, with a model card",
    "report": "write one HTML page about runs: verdict, cost, costliest pairs, anchors, map, curves",
    "umap": "draw the embeddings of runs, and the similarities of their pairs",
    "prior": "estimate the share of hidden positives among a run's unlabelled samples",
    "runs": "list runs, or collect their records",
    "data": "list data sets, or download one",
    "pairs": "check pairs of texts: duplicates, and negatives that are known to be false",
    "table": "run one of the paper's tables, beside the paper's numbers",
    "ablate": "run one of the paper's ablations",
    "theory": "check Lemma 1 and Theorem 1 by numbers",
    "doctor": "check this installation and what this machine can do",
    "completion": "print a script that completes these commands in a shell",
}
"""Every command is a module of `pucl.commands` with `EXAMPLES`, `add_arguments` and `run`. It is imported when it is
called."""


class Parser(argparse.ArgumentParser):
    """A parser whose messages are safe to print, and whose choices are shown and completed but not enforced.

    The configuration refuses wrong values, with a sentence that says what they mean.
    """

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with code 2."""
        super().error(printable(message))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.nargs == argparse.PARSER and value not in (action.choices or ()):
            known = ", ".join(action.choices or ())
            hint = did_you_mean(value, action.choices or ())
            raise ValueError(f"{value!r} is no {action.dest}: expected one of {known}.{hint}")


class HelpFormatter(argparse.HelpFormatter):
    """A formatter that wraps paragraphs and lists at the width of the terminal.

    A list has an entry on each line: two spaces, the term, two spaces or more, and its meaning, which may continue on
    lines that are indented further. Entries without a meaning, such as command lines, are left as they are.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=min(100, shutil.get_terminal_size().columns - 2))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        del indent
        paragraphs = textwrap.dedent(text).strip("\n").split("\n\n")
        return "\n\n".join(
            _wrap_list(each, width) if "  " in each else textwrap.fill(each, width) for each in paragraphs
        )


def _wrap_list(text: str, width: int) -> str:
    entries: list[str] = []
    for line in text.splitlines():
        if line.startswith("   "):
            entries[-1] += f" {line.strip()}"
        else:
            entries.append(line)
    return "\n".join(_wrap_entry(entry, width) for entry in entries)


def _wrap_entry(entry: str, width: int) -> str:
    if (found := re.match(r"(  \S+(?: \S+)*  +)(.+)", entry)) is None:
        return entry
    term, meaning = found.groups()
    return textwrap.fill(meaning, width, initial_indent=term, subsequent_indent=" " * len(term))


def add_command(name: str, parser: argparse.ArgumentParser) -> ModuleType:
    """Import a command, add its arguments, and return its module."""
    command = importlib.import_module(f"pucl.commands.{name}")
    parser.description = command.__doc__
    parser.formatter_class = HelpFormatter
    command.add_arguments(parser)
    parser.epilog = "\n\n".join(filter(None, [parser.epilog, listed(command.EXAMPLES)]))
    return command


def listed(examples: Iterable[str]) -> str:
    """Command lines as the end of a help text."""
    return "\n  ".join(["examples:", *examples])
