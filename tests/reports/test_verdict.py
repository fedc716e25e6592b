"""The verdict: what is known is said, and what may be chance or is unknown."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pucl.evaluation import probe
from pucl.reports.page import verdict as verdicts
from pucl.reports.page.records import Group, Row
from pucl.reports.page.verdict import verdict
from pucl.runs.rows import make_row

MINUS = "\N{MINUS SIGN}"
PLAIN = (0.80, 0.82, 0.81)
ORACLE = (0.90, 0.93, 0.91)  # By 10, 11 and 10 points above.


def group_of(rows: Mapping[str, Sequence[float]], *, number: str = "retrieval", base: str = "plain") -> Group:
    """A group whose rows have these results, seed by seed; the name of a row is that of its correction."""
    results = {
        name: {seed: {number: value, "seconds": 1.0} for seed, value in enumerate(each)} for name, each in rows.items()
    }
    made = [
        Row(summary=make_row(name, name, results[name], None if name == base else results.get(base)), runs=())
        for name in rows
    ]
    return Group(name="digits", path=Path(), rows=tuple(made), base=base)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            {"untrained": (0.5, 0.5, 0.51), "plain": PLAIN, "auto": (0.86, 0.89, 0.87), "oracle": ORACLE},
            "Pushing false negatives away costs plain training 10.3 points of mAP on digits (8.9 to 11.8); auto brings "
            "6.3 of them back (4.9 to 7.8).",
        ),
        (
            {"plain": PLAIN, "auto": (0.86, 0.89, 0.87), "pucl": (0.82, 0.84, 0.84), "oracle": ORACLE},
            "costs plain training 10.3 points of mAP on digits (8.9 to 11.8); auto, the best of 2 corrections, brings "
            "6.3 of them back (4.9 to 7.8).",
        ),
        (
            {"plain": PLAIN, "pucl": (0.85, 0.80, 0.84), "oracle": ORACLE},
            f"; pucl brings 2.0 of them back ({MINUS}7.0 to 11.0), which may be chance.",
        ),
        (
            {"plain": PLAIN, "ring": (0.75, 0.76, 0.77), "oracle": ORACLE},
            f"; no correction brings any of it back, ring comes nearest with {MINUS}5.0 ({MINUS}7.5 to {MINUS}2.5).",
        ),
        (
            {"plain": PLAIN, "oracle": ORACLE},
            "Pushing false negatives away costs plain training 10.3 points of mAP on digits (8.9 to 11.8).",
        ),
        (
            {"plain": PLAIN, "pucl": (0.82, 0.83, 0.83), "oracle": (0.82, 0.80, 0.83)},
            f"What false negatives cost on digits cannot be told from chance: leaving them out by the labels changes "
            f"plain training by +0.7 points of mAP ({MINUS}5.1 to 6.4). pucl changes plain training on digits by +1.7 "
            f"points of mAP (0.2 to 3.1).",
        ),
        (
            {"plain": PLAIN, "oracle": (0.70, 0.73, 0.71)},
            "By mAP, false negatives cost nothing on digits: leaving them out by the labels changes plain training by "
            f"{MINUS}9.7 points of mAP ({MINUS}11.1 to {MINUS}8.2).",
        ),
        (
            {"plain": PLAIN, "auto": (0.86, 0.89, 0.87)},
            "auto changes plain training on digits by +6.3 points of mAP (4.9 to 7.8). What false negatives cost in "
            "mAP is unknown: there is no row oracle.",
        ),
        (
            {"plain": PLAIN[:1], "auto": (0.86,), "oracle": (0.9,)},
            "Pushing false negatives away costs plain training 10.0 points of mAP on digits (no interval); auto brings "
            "6.0 of them back (no interval). One seed gives no interval: all of this may be chance.",
        ),
        (
            {"auto": (0.86, 0.89), "oracle": (0.9, 0.91)},
            "oracle is best with 90.50 % (± 0.71 over 2 seeds), before auto 87.50 %. There is no row plain for "
            "differences, so what false negatives cost is unknown.",
        ),
        (
            {"untrained": (0.5, 0.52), "plain": (0.8, 0.81)},
            "There is neither a row oracle nor a correction, so what false negatives cost is unknown.",
        ),
        ({"auto": (0.86,)}, "auto reaches 86.00 % by the mean average precision of retrieval."),
    ],
)
def test_what_is_said(rows: Mapping[str, Sequence[float]], said: str) -> None:
    words = verdict(group_of(rows))
    assert words.endswith(said) or words.startswith(said)


def test_another_base_and_another_number() -> None:
    words = verdict(group_of({"deb": PLAIN, "oracle": ORACLE}, number="linear", base="deb"))
    assert words.startswith("Pushing false negatives away costs deb 10.3 points of linear on digits")


def test_a_number_that_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where less is better, the oracle is below plain."""
    falling = probe.Number(name="error", short="error", higher_is_better=False)
    monkeypatch.setattr(verdicts, "known_numbers", lambda: {"retrieval": falling})
    words = verdict(group_of({"plain": ORACLE, "auto": (0.86, 0.88, 0.87), "oracle": PLAIN}))
    assert words.startswith("Pushing false negatives away costs plain training 10.3 points of error on digits (8.9 to")
    assert "auto brings 4.3 of them back" in words
