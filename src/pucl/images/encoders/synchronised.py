"""Batch norm whose batch is spread over processes."""

import torch
from torch import nn

from pucl import processes
from pucl.batch_norm import remember
from pucl.shapes import Float, Tensor


class SynchronisedBatchNorm(nn.modules.batchnorm._BatchNorm):
    r"""Batch norm with the statistics of all processes' samples, on any device.

    With sums :math:`S` over all processes, samples and places, of which there are n, each channel is

    .. math::
        y = w\, \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + b, \quad
        \mu = \frac{S[x]}{n}, \quad
        \sigma^2 = \frac{S[(x - \mu)^2]}{n}.

    (torch's own is for accelerators alone.) Gradients go through both sums, to all processes. In evaluation, and in a
    single process, it is torch's batch norm.
    """

    def forward(self, input: Float[Tensor, "batch channel *place"]) -> Float[Tensor, "batch channel *place"]:  # noqa: A002
        """The input, each channel with mean 0 and variance 1 over the whole batch, then scaled and shifted."""
        if not self.training or processes.world_size() == 1:
            normalised: Tensor = super().forward(input)
            return normalised
        # Sums of squares in half precision would lose what they are taken for.
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
    """The module with every batch norm in it taking its statistics over all processes; parameters stay the same.

    Args:
        module: It is changed in place; what is returned is another module only if it is itself a batch norm.
        device: Where it is. On NVIDIA's accelerators torch has a faster form of the same.
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
