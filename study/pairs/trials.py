"""Trials: one training of a row at a temperature with a seed. Finished trials are kept, and not run again."""

import json
import time
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from pucl.config import UNTRAINED
from pucl.files import write_whole
from pucl.floored import FlooredWarning
from pucl.progress import Progress
from pucl.records import DamagedError, conform, each_line
from study.pairs.plan import Subject
from study.pairs.rows import ROWS, KnowingLoss
from study.pairs.world import Numbers, World


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is run.

    Args:
        subject: Name of the subject.
        row: Name of the row; ``"untrained"`` trains nothing.
        temperature: Cosines are divided by it.
        seed: The seed.
        validation: Whether it is measured on validation samples, to choose a temperature.
    """

    subject: str
    row: str
    temperature: float
    seed: int
    validation: bool


@dataclass(frozen=True, kw_only=True)
class Finished(Trial):
    """A trial with its results.

    Args:
        parts: Numbers by the part that was searched.
        seconds: Time of the training.
        tau_plus: tau' as the loss used it in the last step.
        floored: Share of floored anchors in the last step.
        report: What a correction that learns said at the end.
    """

    parts: dict[str, Numbers]
    seconds: float
    tau_plus: float = 0.0
    floored: float = 0.0
    report: str = ""

    @property
    def trial(self) -> Trial:
        """What was run."""
        return Trial(**{name: value for name, value in asdict(self).items() if name in Trial.__dataclass_fields__})


class Trials:
    """The finished trials in a file, one line each.

    Args:
        file: The file; it need not exist yet.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lines: list[str] = []
        self._finished: dict[Trial, Finished] = {}
        if file.is_file():
            for _, record in each_line(file, dict):
                if isinstance(record, DamagedError):
                    raise record
                self._add(conform(record, Finished, "a trial"))

    def __getitem__(self, trial: Trial) -> Finished:
        return self._finished[trial]

    def run(self, trials: Iterable[Trial], subject: Subject, world: World, name: str) -> None:
        """Run the trials that are not finished."""
        wanted = list(trials)
        missing = [trial for trial in wanted if trial not in self._finished]
        progress = Progress(name, "trials")
        for number, trial in enumerate(missing):
            progress(len(wanted) - len(missing) + number, len(wanted))
            self._add(run_trial(trial, subject, world))
            write_whole(self._file, "".join(self._lines).encode())
        progress(len(wanted), len(wanted))
        progress.close()

    def _add(self, finished: Finished) -> None:
        self._finished[finished.trial] = finished
        self._lines.append(json.dumps(asdict(finished)) + "\n")


def run_trial(trial: Trial, subject: Subject, world: World) -> Finished:
    """Train and measure."""
    model = world.model(trial.seed)
    began = time.perf_counter()
    about: dict[str, float | str] = {}
    if trial.row != UNTRAINED:
        row = ROWS[trial.row]
        training = world.training(row, trial.seed, validation=trial.validation)
        loss = KnowingLoss(row, temperature=trial.temperature, prior=training.prior, samples=training.samples)
        optimiser = torch.optim.Adam(model.parameters(), lr=subject.learning_rate)
        generator = torch.Generator().manual_seed(trial.seed)
        report = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FlooredWarning)  # The record has the share.
            for _ in range(subject.epochs):
                for value in training.losses(model, loss, generator):
                    optimiser.zero_grad()
                    value.backward()
                    optimiser.step()
                report = loss.end_epoch()
        if loss.last is not None:
            about = {"tau_plus": float(loss.last.tau_plus), "floored": float(loss.last.floored)}
        about["report"] = "" if report is None else report.sentence
    seconds = time.perf_counter() - began
    parts = {name: dict(numbers) for name, numbers in world.measure(model.eval(), validation=trial.validation).items()}
    return Finished(**asdict(trial), parts=parts, seconds=seconds, **about)  # type: ignore[arg-type]
