"""Check pairs of texts before training: duplicates, how the pairs look to an encoder, and what to set.

The file has two columns of texts, or texts and labels, as for `pucl train pairs`. A batch takes the partners of all
other pairs for negatives. Where two pairs share a text, this is known to be wrong. The command counts such pairs, also
those with near-duplicates (the same words in any order, case and punctuation), and lists them with --list.

Then it embeds up to 2,000 training pairs and 2,000 held-out pairs, as `pucl train pairs` splits them, and compares

  known positives     the two texts of a pair, with texts of different pairs: do hidden positives look like them?
                      Best bin estimation (bbe) rests on that, the mixture of two Gaussians does not.
  training pairs      with held-out pairs: training pairs that are much closer are learnt by heart.

By default a small encoder is trained for seconds. --encoder MODEL takes a model as it is, --run RUN a finished run and
its own training and test pairs. The last lines say what to set, in one sentence what to do.
"""

import argparse
import csv
import io
import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import cast

import pucl
from pucl.commands.options import add_force, add_root, check_new
from pucl.data.errors import DataError
from pucl.files import check_folder, write_json, write_whole
from pucl.frameworks import modality_of
from pucl.progress import Progress
from pucl.runs.trained import load
from pucl.text.advice import is_giant
from pucl.text.check import CheckedPairs, check_pairs
from pucl.text.duplicates import Duplicate, find_duplicates
from pucl.text.encoders.registry import HASHED
from pucl.text.look import Look, look_at_pairs
from pucl.text.modality import TEXTS
from pucl.text.registry import SOURCES, load_texts
from pucl.text.sources.files import Columns
from pucl.text.textset import TextData, TextSet
from pucl.text.trained import TrainedTexts
from pucl.texts import counted, fixed, percent, say, table

EXAMPLES = (
    "pucl pairs check pairs.csv --list duplicates.csv",
    "pucl pairs check banking77 --batch-size 64 --json checked.json",
    "pucl pairs check pairs.csv --encoder models/minilm",
    "pucl pairs check pairs.csv --run runs/pairs-pairs-plain-seed-0",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``pucl pairs``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="check")
    check = actions.add_parser("check", help="duplicates, how the pairs look to an encoder, and what to set")
    check.add_argument("data", metavar="FILE", choices=list(SOURCES), help="a file of texts, or a known name")
    for name, meaning in (("text", "texts, of pairs the first"), ("second", "second texts"), ("label", "labels")):
        check.add_argument(f"--{name}-column", metavar="NAME", help=f"column of the {meaning}")
    size = "pairs of a batch (default: %(default)s)"
    check.add_argument("--batch-size", type=int, default=128, metavar="N", help=size)
    seeing = check.add_mutually_exclusive_group()
    encoder = "hashed (default, trained for seconds), or a model of sentence-transformers: its directory or name"
    seeing.add_argument("--encoder", metavar="NAME", help=encoder)
    seeing.add_argument("--run", type=Path, metavar="RUN", help="directory of a finished run on these pairs")
    seeing.add_argument("--no-encoder", action="store_true", help="count duplicates alone, without any encoder")
    check.add_argument("--list", type=Path, metavar="FILE", help="write the duplicates to this file: .csv or .jsonl")
    check.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to this file as well")
    add_force(check)
    add_root(check)


def run(arguments: argparse.Namespace) -> int:
    """Check, print the tables and the recommendation, and write the list and the record."""
    check_folder("--json", arguments.json)
    if arguments.list is not None:
        check_list(arguments.list, force=arguments.force)
    columns = Columns(text=arguments.text_column, second=arguments.second_column, label=arguments.label_column)
    data = load_texts(arguments.data, root=arguments.root, columns=columns, test_share=0.0)
    for note in data.notes:
        say(f"note: {note}", error=True)
    check_pairs(data.train, arguments.batch_size)  # Wrong settings are refused before an encoder is trained.
    look = None if arguments.no_encoder else _look(arguments, data)
    found = check_pairs(data.train, arguments.batch_size, look)
    say(as_text(found, "texts" if data.train.seconds is None else "pairs"))
    say(f"\n{recommendation(found, arguments)}")
    if arguments.list is not None:
        duplicates = list(find_duplicates(data.train))
        write_whole(arguments.list, list_text(duplicates, arguments.list.suffix).encode())
        say(f"\nwritten: {arguments.list}, {counted(len(duplicates), 'duplicate')}")
    if arguments.json is not None:
        about = {"command": arguments.command_line, "pucl": pucl.__version__, "data": data.name}
        write_json(arguments.json, about | found.as_json())
        say(f"\nwritten: {arguments.json}")
    return 0


def check_list(file: Path, *, force: bool) -> None:
    """Refuse a list that cannot be written, before any work is done for it."""
    if file.suffix not in (".csv", ".jsonl"):
        raise ValueError(f"--list is a file of duplicates: expected a name that ends in .csv or .jsonl, got {file}")
    check_folder("--list", file)
    check_new(file, force=force)


def list_text(duplicates: list[Duplicate], suffix: str) -> str:
    """The duplicates as lines of a file."""
    if suffix == ".jsonl":
        return "".join(json.dumps(asdict(each), ensure_ascii=False) + "\n" for each in duplicates)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(Duplicate.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(asdict, duplicates))
    return text.getvalue()


def _look(arguments: argparse.Namespace, data: TextData) -> Look | None:
    """How the pairs look to the encoder that was asked for. None, with a note, if there are too few of them."""
    progress = Progress("pucl pairs check", "texts")
    try:
        if arguments.run is not None:
            return _look_of_run(arguments.run, data, arguments.root, progress)
        asked = arguments.encoder is not None
        try:
            return look_at_pairs(data.train, encoder=arguments.encoder or HASHED, progress=progress)
        except DataError as error:
            if asked:
                raise
            say(f"note: how the pairs look is not checked: {error}", error=True)
            return None
    finally:
        progress.close()


def _look_of_run(directory: Path, data: TextData, root: Path | None, progress: Progress) -> Look:
    """How the pairs look to a finished run. Its own training pairs are compared with its own test pairs."""
    trained = load(directory)
    if (modality := modality_of(trained.config)).name != TEXTS.name:
        raise ValueError(
            f"--run is a run on {TEXTS.name}: expected one of `pucl train pairs`, got {directory}, on {modality.name}"
        )
    trained = cast(TrainedTexts, trained)
    used = trained.data(root=root)
    if used.test is None:
        raise ValueError(f"{directory} held out no pairs: expected test pairs to compare its training pairs with")
    if used.name != data.name or not _texts(used.train) <= _texts(data.train):
        raise ValueError(
            f"--run is a run on these pairs: expected one that was trained on {data.name}, got one on {used.name}; "
            f"--encoder takes any model"
        )
    return look_at_pairs(used.train, used.test, trained.encoder, name=f"the run {directory}", progress=progress)


def _texts(texts: TextSet) -> set[str]:
    return {*texts.texts, *(texts.seconds or ())}


def as_text(found: CheckedPairs, units: str) -> str:
    """The numbers in tables: duplicates, how the pairs look, and what to set."""
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
    parts = [table([["", "equal texts", "and near-duplicates"], *rows])]
    if found.look is not None:
        parts.append(look_text(found.look))
    settings = found.settings
    values = {
        "batch size": f"{settings.batch_size:,}",
        "groups": "on",
        "correction": settings.correction,
        "temperature": f"{settings.temperature:g}",
    }
    parts.append(table([["set", "to", "because"], *([name, values[name], settings.reasons[name]] for name in values)]))
    return "\n\n".join(parts)


def look_text(look: Look) -> str:
    """How the pairs look, and what that means."""
    rows = [
        ["the two texts of a training pair", f"{look.train:,}", fixed(look.train_similarity, 3)],
        ["the two texts of a held-out pair", f"{look.held_out:,}", fixed(look.held_out_similarity, 3)],
        ["texts of different held-out pairs", "", fixed(look.unlabelled_similarity, 3)],
    ]
    doubt = ", a hint and no proof, since the two Gaussians overlap" if look.doubtful else ""
    estimates = f"tau' is {fixed(look.best_bin.tau_plus, 4)} by bbe, {fixed(look.mixture.tau_plus, 4)} by the mixture"
    lines = [
        table([[f"to {look.encoder}", "pairs", "mean cosine"], *rows]),
        f"Held-out pairs: {look.reason} ({estimates}{doubt}).",
        memorisation_text(look),
    ]
    return "\n".join(lines)


def memorisation_text(look: Look) -> str:
    """Whether training pairs are learnt by heart, in one sentence."""
    gap = f"{look.train_similarity - look.held_out_similarity:+.3f}"
    if look.alarm:
        return (
            f"Memorisation alarm: training pairs are closer than held-out pairs ({gap}); held-out pairs lack "
            f"{percent(look.memorised, 0)} of the lead that training pairs have over different pairs. Train for fewer "
            f"epochs, or collect more pairs."
        )
    return f"Training pairs are not learnt by heart: their mean cosine less that of held-out pairs is {gap}."


def recommendation(found: CheckedPairs, arguments: argparse.Namespace) -> str:
    """What to do, in one sentence."""
    first = found.advice[0].lower() + found.advice[1:].rstrip(".")
    listed = "" if found.near.grouped == 0 or arguments.list else " (--list FILE writes the duplicates)"
    names = [("--text-column", "text_column"), ("--second-column", "second_column"), ("--label-column", "label_column")]
    kept = [(option, getattr(arguments, name)) for option, name in [*names, ("--encoder", "encoder")]]
    given = [word for option, value in kept if value is not None for word in (option, value)]
    if is_giant(found.same.largest, found.pairs):
        return f"Recommendation: {first}{listed}; then check again."
    command = shlex.join(["pucl", "train", "pairs", arguments.data, *given])
    return f"Recommendation: {first}{listed}; then `{command} {found.settings.options}`."
