"""Runs that were made for another purpose: what is finished elsewhere is copied here, not run again."""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pucl.experiments.catalogue import FINISHED, find_runs
from pucl.experiments.config import RunConfig


def bring_finished(
    wanted: Mapping[str, RunConfig],
    out: Path,
    elsewhere: Sequence[Path],
    counts: Callable[[RunConfig, dict[str, Any]], bool],
) -> list[str]:
    """Copy finished runs of exactly these configurations to where they are wanted; to which places.

    A place that is taken, by whatever it is, stays as it is.

    Args:
        wanted: Configurations by their places below `out`.
        out: Where the copies go, each appearing whole or not at all.
        elsewhere: Directories in and below which runs are looked for.
        counts: Whether a result is of the data that are here now.
    """
    runs = [entry for top in elsewhere for entry in find_runs(top) if entry.state == FINISHED]
    known = {_key(entry.config): entry for entry in runs if entry.config}
    brought = []
    for place, config in wanted.items():
        found, target = known.get(_key(config)), out / place
        if found is not None and found.result and not target.exists() and counts(config, found.result):
            _copy(found.path, target)
            brought.append(place)
    return brought


def _copy(source: Path, target: Path) -> None:
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        shutil.copytree(source, part, ignore=shutil.ignore_patterns(".*"))  # A lock is of one place.
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _key(config: RunConfig) -> str:
    return json.dumps(config.as_json(), sort_keys=True)
