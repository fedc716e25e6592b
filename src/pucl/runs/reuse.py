"""Reuse finished runs: copy them from other directories, if configuration and data are the same."""

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
from pucl.frameworks import open_data
from pucl.runs.catalogue import FINISHED, find_runs
from pucl.runs.directory import RunDirectory
from pucl.runs.exclusion import fingerprint
from pucl.runs.log import same_data


class Reused(NamedTuple):
    """Finished runs that were found elsewhere.

    Args:
        copied: The paths that runs were copied to.
        collected: Number of other runs that only a collection has, without encoders.
    """

    copied: list[str]
    collected: int


def copy_finished(
    wanted: Mapping[str, RunConfig],
    out: Path,
    elsewhere: Sequence[Path],
    same_data: Callable[[RunConfig, dict[str, Any]], bool],
) -> Reused:
    """Copy finished runs of exactly these configurations. A copy appears whole or not at all.

    Existing paths stay as they are. A path that cannot be written is skipped: its run will raise the error. Runs that
    only a collection has are not copied, since a collection has no encoders.

    Args:
        wanted: Configurations by their paths below `out`.
        out: The directory of the copies.
        elsewhere: Directories in and below which to look for runs.
        same_data: Whether a result was computed on the present data.
    """
    runs = [entry for top in elsewhere for entry in find_runs(top) if entry.state == FINISHED]
    copied, collected = [], 0
    for path, config in wanted.items():
        if (out / path).exists():
            continue
        with suppress(OSError, ValueError):
            same = [each for each in runs if each.config == config and each.result and same_data(config, each.result)]
            whole = [each for each in same if each.collection is None]
            if whole:
                _copy(RunDirectory(whole[0].path), out / path)
                copied.append(path)
            else:
                collected += bool(same)
    return Reused(copied, collected)


def same_data_checker(root: Path | None) -> Callable[[RunConfig, dict[str, Any]], bool]:
    """Make a function that returns whether a result was computed on the present data. It opens each data set once."""
    here: dict[str, dict[str, Any]] = {}

    def same(config: RunConfig, result: dict[str, Any]) -> bool:
        if "data" not in result:  # An earlier version wrote it.
            return True
        plain = replace(config, correction=PLAIN, settings={}, seed=0)
        key = json.dumps(plain.as_json())
        if key not in here:
            here[key] = fingerprint(plain, open_data(plain, root))
        return same_data(result["data"], here[key])

    return same


def _copy(source: RunDirectory, target: Path) -> None:
    """Copy the files of a run and its TensorBoard events, but neither its lock nor other runs below it."""
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
