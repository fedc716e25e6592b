"""How the work is done: in pieces and by tables, which nobody should notice."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from image_operators import same_box
from pucl.images.views import SimCLRViews, planes

IMAGE = 3 * 32 * 32 * 4  # Bytes.


def some_images(batch: int = 40, side: int = 32) -> Tensor:
    return torch.randint(256, (batch, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(5))


@pytest.fixture
def fresh_tables() -> Iterator[None]:
    """No table from before, and none left behind."""
    planes._table.cache_clear()
    yield
    planes._table.cache_clear()


@pytest.mark.parametrize("at_once", [1, 3, 16, 39])
def test_views_do_not_depend_on_the_pieces(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    images, augmentation = some_images(), SimCLRViews()
    parameters = augmentation.draw(40, torch.Generator().manual_seed(1), 32, 32)
    monkeypatch.setattr(planes, "CACHE", 10**9)
    together = augmentation.apply(images, parameters)
    monkeypatch.setattr(planes, "CACHE", at_once * IMAGE // torch.get_num_threads())
    pieces = planes._pieces(40, torch.empty(3, 40, 32, 32))
    assert len(pieces) > 1
    assert torch.cat([torch.arange(40)[piece] for piece in pieces]).tolist() == list(range(40))
    torch.testing.assert_close(augmentation.apply(images, parameters), together, rtol=0, atol=1e-5)


def test_pieces_are_a_matter_of_the_cpu() -> None:
    elsewhere = torch.empty(3, 10**6, 32, 32, device="meta")
    assert planes._pieces(10**6, elsewhere) == [slice(0, 10**6)]
    assert planes._pieces(0, elsewhere) == planes._pieces(0, torch.empty(3, 0, 32, 32)) == []


def test_an_image_larger_than_the_cache_is_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planes, "CACHE", 1)
    assert planes._pieces(3, torch.empty(3, 3, 8, 8)) == [slice(0, 1), slice(1, 2), slice(2, 3)]


@pytest.mark.usefixtures("fresh_tables")
@pytest.mark.parametrize(("side", "size"), [(12, 12), (12, 7), (7, 12)])
def test_tables_hold_what_would_be_computed(side: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every box of an image at once, looked up and computed."""
    boxes = [(start, length) for length in range(1, side + 1) for start in range(side - length + 1)]
    start, length = (torch.tensor(values) for values in zip(*boxes, strict=True))
    images = some_images(len(boxes), side)
    other = torch.randperm(len(boxes), generator=torch.Generator().manual_seed(2))
    flip = torch.arange(len(boxes)) % 2 == 0
    crops = planes.Crops(top=start, left=start[other], height=length, width=length[other], flip=flip)
    looked_up = planes.crop(images, crops, size)
    assert planes._table.cache_info().currsize == 2
    monkeypatch.setattr(planes, "TABLE", 0)
    torch.testing.assert_close(planes.crop(images, crops, size), looked_up, rtol=0, atol=0)
    assert planes._table.cache_info().hits == 0


@pytest.mark.usefixtures("fresh_tables")
def test_large_images_have_no_table() -> None:
    planes.crop(some_images(2, 128), same_box(2, 0, 0, 128, 128), 128)
    assert planes._table.cache_info().currsize == 0


def test_planes_become_images_in_any_order() -> None:
    images = torch.rand(5, 3, 4, 6)
    colours = images.transpose(0, 1).contiguous()
    assert torch.equal(planes.as_images(colours), images)
    order = torch.tensor([3, 0, 3])
    assert torch.equal(planes.as_images(colours, order), images[order])
    assert planes.as_images(colours).is_contiguous()
