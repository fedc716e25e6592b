"""A folder of pictures, turned once into one array on disk.

Decoding costs more than anything else that is done with a small picture, so it is done once and not in every epoch.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.errors import DataError
from pucl.data.split import TEST_SHARE, check_share, draw_some, held_back
from pucl.devices import usable_cores
from pucl.images.imageset import ImageData, ImageSet
from pucl.images.resizing import check_image_size
from pucl.images.sources.arrays import split_tail
from pucl.images.sources.listing import Listing, list_pictures
from pucl.images.sources.picture import need_pillow, quiet_decoders, read_picture, shorter_side
from pucl.images.stored import ABOUT, Stored, stored
from pucl.progress import Progress
from pucl.texts import printable

LARGEST_DEFAULT = 64  # Pixels of a side: as many as a small encoder can take.
PROBED = 32  # Pictures whose headers are read to choose a size.
AHEAD = 8  # Pictures per worker that may wait to be written: memory stays small however large the folder is.
LISTED = 20  # Damaged pictures that notes name; the rest are named in about.json.
FORMAT = 1  # Raise it when the same files would give other bytes, so that no old array is taken for a new one.


def read_folder(
    folder: Path, cache: Path, image_size: int | None = None, test_share: float = TEST_SHARE, workers: int | None = None
) -> ImageData:
    """The pictures of a folder; see `list_pictures` for how it is laid out and `read_picture` for what is done to each.

    The array is kept in ``cache`` under a key made of the names, sizes and times of all files and of the size wanted:
    when a picture changes, a new array is built. Damaged pictures are skipped and listed in the notes.

    Args:
        folder: The folder.
        cache: Where the array is kept.
        image_size: Side in pixels; by default that of the pictures, but at most 64.
        test_share: Share of each class to hold back where there is no test folder.
        workers: How many pictures are decoded at a time; by default one for each core.
    """
    check_share(test_share)
    if image_size is not None:
        check_image_size(image_size)
    need_pillow()
    listing = list_pictures(folder)
    names = [name for name, _, _ in listing.files]
    with quiet_decoders():
        side = _usual_side(folder, names) if image_size is None else image_size
        size = side if image_size is not None else min(LARGEST_DEFAULT, side)
        entry = cache / f"{folder.resolve().name or 'root'}-{size}-{_key(folder, listing, size)}"
        done = stored(entry, (3, size, size), partial(_build, folder, names, size, workers or usable_cores()))
    data = _assembled(folder, listing, done, test_share)
    if size == side:
        return data
    shrunk = f"pictures of about {side} pixels are read at {size}, which suits a small encoder; image_size keeps more"
    return replace(data, notes=(*data.notes, shrunk))


def _assembled(folder: Path, listing: Listing, done: Stored, test_share: float) -> ImageData:
    skipped = done.about.get("skipped")
    if not isinstance(skipped, dict) or not all(isinstance(reason, str) for reason in skipped.values()):
        raise DataError(f"{done.directory / ABOUT} is damaged: delete {done.directory}, and it is built again")
    kept = np.array([name not in skipped for name, _, _ in listing.files])
    names = tuple(name for name, _, _ in listing.files if name not in skipped)
    labels = None if listing.labels is None else listing.labels[kept]
    every = ImageSet(done.pixels, labels, listing.classes, names)
    tests = held_back(listing.quantiles[kept], test_share) if labels is not None else 0
    notes = (*listing.notes, *_complaints(skipped, len(kept), done.directory))
    return split_tail(folder.resolve().name or str(folder), every, tests, notes)


def _complaints(skipped: dict[str, str], total: int, entry: Path) -> Iterator[str]:
    if skipped:
        yield f"{len(skipped)} of {total} pictures could not be read and were skipped"
    for name, reason in list(skipped.items())[:LISTED]:
        yield f"skipped {printable(name)}: {printable(reason)}"  # Notes are printed, also as warnings.
    if len(skipped) > LISTED:
        yield f"skipped {len(skipped) - LISTED} more, listed in {entry / ABOUT}"


def _usual_side(folder: Path, names: Sequence[str]) -> int:
    """The median of the shorter sides of some pictures."""
    sides = []
    for index in draw_some(len(names), PROBED):
        try:
            sides.append(shorter_side(folder / names[index]))
        except (DataError, OSError):
            continue  # It is reported when it is read.
    return sorted(sides)[len(sides) // 2] if sides else LARGEST_DEFAULT


def _key(folder: Path, listing: Listing, size: int) -> str:
    what = json.dumps([FORMAT, str(folder.resolve()), size, listing.files])
    return hashlib.sha256(what.encode(errors="surrogateescape")).hexdigest()[:16]


def _build(
    folder: Path, names: Sequence[str], size: int, workers: int, append: Callable[[NDArray[np.uint8]], None]
) -> dict[str, Any]:
    """Decode all pictures, several at a time, and append them in order."""
    skipped: dict[str, str] = {}
    progress = Progress(f"pucl data: reading {folder.name}", "pictures")
    try:
        for number, (name, result) in enumerate(_in_parallel(folder, names, size, workers), 1):
            if isinstance(result, str):
                skipped[name] = result
            else:
                append(result[None])
            progress(number, len(names))
    finally:
        progress.close()
    if len(skipped) == len(names):
        name, reason = next(iter(skipped.items()))
        raise DataError(f"none of the {len(names)} pictures in {folder} can be read; the first, {name}: {reason}")
    return {"folder": str(folder.resolve()), "skipped": skipped}


def _in_parallel(
    folder: Path, names: Sequence[str], size: int, workers: int
) -> Iterator[tuple[str, NDArray[np.uint8] | str]]:
    """Pictures, or why they cannot be read, in the order of their names.

    Threads, since Pillow lets go of the interpreter while it decodes and resizes: processes would have to import torch
    and send every picture through a pipe, and cannot be started from a script without a main guard.
    """
    with ThreadPoolExecutor(workers) as pool:
        waiting: list[tuple[str, Future[NDArray[np.uint8] | str]]] = []
        try:
            for name in names:
                waiting.append((name, pool.submit(_attempt, folder / name, size)))
                if len(waiting) >= AHEAD * workers:
                    first, result = waiting.pop(0)
                    yield first, result.result()
            for name, result in waiting:
                yield name, result.result()
        finally:
            for _, result in waiting:
                result.cancel()


def _attempt(path: Path, size: int) -> NDArray[np.uint8] | str:
    try:
        return read_picture(path, size)
    except DataError as error:
        if isinstance(error.__cause__, MemoryError):  # A picture that another machine could read is not skipped.
            raise
        return str(error).removeprefix(f"{path}: ")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
