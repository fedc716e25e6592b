"""Runs that need not be made again: those on the same data count, and what is finished elsewhere is copied here."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from pucl.config import PLAIN, RunConfig
from pucl.files import whole_file
from pucl.runs.build import open_data
from pucl.runs.catalogue import FINISHED, find_runs
from pucl.runs.directory import RunDirectory
from pucl.runs.log import same_data


class Reused(NamedTuple):
    """What a grid need not run again.

    Args:
        copied: Where runs were copied to.
        collected: How many other runs are finished, but have no directory: they are in a collection alone.
    """

    copied: list[str]
    collected: int


def bring_finished(
    wanted: Mapping[str, RunConfig],
    out: Path,
    elsewhere: Sequence[Path],
    counts: Callable[[RunConfig, dict[str, Any]], bool],
) -> Reused:
    """Copy finished runs of exactly these configurations to where they are wanted.

    A place that is taken, by whatever it is, stays as it is, and so does one to which nothing can be copied: what is
    wrong there is told when its run is made. Runs that only a collection has are not copied: it has no encoders.

    Args:
        wanted: Configurations by their places below `out`.
        out: Where the copies go, each appearing whole or not at all.
        elsewhere: Directories in and below which runs are looked for.
        counts: Whether a result is of the data that are here now.

    Returns:
        Where runs were copied to, and how many others are in a collection alone.
    """
    runs = [entry for top in elsewhere for entry in find_runs(top) if entry.state == FINISHED]
    copied, collected = [], 0
    for place, config in wanted.items():
        if (out / place).exists():
            continue
        with suppress(OSError, ValueError):
            same = [each for each in runs if each.config == config and each.result and counts(config, each.result)]
            whole = [each for each in same if each.collection is None]
            if whole:
                _copy(RunDirectory(whole[0].path), out / place)
                copied.append(place)
            else:
                collected += bool(same)
    return Reused(copied, collected)


def on_same_data(root: Path | None) -> Callable[[RunConfig, dict[str, Any]], bool]:
    """Whether a run's result is of the data that are here now; those of a set are read once for all its runs."""
    here: dict[str, dict[str, Any]] = {}

    def same(config: RunConfig, result: dict[str, Any]) -> bool:
        if "data" not in result:  # Of an earlier version.
            return True
        plain = replace(config, correction=PLAIN, settings={}, seed=0)
        place = json.dumps(plain.as_json())
        if place not in here:
            here[place] = open_data(plain, root).fingerprint()
        return same_data(result["data"], here[place])

    return same


def _copy(source: RunDirectory, target: Path) -> None:
    """The files of a run and TensorBoard's events, but neither its lock nor other runs below it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{uuid4().hex}.part")
    part.mkdir()
    try:
        for folder in (source.path, source.tensorboard):
            files = [file for file in folder.glob("[!.]*") if file.is_file()]
            beside = part / folder.relative_to(source.path)
            if files:
                beside.mkdir(exist_ok=True)
            for file in files:
                with file.open("rb") as content, whole_file(beside / file.name) as copy:
                    shutil.copyfileobj(content, copy)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
