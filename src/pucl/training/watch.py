"""Warnings about a training that goes wrong, early and once: floored anchors, collapsed embeddings."""

from collections import deque
from collections.abc import Callable, Mapping

from pucl.contrast.objective import Floor
from pucl.floored import MOST, floored_message
from pucl.training.checkpoint import WatchState

WINDOW = 50  # Steps that are averaged before a warning; single steps vary too much.
COLLAPSED = 0.99  # Mean similarity of unrelated samples above which all embeddings are the same.


class Watch:
    """Warns when most anchors are floored, or when all embeddings become the same.

    Args:
        warn: Called with each warning: what is wrong, and what to try.

    Attributes:
        said: The warnings that were given, by name. None is given twice.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._steps: deque[Mapping[str, float]] = deque(maxlen=WINDOW)
        self.said: set[str] = set()

    def state(self) -> WatchState:
        """The state for a checkpoint."""
        return {"said": sorted(self.said), "steps": [dict(metrics) for metrics in self._steps]}

    def load(self, state: WatchState) -> None:
        """Continue from a state."""
        self.said = set(state["said"])
        self._steps = deque(state["steps"], maxlen=WINDOW)

    def see(self, metrics: Mapping[str, float], *, floor: Floor = "temperature", cosines: bool = True) -> None:
        """Add the metrics of one step, and warn if the mean of the last steps is bad.

        Args:
            metrics: Has floored, tau_plus and unlabelled_similarity.
            floor: The floor of the loss.
            cosines: Whether similarities are cosines. Inner products have no bound, so they cannot show a collapse.
        """
        self._steps.append(metrics)
        if len(self._steps) < WINDOW:
            return
        floored, similarity = self._mean("floored"), self._mean("unlabelled_similarity")
        if floored > MOST:
            self._once("floored", floored_message(floored, metrics["tau_plus"], floor))
        if cosines and similarity > COLLAPSED:
            self._once(
                "collapsed",
                f"unrelated samples have a mean similarity of {similarity:.4f}: the embeddings collapse to one point. "
                f"Try a lower learning rate, a lower temperature, or a larger batch",
            )

    def _mean(self, name: str) -> float:
        return sum(metrics[name] for metrics in self._steps) / len(self._steps)

    def _once(self, kind: str, words: str) -> None:
        if kind not in self.said:
            self.said.add(kind)
            self._warn(words)
