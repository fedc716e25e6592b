"""Projection heads: what stands between the features of an encoder and the loss, and is thrown away afterwards."""

from collections.abc import Callable
from difflib import get_close_matches

from torch import nn

from pucl.shapes import Float, Tensor

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


class ResidualHead(nn.Module):
    r"""InfoGraph's, of which it has one for nodes and one for graphs: :math:`f(x) + W x + b`.

    f is three times (Linear, ReLU). Weights are drawn as Xavier says, biases start at zero.

    Args:
        features: Dimension of x.
        dim: Dimension in which nodes and graphs are compared; as many as there are features unless given.
    """

    def __init__(self, features: int, *, dim: int | None = None) -> None:
        super().__init__()
        dim = features if dim is None else dim
        _check(features, dim)
        layers = [nn.Sequential(nn.Linear(size, dim), nn.ReLU()) for size in (features, dim, dim)]
        self.block = nn.Sequential(*layers)
        self.shortcut = nn.Linear(features, dim)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, x: Float[Tensor, "row features"]) -> Float[Tensor, "row dim"]:
        """What is compared."""
        projected: Tensor = self.block(x) + self.shortcut(x)
        return projected


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
        nearest = get_close_matches(name, HEADS, n=1)
        hint = f" (did you mean {nearest[0]}?)" if nearest else ""
        raise ValueError(f"head names a projection head: expected one of {', '.join(HEADS)}, got {name}{hint}")
    return HEADS[name](features, dim=dim)


def _check(features: int, dim: int, hidden: int = 1) -> None:
    if min(features, dim, hidden) < 1:
        raise ValueError(
            f"a head has dimensions of at least 1 each: got {features} features, {hidden} hidden and dim {dim}"
        )
