"""What a training shows while it goes on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pucl.progress import Line, duration

BAR = 20  # Characters.


@dataclass(frozen=True)
class Display:
    """Shows where a training is: live on a terminal, one line an epoch elsewhere.

    Args:
        line: Where to; None shows nothing.
        label: What comes before everything, such as the row and the seed of a comparison.
    """

    line: Line | None = None
    label: str = ""

    def labelled(self, label: str) -> "Display":
        """The same display, for one of several pieces of work."""
        return Display(self.line, f"{label}: ")

    def say(self, words: str) -> None:
        """Something that is to be read later too, such as a warning."""
        if self.line:
            self.line.say(self.label + words)

    def status(self, words: str) -> None:
        """What is going on now."""
        if self.line:
            self.line.show(self.label + words, at_once=True)

    def step(self, metrics: Mapping[str, Any]) -> None:
        """Where the training is after a step; see `pucl.training.loop.Training.position`."""
        if self.line and self.line.renews:
            done = metrics["step"] / metrics["steps"]
            bar = "#" * round(BAR * done)
            self.line.show(f"{self.label}[{bar:-<{BAR}}] {done:4.0%}  {describe(metrics)}")

    def epoch(self, metrics: Mapping[str, Any]) -> None:
        """What an epoch came to, where there is no live line."""
        if self.line and not self.line.renews:
            self.line.say(self.label + describe(metrics))

    def close(self) -> None:
        """Leave the live line, for whatever is printed next."""
        if self.line:
            self.line.close()


def describe(metrics: Mapping[str, Any]) -> str:
    """Metrics of a training in one line."""
    words = [f"epoch {metrics['epoch']:.0f} of {metrics['epochs']:.0f}"]
    if "loss" in metrics:
        words += [f"loss {metrics['loss']:.4f}", f"floored {metrics['floored']:.0%}"]
    if "knn" in metrics:
        words.append(f"kNN {metrics['knn']:.1%}")
    words.append(f"{metrics['samples_per_second']:.0f} {metrics.get('unit', 'samples')}/s")
    if metrics["seconds_left"]:
        words.append(f"{duration(metrics['seconds_left'])} left")
    return ", ".join(words)
