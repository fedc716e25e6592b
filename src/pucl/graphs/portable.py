"""The encoder of graphs as a module that takes tensors alone, which can be traced and exported."""

from typing import Any

import torch
from torch import nn

from pucl.graphs.graphset import GraphBatch
from pucl.modality import Portable
from pucl.samples import Features
from pucl.shapes import Float, Int, Tensor


class GraphVectors(nn.Module):
    """A trained network that sums over neighbours and graphs itself.

    Args:
        encoder: A network with `node_vectors`.

    Shapes:
        Nodes [node, inputs], edges [2, edge] and sizes [graph] to [graph, feature].
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder: Any = encoder

    def forward(
        self, x: Float[Tensor, "node inputs"], edge_index: Int[Tensor, "2 edge"], sizes: Int[Tensor, " graph"]
    ) -> Float[Tensor, "graph feature"]:
        """The sum of the vectors of each graph's nodes."""
        ends = sizes.cumsum(0)
        nodes = torch.arange(x.shape[0], device=x.device)
        # A matrix of graphs and nodes, since indices made of sizes would not be traced.
        inside = (nodes[None, :] < ends[:, None]) & (nodes[None, :] >= (ends - sizes)[:, None])
        vectors: Tensor = self.encoder.node_vectors(x, edge_index)
        return inside.to(x.dtype) @ vectors


def portable_graphs(module: nn.Module, inputs: int) -> Portable:
    """Describe an encoder for ``pucl export``.

    Args:
        module: The framework: takes a `GraphBatch`, returns [graph, feature].
        inputs: Number of features of a node.
    """

    def draw(count: int, generator: torch.Generator) -> tuple[tuple[Tensor, ...], Features]:
        sizes = torch.randint(3, 30, (count,), generator=generator)
        graph_of = torch.arange(count).repeat_interleave(sizes)
        starts = (sizes.cumsum(0) - sizes)[graph_of]
        source = torch.arange(len(graph_of)).repeat_interleave(2)
        steps = torch.randint(30, (len(source),), generator=generator)
        target = starts[source] + steps % sizes[graph_of[source]]  # Edges stay inside their graph.
        edges = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
        columns = torch.randint(inputs, (len(graph_of),), generator=generator)
        x = nn.functional.one_hot(columns, inputs).float()
        with torch.no_grad():
            rows: Tensor = module(GraphBatch(x, edges, graph_of, count))
        return (x, edges, sizes), rows.numpy()

    return Portable(
        module=GraphVectors(module.get_submodule("encoder")),
        axes={"x": ("node", inputs), "edge_index": (2, "edge"), "sizes": ("graph",)},
        draw=draw,
        inputs=f"`x`: float32 [node, {inputs}], the features of all nodes, graph after graph, in the columns of the "
        "training; `edge_index`: int64 [2, edge], from and to as rows of `x`, each direction of an edge once; "
        "`sizes`: int64 [graph], the number of nodes of each graph.",
        usage="import numpy as np\n\n"
        f"x = np.eye({inputs}, dtype=np.float32)[np.zeros(5, int)]  # the features of five nodes\n"
        "edges = np.array([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])  # a path of three nodes, and a pair\n"
        'inputs = {"x": x, "edge_index": edges, "sizes": np.array([3, 2])}',
    )
