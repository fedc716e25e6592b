"""One plain training loop. `Training.advance` is one step: read it from top to bottom."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pucl import processes
from pucl.contrast import knowledge
from pucl.contrast.compat import outcome_as_published
from pucl.contrast.correction import Correction, StateReport
from pucl.contrast.loss import Outcome, outcome_of
from pucl.contrast.pairs import Pairs, without_bound
from pucl.corrections import Plain
from pucl.devices import denormals_flushed, seed_draws
from pucl.estimation.calibration import Reliability
from pucl.shapes import Float, Int, Tensor
from pucl.together import end_epoch, learn, settle_together
from pucl.training.calibration import calibration_metrics, measure_calibration, measure_step, random_samples
from pucl.training.checkpoint import TrainingState
from pucl.training.framework import Batch, Framework
from pucl.training.optimisers import schedule
from pucl.training.plan import Plan
from pucl.training.watch import Watch

NOT_READY = "plain: the queue was not full before the last step; until it is, nothing is corrected"
"""What is reported of an epoch in which the framework was not ready; see `pucl.training.framework.Framework.ready`."""

_Samples = TypeVar("_Samples")
_Samples_co = TypeVar("_Samples_co", covariant=True)


@runtime_checkable
class SampleSet(Protocol[_Samples_co]):
    """Samples by index."""

    def __len__(self) -> int: ...

    def batch(self, indices: NDArray[np.int64], /) -> _Samples_co:
        """The samples at these indices, for a framework. Like a tensor, the batch has a method ``to(device)``."""
        ...


class TrainingStoppedError(ValueError):
    """The training cannot continue. The last checkpoint is kept."""


@dataclass
class Tally:
    """Means over the steps of an epoch."""

    sums: dict[str, float] = field(default_factory=dict)
    steps: int = 0

    def add(self, metrics: dict[str, float]) -> None:
        """Add the metrics of one step."""
        for name, value in metrics.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.steps += 1

    def means(self) -> dict[str, float]:
        """The means so far; empty before the first step."""
        return {name: total / self.steps for name, total in self.sums.items()}


class Training(Generic[_Samples]):
    """A training that can stop after any step and resume from its state, to the same end bit by bit.

    With several processes, each computes its part of every batch, and all hold the same state.

    Args:
        framework: The framework to train, on its device.
        data: All samples, such as an `ImageSet` or a `GraphSet`.
        correction: The correction of the loss. Until the framework is ready, nothing is corrected, and a correction
            that learns does not learn.
        labels: Labels of all samples, for the oracles alone.
        truth: Labels of all samples, to measure how good the probabilities of a learning correction are. No loss sees
            them.
        attract: Whether the oracle attracts false negatives. Otherwise it leaves them out.
        groups: Known group of each sample, -1 for none. Samples of one group are positives of each other, whatever the
            framework compares; see `pucl.contrast.knowledge.with_groups`.
        excluded: Pairs of samples, [pair, 2], that are never each other's negatives. The oracles do not use them.
    """

    def __init__(
        self,
        framework: Framework[_Samples],
        optimiser: torch.optim.Optimizer,
        data: SampleSet[_Samples],
        correction: Correction,
        plan: Plan,
        *,
        labels: NDArray[np.int64] | None = None,
        truth: NDArray[np.int64] | None = None,
        attract: bool = False,
        groups: NDArray[np.int64] | None = None,
        excluded: NDArray[np.int64] | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.steps_per_epoch = plan.steps_per_epoch(len(data))
        if not self.steps_per_epoch:
            least = 2 * processes.world_size() if plan.keep_rest else plan.batch_size
            advice = "" if plan.keep_rest else "; choose a smaller batch size"
            raise ValueError(
                f"a step takes {plan.batch_size} samples at once: expected at least {least} samples in the training "
                f"data, got {len(data)}{advice}"
            )
        if plan.batch_size < 2 * processes.world_size():
            needed = f"2 samples for each of {processes.world_size()}"
            raise ValueError(f"processes share a batch: expected at least {needed}, got {plan.batch_size} in all")
        if groups is not None and (plan.compat is not None or groups.shape != (len(data),)):
            raise ValueError(
                f"groups are known groups of the samples: expected one for each of {len(data)} samples, and no compat, "
                f"got {groups.shape} and {plan.compat}"
            )
        self.framework = framework
        self.optimiser = optimiser
        self.data = data
        self.correction = correction
        self.plan = plan
        self.device = next(self.framework.parameters()).device
        self.learnt = correction.start(len(data))
        if self.learnt is not None:
            self.learnt.to(self.device)
        self.attract = attract
        self.labels = None if labels is None else torch.from_numpy(labels).to(self.device)
        self.groups = None if groups is None else torch.from_numpy(groups).to(self.device)
        if excluded is not None and plan.compat is not None:
            raise ValueError(f"excluded pairs change the loss: expected no compat, got {plan.compat}")
        self.excluded = None
        if excluded is not None and labels is None:
            self.excluded = knowledge.KnownPairs(torch.from_numpy(excluded).to(self.device), len(data))
        self.truth = None if truth is None or self.learnt is None else torch.from_numpy(truth).to(self.device)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=plan.precision == "float16")
        self.watch = Watch(warn)
        self.step = 0
        self.steps = self.steps_per_epoch * plan.epochs
        self.tally = Tally()
        self.calibration: Reliability | None = None  # Of the correction's r when the last epoch ended.
        self._speed = math.inf
        self.report = StateReport()  # What the correction reported when the last epoch ended.
        self._order, self._order_of = torch.empty(0, dtype=torch.int64), -1

    def state(self) -> TrainingState:
        """All that the rest of the training depends on."""
        return {
            "step": self.step,
            "framework": self.framework.state_dict(),
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
            raise ValueError(f"step is the position of the training: expected 0 to {self.steps}, got {state['step']}")
        self.framework.load_state_dict(state["framework"])
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
        """Refuse settings and averages of another optimiser: torch would load them.

        Args:
            own: Its parameter groups before the state was loaded.
        """
        for group, loaded in zip(own, self.optimiser.param_groups, strict=True):
            for name in (group.keys() | loaded.keys()) - {"params", "lr"}:
                if name not in group or name not in loaded or group[name] != loaded[name]:
                    raise ValueError(f"the state is of an optimiser with other settings: {name} differs")
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
        """Train to the end, and yield the metrics of each epoch.

        Args:
            after_step: Called when a step is complete and the state can be saved. May raise to stop the training.
        """
        started, seen = time.monotonic(), 0
        self.framework.train()
        while self.step < self.steps:
            seen += self.advance()
            self._speed = seen / (time.monotonic() - started)
            if self.step % self.steps_per_epoch == 0:
                metrics = self.position()
                if self.calibration is not None:
                    metrics |= calibration_metrics(self.calibration)
                self.tally = Tally()
                yield metrics
                self.framework.train()
                started, seen = time.monotonic(), 0
            after_step()

    def position(self) -> dict[str, float]:
        """The position of the training, the means of this epoch so far, and what the correction last reported."""
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
            **{f"correction.{name}": value for name, value in self.report.numbers.items()},
        }

    def advance(self) -> int:
        """Do one step, and return its number of samples: pairs, loss, optimiser, then memories and the correction."""
        with denormals_flushed():
            batch = self._batch()
            warmup = self.plan.warmup_epochs * self.steps_per_epoch
            rate = self.plan.learning_rate * schedule(self.step, self.steps, warmup, self.plan.schedule)
            for group in self.optimiser.param_groups:
                group["lr"] = rate
            precision = self.plan.precision
            with torch.autocast(self.device.type, dtype=getattr(torch, precision), enabled=precision != "float32"):
                all_pairs = [self._use_knowledge(pairs) for pairs in self.framework.pairs(batch)]
            ready = self.framework.ready
            if all_pairs:
                settled = [self._loss(pairs, corrected=ready) for pairs in all_pairs]
                first, *others = (each for each, _ in settled)
                loss = sum(others, first) / (len(settled) if self.framework.averaged else 1)
                metrics = _metrics(loss.detach(), [outcome for _, outcome in settled])
                self._descend(loss, metrics["loss"])
                self.tally.add(metrics)
                cosines = not any(without_bound(pairs.lowest) for pairs in all_pairs)
                self.watch.see(metrics, floor=settled[0][1].floor, cosines=cosines)
                if self.learnt is not None and ready:
                    if self.truth is not None and (self.step + 1) % self.steps_per_epoch == 0:
                        self.calibration = measure_step(self.learnt, all_pairs, self.truth)
                    learn(self.learnt, all_pairs, together=processes.world_size() > 1)
            self.framework.commit()
            self.step += 1
            if self.learnt is not None and self.step % self.steps_per_epoch == 0:
                self.report = end_epoch(self.learnt, together=processes.world_size() > 1)
                if not ready:
                    self.report = replace(self.report, sentence=NOT_READY)
                if self.truth is not None and (some := random_samples(self.learnt, self.truth)) is not None:
                    self.calibration = measure_calibration(self.learnt, [some], self.truth)
        return batch.whole

    def _use_knowledge(self, pairs: Pairs) -> Pairs:
        """The pairs with known groups, without excluded pairs, and with the labels of the oracle, if there are any."""
        if self.groups is not None:
            known = [torch.where(samples >= 0, self.groups[samples], -1) for samples in pairs.sample_ids()]
            pairs = knowledge.with_groups(pairs, known[0], known[1])
        if self.excluded is not None:
            pairs = self.excluded.leave_out(pairs)
        if self.labels is None:
            return pairs
        queries, keys = pairs.sample_ids()
        use = knowledge.with_false_negatives_attracted if self.attract else knowledge.without_false_negatives
        return use(pairs, self.labels[queries], self.labels[keys])

    def _loss(self, pairs: Pairs, *, corrected: bool) -> tuple[Float[Tensor, ""], Outcome]:
        """The mean loss of the anchors of all processes, and the outcome of this process."""
        correction: Correction = Plain()
        if corrected:
            correction = self.correction if self.learnt is None else self.learnt.read(pairs)
        if self.plan.compat is not None:
            outcome = outcome_as_published(pairs, correction)
        else:
            outcome = outcome_of(pairs, correction, objective=self.plan.objective, floor=self.plan.floor)
        if processes.world_size() > 1:
            return settle_together(outcome, "mean")
        return outcome.loss.mean(), outcome

    def _descend(self, loss: Float[Tensor, ""], value: float) -> None:
        if not math.isfinite(value):
            raise TrainingStoppedError(
                f"the loss is {value} at step {self.step + 1} of {self.steps}: expected a number. "
                f"Try a lower learning rate, gradient clipping, or a higher temperature"
            )
        self.optimiser.zero_grad()
        self.scaler.scale(loss).backward()
        processes.average_gradients(self.framework)
        self.scaler.unscale_(self.optimiser)
        if self.plan.clip is not None:
            nn.utils.clip_grad_norm_(self.framework.parameters(), self.plan.clip)
        self.scaler.step(self.optimiser)
        self.scaler.update()

    def _batch(self) -> Batch[_Samples]:
        """This process's part of the step's samples."""
        epoch, number = divmod(self.step, self.steps_per_epoch)
        if self._order_of != epoch:
            self._order, self._order_of = torch.randperm(len(self.data), generator=self._generator(1, epoch)), epoch
        start, count = number * self.plan.batch_size, processes.world_size()
        whole = min(self.plan.batch_size, len(self.data) - start)
        part = slice(whole * processes.rank() // count, whole * (processes.rank() + 1) // count)
        ids: Int[Tensor, " part"] = self._order[start : start + whole][part]
        samples: Any = self.data.batch(ids.numpy())
        seed_draws(self.device, self._seed(3, self.step, processes.rank()))  # For draws such as dropout.
        return Batch(
            samples=samples.to(self.device),
            ids=ids.to(self.device),
            generator=self._generator(2, self.step),
            part=part,
            whole=whole,
            progress=self.step / self.steps,
        )

    def _generator(self, purpose: int, index: int) -> torch.Generator:
        """Random numbers for one purpose and one epoch or step, whether the training was resumed or not."""
        return torch.Generator().manual_seed(self._seed(purpose, index))

    def _seed(self, *key: int) -> int:
        return int(np.random.SeedSequence([self.plan.seed, *key]).generate_state(1, np.uint64)[0] >> 1)


def _metrics(loss: Float[Tensor, ""], outcomes: list[Outcome]) -> dict[str, float]:
    """The metrics of one step, as means over its outcomes; one transfer from the device gets them all."""
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
