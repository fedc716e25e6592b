"""Find the runs in a directory and below it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pucl.config import RunConfig
from pucl.evaluation import numbers_in
from pucl.records import DamagedError
from pucl.runs.collection import RUNS, Collection, Run, read_run
from pucl.runs.directory import RunDirectory

FINISHED, BEGUN, WAITING, DAMAGED = "finished", "begun", "waiting", "damaged"
STATES = (FINISHED, BEGUN, WAITING, DAMAGED)
"""States of a run: it has a result; a checkpoint or metrics; only a configuration; or it cannot be read."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A run that was found.

    Args:
        path: Its directory; for a damaged line of a collection, the file.
        result: Its result; None if it is not finished.
        problem: Why it cannot be read; empty if it can.
        collection: The collection that holds its record, if it has no directory.
    """

    path: Path
    state: str
    config: RunConfig | None = None
    result: dict[str, Any] | None = None
    problem: str = ""
    collection: Collection | None = None

    @property
    def score(self) -> tuple[str, float] | None:
        """The first number of a probe, by its name in the result; None if there is none."""
        result = self.result or {}
        return next(((name, result[name]) for name in numbers_in([result])), None)

    def matches(self, wanted: Mapping[str, str]) -> bool:
        """Whether all these fields of the configuration or settings of the correction have these values."""
        if self.config is None:
            return not wanted
        fields = self.config.as_json() | self.config.all_settings()
        known: dict[str, list[Any]] = {name: [value] for name, value in fields.items()}
        known["data"].append(Path(self.config.data).name)  # The name that tables show.
        return all(any(_same(have, value) for have in known.get(name, [])) for name, value in wanted.items())

    def run(self) -> Run:
        """Everything that is recorded of it, read from its directory or its collection."""
        if self.collection is None:
            return read_run(self.path)
        return self.collection.run(self.path.relative_to(self.collection.directory).as_posix())

    def as_json(self) -> dict[str, Any]:
        """The values for a record."""
        return {
            "path": str(self.path),
            "state": self.state,
            "config": None if self.config is None else self.config.as_json(),
            "result": self.result,
            "problem": self.problem,
        }


def find_runs(top: Path) -> Iterator[Entry]:
    """All runs in a directory and below it, sorted by path: directories of runs, and runs that only a collection has.

    A damaged run has the state `DAMAGED`. No file is changed.
    """
    if not top.is_dir():
        raise ValueError(f"{top} is the directory to search for runs: expected a directory, got {_what(top)}")
    found = {file.parent: _entry(file.parent) for file in _visible(top, "config.json")}
    damaged = []
    for file in _visible(top, RUNS):
        for entry in _collected(file):
            if entry.config is None:
                damaged.append(entry)
            else:
                found.setdefault(entry.path, entry)  # A directory has more files than the collection.
    yield from sorted([*found.values(), *damaged], key=lambda entry: entry.path)


def _visible(top: Path, name: str) -> list[Path]:
    """Files of this name, except below hidden directories, which are incomplete copies."""
    return [file for file in top.rglob(name) if not any(part.startswith(".") for part in file.relative_to(top).parts)]


def _collected(file: Path) -> Iterator[Entry]:
    """The runs of a collection, and its damaged lines."""
    try:
        collection = Collection(file.parent)
    except (DamagedError, OSError) as error:
        yield Entry(path=file, state=DAMAGED, problem=str(error))
        return
    for path in collection:
        config, result = collection.config(path), collection.result(path)
        yield Entry(path=file.parent / path, state=FINISHED, config=config, result=result, collection=collection)
    for damaged in collection.damaged:
        yield Entry(path=file, state=DAMAGED, problem=str(damaged))


def _entry(path: Path) -> Entry:
    directory = RunDirectory(path)
    try:
        config, result = directory.config(), directory.result()
    except (ValueError, OSError) as error:
        return Entry(path=path, state=DAMAGED, problem=str(error))
    if result is not None:
        return Entry(path=path, state=FINISHED, config=config, result=result)
    return Entry(path=path, state=BEGUN if directory.begun else WAITING, config=config)


def _same(have: Any, wanted: str) -> bool:
    """Whether a value equals a word of a command line: 0.1 equals .10."""
    if str(have).lower() == wanted.lower():
        return True
    try:
        return not isinstance(have, bool) and isinstance(have, int | float) and float(wanted) == have
    except ValueError:
        return False


def _what(path: Path) -> str:
    return "a file" if path.exists() else "nothing of that name"
