"""Graph isomorphism networks: graphs in, a vector for each node and one for each graph out.

What moves numbers from node to node (sums over neighbours and graphs, layers side by side) is written out, with
gradients of its own: with tens of thousands of nodes in a batch it would take longer than the networks.
"""

from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from pucl.graphs.encoders.counted import CountedBatchNorm, Counts
from pucl.graphs.encoders.lists import Lists, lists_of
from pucl.shapes import Float, Int, Tensor


@runtime_checkable
class Graphs(Protocol):
    """Some graphs as one graph of separate parts; `pucl.graphs.graphset.GraphBatch` is one."""

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

    Note:
        Edges may come in any order; they are sorted at each call. Batches of a
        `pucl.graphs.GraphSet` bring the lists that come of it, made from what was sorted once for the set.

        In graphs with ``copies`` and ``edge_copies``, as `pucl.graphs.folding.fold` makes them, a node counts as so
        many in batch norms and in the sum over its graph, and an edge as so many in the sum over neighbours.

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

    def forward(self, graphs: Graphs) -> tuple[Float[Tensor, "node features"], Float[Tensor, "graph features"]]:
        """The vector of each node, and of each graph."""
        x, kept = graphs.x, []
        copies: Tensor | None = getattr(graphs, "copies", None)
        counts = None if copies is None else Counts.of(copies, x.dtype)
        incoming, outgoing = _neighbours(graphs)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(torch.relu_(convolution(x, incoming, outgoing)), counts)
            kept.append(x)
        nodes: Lists | None = getattr(graphs, "node_lists", None)
        if nodes is None:
            nodes = lists_of(graphs.graph_of, None, graphs.graphs, copies)
        local: Tensor
        whole: Tensor
        local, whole = _Gathered.apply(graphs.graph_of, copies, nodes, *kept)  # type: ignore[no-untyped-call]
        return local, whole


class Convolution(nn.Module):
    """The network of a layer, on the sum of each node and its neighbours.

    What torch_geometric's GINConv computes, without it: of a layer it would bring the sum alone, for which it sorts the
    edges, and sorts them again for the gradient.

    Args:
        inputs: Dimension of what comes in.
        hidden: Dimension of what comes out.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.nn = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, hidden))
        for layer in self.nn:  # GINConv draws weights anew: so a seed gives the weights that it would give there.
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()

    def forward(
        self, x: Float[Tensor, "node inputs"], incoming: Lists, outgoing: Lists
    ) -> Float[Tensor, "node hidden"]:
        """One step further."""
        together: Tensor = _NeighbourSum.apply(x, incoming, outgoing)  # type: ignore[no-untyped-call]
        y: Tensor = self.nn(together)
        return y

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        state_dict.pop(f"{prefix}eps", None)  # GINConv kept a zero here; states from then are welcome.
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _neighbours(graphs: Graphs) -> tuple[Lists, Lists]:
    """The nodes from which edges come to each node, and those to which edges go."""
    known: tuple[Lists, Lists] | None = getattr(graphs, "neighbour_lists", None)
    if known is not None:
        return known
    (source, target), nodes = graphs.edge_index, len(graphs.x)
    copies: Tensor | None = getattr(graphs, "edge_copies", None)
    return lists_of(target, source, nodes, copies), lists_of(source, target, nodes, copies)


class _NeighbourSum(torch.autograd.Function):
    """Each node and those from which edges come to it; the gradient goes the other way along the edges."""

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
    """The vectors of all layers in one for each node, and the sum of these over the nodes of each graph.

    torch.cat, but for gradients that are tables of their own: from one whose rows lie apart, batch norm takes seven
    times as long to go back.
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
