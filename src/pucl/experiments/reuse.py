"""Runs that were made for another purpose: what is finished elsewhere is copied here, not run again."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from pucl.experiments.catalogue import FINISHED, find_runs
from pucl.experiments.config import RunConfig
from pucl.experiments.directory import RunDirectory
from pucl.files import whole_file


def bring_finished(
    wanted: Mapping[str, RunConfig],
    out: Path,
    elsewhere: Sequence[Path],
    counts: Callable[[RunConfig, dict[str, Any]], bool],
) -> list[str]:
    """Copy finished runs of exactly these configurations to where they are wanted; to which places.

    A place that is taken, by whatever it is, stays as it is, and so does one to which nothing can be copied: what is
    wrong there is told when its run is made.

    Args:
        wanted: Configurations by their places below `out`.
        out: Where the copies go, each appearing whole or not at all.
        elsewhere: Directories in and below which runs are looked for.
        counts: Whether a result is of the data that are here now.
    """
    runs = [entry for top in elsewhere for entry in find_runs(top) if entry.state == FINISHED]
    brought = []
    for place, config in wanted.items():
        if (out / place).exists():
            continue
        with suppress(OSError, ValueError):
            same = (each for each in runs if each.config == config and each.result and counts(config, each.result))
            found = next(same, None)
            if found is not None:
                _copy(RunDirectory(found.path), out / place)
                brought.append(place)
    return brought


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
