"""Warn if most anchors are at the floor."""

import os
import sys
import warnings
from pathlib import Path

import torch

from pucl import processes
from pucl.contrast.loss import Outcome
from pucl.contrast.objective import Floor

MOST = 0.5  # Share of floored anchors above which users are warned.
LOOK_EVERY = 128  # Calls between two checks on an accelerator, where each check has to wait for the device.
LIBRARIES = tuple(f"{Path(file).parent}{os.sep}" for file in (__file__, torch.__file__))


class FlooredWarning(UserWarning):
    """More than half of the anchors are at the floor, where the correction no longer follows the prior."""


class FloorWatch:
    """Warns when more than half of the anchors are at the floor.

    Args:
        once: Give no second warning. Otherwise Python's warning filter decides; by default it shows equal warnings
            from one line once.
    """

    def __init__(self, *, once: bool) -> None:
        self._once = once
        self._silent = False
        self._calls = 0

    def look(self, outcome: Outcome) -> None:
        """Warn if more than half of the anchors of this outcome are at the floor."""
        if self._silent or torch.compiler.is_compiling():
            return
        self._calls += 1
        if outcome.floored.device.type != "cpu" and self._calls % LOOK_EVERY:
            return
        floored = float(outcome.floored)
        if floored > MOST and processes.rank() == 0:
            self._silent = self._once
            message = floored_message(floored, float(outcome.tau_plus), outcome.floor)
            warnings.warn(message, FlooredWarning, stacklevel=user_level())


def floored_message(floored: float, tau_plus: float, floor: Floor) -> str:
    """What is wrong where most anchors are at the floor, and what to try."""
    # Rounded down to tens, so that Python's filter sees equal warnings during a training.
    who = f"{'all' if floored == 1 else f'at least {int(floored * 10) * 10}%'} of the anchors are at the floor"
    advice = "Lower alpha or tau_plus, raise the temperature, or give more positives"
    if isinstance(floor, str):
        learns = "little or nothing" if floor == "auto" else "nothing"
        effect, advice = f"learn {learns} from their negatives", f"{advice}, or set a relative floor such as 0.1"
    else:
        effect = f"count their unlabelled mean {floor:g} times, whatever the prior is"
    return f"{who} and {effect}: tau' = {tau_plus:.4g} is too large for these similarities. {advice}"


def user_level() -> int:
    """The `stacklevel` at which a warning points to the first line outside of pucl and torch."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(LIBRARIES):
        frame, level = frame.f_back, level + 1
    return level
