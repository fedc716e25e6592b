"""One function of a test file, run in several processes: `results_together(__file__, "train_together", 2)`."""

import importlib
import sys
from functools import partial
from pathlib import Path
from typing import Any

from pucl import doctor


def results_together(file: str, function: str, count: int) -> list[Any]:
    """Call a function of a test file in `count` processes that work together; return the result of each."""
    return doctor.run_together(partial(_call, Path(file).resolve(), function), count)


def _call(file: Path, function: str) -> Any:
    """Call a function of a test file in a new process, where pytest has not imported the file."""
    sys.path.insert(0, str(file.parent))
    return getattr(importlib.import_module(file.stem), function)()
