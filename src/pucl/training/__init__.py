"""How encoders are trained: optimisers, and the schedule of their step size."""

from pucl.training.optimisers import LARS, OPTIMISERS, Schedule, make_optimiser, schedule

__all__ = ["LARS", "OPTIMISERS", "Schedule", "make_optimiser", "schedule"]
