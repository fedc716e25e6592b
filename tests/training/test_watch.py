"""Warnings come early, once, and say what to try."""

import pytest

from pucl.training.watch import WINDOW, Watch


def metrics(floored: float = 0.0, similarity: float = 0.1) -> dict[str, float]:
    return {"floored": floored, "unlabelled_similarity": similarity, "tau_plus": 0.2}


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (metrics(floored=0.6), "60% of the anchors stand at the floor"),
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
    assert "Try" in said[0]


def test_a_bad_moment_is_no_trouble() -> None:
    said: list[str] = []
    watch = Watch(said.append)
    for number in range(4 * WINDOW):
        watch.see(metrics(floored=float(number % 3 == 0), similarity=float(number % 2)))
    assert said == []


def test_trouble_after_a_good_start_is_seen() -> None:
    said: list[str] = []
    watch = Watch(said.append)
    for number in range(4 * WINDOW):
        watch.see(metrics(floored=float(number >= 2 * WINDOW)))
    assert len(said) == 1


def test_inner_products_without_bound_are_no_collapse() -> None:
    said: list[str] = []
    watch = Watch(said.append)
    for _ in range(2 * WINDOW):
        watch.see({"floored": 0.0, "tau_plus": 0.1, "unlabelled_similarity": 120.0}, cosines=False)
    assert not said
    for _ in range(WINDOW):
        watch.see({"floored": 0.0, "tau_plus": 0.1, "unlabelled_similarity": 0.999})
    assert len(said) == 1


def test_what_was_seen_is_kept_over_a_stop() -> None:
    said: list[str] = []
    state = Watch(said.append).state()
    for _ in range(WINDOW):
        watch = Watch(said.append)
        watch.load(state)
        watch.see(metrics(floored=1.0))
        state = watch.state()
    assert len(said) == 1
