"""What a batch norm remembers of its batches."""

from torch import nn

from pucl.shapes import Float, Tensor


def remember(
    norm: nn.modules.batchnorm._BatchNorm,
    mean: Float[Tensor, " channel"],
    variance: Float[Tensor, " channel"],
    count: float | Float[Tensor, ""],
) -> None:
    """Move the running statistics, of which the variance is the unbiased one, as torch does.

    Args:
        norm: Whose they are; one that keeps none is left as it is.
        mean: Of the batch.
        variance: Of the batch, the biased one.
        count: How many samples these are of.
    """
    if norm.running_mean is None or norm.running_var is None or norm.num_batches_tracked is None:
        return
    norm.num_batches_tracked.add_(1)
    share = 1.0 / float(norm.num_batches_tracked) if norm.momentum is None else norm.momentum
    norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), share)
    norm.running_var.lerp_((variance * (count / (count - 1))).to(norm.running_var.dtype), share)
