"""Bring a set of the TU collection into the data root: downloaded, or from a directory; whole or not at all."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pucl.data.archive import unpack_zip
from pucl.data.download import UnreachableError, fetch_zip
from pucl.data.errors import DataError
from pucl.data.staging import staging, writing
from pucl.graphs.sources.tu import read_tu
from pucl.graphs.sources.tu_collection import GraphSource


def acquire_graphs(
    source: GraphSource, root: Path, origin: Path | None = None, say: Callable[[str], None] = print
) -> Path:
    """Get a set of graphs and return the directory with its files.

    They are read and compared with what is published before they are put in their place, ``NAME/raw``, where
    torch_geometric looks for them too.

    Args:
        source: Which one.
        root: The data root.
        origin: A directory with ``NAME.zip`` or with the files themselves, or the archive; None downloads.
        say: Told what is being done.
    """
    if (place := source.find(root)) is not None:
        say(f"{source.name} is there already, in {place}")
        return place
    with writing(source.name, root):
        root.mkdir(parents=True, exist_ok=True)
        if origin is None:
            return _from_network(source, root, say)
        return _from_directory(source, root, origin, say)


def _from_directory(source: GraphSource, root: Path, origin: Path, say: Callable[[str], None]) -> Path:
    archive = origin if origin.is_file() else origin / f"{source.name}.zip"
    with staging(source.name, root) as stage:
        if origin.is_dir() and (place := source.find(origin)) is not None:
            say(f"copying {source.name} from {place}")
            return _publish(source, root, stage, place)
        if archive.is_file():
            say(f"unpacking {archive}")
            return _from_zip(source, root, stage, archive)
    broken = source.missing(origin) or f"expected {source.name}.zip, or {source.name}_A.txt and what belongs to it"
    raise DataError(f"{origin} does not hold {source.name}: {broken}")


def _from_network(source: GraphSource, root: Path, say: Callable[[str], None]) -> Path:
    downloads = root / f".{source.name}.downloads"  # Kept when a download breaks off, so that it can go on.
    say(f"fetching {source.url}")
    try:
        archive = fetch_zip(source.url, downloads)
    except UnreachableError as error:
        with suppress(OSError):
            downloads.rmdir()  # If it is empty: what was begun stays.
        hint = f"`pucl data get {source.name} --from DIR` takes it from a directory"
        raise UnreachableError(f"{error}. {hint}") from error
    try:
        with staging(source.name, root) as stage:
            return _from_zip(source, root, stage, archive)
    finally:
        shutil.rmtree(downloads, ignore_errors=True)


def _from_zip(source: GraphSource, root: Path, stage: Path, archive: Path) -> Path:
    unpacked = stage / "unpacked"
    unpack_zip(archive, unpacked)
    directory = source.find(unpacked)
    if directory is None:
        broken = (source.missing(unpacked) or "it has none of its files").replace(f"{stage}/", "")
        raise DataError(f"{archive} does not hold {source.name}: {broken}")
    return _publish(source, root, stage, directory)


def _publish(source: GraphSource, root: Path, stage: Path, directory: Path) -> Path:
    """Check the files in a directory, and copy those that belong to the set to its place."""
    source.check(read_tu(directory, source.name), directory)
    raw = stage / source.name / "raw"
    raw.mkdir(parents=True)
    for path in sorted(directory.iterdir()):
        if path.is_file() and path.suffix == ".txt" and path.name.startswith((f"{source.name}_", "README")):
            shutil.copyfile(path, raw / path.name)
    target = root / source.name
    if target.exists():
        raise DataError(f"{target} is in the way: it is there and does not hold {source.name}; move it away")
    (stage / source.name).replace(target)
    return target / "raw"
