"""A folder becomes one array: every layout, every mode, and damaged pictures."""

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from pucl.data.errors import DataError
from pucl.images.registry import load
from pucl.images.sources.listing import list_pictures
from pucl.images.sources.picture import read_picture

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)
ROTATED = 6  # The EXIF orientation of a camera held upright: turn a quarter to the right.


def save(path: Path, colour: tuple[int, ...] = RED, size: tuple[int, int] = (8, 8), mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).convert(mode).save(path)


def colours(pixels: NDArray[np.uint8]) -> list[tuple[int, ...]]:
    return [tuple(picture[:, 0, 0].tolist()) for picture in pixels]


def test_labels_from_sub_folders(labelled: Path, tmp_path: Path) -> None:
    data = load(labelled, root=tmp_path / "root")

    assert data.test is not None
    assert data.name == "pets"
    assert data.train.classes == ("cat", "dog")
    assert data.train.pixels.shape == (16, 3, 8, 8)
    assert isinstance(data.train.pixels, np.memmap)
    assert data.notes == ()
    for part in (data.train, data.test):
        assert part.labels is not None
        assert part.names is not None
        assert sorted(part.labels.tolist()) == [0] * (len(part) // 2) + [1] * (len(part) // 2)
        for name, label, colour in zip(part.names, part.labels, colours(part.pixels), strict=True):
            kind, number = name.removesuffix(".png").split("/")
            assert kind == part.classes[label]
            assert colour[2 * int(label)] == 100 + int(number)


def test_the_usual_size_is_that_of_all_classes(tmp_path: Path) -> None:
    for kind, side in (("a", 4), ("b", 8), ("c", 8), ("d", 8)):  # Stored in turn, so every fourth is of one class.
        for number in range(32):
            save(tmp_path / "mixed" / kind / f"{number}.png", size=(side, side))
    assert load(tmp_path / "mixed", root=tmp_path / "root").train.size == (8, 8)


@pytest.mark.parametrize("below", ["", "all/"])
def test_no_sub_folder_and_one_are_no_labels(tmp_path: Path, below: str) -> None:
    for name in ("a.png", "b.JPG", ".hidden.png"):
        save(tmp_path / "flat" / below / name)
    (tmp_path / "flat" / "notes.txt").write_text("x")
    data = load(tmp_path / "flat", root=tmp_path / "root")
    assert (len(data.pretrain), data.train.labels, data.test) == (2, None, None)
    assert data.train.names == (f"{below}a.png", f"{below}b.JPG")


@pytest.mark.parametrize("test", ["test", "val", "valid", "validation"])
def test_train_and_test_folders(tmp_path: Path, test: str) -> None:
    for number in range(4):
        for kind in ("cat", "dog"):
            save(tmp_path / "pets" / "train" / kind / f"{number}.png")
    save(tmp_path / "pets" / test / "dog" / "x.png", BLUE)
    data = load(tmp_path / "pets", root=tmp_path / "root", test_share=0.5)
    assert data.test is not None
    assert data.test.labels is not None
    assert len(data.train) == 8
    assert (data.test.names, data.test.labels.tolist()) == ((f"{test}/dog/x.png",), [1])
    assert colours(data.test.pixels) == [BLUE]


def test_test_folders_that_do_not_fit(tmp_path: Path) -> None:
    for kind in ("cat", "dog"):
        save(tmp_path / "pets" / "train" / kind / "0.png")
        save(tmp_path / "pets" / "val" / kind / "0.png")
    save(tmp_path / "pets" / "test" / "dog" / "0.png")
    assert "val was skipped" in load(tmp_path / "pets", root=tmp_path / "root").notes[0]
    save(tmp_path / "pets" / "test" / "cow" / "0.png")
    with pytest.raises(DataError, match="classes that are not in train: cow"):
        load(tmp_path / "pets", root=tmp_path / "root")
    for name in ("train/1.png", "train/2.png", "test/1.png"):
        save(tmp_path / "plain" / name)
    data = load(tmp_path / "plain", root=tmp_path / "root")
    assert len(data.pretrain) == 2
    assert "have no labels" in data.notes[0]


@pytest.mark.parametrize("parts", [("Train", "Test"), ("train", "test", "unlabeled"), ("train", "Validation")])
def test_parts_are_not_taken_for_classes(tmp_path: Path, parts: tuple[str, ...]) -> None:
    for part in parts:
        for kind in ("cat", "dog"):
            save(tmp_path / "pets" / part / kind / "0.png")
    with pytest.raises(DataError, match=f"seems to be split into parts.*expected train and one of.*{sorted(parts)[0]}"):
        load(tmp_path / "pets", root=tmp_path / "root")
    for kind in ("train", "car"):  # Things that can be seen on pictures.
        for number in range(3):
            save(tmp_path / "vehicles" / kind / f"{number}.png")
    assert load(tmp_path / "vehicles", root=tmp_path / "root").train.classes == ("car", "train")


def test_folders_that_cannot_be_meant(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no pictures: expected files that end in"):
        load(tmp_path / "empty", root=tmp_path / "root")
    save(tmp_path / "single" / "0.png")
    with pytest.raises(DataError, match="one image to train on"):
        load(tmp_path / "single", root=tmp_path / "root")
    save(tmp_path / "mixed" / "0.png")
    save(tmp_path / "mixed" / "cat" / "0.png")
    with pytest.raises(DataError, match="1 pictures of its own and others in sub-folders"):
        load(tmp_path / "mixed", root=tmp_path / "root")
    with pytest.raises(ValueError, match="image_size is the side of an image in pixels: expected 2 or more, got 0"):
        load(tmp_path / "mixed", root=tmp_path / "root", image_size=0)


def test_links_are_followed_once(labelled: Path) -> None:
    (labelled / "cat" / "again").symlink_to(labelled, target_is_directory=True)
    assert len(list_pictures(labelled).files) == 20


def write_modes(directory: Path) -> dict[str, tuple[int, int, int]]:
    """A picture in every mode, and the colour that it should come out in."""
    directory.mkdir()
    for mode in ("RGB", "RGBA", "L", "LA", "1", "P"):
        Image.new("RGB", (9, 7), (255, 255, 255)).convert(mode).save(directory / f"{mode}.png")
    Image.new("CMYK", (9, 7), (0, 255, 255, 0)).save(directory / "CMYK.jpg", quality=100)
    Image.new("RGBA", (9, 7), (9, 9, 9, 0)).save(directory / "clear.png")
    Image.fromarray(np.full((7, 9), 257 * 100, np.uint16)).save(directory / "sixteen.png")
    palette = Image.new("P", (9, 7), 1)
    palette.putpalette([*RED, *BLUE])
    palette.save(directory / "palette.gif")
    palette.info["transparency"] = 1
    palette.save(directory / "hole.png", transparency=1)
    white = (255, 255, 255)
    plain = {f"{mode}.png": white for mode in ("RGB", "RGBA", "L", "LA", "1", "P")}
    special = {"clear.png": white, "hole.png": white, "palette.gif": BLUE, "sixteen.png": (100, 100, 100)}
    return plain | special | {"CMYK.jpg": RED}


def test_every_mode_becomes_rgb(tmp_path: Path) -> None:
    expected = write_modes(tmp_path / "modes")
    data = load(tmp_path / "modes", root=tmp_path / "root")
    assert data.notes == ()
    assert data.train.names is not None
    assert data.train.size == (7, 7)
    found = dict(zip(data.train.names, colours(data.train.pixels), strict=True))
    assert found.keys() == expected.keys()
    for name, colour in expected.items():
        assert np.abs(np.subtract(found[name], colour)).max() <= 3, name


def test_exif_rotation_and_the_middle_of_long_pictures(tmp_path: Path) -> None:
    picture = Image.new("RGB", (30, 10), RED)
    picture.paste(GREEN, (10, 0, 20, 5))
    picture.paste(BLUE, (10, 5, 20, 10))
    picture.save(tmp_path / "plain.png")
    exif = Image.Exif()
    exif[0x0112] = ROTATED
    picture.save(tmp_path / "turned.png", exif=exif)

    plain, turned = read_picture(tmp_path / "plain.png", 10), read_picture(tmp_path / "turned.png", 10)
    assert (plain[:, 1, 5].tolist(), plain[:, 8, 5].tolist()) == ([*GREEN], [*BLUE])
    assert RED not in {tuple(plain[:, y, x].tolist()) for y in range(10) for x in range(10)}
    assert np.array_equal(turned, np.rot90(plain, -1, (1, 2)))


def test_damaged_pictures_are_listed_and_skipped(labelled: Path, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(labelled / "cat" / "cut.png")
    Image.fromarray(noise).save(labelled / "cat" / "cut.jpg")
    for name in ("cut.png", "cut.jpg"):
        (labelled / "cat" / name).write_bytes((labelled / "cat" / name).read_bytes()[:1500])
    (labelled / "dog" / "empty.png").write_bytes(b"")
    (labelled / "dog" / "text.jpg").write_text("no picture")
    Image.fromarray(np.zeros((4, 4), np.float32)).save(labelled / "dog" / "floats.tif")

    for _ in range(2):  # Built, then from the cache: the notes are the same.
        data = load(labelled, root=tmp_path / "root")
        assert data.test is not None
        assert data.notes[0] == "5 of 25 pictures could not be read and were skipped"
        listed = {note.split(":")[0].removeprefix("skipped ") for note in data.notes[1:]}
        assert listed == {"cat/cut.png", "cat/cut.jpg", "dog/empty.png", "dog/text.jpg", "dog/floats.tif"}
        assert len(data.train) + len(data.test) == 20
        assert str(tmp_path) not in " ".join(data.notes)
        for part in (data.train, data.test):
            assert part.names is not None
            for name, colour in zip(part.names, colours(part.pixels), strict=True):
                assert max(colour) == 100 + int(re.sub(r"\D", "", name))  # No row slipped into the place of another.


def test_all_damaged(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    for number in range(30):
        (tmp_path / "bad" / f"{number}.png").write_bytes(b"x")
    with pytest.raises(DataError, match="none of the 30 pictures in .* can be read; the first, 0.png"):
        load(tmp_path / "bad", root=tmp_path / "root")
    assert not list((tmp_path / "root" / "arrays").glob("[!.]*"))
    for number in range(2):
        save(tmp_path / "bad" / f"good{number}.png")
    assert re.search(
        "skipped 10 more, listed in .*about.json", load(tmp_path / "bad", root=tmp_path / "root").notes[-1]
    )


def test_the_usual_size(tmp_path: Path) -> None:
    for number in range(3):
        save(tmp_path / "large" / f"{number}.png", size=(200, 300))
        save(tmp_path / "small" / f"{number}.png", size=(20 + number, 300))
    large, small = (load(tmp_path / name, root=tmp_path / "root") for name in ("large", "small"))
    assert large.train.size == (64, 64)
    assert large.notes == (
        "pictures of about 200 pixels were resized to 64, which suits a small encoder; see image_size",
    )
    assert small.train.size == (21, 21)
    assert small.notes == ()
    assert load(tmp_path / "small", root=tmp_path / "root", image_size=33).train.size == (33, 33)
