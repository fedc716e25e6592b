"""Batch norm: running statistics, statistics over all processes, and those of parts of a batch."""

from typing import cast

import torch
from torch import nn

from pucl import processes
from pucl.shapes import Float, Tensor


def remember(
    norm: nn.modules.batchnorm._BatchNorm,
    mean: Float[Tensor, " channel"],
    variance: Float[Tensor, " channel"],
    count: float | Float[Tensor, ""],
) -> None:
    """Update the running statistics as torch does, with the unbiased variance.

    Args:
        norm: The batch norm. If it keeps no statistics, nothing happens.
        mean: Mean of the batch.
        variance: Biased variance of the batch.
        count: Number of values that these were computed from.
    """
    if norm.running_mean is None or norm.running_var is None or norm.num_batches_tracked is None:
        return
    norm.num_batches_tracked.add_(1)
    share = 1.0 / float(norm.num_batches_tracked) if norm.momentum is None else norm.momentum
    norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), share)
    norm.running_var.lerp_((variance * (count / (count - 1))).to(norm.running_var.dtype), share)


class _AnyBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm of any number of axes, which may take the place of another one."""

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002
        if input.ndim < 2:
            raise ValueError(f"batch norm is over channels: expected [batch, channel, ...], got {list(input.shape)}")


class PartedBatchNorm(_AnyBatchNorm):
    """Batch norm in which equal parts of a batch have statistics of their own, as if each were a batch.

    In evaluation mode this is torch's batch norm.

    Attributes:
        parts: Number of parts of a batch.
    """

    parts = 1

    def forward(self, input: Float[Tensor, "batch channel *pixel"]) -> Float[Tensor, "batch channel *pixel"]:  # noqa: A002
        """Normalise each channel over each part, then scale and shift it."""
        if not self.training or self.parts == 1:
            normalised: Tensor = super().forward(input)
            return normalised
        return torch.cat([super(PartedBatchNorm, self).forward(part) for part in input.tensor_split(self.parts)])


class SynchronisedBatchNorm(_AnyBatchNorm):
    r"""Batch norm with statistics over the samples of all processes, on any device.

    S[x] is the sum over all processes, samples and pixels, and n the number of terms. Each channel becomes

    .. math::
        y = w\, \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + b, \quad
        \mu = \frac{S[x]}{n}, \quad
        \sigma^2 = \frac{S[(x - \mu)^2]}{n}.

    Gradients flow through both sums to all processes. In evaluation mode and in a single process this is torch's batch
    norm. torch's own synchronised version works on accelerators only.
    """

    def forward(self, input: Float[Tensor, "batch channel *pixel"]) -> Float[Tensor, "batch channel *pixel"]:  # noqa: A002
        """Normalise each channel over the whole batch, then scale and shift it."""
        if not self.training or processes.world_size() == 1:
            normalised: Tensor = super().forward(input)
            return normalised
        # Sums of squares need full precision.
        x = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
        axes = [axis for axis in range(x.ndim) if axis != 1]
        sums = processes.sum_with_gradient(torch.cat([x.sum(axes), x.new_tensor([x.numel() / x.shape[1]])]))
        count = sums[-1].detach()
        mean = sums[:-1] / count
        shape = [1, -1, *[1] * (x.ndim - 2)]
        centred = x - mean.view(shape)
        variance = processes.sum_with_gradient(centred.square().sum(axes)) / count
        remember(self, mean.detach(), variance.detach(), count)
        y = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            y = y * self.weight.view(shape) + self.bias.view(shape)
        return y.to(input.dtype)


TORCHS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
"""The batch norms that others can take the place of. A subclass may do more, such as an activation."""


def synchronise_batch_norms(module: nn.Module, device: torch.device) -> nn.Module:
    """Let every batch norm of a module compute its statistics over all processes. Parameters stay the same.

    Args:
        module: Changed in place, unless it is itself a batch norm.
        device: Its device. For NVIDIA's accelerators torch's own version is faster and is used.

    Returns:
        The module, or the new batch norm.
    """
    for each in _norms_of(module):
        if type(each) not in (*TORCHS, SynchronisedBatchNorm, nn.SyncBatchNorm):
            raise ValueError(
                f"batch norms share their statistics over processes: expected those of torch, got "
                f"{type(each).__name__}; train this encoder in one process"
            )
    if device.type == "cuda":
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(module)
        return converted
    return _replaced(module, SynchronisedBatchNorm)


def part_batch_norms(module: nn.Module) -> nn.Module:
    """Let `in_parts` divide the batches of a module. Parameters stay the same.

    Args:
        module: Changed in place, unless it is itself a batch norm.

    Returns:
        The module, or the new batch norm.
    """
    return _replaced(module, PartedBatchNorm)


def in_parts(module: nn.Module, batch: Tensor, parts: int) -> Tensor:
    """The module applied to equal parts of a batch, each with batch statistics of its own.

    After `part_batch_norms` all parts take one pass, in which batch norms alone divide the batch. A module with batch
    norms of another kind takes a pass for each part.
    """
    norms = _norms_of(module)
    parted = [norm for norm in norms if isinstance(norm, PartedBatchNorm)]
    if len(parted) < len(norms):
        return torch.cat([module(part) for part in batch.tensor_split(parts)])
    for norm in parted:
        norm.parts = parts
    result: Tensor = module(batch)
    return result


def _norms_of(module: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    return [each for each in module.modules() if isinstance(each, nn.modules.batchnorm._BatchNorm)]


def _replaced(module: nn.Module, kind: type[_AnyBatchNorm]) -> nn.Module:
    """The module with this kind in place of torch's batch norms."""
    if type(module) in TORCHS:
        norm = cast("nn.modules.batchnorm._BatchNorm", module)
        other = kind(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
        other.weight, other.bias = norm.weight, norm.bias
        other.running_mean, other.running_var = norm.running_mean, norm.running_var
        other.num_batches_tracked = norm.num_batches_tracked
        return other.train(norm.training)
    for name, child in module.named_children():
        setattr(module, name, _replaced(child, kind))
    return module
