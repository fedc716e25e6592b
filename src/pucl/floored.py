"""Warn users whose anchors are mostly at the floor."""

import os
import sys
import warnings
from pathlib import Path

import torch

from pucl import processes
from pucl.contrast.objectives import Floor, Outcome

MOST = 0.5  # Share of floored anchors above which users are warned.
LOOK_EVERY = 128  # Calls between two looks at the floored share on an accelerator, where each look has to wait.
LIBRARIES = tuple(f"{Path(file).parent}{os.sep}" for file in (__file__, torch.__file__))


class FlooredWarning(UserWarning):
    """More than half of the anchors are at the floor, where the correction no longer follows the prior."""


class FloorWatch:
    """Warns when more than half of the anchors are at the floor.

    Args:
        once: Stay silent after the first warning. Otherwise Python's own filter decides, which by default shows equal
            warnings from one line once.
    """

    def __init__(self, *, once: bool) -> None:
        self._once = once
        self._silent = False
        self._calls = 0

    def look(self, outcome: Outcome) -> None:
        """Warn if this outcome calls for it."""
        if self._silent or torch.compiler.is_compiling():
            return
        self._calls += 1
        if outcome.floored.device.type != "cpu" and self._calls % LOOK_EVERY:
            return
        floored = float(outcome.floored)
        if floored > MOST and processes.rank() == 0:
            self._silent = self._once
            message = _message(floored, float(outcome.tau_plus), outcome.floor)
            warnings.warn(message, FlooredWarning, stacklevel=_user_level())


def _message(floored: float, tau_plus: float, floor: Floor) -> str:
    # Rounded down to tens, so that a training does not repeat itself in ever new numbers.
    who = f"{'all' if floored == 1 else f'at least {int(floored * 10) * 10}%'} of the anchors are at the floor"
    advice = "Lower alpha or tau_plus, raise the temperature, or give more positives"
    if isinstance(floor, str):
        learns = "little or nothing" if floor == "auto" else "nothing"
        effect, advice = f"learn {learns} from their negatives", f"{advice}, or set a relative floor such as floor=0.1"
    else:
        effect = f"count their unlabelled mean {floor:g} times, whatever the prior is"
    return f"{who} and {effect}: tau' = {tau_plus:.4g} is too large for these similarities. {advice}"


def _user_level() -> int:
    """The `stacklevel` at which a warning points to the first line outside of pucl and torch."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(LIBRARIES):
        frame, level = frame.f_back, level + 1
    return level
