"""Contenders of the benchmark of graphs: the whole training, its parts, and the bare networks."""

import importlib.util
from copy import deepcopy

import torch
from torch import nn

from benchmarks.memory import Step
from benchmarks.steps import repeat_loss, watch
from benchmarks.timing import FEWEST, Timings
from pucl.frameworks.infograph import InfoGraph
from pucl.graphs.encoders.gin import GIN
from pucl.graphs.encoders.heads import ResidualHead
from pucl.graphs.graphset import GraphBatch, GraphSet
from pucl.shapes import Float, Tensor
from pucl.training.loop import Training


def make_steps(training: Training[GraphBatch], framework: InfoGraph, graphs: GraphSet) -> dict[str, Step]:
    """The contenders, by name, each on the graphs that the training had last.

    The bare networks get graphs that are not folded. If the training folds graphs, a further contender runs the bare
    network on the folded graphs.

    Args:
        training: A training as `pucl train` sets it up, before its first step.
        framework: The same network with separate weights.
        graphs: All graphs of the training, not folded.
    """
    seen, whole = watch(training), {}

    def make_batch() -> None:
        whole["batch"] = graphs.batch(seen.batch.ids.numpy())

    steps: dict[str, Step] = {"training": training.advance, "whole_batch": make_batch}
    steps["network"] = lambda: run_network(framework, whole["batch"])
    if training.data is not graphs:
        steps["folded_network"] = lambda: run_network(framework, seen.batch.samples)
    steps["loss"] = lambda: repeat_loss(seen.comparisons, training)
    if importlib.util.find_spec("torch_geometric") is not None:
        usual = as_usual(framework)
        steps["torch_geometric"] = lambda: run_network(usual, whole["batch"])
    return steps


def run_network(framework: InfoGraph, graphs: GraphBatch) -> None:
    """Forward and backward of encoder and heads, without a loss. Weights do not change."""
    framework.zero_grad(set_to_none=True)
    local, whole = framework.encoder(graphs)
    (framework.local_head(local).sum() + framework.whole_head(whole).sum()).backward()


def as_usual(framework: InfoGraph) -> InfoGraph:
    """The same network with the same weights, made of layers of torch_geometric and torch."""
    usual = deepcopy(framework)
    usual.encoder = _UsualGIN(framework.encoder)
    usual.local_head, usual.whole_head = _UsualHead(framework.local_head), _UsualHead(framework.whole_head)
    return usual


class _UsualGIN(nn.Module):
    def __init__(self, encoder: nn.Module) -> None:
        from torch_geometric.nn import GINConv  # noqa: PLC0415 (an extra)

        if not isinstance(encoder, GIN):
            raise TypeError(f"layers of torch_geometric take the place of a GIN, got {type(encoder).__name__}")
        super().__init__()
        self.convolutions = nn.ModuleList(GINConv(deepcopy(layer.nn)) for layer in encoder.convolutions)
        self.convolutions.load_state_dict(encoder.convolutions.state_dict(), strict=False)  # GINConv drew new weights.
        self.norms = deepcopy(encoder.norms)

    def forward(self, graphs: GraphBatch) -> tuple[Float[Tensor, "node dim"], Float[Tensor, "graph dim"]]:
        from torch_geometric.nn import global_add_pool  # noqa: PLC0415 (an extra)

        x, kept = graphs.x, []
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(torch.relu(convolution(x, graphs.edge_index)))
            kept.append(x)
        wholes = [global_add_pool(layer, graphs.graph_of, graphs.graphs) for layer in kept]
        return torch.cat(kept, dim=1), torch.cat(wholes, dim=1)


class _UsualHead(nn.Module):
    def __init__(self, head: nn.Module) -> None:
        if not isinstance(head, ResidualHead):
            raise TypeError(f"layers of torch take the place of InfoGraph's head, got {type(head).__name__}")
        super().__init__()
        self.block, self.shortcut = deepcopy(head.block), deepcopy(head.shortcut)

    def forward(self, x: Float[Tensor, "row dim"]) -> Float[Tensor, "row dim"]:
        projected: Tensor = self.block(x) + self.shortcut(x)
        return projected


def in_epochs(timings: Timings, steps_per_epoch: int) -> tuple[Timings, str]:
    """Add up times of steps to times of epochs, if there are enough steps, and return the unit."""
    epochs = timings.rounds // steps_per_epoch
    turns = {name: [turn for turn in steps if turn is not None] for name, steps in timings.nanoseconds.items()}
    if epochs < FEWEST or any(len(steps) < timings.rounds for steps in turns.values()):
        return timings, "step"
    starts = range(0, epochs * steps_per_epoch, steps_per_epoch)
    return Timings(
        {name: [sum(steps[start : start + steps_per_epoch]) for start in starts] for name, steps in turns.items()}
    ), "epoch"
