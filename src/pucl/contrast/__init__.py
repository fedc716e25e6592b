"""The mathematics: pairs to comparisons, comparisons to averages, averages to losses. Needs torch alone."""

import torch


def _use_each_function_once() -> None:
    """Keep a fault of torch out of the first loss of a process.

    The very first exponential of a process may come out with half of its digits in one of several threads, since they
    choose their code at the same time (pytorch issue 188792). A single number is the business of a single thread.
    """
    for dtype in (torch.float32, torch.float64):
        one = torch.ones(1, dtype=dtype)
        for function in (torch.exp, torch.expm1, torch.log, torch.log1p, torch.sqrt):
            function(one)


_use_each_function_once()
