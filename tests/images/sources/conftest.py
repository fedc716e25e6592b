"""What tests of folders share: one with two classes."""

from pathlib import Path

import pytest
from PIL import Image


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """Ten cats in shades of red, ten dogs in shades of blue."""
    for kind in ("cat", "dog"):
        (tmp_path / "pets" / kind).mkdir(parents=True)
    for number in range(10):
        Image.new("RGB", (8, 8), (100 + number, 0, 0)).save(tmp_path / "pets" / "cat" / f"{number}.png")
        Image.new("RGB", (8, 8), (0, 0, 100 + number)).save(tmp_path / "pets" / "dog" / f"{number}.png")
    return tmp_path / "pets"
