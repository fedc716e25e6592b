"""What corrections do, in the logs of the trainer."""

import io
import logging
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from pucl import processes
from pucl.adapters.sentence_transformers.ranking import RankingLoss
from pucl.contrast.loss import Outcome
from pucl.files import write_whole
from pucl.shapes import Tensor

STATE_FILE = "pucl-loss.pt"  # In a checkpoint of the trainer.

_logger = logging.getLogger("pucl.adapters.sentence_transformers")


class CorrectionCallback(TrainerCallback):  # type: ignore[misc]  # The library is not typed for mypy.
    """Write what corrections do to the trainer's logs, end their epochs, and save what they have learnt.

    The logs get ``floored`` (share of floored anchors), ``tau_plus`` (tau', the assumed share of hidden positives),
    ``positive_similarity`` and ``unlabelled_similarity``, means over the steps since the last log. When an epoch ends,
    a correction that learns reports what it believes: its numbers go to the logs as ``correction.NAME``, its sentence
    to Python's logger ``pucl.adapters.sentence_transformers``, as information. What it has learnt is part of each
    checkpoint, and is read again when the trainer resumes from one in its output directory.

    Args:
        trainer: A trainer with a `RankingLoss`, also inside of another loss, or among several.

    Example::

        trainer.add_callback(CorrectionCallback(trainer))
    """

    def __init__(self, trainer: Any) -> None:
        by_data = trainer.loss if isinstance(trainer.loss, dict) else {"": trainer.loss}
        self.trainer = trainer
        self.losses: dict[str, RankingLoss] = {
            f"{name}{'.' if name else ''}": module
            for name, loss in by_data.items()
            for module in loss.modules()
            if isinstance(module, RankingLoss)
        }
        if not self.losses:
            kinds = ", ".join(type(loss).__name__ for loss in by_data.values())
            raise ValueError(f"the callback reports on a RankingLoss: expected a trainer with one, got {kinds}")
        self._seen: dict[str, Outcome | None] = dict.fromkeys(self.losses)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Read what the corrections had learnt, if a training is resumed."""
        file = _state_file(args, state)
        if state.global_step and file.exists():
            saved = torch.load(file, map_location="cpu", weights_only=True)
            for name, loss in self.losses.items():
                loss.load_state_dict(saved[name], strict=False)  # The trainer has loaded the model.

    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Note the numbers of a part of a step."""
        self._note()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Note the numbers of a step."""
        self._note()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Let corrections that learn end their epoch, and report what they believe."""
        due = control.should_log  # A log takes this back, and the trainer's own log of the epoch is still to come.
        for name, loss in self.losses.items():
            report = loss.end_epoch()
            if report is None:
                continue
            self.trainer.log({f"{name}correction.{key}": value for key, value in report.numbers.items()})
            if report.sentence and processes.rank() == 0:
                _logger.info("epoch %g: %s%s", round(state.epoch or 0, 2), name, report.sentence)
        control.should_log = due

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Save what the corrections have learnt with the checkpoint."""
        file = _state_file(args, state)
        if not state.is_world_process_zero or not file.parent.is_dir():
            return
        content = io.BytesIO()
        torch.save({name: _without_model(loss) for name, loss in self.losses.items()}, content)
        write_whole(file, content.getvalue())

    def _note(self) -> None:
        """Add the outcomes of the losses that were called since the last time to the means that are logged."""
        for name, loss in self.losses.items():
            last = loss.last
            if last is None or last is self._seen[name]:
                continue
            self._seen[name] = last
            self.trainer.track_loss_components(
                {
                    "floored": last.floored,
                    "tau_plus": torch.as_tensor(last.tau_plus, device=last.floored.device),
                    "positive_similarity": last.positive_similarity,
                    "unlabelled_similarity": last.unlabelled_similarity,
                }
            )


def _without_model(loss: RankingLoss) -> dict[str, Tensor]:
    """The state of the correction alone."""
    return {name: value for name, value in loss.state_dict().items() if not name.startswith("model.")}


def _state_file(args: Any, state: Any) -> Path:
    """The file of the corrections' states in the checkpoint of this step."""
    return Path(args.output_dir) / f"checkpoint-{state.global_step}" / STATE_FILE
