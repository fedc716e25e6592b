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


def save_odd_pictures(folder: Path) -> None:
    """One that Pillow warns of, one that its log has an error of, and one that libtiff writes about to the terminal."""
    folder.mkdir()
    for number in range(2):
        NOISE.save(folder / f"good{number}.png")
    NOISE.save(folder / "exif.jpg", exif=b"Exif\0\0II*\0\x08\0\0\0\x05\0\x12\x01\x03\0")  # Five entries, and none.
    NOISE.save(folder / "strip.tif", compression="tiff_lzw")
    content = bytearray((folder / "strip.tif").read_bytes())
    with Image.open(folder / "strip.tif") as picture:
        start = picture.getexif()[273]
    content[start : start + 200] = b"\xff" * 200
    (folder / "strip.tif").write_bytes(content)
    NOISE.save(folder / "samples.tif")
    content = bytearray((folder / "samples.tif").read_bytes())
    place = content.index(struct.pack("<HH", 277, 3))  # How many samples a pixel has.
    content[place + 8 : place + 10] = struct.pack("<H", 60)
    (folder / "samples.tif").write_bytes(content)


LOUD = """
from PIL import Image
for path in Path(sys.argv[1]).iterdir():
    try:
        Image.open(path).convert("RGB").getexif()
    except OSError:
        pass
"""
QUIET = """
import pucl.images
data = pucl.images.load(sys.argv[1], root=Path(sys.argv[2]))
print(len(data.train), *data.notes, sep="\\n")
"""


def run_python(program: str, *arguments: Path) -> tuple[str, str]:
    """What a program prints, and what comes on its error stream."""
    command = [sys.executable, "-c", f"import sys\nfrom pathlib import Path\n{program}", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)  # noqa: S603
    return done.stdout, done.stderr


def test_nothing_of_the_decoders_is_printed(tmp_path: Path) -> None:
    save_odd_pictures(tmp_path / "odd")
    _, errors = run_python(LOUD, tmp_path / "odd")
    assert "Corrupt EXIF data" in errors
    assert "samples per pixel" in errors

    printed, errors = run_python(QUIET, tmp_path / "odd", tmp_path / "root")
    assert errors == ""
    count, head, *skipped = printed.splitlines()
    assert (count, head) == ("3", "2 of 5 pictures could not be read and were skipped")
    assert [note.split(":")[0] for note in skipped] == ["skipped samples.tif", "skipped strip.tif"]


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
        "skipped 2.png: it has more than 140 pixels, or pretends to; scale it down if it is a picture",
    )
    with pytest.raises(DataError, match="2.png: it has more than 140 pixels"):
        read_picture(tmp_path / "folder" / "2.png", 8)


@pytest.mark.parametrize("suffix", ["bmp", "gif", "jpg", "pgm", "png", "tga", "tif", "webp"])
def test_any_damage_is_a_sentence(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"picture.{suffix}"
    NOISE.save(path)
    whole, refused = path.read_bytes(), []
    for seed in range(120):
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
