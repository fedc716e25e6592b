"""Graphs without a network: what is known of their nodes, added up."""

import torch
from torch import nn

from pucl.graphs.encoders.gin import Graphs
from pucl.shapes import Float, Tensor


class SummedFeatures(nn.Module):
    """The sum of a graph's node features: for one-hot labels, how many nodes of each kind it has.

    The baseline that an encoder of graphs has to beat: it sees no edge.

    Args:
        inputs: Features of a node.
    """

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.features = inputs

    def forward(self, graphs: Graphs) -> tuple[Float[Tensor, "node features"], Float[Tensor, "graph features"]]:
        """The features of each node as they are, and their sum over each graph."""
        total = torch.zeros(graphs.graphs, self.features, dtype=graphs.x.dtype, device=graphs.x.device)
        copies: Tensor | None = getattr(graphs, "copies", None)
        counted = graphs.x if copies is None else graphs.x * copies[:, None]
        return graphs.x, total.index_add(0, graphs.graph_of, counted)
