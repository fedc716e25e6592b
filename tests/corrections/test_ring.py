"""Ring's band of ranks: the quick way to find it is the plain way."""

import pytest
import torch

from pucl.corrections.ring import _band_by_ranks, _band_by_values


@pytest.mark.parametrize("kind", ["all different", "many equal", "some masked", "all equal"])
def test_a_band_by_values_is_the_band_by_ranks(kind: str) -> None:
    generator = torch.Generator().manual_seed(0)
    for dtype in (torch.float32, torch.float64):
        logits = torch.randn(200, 37, generator=generator, dtype=dtype)
        if kind == "many equal":
            logits = (logits * 2).round()
        elif kind == "some masked":
            logits[torch.rand(logits.shape, generator=generator) < 0.3] = -torch.inf
        elif kind == "all equal":
            logits.fill_(0.5)
        begin = torch.randint(0, 10, (200,), generator=generator)
        end = begin + torch.randint(1, 10, (200,), generator=generator)
        band = _band_by_values(logits, begin, end)
        assert band.equal(_band_by_ranks(logits, begin, end))
        assert band.sum(dim=1).equal(end - begin)
