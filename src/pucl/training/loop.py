"""One plain training loop. It reads from top to bottom; state moves where it can be seen."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from pucl.contrast.compare import ObjectiveName, compare
from pucl.contrast.correction import Correction
from pucl.contrast.objectives import Floor, Outcome
from pucl.corrections import Plain
from pucl.frameworks.framework import Batch, Framework
from pucl.shapes import Float, Tensor

COLLAPSED = 0.99  # Mean similarity of unlabelled pairs from which all embeddings are one.


class TrainingStoppedError(ValueError):
    """Training cannot go on. The last good state is kept."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long and how hard to train.

    Args:
        epochs: Passes over the data.
        batch_size: Samples in a step.
        learning_rate: Of each step, as a function of (step, all steps).
        clip: Largest norm of a gradient; longer ones are shortened to it. None: none are.
        seed: Of order, views and draws. The same seed gives the same training.
        objective: ``"infonce"`` or ``"jensen_shannon"``.
        floor: Below what the estimate over negatives cannot fall.
    """

    epochs: int
    batch_size: int
    learning_rate: Callable[[int, int], float]
    clip: float | None = None
    seed: int = 0
    objective: ObjectiveName = "infonce"
    floor: Floor = "temperature"

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs is how often all data are seen: expected at least 1, got {self.epochs}")
        if self.batch_size < 2:
            raise ValueError(
                f"batch_size is the number of samples in a step: expected at least 2, got {self.batch_size}"
            )


@dataclass
class Tally:
    """Means over the steps since the last report."""

    sums: dict[str, float] = field(default_factory=dict)
    steps: int = 0

    def add(self, loss: float, outcomes: list[Outcome]) -> None:
        """Take in one step."""
        count = len(outcomes)
        values = {
            "loss": loss,
            "floored": sum(float(each.floored) for each in outcomes) / count,
            "tau_plus": sum(each.tau_plus for each in outcomes) / count,
            "positive_similarity": sum(float(each.positive_similarity) for each in outcomes) / count,
            "unlabelled_similarity": sum(float(each.unlabelled_similarity) for each in outcomes) / count,
        }
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.steps += 1

    def means(self) -> dict[str, float]:
        """The means, and a fresh start."""
        means = {name: total / self.steps for name, total in self.sums.items()} if self.steps else {}
        self.sums, self.steps = {}, 0
        return means


class Training:
    """A training that can be stopped after any step and continued from its state, to the same end.

    Args:
        framework: The module that is trained; a `Framework` and an `nn.Module` at once.
        optimiser: Of its parameters.
        pixels: All images, in memory or mapped.
        correction: How unlabelled samples are read. While the framework is not ready, nothing is corrected.
        plan: How long and how hard.
        labels: Of all images, for the oracle alone.
    """

    def __init__(
        self,
        framework: Framework,
        optimiser: torch.optim.Optimizer,
        pixels: np.ndarray[Any, np.dtype[np.uint8]],
        correction: Correction,
        plan: Plan,
        *,
        labels: np.ndarray[Any, np.dtype[np.int64]] | None = None,
    ) -> None:
        if len(pixels) < plan.batch_size:
            raise ValueError(
                f"a step takes {plan.batch_size} images at once: expected at least as many, got {len(pixels)}; "
                f"choose a smaller batch size"
            )
        self.framework = framework
        self.module = module_of(framework)
        self.optimiser = optimiser
        self.pixels = pixels
        self.correction = correction
        self.plan = plan
        self.labels = None if labels is None else torch.from_numpy(labels)
        self.step = 0
        self.steps_per_epoch = len(pixels) // plan.batch_size
        self.steps = self.steps_per_epoch * plan.epochs
        self.tally = Tally()

    def state(self) -> dict[str, Any]:
        """All that the rest of the training depends on. Random numbers are a function of seed and step."""
        return {
            "step": self.step,
            "framework": self.module.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "tally": {"sums": self.tally.sums, "steps": self.tally.steps},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.module.load_state_dict(state["framework"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step = state["step"]
        self.tally = Tally(dict(state["tally"]["sums"]), state["tally"]["steps"])

    def run(self, after_step: Callable[[], None] = lambda: None) -> Iterator[dict[str, float]]:
        """Train to the end; after every epoch, what it came to.

        Args:
            after_step: Called when a step is complete and the state can be saved. May raise to stop the training.
        """
        started, seen = time.monotonic(), 0
        self.module.train()
        while self.step < self.steps:
            self._advance()
            seen += self.plan.batch_size
            if self.step % self.steps_per_epoch == 0:
                speed = seen / (time.monotonic() - started)
                left = (self.steps - self.step) * self.plan.batch_size / speed
                yield {
                    "epoch": self.step // self.steps_per_epoch,
                    "step": self.step,
                    "learning_rate": self.optimiser.param_groups[0]["lr"],
                    "images_per_second": speed,
                    "seconds_left": left,
                    **self.tally.means(),
                }
                self.module.train()
                started, seen = time.monotonic(), 0
            after_step()

    def _advance(self) -> None:
        """One step: compare, settle, move."""
        batch = self._batch()
        for group in self.optimiser.param_groups:
            group["lr"] = self.plan.learning_rate(self.step, self.steps)
        correction = self.correction.at(self.step / self.steps) if self.framework.ready else Plain()
        outcomes = [
            compare(pairs, correction, objective=self.plan.objective, floor=self.plan.floor)
            for pairs in self.framework.pairs(batch)
        ]
        if outcomes:
            loss = torch.stack([outcome.loss.mean() for outcome in outcomes]).sum()
            self._descend(loss)
            self.tally.add(float(loss.detach()), outcomes)
        self.framework.commit()
        self.step += 1

    def _descend(self, loss: Float[Tensor, ""]) -> None:
        if not loss.isfinite():
            raise TrainingStoppedError(
                f"the loss is {float(loss.detach())} at step {self.step + 1} of {self.steps}: expected a number. "
                f"Try a lower learning rate, gradient clipping, or a higher temperature"
            )
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        if self.plan.clip is not None:
            nn.utils.clip_grad_norm_(self.module.parameters(), self.plan.clip)
        self.optimiser.step()

    def _batch(self) -> Batch:
        epoch, place = divmod(self.step, self.steps_per_epoch)
        if place == 0 or self._order_of != epoch:
            self._order, self._order_of = torch.randperm(len(self.pixels), generator=self._numbers(1, epoch)), epoch
        start = place * self.plan.batch_size
        ids = self._order[start : start + self.plan.batch_size]
        torch.manual_seed(self.plan.seed * 1_000_003 + self.step)  # For whatever the encoder draws by itself.
        return Batch(
            pixels=torch.from_numpy(self.pixels[ids.numpy()]),
            ids=ids,
            generator=self._numbers(2, self.step),
            labels=self.labels,
        )

    _order_of = -1
    _order: Tensor

    def _numbers(self, purpose: int, index: int) -> torch.Generator:
        """Random numbers for one purpose and one place: the same however the training came here."""
        seed = np.random.SeedSequence([self.plan.seed, purpose, index]).generate_state(1, np.uint64)[0]
        return torch.Generator().manual_seed(int(seed >> 1))


def module_of(framework: Framework) -> nn.Module:
    """A framework as the module that it is."""
    if not isinstance(framework, nn.Module):
        raise TypeError(
            f"a framework is a module with parameters to train: expected an nn.Module, got {type(framework)}"
        )
    return framework
