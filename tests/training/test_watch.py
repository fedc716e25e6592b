"""Warnings come early, once, and say what to try."""

from collections.abc import Callable

import pytest

from pucl.training.watch import WINDOW, Watch


def metrics(floored: float = 0.0, similarity: float = 0.1) -> dict[str, float]:
    return {"floored": floored, "unlabelled_similarity": similarity, "tau_plus": 0.2}


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (metrics(floored=0.6), "at least 60% of the anchors are at the floor and learn nothing"),
        (metrics(similarity=0.995), "mean similarity of 0.9950: the embeddings collapse"),
    ],
)
def test_says_once_what_is_wrong(step: dict[str, float], words: str) -> None:
    said: list[str] = []
    watch = Watch(said.append)
    for _ in range(WINDOW - 1):
        watch.see(step)
    assert said == []
    for _ in range(3 * WINDOW):
        watch.see(step)
    assert len(said) == 1
    assert words in said[0]
    assert "Try" in said[0] or "raise the temperature" in said[0]


def test_the_advice_fits_the_floor() -> None:
    said: list[str] = []
    watch = Watch(said.append)
    for _ in range(WINDOW):
        watch.see(metrics(floored=0.6), floor=0.1)
    assert "count their unlabelled mean 0.1 times" in said[0]
    assert "relative floor" not in said[0]


@pytest.mark.parametrize(
    ("floored", "similarity", "cosines", "warnings"),
    [
        (lambda number: float(number % 3 == 0), lambda number: float(number % 2), True, 0),  # Single bad steps.
        (lambda number: float(number >= 2 * WINDOW), lambda _: 0.1, True, 1),  # Trouble after a good start.
        (lambda _: 0.0, lambda _: 120.0, False, 0),  # Inner products have no bound.
    ],
)
def test_when_it_warns(
    floored: Callable[[int], float], similarity: Callable[[int], float], cosines: bool, warnings: int
) -> None:
    said: list[str] = []
    watch = Watch(said.append)
    for number in range(4 * WINDOW):
        watch.see(metrics(floored(number), similarity(number)), cosines=cosines)
    assert len(said) == warnings


def test_what_was_seen_is_kept_over_a_stop() -> None:
    said: list[str] = []
    state = Watch(said.append).state()
    for _ in range(WINDOW):
        watch = Watch(said.append)
        watch.load(state)
        watch.see(metrics(floored=1.0))
        state = watch.state()
    assert len(said) == 1
