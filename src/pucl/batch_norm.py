"""Batch norm: running statistics, and statistics over all processes."""

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


class SynchronisedBatchNorm(nn.modules.batchnorm._BatchNorm):
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

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002
        if input.ndim < 2:
            raise ValueError(f"batch norm is over channels: expected [batch, channel, ...], got {list(input.shape)}")


def synchronise_batch_norms(module: nn.Module, device: torch.device) -> nn.Module:
    """Let every batch norm of a module compute its statistics over all processes. Parameters stay the same.

    Args:
        module: Changed in place, unless it is itself a batch norm.
        device: Its device. For NVIDIA's accelerators torch's own version is faster and is used.

    Returns:
        The module, or the new batch norm.
    """
    if device.type == "cuda":
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(module)
        return converted
    if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
        together = SynchronisedBatchNorm(
            module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats
        )
        together.weight, together.bias = module.weight, module.bias
        together.running_mean, together.running_var = module.running_mean, module.running_var
        together.num_batches_tracked = module.num_batches_tracked
        return together.train(module.training)
    for name, child in module.named_children():
        setattr(module, name, synchronise_batch_norms(child, device))
    return module
