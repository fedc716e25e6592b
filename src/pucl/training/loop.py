"""One plain training loop. It reads from top to bottom; state moves where it can be seen."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pucl import processes
from pucl.contrast.compare import ObjectiveName, compare
from pucl.contrast.compat import Compat, compare_as_published
from pucl.contrast.correction import Correction
from pucl.contrast.objectives import Floor, Outcome
from pucl.contrast.pairs import Pairs
from pucl.corrections import Plain
from pucl.devices import Precision, autocast, denormals_flushed, seed_draws
from pucl.shapes import Float, Int, Tensor
from pucl.together import learn, settle_together
from pucl.training.checkpoint import TrainingState
from pucl.training.framework import Batch, Framework
from pucl.training.watch import Watch

_Samples = TypeVar("_Samples")
_Samples_co = TypeVar("_Samples_co", covariant=True)


@runtime_checkable
class SampleSet(Protocol[_Samples_co]):
    """Samples by number."""

    def __len__(self) -> int: ...

    def batch(self, indices: NDArray[np.int64], /) -> _Samples_co:
        """These samples as a framework takes them: something that, like a tensor, moves by ``to(device)``."""
        ...


class TrainingStoppedError(ValueError):
    """Training cannot go on. The last good state is kept."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long and how hard to train.

    Args:
        epochs: Passes over the data.
        batch_size: Samples in a step, of all processes together.
        learning_rate: Of each step, as a function of (step, all steps).
        clip: Largest norm of a gradient; longer ones are shortened to it. None: none are.
        seed: Of order, views and draws. The same seed gives the same training.
        objective: ``"infonce"`` or ``"jensen_shannon"``.
        floor: Below what the estimate over negatives cannot fall.
        precision: In which encoder and head compute. Losses are always in float32.
        keep_rest: Whether an epoch ends with a smaller batch of what is left (of two samples at least for each
            process), as is usual for graphs. Otherwise that rest waits for the next epoch's order.
        compat: Take the loss as its authors published it; see `pucl.contrast.compat`.
    """

    epochs: int
    batch_size: int
    learning_rate: Callable[[int, int], float]
    clip: float | None = None
    seed: int = 0
    objective: ObjectiveName = "infonce"
    floor: Floor = "temperature"
    precision: Precision = "float32"
    keep_rest: bool = False
    compat: Compat | None = None

    def __post_init__(self) -> None:
        check_plan(self.epochs, self.batch_size, self.clip)

    def steps_per_epoch(self, samples: int) -> int:
        """How many steps see so many samples once."""
        rest = self.keep_rest and samples % self.batch_size >= 2 * processes.world_size()
        return samples // self.batch_size + int(rest)


def check_plan(epochs: int, batch_size: int, clip: float | None) -> None:
    """Refuse lengths by which nothing could be trained; see `Plan`."""
    if clip is not None and not 0 < clip < math.inf:
        raise ValueError(f"clip is the largest norm that a gradient may have: expected above 0, got {clip}")
    if epochs < 1:
        raise ValueError(f"epochs is how often all data are seen: expected at least 1, got {epochs}")
    if batch_size < 2:
        raise ValueError(f"batch_size is the number of samples in a step: expected at least 2, got {batch_size}")


@dataclass
class Tally:
    """Means over the steps since the last report."""

    sums: dict[str, float] = field(default_factory=dict)
    steps: int = 0

    def add(self, metrics: dict[str, float]) -> None:
        """Take in one step."""
        for name, value in metrics.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.steps += 1

    def means(self) -> dict[str, float]:
        """The means so far; none before the first step."""
        return {name: total / self.steps for name, total in self.sums.items()}


class Training(Generic[_Samples]):
    """A training that can be stopped after any step and continued from its state, to the same end.

    Where several processes work together, each takes its part of every batch, and all hold the same state.

    Args:
        framework: The module that is trained; a `Framework` and an `nn.Module` at once. It is trained where it is.
        optimiser: Of its parameters.
        data: All samples, such as an `ImageSet` or a `GraphSet`.
        correction: How unlabelled samples are read. While the framework is not ready, nothing is corrected, and a
            correction that learns does not learn.
        plan: How long and how hard.
        labels: Of all samples, for the oracle alone.
        warn: Is told, in words and early, what goes wrong.
    """

    def __init__(
        self,
        framework: Framework[_Samples],
        optimiser: torch.optim.Optimizer,
        data: SampleSet[_Samples],
        correction: Correction,
        plan: Plan,
        *,
        labels: np.ndarray[Any, np.dtype[np.int64]] | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.steps_per_epoch = plan.steps_per_epoch(len(data))
        if not self.steps_per_epoch:
            least = 2 * processes.world_size() if plan.keep_rest else plan.batch_size
            advice = "" if plan.keep_rest else "; choose a smaller batch size"
            raise ValueError(
                f"a step takes {plan.batch_size} samples at once: expected at least {least}, got {len(data)}{advice}"
            )
        if plan.batch_size < 2 * processes.world_size():
            raise ValueError(
                f"processes share a batch: expected at least 2 samples for each of {processes.world_size()}, "
                f"got {plan.batch_size} in all"
            )
        self.framework = framework
        self.module = framework
        self.optimiser = optimiser
        self.data = data
        self.correction = correction
        self.plan = plan
        self.device = next(self.module.parameters()).device
        self.learnt = correction.start(len(data))
        if self.learnt is not None:
            self.learnt.to(self.device)
        self.labels = None if labels is None else torch.from_numpy(labels).to(self.device)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=plan.precision == "float16")
        self.watch = Watch(warn)
        self.step = 0
        self.steps = self.steps_per_epoch * plan.epochs
        self.tally = Tally()

    def state(self) -> TrainingState:
        """All that the rest of the training depends on."""
        return {
            "step": self.step,
            "framework": self.module.state_dict(),
            "correction": {} if self.learnt is None else self.learnt.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "scaler": self.scaler.state_dict(),
            "tally": {"sums": self.tally.sums, "steps": self.tally.steps},
            "watch": self.watch.state(),
        }

    def load(self, state: TrainingState) -> None:
        """Continue from a state.

        Raises:
            ValueError: If the state is of another training. torch raises other errors for some of those.
        """
        if not 0 <= state["step"] <= self.steps:
            raise ValueError(f"step is how far the training is: expected 0 to {self.steps}, got {state['step']}")
        self.module.load_state_dict(state["framework"])
        if self.learnt is not None:
            self.learnt.load_state_dict(state["correction"])
        own = [dict(group) for group in self.optimiser.param_groups]
        self.optimiser.load_state_dict(state["optimiser"])
        self._check_optimiser(own)
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(state["scaler"])
        self.step = state["step"]
        self.tally = Tally(dict(state["tally"]["sums"]), state["tally"]["steps"])
        self.watch.load(state["watch"])

    def _check_optimiser(self, own: list[dict[str, Any]]) -> None:
        """Refuse settings and averages that are not of this optimiser: torch loads anything.

        Args:
            own: Its parameter groups before the state was loaded.
        """
        for group, loaded in zip(own, self.optimiser.param_groups, strict=True):
            for name in (group.keys() | loaded.keys()) - {"params", "lr"}:
                if name not in group or name not in loaded or group[name] != loaded[name]:
                    raise ValueError(f"the optimiser has settings of its own: the state has others for {name}")
        names = {frozenset(averages) for averages in self.optimiser.state.values()}
        if len(names) > 1:
            raise ValueError("the optimiser keeps the same averages for all parameters, got others for some")
        for parameter, averages in self.optimiser.state.items():
            for name, value in averages.items():
                if isinstance(value, Tensor) and value.shape in (parameter.shape, ()) and value.is_floating_point():
                    continue
                came = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise ValueError(
                    f"the optimiser's {name} goes with a parameter: expected a tensor of the shape "
                    f"{list(parameter.shape)}, got {came}"
                )

    def run(self, after_step: Callable[[], None] = lambda: None) -> Iterator[dict[str, float]]:
        """Train to the end; after every epoch, what it came to.

        Args:
            after_step: Called when a step is complete and the state can be saved. May raise to stop the training.
        """
        started, seen = time.monotonic(), 0
        self.module.train()
        while self.step < self.steps:
            seen += self.advance()
            self._speed = seen / (time.monotonic() - started)
            if self.step % self.steps_per_epoch == 0:
                line = self.position()
                self.tally = Tally()
                yield line
                self.module.train()
                started, seen = time.monotonic(), 0
            after_step()

    def position(self) -> dict[str, float]:
        """Where the training is, and the means of this epoch so far."""
        left = (self.steps - self.step) * min(self.plan.batch_size, len(self.data) / self.steps_per_epoch)
        return {
            "epoch": math.ceil(self.step / self.steps_per_epoch),
            "epochs": self.plan.epochs,
            "step": self.step,
            "steps": self.steps,
            "learning_rate": self.optimiser.param_groups[0]["lr"],
            "samples_per_second": self._speed,
            "seconds_left": left / self._speed,
            **self.tally.means(),
        }

    def advance(self) -> int:
        """One step: compare, descend, remember; returns of how many samples."""
        with denormals_flushed():
            return self._advance()

    def _advance(self) -> int:
        batch = self._batch()
        for group in self.optimiser.param_groups:
            group["lr"] = self.plan.learning_rate(self.step, self.steps)
        with autocast(self.device, self.plan.precision):
            comparisons = self.framework.pairs(batch)
        if comparisons:
            ready = self.framework.ready
            settled = [self._settle(pairs, self._read(pairs) if ready else Plain()) for pairs in comparisons]
            first, *others = (each for each, _ in settled)
            loss = sum(others, first)
            metrics = _metrics(loss.detach(), [outcome for _, outcome in settled])
            self._descend(loss, metrics["loss"])
            self.tally.add(metrics)
            self.watch.see(metrics, cosines=all(pairs.lowest != -math.inf for pairs in comparisons))
            if self.learnt is not None and ready:
                learn(self.learnt, comparisons, together=processes.world_size() > 1)
        self.framework.commit()
        self.step += 1
        return batch.whole

    def _read(self, pairs: Pairs) -> Correction:
        """The correction for these pairs; of one that learns, as it is after the steps so far."""
        return self.correction if self.learnt is None else self.learnt.read(pairs)

    def _settle(self, pairs: Pairs, correction: Correction) -> tuple[Float[Tensor, ""], Outcome]:
        """The loss of one comparison, over the anchors of all processes."""
        if self.plan.compat is not None:
            outcome = compare_as_published(pairs, correction)
        else:
            outcome = compare(pairs, correction, objective=self.plan.objective, floor=self.plan.floor)
        if processes.world_size() > 1:
            return settle_together(outcome, "mean")
        return outcome.loss.mean(), outcome

    def _descend(self, loss: Float[Tensor, ""], value: float) -> None:
        if not math.isfinite(value):
            raise TrainingStoppedError(
                f"the loss is {value} at step {self.step + 1} of {self.steps}: expected a number. "
                f"Try a lower learning rate, gradient clipping, or a higher temperature"
            )
        for group in self.optimiser.param_groups:
            for parameter in group["params"]:  # zero_grad, without its detour for compilers.
                parameter.grad = None
        self.scaler.scale(loss).backward()
        processes.average_gradients(self.module)
        self.scaler.unscale_(self.optimiser)
        if self.plan.clip is not None:
            nn.utils.clip_grad_norm_(self.module.parameters(), self.plan.clip)
        self.scaler.step(self.optimiser)
        self.scaler.update()

    def _batch(self) -> Batch[_Samples]:
        """This process's part of the step's samples."""
        epoch, place = divmod(self.step, self.steps_per_epoch)
        if place == 0 or self._order_of != epoch:
            self._order, self._order_of = torch.randperm(len(self.data), generator=self._numbers(1, epoch)), epoch
        start, count = place * self.plan.batch_size, processes.world_size()
        whole = min(self.plan.batch_size, len(self.data) - start)
        part = slice(whole * processes.rank() // count, whole * (processes.rank() + 1) // count)
        ids: Int[Tensor, " part"] = self._order[start : start + whole][part]
        samples: Any = self.data.batch(ids.numpy())
        seed_draws(self.device, self._seed(3, self.step, processes.rank()))  # For whatever the encoder draws by itself.
        return Batch(
            samples=samples.to(self.device),
            ids=ids.to(self.device),
            make_generator=partial(self._numbers, 2, self.step),
            part=part,
            whole=whole,
            labels=self.labels,
        )

    _speed = math.inf
    _order_of = -1
    _order: Tensor

    def _numbers(self, purpose: int, index: int) -> torch.Generator:
        """Random numbers for one purpose and one place: the same however the training came here."""
        return torch.Generator().manual_seed(self._seed(purpose, index))

    def _seed(self, *place: int) -> int:
        return int(np.random.SeedSequence([self.plan.seed, *place]).generate_state(1, np.uint64)[0] >> 1)


def _metrics(loss: Float[Tensor, ""], outcomes: list[Outcome]) -> dict[str, float]:
    """What one step came to, the means over its comparisons; asked of the device at once."""
    names = ("floored", "positive_similarity", "unlabelled_similarity")
    asked = [getattr(outcome, name).to(loss.dtype) for name in names for outcome in outcomes]
    value, *rest = torch.stack([loss, *asked]).tolist()
    count = len(outcomes)
    floored, positive, unlabelled = (sum(rest[start : start + count]) / count for start in range(0, len(rest), count))
    return {
        "loss": value,
        "floored": floored,
        "tau_plus": sum(float(outcome.tau_plus) for outcome in outcomes) / count,
        "positive_similarity": positive,
        "unlabelled_similarity": unlabelled,
    }
