"""Pictures that are odd, damaged or hostile: skipped with a reason, and nothing of Pillow's own is printed."""

import logging
import random
import struct
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pucl.data.errors import DataError
from pucl.images.registry import load
from pucl.images.sources.picture import quiet_decoders, read_picture

NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 20, 3), dtype=np.uint8))


PROGRAM = """
import sys, pathlib, pucl.images
data = pucl.images.load(sys.argv[1], root=pathlib.Path(sys.argv[2]))
print(len(data.train), *data.notes, sep="\\n")
"""


@pytest.mark.slow
def test_nothing_of_pillow_is_printed(tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    for number in range(2):
        NOISE.save(folder / f"good{number}.png")
    exif = b"Exif\0\0II*\0\x08\0\0\0\x05\0\x12\x01\x03\0"  # Five entries, and none: Pillow warns of it.
    NOISE.save(folder / "exif.jpg", exif=exif)
    NOISE.save(folder / "samples.tif")
    content = bytearray((folder / "samples.tif").read_bytes())
    place = content.index(struct.pack("<HH", 277, 3))  # How many samples a pixel has: Pillow logs an error.
    content[place + 8 : place + 10] = struct.pack("<H", 60)
    (folder / "samples.tif").write_bytes(content)

    command = [sys.executable, "-c", PROGRAM, str(folder), str(tmp_path / "root")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)  # noqa: S603
    assert done.stderr == ""
    count, head, skipped = done.stdout.splitlines()
    assert (count, head) == ("3", "1 of 4 pictures could not be read and were skipped")
    assert skipped.startswith("skipped samples.tif:")


def test_warnings_and_log_are_as_before() -> None:
    filters, handlers = list(warnings.filters), list(logging.getLogger("PIL").handlers)
    with quiet_decoders():
        warnings.warn("odd", UserWarning, stacklevel=1)
    assert warnings.filters == filters
    assert logging.getLogger("PIL").handlers == handlers


def test_pictures_of_too_many_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow warns of more than its limit, which is not shown, and refuses more than twice as many."""
    (tmp_path / "folder").mkdir()
    for number, side in enumerate((8, 9, 20)):
        Image.new("RGB", (side, side)).save(tmp_path / "folder" / f"{number}.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 70)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        data = load(tmp_path / "folder", root=tmp_path / "root")
    assert shown == []
    assert len(data.train) == 2
    assert data.notes == (
        "1 of 3 pictures could not be read and were skipped",
        "skipped 2.png: it has more than 140 pixels, or its header says so; if it is a picture, make it smaller",
    )
    with pytest.raises(DataError, match="2.png: it has more than 140 pixels"):
        read_picture(tmp_path / "folder" / "2.png", 8)


@pytest.mark.parametrize("suffix", ["bmp", "gif", "jpg", "pgm", "png", "tga", "tif", "webp"])
def test_any_damage_is_a_sentence(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"picture.{suffix}"
    NOISE.save(path)
    whole, refused = path.read_bytes(), []
    for seed in range(60):
        chance = random.Random(seed)  # noqa: S311
        content = bytearray(whole)
        for place in chance.choices(range(len(whole)), weights=[1 / (1 + each) for each in range(len(whole))], k=3):
            content[place] = chance.randrange(256)
        path.write_bytes(content[: chance.choice((len(content), chance.randrange(len(content))))])
        try:
            with quiet_decoders():
                assert read_picture(path, 8).shape == (3, 8, 8)
        except DataError as error:
            refused.append(str(error))
    assert refused
    assert all(message.startswith(f"{path}: ") and len(message) > len(f"{path}: ") for message in refused)
