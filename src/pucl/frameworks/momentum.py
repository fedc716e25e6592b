"""A slow copy of an encoder."""

import torch
from torch import nn


@torch.no_grad()
def follow(slow: nn.Module, fast: nn.Module, momentum: float) -> None:
    r"""Move every parameter of a slow copy towards the encoder that is trained.

    .. math:: \theta_k \leftarrow m\, \theta_k + (1 - m)\, \theta_q

    Args:
        slow: The copy that is changed.
        fast: The encoder that it follows, of the same architecture.
        momentum: m, the share of the copy that stays, 0 <= m <= 1.

    Buffers (batch norm's statistics) are the copy's own, as in MoCo.
    """
    if not 0 <= momentum <= 1:
        raise ValueError(f"momentum is the share of the copy that stays: expected 0 <= momentum <= 1, got {momentum}")
    for kept, new in zip(slow.parameters(), fast.parameters(), strict=True):
        kept.mul_(momentum).add_(new, alpha=1 - momentum)
