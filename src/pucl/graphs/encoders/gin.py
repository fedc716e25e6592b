"""Encoders of graphs: a batch of graphs in, a vector for each node and a vector for each graph out.

Sums over neighbours and graphs and the concatenation of layers have gradients written by hand. With torch's own, they
would take longer than the networks if a batch has tens of thousands of nodes.
"""

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from pucl.graphs.encoders.counted import CountedBatchNorm, Counts
from pucl.graphs.encoders.lists import Lists
from pucl.graphs.graphset import GraphBatch
from pucl.shapes import Float, Int, Tensor


class GIN(nn.Module):
    r"""InfoGraph's encoder, a graph isomorphism network: each layer adds the vectors of neighbours.

    With :math:`h^{(0)}` the features of the nodes, and a network :math:`f_l` (Linear, ReLU, Linear) in each layer,

    .. math::
        h_i^{(l)} = \mathrm{bn}\bigl(\mathrm{relu}(f_l(h_i^{(l-1)} + \textstyle\sum_{j \to i} h_j^{(l-1)}))\bigr).

    The vector of a node is the concatenation of all its :math:`h^{(l)}`. The vector of a graph is the sum over its
    nodes.

    Args:
        inputs: Number of features of a node.
        hidden: Dimension of each layer.
        layers: Number of layers. A node sees other nodes up to this distance.

    Attributes:
        features: Dimension of the output, ``hidden * layers``.

    Shapes:
        Nodes [node, inputs] to [node, features], and graphs [graph, features].

    Note:
        Edges may have any order. A batch sorts them for its lists of neighbours. Batches of a `pucl.graphs.GraphSet`
        need not, since the set sorts its edges once.

        Folded graphs (`pucl.graphs.folding.fold`) have ``copies`` and ``edge_copies``. A node counts ``copies`` times
        in batch norms and in the sum over its graph, an edge ``edge_copies`` times in the sum over neighbours.

    References:
        Xu et al., How Powerful are Graph Neural Networks?, ICLR 2019; Sun et al., InfoGraph, ICLR 2020.
    """

    def __init__(self, inputs: int, *, hidden: int = 32, layers: int = 3) -> None:
        super().__init__()
        if min(inputs, hidden, layers) < 1:
            raise ValueError(
                f"a GIN has dimensions of at least 1 each: got {inputs} inputs, {hidden} hidden and {layers} layers"
            )
        sizes = [inputs, *[hidden] * (layers - 1)]
        self.convolutions = nn.ModuleList(Convolution(size, hidden) for size in sizes)
        self.norms = nn.ModuleList(CountedBatchNorm(hidden) for _ in sizes)
        self.features = hidden * layers

    def forward(self, graphs: GraphBatch) -> tuple[Float[Tensor, "node features"], Float[Tensor, "graph features"]]:
        """The vector of each node, and of each graph."""
        x, kept, copies = graphs.x, [], graphs.copies
        counts = None if copies is None else Counts.of(copies, x.dtype)
        incoming, outgoing = graphs.neighbour_lists
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(torch.relu_(convolution(x, incoming, outgoing)), counts)
            kept.append(x)
        local: Tensor
        whole: Tensor
        local, whole = _Gathered.apply(graphs.graph_of, copies, graphs.node_lists, *kept)  # type: ignore[no-untyped-call]
        return local, whole

    def node_vectors(
        self, x: Float[Tensor, "node inputs"], edge_index: Int[Tensor, "2 edge"]
    ) -> Float[Tensor, "node features"]:
        """The vector of each node, by operations of torch that can be traced. It is slower than `forward`."""
        source, target = edge_index[0], edge_index[1]
        kept = []
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(torch.relu(convolution.get_submodule("nn")(x.index_add(0, target, x[source]))))
            kept.append(x)
        return torch.cat(kept, dim=1)


class SummedFeatures(nn.Module):
    """No network: the sum of the features of a graph's nodes. For one-hot labels it counts the nodes of each label.

    This is the baseline for encoders of graphs. It sees no edge.

    Args:
        inputs: Number of features of a node.
    """

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.features = inputs

    def forward(self, graphs: GraphBatch) -> tuple[Float[Tensor, "node features"], Float[Tensor, "graph features"]]:
        """The features of each node unchanged, and their sum over each graph."""
        total = torch.zeros(graphs.graphs, self.features, dtype=graphs.x.dtype, device=graphs.x.device)
        counted = graphs.x if graphs.copies is None else graphs.x * graphs.copies[:, None]
        return graphs.x, total.index_add(0, graphs.graph_of, counted)

    def node_vectors(
        self,
        x: Float[Tensor, "node features"],
        edge_index: Int[Tensor, "2 edge"],  # noqa: ARG002
    ) -> Float[Tensor, "node features"]:
        """The features of each node unchanged."""
        return x


class Convolution(nn.Module):
    """One layer: a network applied to the sum of each node and its neighbours.

    It computes what torch_geometric's GINConv computes. GINConv sorts the edges for each sum and for each gradient;
    here the lists of neighbours are given.

    Args:
        inputs: Dimension of the input.
        hidden: Dimension of the output.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.nn = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, hidden))
        for layer in self.nn:  # GINConv draws its weights twice. So a seed gives the same weights here as there.
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()

    def forward(
        self, x: Float[Tensor, "node inputs"], incoming: Lists, outgoing: Lists
    ) -> Float[Tensor, "node hidden"]:
        """The vectors of all nodes after this layer."""
        together: Tensor = _NeighbourSum.apply(x, incoming, outgoing)  # type: ignore[no-untyped-call]
        y: Tensor = self.nn(together)
        return y

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        state_dict.pop(f"{prefix}eps", None)  # States of older versions have GINConv's eps, which is 0.
        super()._load_from_state_dict(state_dict, prefix, *rest)


class _NeighbourSum(torch.autograd.Function):
    """The sum of each node and the sources of its incoming edges. The gradient follows the edges backwards."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, incoming: Lists, outgoing: Lists) -> Tensor:
        ctx.outgoing = outgoing
        return incoming.sums(x).add_(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        g = gradients[0].contiguous()
        return ctx.outgoing.sums(g).add_(g), None, None


class _Gathered(torch.autograd.Function):
    """The layers of each node concatenated, and their sums over the nodes of each graph.

    The gradients of the layers are contiguous, unlike those of torch.cat. The backward pass of batch norm takes seven
    times as long if they are not.
    """

    @staticmethod
    def forward(
        ctx: Any, graph_of: Tensor, copies: Tensor | None, nodes: Lists, *layers: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(graph_of, copies)
        ctx.widths = [layer.shape[1] for layer in layers]
        local = torch.cat(layers, dim=1)
        return local, nodes.sums(local)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (graph_of, copies), (of_local, of_whole) = ctx.saved_tensors, gradients
        g = of_whole.index_select(0, graph_of)
        g = (g if copies is None else g.mul_(copies[:, None])).add_(of_local)
        return None, None, None, *(part.contiguous() for part in g.split(ctx.widths, dim=1))
