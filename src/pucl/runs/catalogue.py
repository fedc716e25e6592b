"""Which runs there are, in a directory and below it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pucl.config import RunConfig
from pucl.records import DamagedError
from pucl.runs.collection import RUNS, Collection, Run, read_run
from pucl.runs.directory import RunDirectory
from pucl.runs.lines import PROBES

FINISHED, BEGUN, WAITING, DAMAGED = "finished", "begun", "waiting", "damaged"
STATES = (FINISHED, BEGUN, WAITING, DAMAGED)
"""Of a run: with a result; with a checkpoint or metrics; with nothing but its configuration; or not to be read."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One run that was found.

    Args:
        path: Its directory; of a damaged line of a collection, the file.
        state: Out of `STATES`.
        config: What it is; None where that cannot be read.
        result: What it came to; None where it has come to nothing yet.
        problem: Why it cannot be read; empty where it can.
        collection: Where its record is, if it has no directory.
    """

    path: Path
    state: str
    config: RunConfig | None = None
    result: dict[str, Any] | None = None
    problem: str = ""
    collection: Collection | None = None

    @property
    def accuracy(self) -> tuple[str, float] | None:
        """The main classifier and its accuracy, 0 to 1."""
        found = [(probe, self.result[probe]) for probe in PROBES if self.result and probe in self.result]
        return found[0] if found else None

    def matches(self, wanted: Mapping[str, str]) -> bool:
        """Whether all these fields of the configuration, or settings of the correction, have these values."""
        if self.config is None:
            return not wanted
        fields = self.config.as_json() | self.config.all_settings()
        known: dict[str, list[Any]] = {name: [value] for name, value in fields.items()}
        known["data"].append(Path(self.config.data).name)  # As tables have it.
        return all(any(_same(have, value) for have in known.get(name, [])) for name, value in wanted.items())

    def run(self) -> Run:
        """Everything that is recorded of it, read from its directory or its collection."""
        if self.collection is None:
            return read_run(self.path)
        return self.collection.run(self.path.relative_to(self.collection.directory).as_posix())

    def as_json(self) -> dict[str, Any]:
        """The same in types that JSON knows."""
        return {
            "path": str(self.path),
            "state": self.state,
            "config": None if self.config is None else self.config.as_json(),
            "result": self.result,
            "problem": self.problem,
        }


def find_runs(top: Path) -> Iterator[Entry]:
    """All runs in a directory and below it, by name: directories of runs, and what only a collection has.

    A damaged run is reported as such and not touched.
    """
    if not top.is_dir():
        raise ValueError(f"{top} is where runs are looked for: expected a directory, got {_what(top)}")
    found = {file.parent: _entry(file.parent) for file in _visible(top, "config.json")}
    damaged = []
    for file in _visible(top, RUNS):
        for entry in _collected(file):
            if entry.config is None:
                damaged.append(entry)
            else:
                found.setdefault(entry.path, entry)  # A directory has more than the collection that is made of it.
    yield from sorted([*found.values(), *damaged], key=lambda entry: entry.path)


def _visible(top: Path, name: str) -> list[Path]:
    """Files of this name; those below a hidden directory are of copies that were never completed."""
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
    """Whether a value is what was written on a command line: 0.1 is .10, and none is nothing."""
    if str(have).lower() == wanted.lower():
        return True
    try:
        return not isinstance(have, bool) and isinstance(have, int | float) and float(wanted) == have
    except ValueError:
        return False


def _what(path: Path) -> str:
    return "a file" if path.exists() else "nothing of that name"
