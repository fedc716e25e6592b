"""A list of torch_geometric graphs: InfoGraph with a corrected loss, in a loop of your own.

    python examples/graph_list.py        # seconds on one core; needs torch_geometric and scikit-learn

The graphs are generated: rings, grids, hubs and communities of the same size. A node is pulled to its own graph and
pushed from the other graphs of the batch, a quarter of which are of the same shape. For a training with checkpoints,
probes and a page: pucl.graphs.save_graphs(graphs, "mine"), then `pucl train infograph mine`.
"""

import torch
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, global_add_pool
from torch_geometric.utils import degree

from pucl.corrections import PUCL
from pucl.functional import local_global_loss
from pucl.graphs.sources.shapes import make_shapes

DIM = 32


def generated(each: int = 40) -> list[Data]:
    """Graphs of four shapes. The feature of a node is its number of neighbours."""
    shapes, graphs = make_shapes(each), []
    for i in range(len(shapes)):
        edges = torch.tensor(shapes.edges[:, shapes.edge_start[i] : shapes.edge_start[i + 1]], dtype=torch.int64)
        neighbours = degree(edges[0], int(shapes.node_start[i + 1] - shapes.node_start[i])).long()
        x = nn.functional.one_hot(neighbours.clamp_max(9), 10).float()
        graphs.append(Data(x=x, edge_index=edges, y=i % len(shapes.classes)))  # The shapes take turns.
    return graphs


class Encoder(nn.Module):
    """Two layers of GIN, with one embedding for each node and one for each graph."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((10, DIM), (DIM, DIM))
        layers = [nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, b), nn.BatchNorm1d(b)) for a, b in sizes]
        self.layers = nn.ModuleList(map(GINConv, layers))

    def forward(self, data: Data) -> tuple[torch.Tensor, torch.Tensor]:
        """Embeddings of nodes, and their sums over each graph."""
        states = [data.x]
        for layer in self.layers:
            states.append(layer(states[-1], data.edge_index).relu())
        nodes = torch.cat(states[1:], dim=1)
        return nodes, global_add_pool(nodes, data.batch)


def main() -> None:
    """Train, and measure nearest neighbours of untrained and trained embeddings."""
    torch.manual_seed(0)
    graphs, encoder, heads = generated(), Encoder(), nn.ModuleList([nn.Linear(2 * DIM, DIM) for _ in range(2)])
    optimiser = torch.optim.Adam([*encoder.parameters(), *heads.parameters()], lr=3e-3)

    def accuracy() -> float:
        encoder.eval()
        with torch.no_grad():
            whole = next(iter(DataLoader(graphs, batch_size=len(graphs))))
            return float(cross_val_score(KNeighborsClassifier(), encoder(whole)[1].numpy(), whole.y.numpy()).mean())

    before = accuracy()
    for _ in range(20):
        encoder.train()
        for batch in DataLoader(graphs, batch_size=40, shuffle=True):
            nodes, whole = (head(each) for head, each in zip(heads, encoder(batch), strict=True))
            loss = local_global_loss(nodes, whole, batch.batch, PUCL(alpha=0.25, c=0.0))  # <- the one line that matters
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    print(f"shapes recognised by nearest neighbours: {before:.3f} untrained, {accuracy():.3f} trained")


if __name__ == "__main__":
    main()
