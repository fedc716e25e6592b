"""Can this machine train, and how fast? Checks of the installation, the machine, and the losses on it.

Every check returns a `Finding`; ``pucl doctor`` prints them. Torch and numpy are enough for all checks.
"""

from pucl.doctor.checks import Finding, examine
from pucl.doctor.together import PATIENCE, ProcessesError, certify, check_world_size, run_together

__all__ = ["PATIENCE", "Finding", "ProcessesError", "certify", "check_world_size", "examine", "run_together"]
