"""What the correction `auto` adds to a training step: to its loss, by learning, and when an epoch ends.

Embeddings of a trained encoder would take a training. So the correction learns from embeddings that are drawn: ten
classes, with the shapes of a real step. It finds communities in them and uses them, which is what costs time. Its parts
are timed in turn with whole plain steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from benchmarks.memory import Step
from benchmarks.report import Figures, Spread, figure, spread_of
from benchmarks.steps import with_leaves
from benchmarks.timing import interleave
from pucl.contrast.correction import Correction
from pucl.contrast.loss import outcome_of
from pucl.contrast.pairing import pair_views
from pucl.contrast.pairs import Pairs
from pucl.corrections import Auto, Plain
from pucl.together import end_epoch, learn

AIM = 0.05  # Largest share of a step.
SEED = 0
CLASSES = 10
DIM = 128  # Of SimCLR's embeddings.
NOISE = 2.0  # Length of the noise of a sample, and of each of its views, for class centres of length 1.
TEMPERATURE = 0.5
EPOCHS = 2  # The correction looks for communities when the second epoch ends.


@dataclass(frozen=True, kw_only=True)
class LearningCost:
    """What `auto` adds to a SimCLR step.

    Args:
        encoder: Name of the encoder.
        batch: Samples in a step.
        samples: Samples in an epoch.
        steps: Steps in an epoch.
        rounds: Number of rounds.
        contenders: ``"step"``: a whole plain step; ``"plain"`` and ``"auto"``: their losses alone, forward and
            backward; ``"learning"``: what the correction remembers of a step; ``"end"``: the end of an epoch.
        added: (auto - plain + learning + end / steps) / step, round by round. The end of an epoch is timed in a few
            rounds only, and its median is used.
        aim: Largest share that is allowed.
    """

    encoder: str
    batch: int
    samples: int
    steps: int
    rounds: int
    contenders: dict[str, Figures]
    added: Spread
    aim: float = AIM

    def sentence(self) -> str:
        """The result in words."""
        times = {name: each.milliseconds.median for name, each in self.contenders.items() if each.milliseconds}
        added = self.added
        return (
            f"auto adds {100 * added.median:.1f} % ({100 * added.lower_quartile:.1f}-"
            f"{100 * added.upper_quartile:.1f}) to a step of simclr with {self.encoder} at batch "
            f"{self.batch}, which takes {figure(times['step'])} ms: {figure(times['auto'] - times['plain'])} ms in the "
            f"loss, {figure(times['learning'])} ms to learn, and {figure(times['end'] / self.steps)} ms for its share "
            f"of the end of an epoch ({figure(times['end'])} ms; {self.steps} steps, {self.samples:,} samples). The "
            f"aim is {100 * self.aim:g} % at most."
        )


def measure_learning(step: Step, *, encoder: str, batch: int, samples: int, seconds: float) -> LearningCost:
    """Time a plain step and all that `auto` adds to it in turn.

    Args:
        step: A whole plain step of a training.
        encoder: Name of its encoder.
        batch: Samples in a step.
        samples: Samples in an epoch.
        seconds: About how long.
    """
    state = Auto().start(samples)
    for _ in range(EPOCHS):
        for pairs in epoch_of(samples, batch):
            learn(state, [pairs], together=False)
        end_epoch(state, together=False)
    if not state.sees:
        raise ValueError(
            f"auto is timed while it corrects: expected enough samples in an epoch for communities, got {samples} "
            f"({state.report().sentence})"
        )
    pairs = next(epoch_of(samples, batch))
    timings = interleave(
        {
            "step": step,
            "plain": lambda: run_loss(pairs, Plain()),
            "auto": lambda: run_loss(pairs, state.read(pairs)),
            "learning": lambda: learn(state, [pairs], together=False),
            "end": lambda: end_epoch(state, together=False),
        },
        seconds=seconds,
    )
    steps = samples // batch
    end = timings.milliseconds("end").median * 1e6 / steps
    # A part may have skipped rounds, if it is slow.
    parts = [timings.nanoseconds[name] for name in ("step", "plain", "auto", "learning")]
    complete = [[turn for turn in turns if turn is not None] for turns in zip(*parts, strict=True)]
    return LearningCost(
        encoder=encoder,
        batch=batch,
        samples=samples,
        steps=steps,
        rounds=timings.rounds,
        contenders={name: timings.figures(name) for name in timings.nanoseconds},
        added=spread_of(
            [(turns[2] - turns[1] + turns[3] + end) / turns[0] for turns in complete if len(turns) == len(parts)]
        ),
    )


def epoch_of(samples: int, batch: int) -> Iterator[Pairs]:
    """The pairs of each step of an epoch: two views of each sample, of ten classes."""
    generator = torch.Generator().manual_seed(SEED)
    centres = torch.nn.functional.normalize(torch.randn(CLASSES, DIM, generator=generator), dim=1)
    noise = NOISE / DIM**0.5
    for start in range(0, samples - batch + 1, batch):
        ids = torch.arange(start, start + batch)
        middle = centres[ids % CLASSES] + noise * torch.randn(batch, DIM, generator=generator)
        views = [(middle + noise * torch.randn(batch, DIM, generator=generator)).requires_grad_() for _ in range(2)]
        yield pair_views(views, temperature=TEMPERATURE, samples=ids)


def run_loss(pairs: Pairs, correction: Correction) -> None:
    """Forward and backward of the loss of a step, from embeddings to their gradients."""
    outcome_of(with_leaves(pairs), correction).loss.mean().backward()
