"""List the runs in a directory and below it.

The state of a run is

  finished  it has a result
  begun     it has a checkpoint or metrics
  waiting   it has a configuration only
  damaged   it cannot be read; it is left as it is

Runs are found in their own directories and in collections (runs.jsonl, metrics.jsonl.gz and environments.json), which
comparisons, tables and ablations write at their end. --collect writes such a collection: records without encoders and
embeddings.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from pucl.config import check_known
from pucl.files import check_folder, write_json
from pucl.frameworks.recipes import known_names
from pucl.progress import duration
from pucl.runs.catalogue import FINISHED, STATES, Entry, find_runs
from pucl.runs.collection import ENVIRONMENTS, METRICS, RUNS, write_collection
from pucl.texts import counted, percent, printable, say, table

EXAMPLES = (
    "pucl runs",
    "pucl runs DIR --where correction=pucl --where seed=0 --state finished",
    "pucl runs DIR --collect OUT",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pucl runs``."""
    directory = "directory to search (default: runs)"
    parser.add_argument("directory", nargs="?", type=Path, default=Path("runs"), metavar="DIR", help=directory)
    where = "only runs with this setting, of the run or of its correction; may be repeated"
    parser.add_argument("--where", action="append", default=[], metavar="FIELD=VALUE", help=where)
    parser.add_argument("--state", metavar="NAME", choices=STATES, help=f"only runs in this state: {', '.join(STATES)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the records of these runs to this file")
    collect = "also write the records of finished runs to this directory"
    parser.add_argument("--collect", type=Path, metavar="OUT", help=collect)


def run(arguments: argparse.Namespace) -> int:
    """Find the runs, choose among them, and print a table."""
    check_folder("--json", arguments.json)
    wanted = dict(_pair(text) for text in arguments.where)
    for name in wanted:
        check_known("field of a run", name, known_names())
    if arguments.state is not None:
        check_known("state of a run", arguments.state, STATES)
    found = list(find_runs(arguments.directory))
    chosen = [each for each in found if each.matches(wanted) and arguments.state in (None, each.state)]
    if not chosen:
        say(f"no such run in {arguments.directory}, out of {counted(len(found), 'run')}")
    else:
        say(table([HEADER, *(_cells(each, arguments.directory) for each in chosen)]))
        say(f"\n{len(chosen)} of {counted(len(found), 'run')} in {arguments.directory}")
    for each in chosen:
        if each.problem:
            say(f"{printable(str(each.path))}: {printable(each.problem)}")
    if arguments.json is not None:
        write_json(arguments.json, {"runs": [each.as_json() for each in chosen]})
        say(f"written: {arguments.json}")
    if arguments.collect is not None:
        say(_collect(chosen, arguments.directory, arguments.collect))
    return 0


HEADER = ["run", "state", "framework", "data", "correction", "settings", "seed", "score", "training"]


def _cells(entry: Entry, top: Path) -> list[str]:
    path = str(entry.path.relative_to(top)) if entry.path != top else "."
    config = entry.config
    if config is None:
        return [path, entry.state, *[""] * (len(HEADER) - 2)]
    given = {name: value for name, value in config.all_settings().items() if value is not None and value is not False}
    settings = ", ".join(f"{name} {value:g}" for name, value in given.items())
    score = "" if entry.score is None else f"{entry.score[0]} {percent(entry.score[1])}"
    seconds = "" if entry.result is None else duration(entry.result.get("seconds", 0.0))
    about = [config.framework, Path(config.data).name, config.correction, settings, str(config.seed)]
    return [path, entry.state, *about, score, seconds]


def _collect(chosen: Sequence[Entry], top: Path, out: Path) -> str:
    """Write a collection of the finished runs, and return a line that says what it holds."""
    finished = [each for each in chosen if each.state == FINISHED]
    if not finished:
        raise ValueError(f"--collect writes the records of finished runs: expected at least one, got none in {top}")
    write_collection(out, {each.path.relative_to(top).as_posix(): each.run() for each in finished})
    rest = len(chosen) - len(finished)
    left_out = f"; {counted(rest, 'run')} skipped, not finished or damaged" if rest else ""
    return f"written: {out / RUNS} ({counted(len(finished), 'run')}{left_out}), {METRICS} and {ENVIRONMENTS}"


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"--where says what a field must be: expected FIELD=VALUE, such as seed=0, got {text!r}")
    return name.strip().replace("-", "_"), value.strip()
