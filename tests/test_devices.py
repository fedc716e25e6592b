"""Devices: random numbers of torch's own."""

import torch

from pucl.devices import seed_draws


def test_draws_are_those_of_torch() -> None:
    torch.manual_seed(7)
    expected = torch.rand(5)
    seed_draws(torch.device("cpu"), 7)
    assert torch.rand(5).equal(expected)
