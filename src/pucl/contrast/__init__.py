"""The mathematics: pairs -> averages over the unlabelled (dense or streaming) -> losses. Needs torch alone."""

import torch


def _use_each_function_once() -> None:
    """Work around a fault of torch in the first loss of a process.

    The first exponential of a process may be computed with half of the digits in one of several threads, since threads
    choose their code path at the same time (pytorch issue 188792). For a single number there is a single thread.
    """
    for dtype in (torch.float32, torch.float64):
        one = torch.ones(1, dtype=dtype)
        for function in (torch.exp, torch.expm1, torch.log, torch.log1p, torch.sqrt):
            function(one)


_use_each_function_once()
