"""The study of ranking losses: its pairs, its corrections, and its record that a second command completes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pucl.corrections import CORRECTIONS, Debiased
from pucl.text.textset import TextData, TextSet
from study import ranking
from study.ranking import ROWS, UNTRAINED, RankingSettings, Training, correction_of, draw_pairs, main

SMALL = RankingSettings(intents=3, pairs=2, seeds=1)


def trained(row: str, settings: RankingSettings, seed: int, pairs: Any) -> Training:
    return Training(
        row=row,
        correction="",
        seed=seed,
        mean_average_precision=0.5,
        recall_at_1=0.25,
        losses=[] if row == UNTRAINED else [2.0, 1.0],
        floored=[],
        tau_plus=[],
        report="",
        seconds=1.0,
    )


@pytest.fixture
def few_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = TextSet(
        texts=tuple(f"text {number}" for number in range(30)),
        labels=np.arange(30) % 5,
        classes=tuple("abcde"),
    )
    monkeypatch.setattr("pucl.text.load_texts", lambda _: TextData(name="few", train=texts, test=texts))


@pytest.mark.usefixtures("few_texts")
def test_each_text_is_in_one_pair() -> None:
    pairs = draw_pairs(SMALL, 0)
    both = pairs.queries + pairs.documents
    assert len(pairs.queries) == 6
    assert len(set(both)) == len(both) == 12
    intents = {f"text {number}": number % 5 for number in range(30)}
    rows = zip(pairs.queries, pairs.documents, pairs.intents, strict=True)
    assert all(intents[query] == intents[document] == intent for query, document, intent in rows)
    assert set(pairs.test_intents.tolist()) == set(pairs.intents)
    assert draw_pairs(SMALL, 0).queries == pairs.queries != draw_pairs(SMALL, 1).queries
    with pytest.raises(ValueError, match="expected at most 3 pairs of an intent, got 4"):
        draw_pairs(RankingSettings(intents=3, pairs=4), 0)


def test_corrections_have_the_true_prior() -> None:
    assert set(CORRECTIONS) < set(ROWS)
    assert correction_of("deb", SMALL) == Debiased(tau_plus=1 / 3)
    for row in CORRECTIONS:
        assert isinstance(correction_of(row, SMALL), CORRECTIONS[row])


@pytest.mark.usefixtures("few_texts")
def test_a_second_command_completes_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[str] = []

    def counted(row: str, *rest: Any) -> Training:
        calls.append(row)
        return trained(row, *rest)

    monkeypatch.setattr(ranking, "train", counted)
    out = tmp_path / "ranking.json"
    command = ["--intents=3", "--pairs=2", f"--out={out}"]
    assert main([*command, "--rows=untrained,deb"]) == 0
    assert main(command) == 0
    assert calls == [UNTRAINED, "deb", *(row for row in ROWS if row not in (UNTRAINED, "deb"))]
    record = json.loads(out.read_text())
    assert len(record["trainings"]) == len(ROWS)
    assert record["command"].startswith("python -m study.ranking --intents=3")
    assert main([*command, "--epochs=9"]) == 2
    assert "has trainings with other settings" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--intents=1", "expected at least 2, got 1"),
        ("--rows=plain,pucll", "'pucll' is no row"),
        ("--out=/no/such/directory/ranking.json", "expected one in an existing directory"),
        ("--scale=0", "expected a number above 0, got 0"),
    ],
)
def test_wrong_options_are_refused(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert message in capsys.readouterr().err
