"""Projection heads: what stands between the features of an encoder and the loss, and is thrown away afterwards."""

from collections.abc import Callable

from torch import nn

from pucl.graphs.encoders.heads import ResidualHead
from pucl.texts import did_you_mean

DIM = 128  # The dimension in which all references compare.


def simclr_head(features: int, *, dim: int = DIM, hidden: int = 512) -> nn.Sequential:
    r"""SimCLR's: :math:`W_2\, \mathrm{relu}(\mathrm{bn}(W_1 x)) + b_2`.

    Args:
        features: Dimension of x, the encoder's features.
        dim: Dimension in which views are compared.
        hidden: Rows of :math:`W_1`, which has no bias since the batch norm brings one.

    Reference:
        The heads of the DCL and HCL programs (2,048 to 512 to 128).
    """
    _check(features, dim, hidden)
    return nn.Sequential(
        nn.Linear(features, hidden, bias=False),
        nn.BatchNorm1d(hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, dim),
    )


def linear_head(features: int, *, dim: int = DIM) -> nn.Linear:
    """One linear map with bias: the head of MoCo v1 and of each of CMC's encoders.

    Args:
        features: Dimension of the encoder's features.
        dim: Dimension in which views are compared.
    """
    _check(features, dim)
    return nn.Linear(features, dim)


def mlp_head(features: int, *, dim: int = DIM, hidden: int | None = None) -> nn.Sequential:
    r"""MoCo v2's: :math:`W_2\, \mathrm{relu}(W_1 x + b_1) + b_2`, without batch norm.

    Args:
        features: Dimension of x, the encoder's features.
        dim: Dimension in which views are compared.
        hidden: Rows of :math:`W_1`; as many as there are features unless given.
    """
    hidden = features if hidden is None else hidden
    _check(features, dim, hidden)
    return nn.Sequential(nn.Linear(features, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, dim))


HEADS: dict[str, Callable[..., nn.Module]] = {
    "simclr": simclr_head,
    "moco-v1": linear_head,
    "moco-v2": mlp_head,
    "cmc": linear_head,
    "infograph": ResidualHead,
}


def make_head(name: str, features: int, *, dim: int = DIM) -> nn.Module:
    """The projection head of this name.

    Args:
        name: One of `HEADS`: simclr, moco-v1, moco-v2, cmc, infograph.
        features: Dimension of the encoder's features.
        dim: Dimension in which views are compared.

    Example:
        >>> make_head("moco-v1", 512)
        Linear(in_features=512, out_features=128, bias=True)
    """
    if name not in HEADS:
        raise ValueError(
            f"head names a projection head: expected one of {', '.join(HEADS)}, got {name}.{did_you_mean(name, HEADS)}"
        )
    return HEADS[name](features, dim=dim)


def _check(features: int, dim: int, hidden: int = 1) -> None:
    if min(features, dim, hidden) < 1:
        raise ValueError(
            f"a head has dimensions of at least 1 each: got {features} features, {hidden} hidden and dim {dim}"
        )
