"""The heads of InfoGraph."""

import pytest
import torch
from torch import nn

from pucl.graphs.encoders.heads import ResidualHead, _Residual


def test_very_many_rows_go_through_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Residual, "BLOCK", 4 * 5)
    head = ResidualHead(5).double()
    for parameter in head.parameters():
        nn.init.normal_(parameter)
    few, many = (torch.arange(55.0, dtype=torch.float64).view(11, 5).sin().requires_grad_() for _ in range(2))
    weights = torch.randn(11, 5, dtype=torch.float64)
    results = []
    for x, out in ((few, head.block(few) + head.shortcut(few)), (many, head(many))):
        head.zero_grad()
        out.backward(weights)
        results.append([out.detach(), x.grad, *(parameter.grad for parameter in head.parameters())])
        assert (type(out.grad_fn).__name__ == "_ResidualBackward") == (x is many)
    torch.testing.assert_close(results[1], results[0])
    assert torch.autograd.gradcheck(head, many)
    with torch.no_grad():
        torch.testing.assert_close(head(many), results[0][0])
