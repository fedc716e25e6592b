"""Check pairs of texts before training: duplicates, and negatives that are known to be false.

The file has two columns of texts, or texts and labels, as for `pucl train pairs`. A batch takes the partners of all
other pairs for negatives. Where two pairs share a text, this is known to be wrong. The command counts such pairs, also
those with near-duplicates (the same words in any order, case and punctuation), and says in one sentence what to do.
"""

import argparse
from pathlib import Path

import pucl
from pucl.commands.options import add_root
from pucl.files import check_folder, write_json
from pucl.text.check import CheckedPairs, check_pairs
from pucl.text.registry import SOURCES, load_texts
from pucl.text.sources.files import Columns
from pucl.texts import percent, say, table

EXAMPLES = (
    "pucl pairs check pairs.csv",
    "pucl pairs check banking77 --batch-size 64 --json checked.json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``pucl pairs``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="check")
    check = actions.add_parser("check", help="count duplicates, and negatives that are known to be false")
    check.add_argument("data", metavar="FILE", choices=list(SOURCES), help="a file of texts, or a known name")
    for name, meaning in (("text", "texts, of pairs the first"), ("second", "second texts"), ("label", "labels")):
        check.add_argument(f"--{name}-column", metavar="NAME", help=f"column of the {meaning}")
    size = "pairs of a batch (default: %(default)s)"
    check.add_argument("--batch-size", type=int, default=128, metavar="N", help=size)
    check.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to this file as well")
    add_root(check)


def run(arguments: argparse.Namespace) -> int:
    """Check, and print the table and the advice."""
    check_folder("--json", arguments.json)
    columns = Columns(text=arguments.text_column, second=arguments.second_column, label=arguments.label_column)
    data = load_texts(arguments.data, root=arguments.root, columns=columns, test_share=0.0)
    for note in data.notes:
        say(f"note: {note}", error=True)
    found = check_pairs(data.train, arguments.batch_size)
    say(as_text(found, "texts" if data.train.seconds is None else "pairs"))
    if arguments.json is not None:
        about = {"command": arguments.command_line, "pucl": pucl.__version__, "data": data.name}
        write_json(arguments.json, about | found.as_json())
        say(f"\nwritten: {arguments.json}")
    return 0


def as_text(found: CheckedPairs, units: str) -> str:
    """The numbers in a table, and the advice below it."""
    rows = [
        [units, f"{found.pairs:,}", ""],
        ["different texts", f"{found.texts:,}", ""],
        [f"{units} that repeat an earlier one", f"{found.copies:,}", ""],
    ]
    if units == "pairs":
        rows.append(["pairs of two texts with the same words", f"{found.alike:,}", ""])
    if found.times > 1:
        rows.append([f"commonest text, {found.commonest!r}", f"{found.times:,}", ""])
    both = (found.same, found.near)
    rows += [
        ["groups", *(f"{each.groups:,}" for each in both)],
        [f"{units} in groups of two or more", *(f"{each.grouped:,}" for each in both)],
        ["largest group", *(f"{each.largest:,}" for each in both)],
        [
            f"known positives among the negatives, batch of {found.batch_size:,}",
            *(percent(each.negatives, 3) for each in both),
        ],
        ["anchors that meet one", *(percent(each.anchors) for each in both)],
    ]
    if found.same_class is not None:
        rows.append(["negatives of the anchor's class", percent(found.same_class, 3), ""])
    return f"{table([['', 'equal texts', 'and near-duplicates'], *rows])}\n\n{found.advice}"
