"""What every recipe of views is: dice that can be thrown for a whole batch, and applied to a part of it."""

from typing import Protocol, TypeVar, runtime_checkable

import torch

from pucl.shapes import Tensor

_View_co = TypeVar("_View_co", covariant=True)
_Same = TypeVar("_Same")


@runtime_checkable
class Drawn(Protocol):
    """What chance decided about the views of a batch, image by image."""

    def __getitem__(self: _Same, part: slice, /) -> _Same: ...


_Drawn = TypeVar("_Drawn", bound=Drawn)


@runtime_checkable
class Views(Protocol[_Drawn, _View_co]):
    """A recipe: `draw` throws the dice, `apply` does what they say."""

    def draw(
        self, batch: int, generator: torch.Generator, *, height: int | None = None, width: int | None = None
    ) -> _Drawn:
        """Throw the dice for so many images of this size."""
        ...

    def apply(self, images: Tensor, parameters: _Drawn) -> _View_co:
        """The views that were drawn."""
        ...
