"""What is timed of a training on graphs: all of it, its parts, and the bare network it is measured by."""

import importlib.util
from copy import deepcopy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pucl.benchmarks.measure import FEWEST, Step, Timings
from pucl.contrast.compare import compare
from pucl.data import GraphBatch
from pucl.encoders.gin import GIN
from pucl.encoders.heads import ResidualHead
from pucl.frameworks.framework import Batch
from pucl.frameworks.infograph import InfoGraph
from pucl.shapes import Float, Tensor
from pucl.training.loop import Plan, SampleSet, Training
from pucl.training.optimisers import make_optimiser

STANDING_STILL = 1e-12  # Learning rate of the optimiser that is timed by itself, so that its weights stay.


def make_steps(training: Training[GraphBatch], bare: "BareNetwork", graphs: SampleSet[GraphBatch]) -> dict[str, Step]:
    """All that is timed, by name, each on the graphs that the training has just had.

    Bare networks have them as they are. Where the training has them folded, so has the loss, after one more turn of
    the bare network.

    Args:
        training: As `pucl train` has it, before its first step. Its data are watched from here on.
        bare: The same network with weights of its own.
        graphs: All graphs of the training, not folded.
    """
    seen = training.data = Watched(training.data, graphs)
    loss = BareLoss(bare, training)
    # Weights of the bare network have gradients once it was called, which is before the optimiser's first turn.
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
    """Samples that remember which batch was made last.

    Args:
        samples: All of them.
        graphs: The same, not folded.
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
        """Whether samples are not the graphs as they are."""
        return self.samples is not self.graphs

    def batch(self, indices: NDArray[np.int64], /) -> GraphBatch:
        """These samples."""
        self.indices, self.batch_made = indices, self.samples.batch(indices)
        if not self.folded:
            self.whole = self.batch_made
        return self.batch_made

    def make_again(self) -> GraphBatch:
        """The last batch once more."""
        return self.samples.batch(self.indices)

    def make_whole(self) -> None:
        """The last batch, not folded."""
        self.whole = self.graphs.batch(self.indices)


class BareNetwork:
    """Forward and backward of encoder and heads, with nothing compared.

    Args:
        framework: Whose encoder and heads. Their weights stay.
    """

    projected: tuple[Float[Tensor, "node dim"], Float[Tensor, "graph dim"]]
    """Of nodes and of graphs: what came out last."""

    def __init__(self, framework: InfoGraph) -> None:
        self.framework = framework.train()

    def run(self, graphs: GraphBatch) -> None:
        """Encoder and heads."""
        self.framework.zero_grad(set_to_none=True)
        local, whole = self.framework.encoder(graphs)
        local, whole = self.framework.local_head(local), self.framework.whole_head(whole)
        (local.sum() + whole.sum()).backward()
        self.projected = local.detach(), whole.detach()

    def run_encoder(self, graphs: GraphBatch) -> None:
        """The encoder alone."""
        self.framework.encoder.zero_grad(set_to_none=True)
        local, whole = self.framework.encoder(graphs)
        (local.sum() + whole.sum()).backward()


def as_usual(framework: InfoGraph) -> InfoGraph:
    """The same network with the same weights as one would write it: layers of torch_geometric, heads of torch."""
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
    """The loss from what the heads gave to the gradient of it.

    Args:
        bare: Has called them.
        training: How it compares.
    """

    def __init__(self, bare: BareNetwork, training: Training[GraphBatch]) -> None:
        self.bare = bare
        self.correction = training.correction.at(0.0)
        self.plan: Plan = training.plan
        framework = bare.framework
        self.given = Given()
        self.framework = InfoGraph(
            self.given, nn.Identity(), nn.Identity(), temperature=framework.temperature, share=framework.share
        )

    def run(self, graphs: GraphBatch) -> None:
        """Who is compared with whom, what comes of it, and back."""
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
    """In the place of an encoder: vectors of nodes and graphs that are there already."""

    vectors: tuple[Float[Tensor, "node dim"], Float[Tensor, "graph dim"]]

    def forward(self, _graphs: GraphBatch) -> tuple[Float[Tensor, "node dim"], Float[Tensor, "graph dim"]]:
        """These."""
        return self.vectors


def in_epochs(timings: Timings, steps_per_epoch: int) -> tuple[Timings, str]:
    """Times of epochs and the word for it, made of as many steps; of steps as they are if those are too few.

    The first step need not begin an epoch: so many in a row have every place in it once.
    """
    epochs = timings.rounds // steps_per_epoch
    turns = {name: [turn for turn in steps if turn is not None] for name, steps in timings.nanoseconds.items()}
    if epochs < FEWEST or any(len(steps) < timings.rounds for steps in turns.values()):
        return timings, "step"
    starts = range(0, epochs * steps_per_epoch, steps_per_epoch)
    return Timings(
        {name: [sum(steps[start : start + steps_per_epoch]) for start in starts] for name, steps in turns.items()}
    ), "epoch"
