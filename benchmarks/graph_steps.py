"""Contenders of the benchmark of graphs: the whole training, its parts, and the bare networks."""

import importlib.util
from copy import deepcopy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from benchmarks.memory import Step
from benchmarks.timing import FEWEST, Timings
from pucl.contrast.compare import compare
from pucl.frameworks.infograph import InfoGraph
from pucl.graphs.encoders.gin import GIN
from pucl.graphs.encoders.heads import ResidualHead
from pucl.graphs.graphset import GraphBatch
from pucl.shapes import Float, Tensor
from pucl.training.framework import Batch
from pucl.training.loop import Plan, SampleSet, Training
from pucl.training.optimisers import make_optimiser

STANDING_STILL = 1e-12  # Learning rate of the optimiser that is timed alone, so that its weights do not move.


def make_steps(training: Training[GraphBatch], bare: "BareNetwork", graphs: SampleSet[GraphBatch]) -> dict[str, Step]:
    """The contenders, by name, each on the batch that the training had last.

    The bare networks get graphs that are not folded. If the training folds graphs, a further contender runs the bare
    network on the folded batch, and the loss uses its outputs.

    Args:
        training: A training as `pucl train` sets it up, before its first step. Its data set is replaced by a `Watched`.
        bare: The same network with separate weights.
        graphs: All graphs of the training, not folded.
    """
    seen = training.data = Watched(training.data, graphs)
    loss = BareLoss(bare, training)
    # The bare network runs before the optimiser in each round, so that its weights have gradients.
    optimiser = make_optimiser("adam", bare.framework.parameters(), lr=STANDING_STILL)
    steps: dict[str, Step] = {"training": training.advance, "batch": seen.make_again}
    if seen.folded:
        steps["whole_batch"] = seen.make_whole
    steps["network"] = lambda: bare.run(seen.whole)
    steps["gin"] = lambda: bare.run_encoder(seen.whole)
    if seen.folded:
        steps["folded_network"] = lambda: bare.run(seen.batch_made)
    steps["loss"] = lambda: loss.run(seen.batch_made)
    steps["optimiser"] = optimiser.step
    if importlib.util.find_spec("torch_geometric") is not None:
        usual = BareNetwork(as_usual(bare.framework))
        steps["torch_geometric"] = lambda: usual.run(seen.whole)
    return steps


class Watched:
    """A data set that remembers the last batch.

    Args:
        samples: The data set of the training.
        graphs: The same graphs, not folded.
    """

    batch_made: GraphBatch
    indices: NDArray[np.int64]
    whole: GraphBatch
    """The same batch, not folded."""

    def __init__(self, samples: SampleSet[GraphBatch], graphs: SampleSet[GraphBatch]) -> None:
        self.samples = samples
        self.graphs = graphs

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def folded(self) -> bool:
        """Whether the training uses folded graphs."""
        return self.samples is not self.graphs

    def batch(self, indices: NDArray[np.int64], /) -> GraphBatch:
        """Make a batch of these samples and remember it."""
        self.indices, self.batch_made = indices, self.samples.batch(indices)
        if not self.folded:
            self.whole = self.batch_made
        return self.batch_made

    def make_again(self) -> GraphBatch:
        """Make the last batch again."""
        return self.samples.batch(self.indices)

    def make_whole(self) -> None:
        """Make the last batch again, not folded, and remember it."""
        self.whole = self.graphs.batch(self.indices)


class BareNetwork:
    """Forward and backward of encoder and heads, without a loss.

    Args:
        framework: The framework with encoder and heads. Its weights do not change.
    """

    projected: tuple[Float[Tensor, "node dim"], Float[Tensor, "graph dim"]]
    """The last outputs, for nodes and for graphs."""

    def __init__(self, framework: InfoGraph) -> None:
        self.framework = framework.train()

    def run(self, graphs: GraphBatch) -> None:
        """Run encoder and heads."""
        self.framework.zero_grad(set_to_none=True)
        local, whole = self.framework.encoder(graphs)
        local, whole = self.framework.local_head(local), self.framework.whole_head(whole)
        (local.sum() + whole.sum()).backward()
        self.projected = local.detach(), whole.detach()

    def run_encoder(self, graphs: GraphBatch) -> None:
        """Run the encoder alone."""
        self.framework.encoder.zero_grad(set_to_none=True)
        local, whole = self.framework.encoder(graphs)
        (local.sum() + whole.sum()).backward()


def as_usual(framework: InfoGraph) -> InfoGraph:
    """The same network with the same weights, made of layers of torch_geometric and torch."""
    heads = [_UsualHead(head) for head in (framework.local_head, framework.whole_head)]
    return InfoGraph(_UsualGIN(framework.encoder), *heads)


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


class BareLoss:
    """The loss, from the outputs of the heads to their gradients.

    Args:
        bare: The network whose last outputs are used.
        training: The training whose correction and objective are used.
    """

    def __init__(self, bare: BareNetwork, training: Training[GraphBatch]) -> None:
        self.bare = bare
        self.correction = training.correction
        self.plan: Plan = training.plan
        framework = bare.framework
        self.given = Given()
        self.framework = InfoGraph(
            self.given, nn.Identity(), nn.Identity(), temperature=framework.temperature, share=framework.share
        )

    def run(self, graphs: GraphBatch) -> None:
        """Make pairs, compute the loss and its gradient."""
        local, whole = self.bare.projected
        self.given.vectors = local.detach().requires_grad_(), whole.detach().requires_grad_()
        batch = Batch(
            samples=graphs,
            ids=torch.arange(graphs.graphs),
            make_generator=torch.Generator,
            part=slice(0, graphs.graphs),
            whole=graphs.graphs,
        )
        (pairs,) = self.framework.pairs(batch)
        outcome = compare(pairs, self.correction, objective=self.plan.objective, floor=self.plan.floor)
        outcome.loss.mean().backward()


class Given(nn.Module):
    """An encoder that returns given vectors of nodes and graphs."""

    vectors: tuple[Float[Tensor, "node dim"], Float[Tensor, "graph dim"]]

    def forward(self, _graphs: GraphBatch) -> tuple[Float[Tensor, "node dim"], Float[Tensor, "graph dim"]]:
        """Return the given vectors."""
        return self.vectors


def in_epochs(timings: Timings, steps_per_epoch: int) -> tuple[Timings, str]:
    """Add up times of steps to times of epochs, if there are enough steps, and return the unit.

    An epoch here is as many steps in a row as an epoch has. It may begin anywhere: each position occurs once.
    """
    epochs = timings.rounds // steps_per_epoch
    turns = {name: [turn for turn in steps if turn is not None] for name, steps in timings.nanoseconds.items()}
    if epochs < FEWEST or any(len(steps) < timings.rounds for steps in turns.values()):
        return timings, "step"
    starts = range(0, epochs * steps_per_epoch, steps_per_epoch)
    return Timings(
        {name: [sum(steps[start : start + steps_per_epoch]) for start in starts] for name, steps in turns.items()}
    ), "epoch"
