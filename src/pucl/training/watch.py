"""A look at the last steps: what goes wrong quietly is said aloud, early and once."""

from collections import deque
from collections.abc import Callable, Mapping

from pucl.training.checkpoint import WatchState

WINDOW = 50  # Steps that are averaged before anything is said; a first few are often odd.
FLOORED = 0.5  # Share of anchors at the floor from which the correction does more harm than good.
COLLAPSED = 0.99  # Mean similarity of unrelated samples from which all embeddings are one.


class Watch:
    """Speaks up when most anchors stand at the floor, or when all embeddings become one.

    Args:
        speak: Is told, in words, what is wrong and what to try.

    Attributes:
        said: What was said already, and is not said again.
    """

    def __init__(self, speak: Callable[[str], None]) -> None:
        self._speak = speak
        self._steps: deque[Mapping[str, float]] = deque(maxlen=WINDOW)
        self.said: set[str] = set()

    def state(self) -> WatchState:
        """The warnings that were given, and the last steps."""
        return {"said": sorted(self.said), "steps": [dict(metrics) for metrics in self._steps]}

    def load(self, state: WatchState) -> None:
        """Continue from a state."""
        self.said = set(state["said"])
        self._steps = deque(state["steps"], maxlen=WINDOW)

    def see(self, metrics: Mapping[str, float], *, cosines: bool = True) -> None:
        """Take in one step: floored, tau_plus and unlabelled_similarity.

        Args:
            metrics: What the step came to.
            cosines: Whether similarities are cosines; inner products without bound tell nothing of a collapse.
        """
        self._steps.append(metrics)
        if len(self._steps) < WINDOW:
            return
        floored, similarity = self._mean("floored"), self._mean("unlabelled_similarity")
        if floored > FLOORED:
            self._once(
                "floored",
                f"{floored:.0%} of the anchors stand at the floor, where unlabelled samples teach them nothing: the "
                f"share of hidden positives, tau' = {metrics['tau_plus']:.3f}, is too large for these similarities. "
                f"Try a smaller alpha (or tau_plus), a higher temperature, or --floor 0.1",
            )
        if cosines and similarity > COLLAPSED:
            self._once(
                "collapsed",
                f"unrelated samples have a mean similarity of {similarity:.4f}: the embeddings collapse into one. "
                f"Try a lower learning rate, a lower temperature, or a larger batch",
            )

    def _mean(self, name: str) -> float:
        return sum(metrics[name] for metrics in self._steps) / len(self._steps)

    def _once(self, kind: str, words: str) -> None:
        if kind not in self.said:
            self.said.add(kind)
            self._speak(words)
