"""Which pairs do not count, so that it can be told of a part of them."""

from typing import NamedTuple

import torch

from pucl.contrast.pairs import Pairs
from pucl.shapes import Tensor


class LeftOut(NamedTuple):
    """Ids of both sides or a mask, not both; see `Pairs`. Operators take these as their arguments, one by one."""

    query_ids: Tensor | None
    key_ids: Tensor | None
    mask: Tensor | None
    period: int = 0

    @property
    def by_id(self) -> tuple[Tensor, Tensor] | None:
        """The ids of both sides, if they are what decides."""
        if self.mask is not None or self.query_ids is None or self.key_ids is None:
            return None
        return self.query_ids, self.key_ids

    def place(self) -> Tensor | None:
        """The one key that each query is not to meet, -1 for none; None where there may be several.

        Comparing every id of one side with every id of the other takes as long as making the logits does.
        """
        if self.by_id is None or self.by_id[1].device.type != "cpu":
            return None
        query_ids, key_ids = self.by_id
        ids, order = key_ids.sort()
        if not bool((ids[1:] > ids[:-1]).all()):
            return None
        place = torch.searchsorted(ids, query_ids).clamp_max_(len(ids) - 1)
        return torch.where(ids[place] == query_ids, order[place], -1)

    def one_place(self) -> Tensor | None:
        """The one key that each query is not to meet, if there is one for each and no more."""
        if self.by_id is None or self.by_id[1].device.type != "cpu":
            return None
        query_ids, key_ids = self.by_id
        if torch.equal(key_ids, torch.arange(len(key_ids))):  # Graphs by their numbers.
            least, most = (int(end) for end in query_ids.aminmax())
            return query_ids if least >= 0 and most < len(key_ids) else None
        place = self.place()
        return None if place is None or int(place.min()) < 0 else place

    def of_rows(self, rows: slice) -> Tensor | None:
        """True where a pair does not count; None if all do."""
        if self.mask is not None:
            return ~self.mask[rows]
        if self.by_id is None:
            return None
        query_ids, key_ids = self.by_id
        return query_ids[rows, None] == key_ids[None, :]


def left_out(pairs: Pairs) -> LeftOut:
    """What of these pairs does not count."""
    if pairs.mask is None or pairs.query_ids is None or pairs.key_ids is None:
        return LeftOut(pairs.query_ids, pairs.key_ids, pairs.mask, pairs.period)
    return LeftOut(None, None, pairs.counting(), pairs.period)
