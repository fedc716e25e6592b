"""A folder of pictures, which are decoded once into one array on disk.

Decoding a small picture takes longer than training on it, so it is not done in every epoch.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.choosing import TEST_SHARE, count_held_out, draw_some
from pucl.data.errors import DataError
from pucl.devices import usable_cores
from pucl.images.imageset import ImageData, ImageSet, split_tail
from pucl.images.sources.listing import Listing, list_pictures
from pucl.images.sources.picture import need_pillow, quiet_decoders, read_picture, shorter_side
from pucl.images.stored import ABOUT, Stored, stored
from pucl.progress import Progress
from pucl.texts import printable

LARGEST_DEFAULT = 64  # Pixels a side, which suits a small encoder.
SAMPLED = 32  # Pictures whose headers are read to choose a size.
AT_ONCE = 64  # Pictures per worker that are decoded at a time; it limits the memory for large folders.
LISTED = 20  # Damaged pictures that the notes name; about.json names all.
FORMAT = 1  # Increase it if the same files would give another array, so that old arrays are not used.


def read_folder(folder: Path, cache: Path, image_size: int | None = None, test_share: float = TEST_SHARE) -> ImageData:
    """Read the pictures of a folder. `list_pictures` describes the layout, `read_picture` the conversion.

    The array is kept in ``cache`` under a key of the names, sizes and times of all files and of the image size: if a
    picture changes, a new array is built. Damaged pictures are skipped and listed in the notes.

    Args:
        folder: The folder.
        cache: Directory for the array.
        image_size: Side in pixels; default: the usual size of the pictures, but at most 64.
        test_share: Share of each class to hold out if there is no test folder.
    """
    need_pillow()
    listing = list_pictures(folder)
    names = [name for name, _, _ in listing.files]
    with quiet_decoders():
        side = _usual_side(folder, names) if image_size is None else image_size
        size = side if image_size is not None else min(LARGEST_DEFAULT, side)
        entry = cache / f"{folder.resolve().name or 'root'}-{size}-{_key(folder, listing, size)}"
        done = stored(entry, (3, size, size), partial(_build, folder, names, size))
    data = _assembled(folder, listing, done, test_share)
    if size == side:
        return data
    shrunk = f"pictures of about {side} pixels were resized to {size}, which suits a small encoder; see image_size"
    return replace(data, notes=(*data.notes, shrunk))


def _assembled(folder: Path, listing: Listing, done: Stored, test_share: float) -> ImageData:
    skipped = done.about.get("skipped")
    if not isinstance(skipped, dict) or not all(isinstance(reason, str) for reason in skipped.values()):
        raise DataError(f"{done.directory / ABOUT} is damaged: delete {done.directory}, then it is built again")
    kept = np.array([name not in skipped for name, _, _ in listing.files])
    names = tuple(name for name, _, _ in listing.files if name not in skipped)
    labels = None if listing.labels is None else listing.labels[kept]
    every = ImageSet(done.pixels, labels, listing.classes, names)
    tests = count_held_out(listing.quantiles[kept], test_share) if labels is not None else 0
    notes = (*listing.notes, *_notes_on(skipped, len(kept), done.directory))
    return split_tail(folder.resolve().name or str(folder), every, tests, notes)


def _notes_on(skipped: dict[str, str], total: int, entry: Path) -> Iterator[str]:
    if skipped:
        yield f"{len(skipped)} of {total} pictures could not be read and were skipped"
    for name, reason in list(skipped.items())[:LISTED]:
        yield f"skipped {printable(name)}: {printable(reason)}"  # Notes are printed.
    if len(skipped) > LISTED:
        yield f"skipped {len(skipped) - LISTED} more, listed in {entry / ABOUT}"


def _usual_side(folder: Path, names: Sequence[str]) -> int:
    """The median of the shorter sides of some pictures, in pixels."""
    sides = []
    for index in draw_some(len(names), SAMPLED):
        try:
            sides.append(shorter_side(folder / names[index]))
        except (DataError, OSError):
            continue  # It is reported when all are read.
    return sorted(sides)[len(sides) // 2] if sides else LARGEST_DEFAULT


def _key(folder: Path, listing: Listing, size: int) -> str:
    key = json.dumps([FORMAT, str(folder.resolve()), size, listing.files])
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()[:16]


def _build(
    folder: Path, names: Sequence[str], size: int, append: Callable[[NDArray[np.uint8]], None]
) -> dict[str, Any]:
    """Decode all pictures in parallel and append them in order.

    Threads are enough, since Pillow releases the interpreter lock while it decodes and resizes. Processes would have to
    import torch and send every picture through a pipe, and a script would need a main guard.
    """
    skipped: dict[str, str] = {}
    progress = Progress(f"pucl data: reading {folder.name}", "pictures")
    workers = usable_cores()
    with ThreadPoolExecutor(workers) as pool, closing(progress):
        for start in range(0, len(names), AT_ONCE * workers):
            some = names[start : start + AT_ONCE * workers]
            results = pool.map(lambda name: _attempt(folder / name, size), some)
            for number, (name, result) in enumerate(zip(some, results, strict=True), start + 1):
                if isinstance(result, str):
                    skipped[name] = result
                else:
                    append(result[None])
                progress(number, len(names))
    if len(skipped) == len(names):
        name, reason = next(iter(skipped.items()))
        raise DataError(f"none of the {len(names)} pictures in {folder} can be read; the first, {name}: {reason}")
    return {"folder": str(folder.resolve()), "skipped": skipped}


def _attempt(path: Path, size: int) -> NDArray[np.uint8] | str:
    """Read a picture, or return the reason why it cannot be decoded."""
    try:
        return read_picture(path, size)
    except DataError as error:
        if isinstance(error.__cause__, MemoryError):  # It may be readable with more memory, so it is not skipped.
            raise
        return str(error).removeprefix(f"{path}: ")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
