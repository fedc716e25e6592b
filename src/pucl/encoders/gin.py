"""Graph isomorphism networks: graphs in, a vector for each node and one for each graph out."""

import warnings
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from pucl.shapes import Float, Int, Tensor


@runtime_checkable
class Graphs(Protocol):
    """Some graphs as one graph of separate parts; `pucl.data.GraphBatch` is one."""

    @property
    def x(self) -> Float[Tensor, "node feature"]:
        """Features of all nodes."""
        ...

    @property
    def edge_index(self) -> Int[Tensor, "2 edge"]:
        """Edges as rows of ``x``: from, to."""
        ...

    @property
    def graph_of(self) -> Int[Tensor, " node"]:
        """The graph of each node."""
        ...

    @property
    def graphs(self) -> int:
        """How many graphs."""
        ...


class GIN(nn.Module):
    r"""InfoGraph's encoder: layers that add up neighbours, each kept, and summed over each graph.

    With :math:`h^{(0)}` the features of the nodes, and a network :math:`f_l` (Linear, ReLU, Linear) in each layer,

    .. math::
        h_i^{(l)} = \mathrm{bn}\bigl(\mathrm{relu}(f_l(h_i^{(l-1)} + \textstyle\sum_{j \to i} h_j^{(l-1)}))\bigr).

    A node's vector is all its :math:`h^{(l)}` side by side, and a graph's vector is the sum over its nodes.

    Args:
        inputs: Features of a node.
        hidden: Dimension of each layer.
        layers: How many; a node then knows of its surroundings as far as so many steps.

    Attributes:
        features: Dimension of the vectors that come out, ``hidden * layers``.

    Shapes:
        Nodes [node, inputs] to [node, features], and graphs [graph, features].

    References:
        Xu et al., How Powerful are Graph Neural Networks?, ICLR 2019; Sun et al., InfoGraph, ICLR 2020.
    """

    def __init__(self, inputs: int, *, hidden: int = 32, layers: int = 3) -> None:
        super().__init__()
        if min(inputs, hidden, layers) < 1:
            raise ValueError(
                f"a GIN has dimensions of at least 1 each: got {inputs} inputs, {hidden} hidden and {layers} layers"
            )
        conv = _convolution()
        sizes = [inputs, *[hidden] * (layers - 1)]
        self.convolutions = nn.ModuleList(
            conv(nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, hidden))) for size in sizes
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in sizes)
        self.features = hidden * layers

    def forward(self, graphs: Graphs) -> tuple[Float[Tensor, "node features"], Float[Tensor, "graph features"]]:
        """The vector of each node, and of each graph."""
        x, kept = graphs.x, []
        neighbours = _adjacency(graphs.edge_index, len(x))
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(torch.relu(convolution(x, neighbours)))
            kept.append(x)
        local = torch.cat(kept, dim=1)
        return local, local.new_zeros(graphs.graphs, self.features).index_add(0, graphs.graph_of, local)


def _adjacency(edges: Int[Tensor, "2 edge"], nodes: int) -> Tensor:
    """Who adds up whom, as a sparse matrix [to, from]: one product a layer, and no copy of a vector for each edge."""
    order = (edges[1] * nodes + edges[0]).argsort()
    source, target = edges[0][order], edges[1][order]
    starts = torch.zeros(nodes + 1, dtype=torch.int64, device=edges.device)
    starts[1:] = torch.bincount(target, minlength=nodes).cumsum(0)
    ones = torch.ones(len(source), device=edges.device)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse (CSR tensor support|invariant checks)", UserWarning)
        return torch.sparse_csr_tensor(starts, source, ones, size=(nodes, nodes), check_invariants=False)


def _convolution() -> type[nn.Module]:
    try:
        from torch_geometric.nn import GINConv  # noqa: PLC0415
    except ImportError as error:
        raise ValueError(
            "graphs are encoded with torch_geometric, which is not installed: pip install 'pucl[graphs]'"
        ) from error
    convolution: type[nn.Module] = GINConv
    return convolution
