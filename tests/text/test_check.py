"""The check of pairs: counts against drawn batches, and the command."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from pucl.cli import main
from pucl.data.errors import DataError
from pucl.text import TextSet, find_duplicates
from pucl.text.check import check_pairs
from pucl.text.groups import check_groups


def random_pairs(words: int, count: int = 80) -> TextSet:
    chance = np.random.default_rng(0)
    firsts = tuple(f"first {n}" for n in chance.integers(0, words, count))
    seconds = tuple(f"second {n}" for n in range(count))
    return TextSet(texts=firsts, seconds=seconds)


def reordered_pairs() -> TextSet:
    """Every second text has the words of the one before, in another order."""
    texts = tuple(f"pay {n // 2}" if n % 2 else f"{n // 2} pay" for n in range(80))
    return TextSet(texts=texts, seconds=tuple(f"second {n}" for n in range(80)))


@pytest.mark.parametrize("words", [10, 60])
def test_shares_are_those_of_drawn_batches(words: int) -> None:
    pairs, chance = random_pairs(words), np.random.default_rng(1)
    found = check_pairs(pairs, batch_size=12).same
    negatives, anchors = [], []
    for _ in range(4000):
        groups = pairs.groups[chance.permutation(len(pairs))[:12]]
        same = (groups[:, None] == groups) & ~np.eye(12, dtype=bool)
        negatives.append(same.sum() / (12 * 11))
        anchors.append(same.any(axis=1).mean())
    assert found.negatives == pytest.approx(np.mean(negatives), rel=0.05)
    assert found.anchors == pytest.approx(np.mean(anchors), rel=0.05)
    assert found.groups == len(np.unique(pairs.groups))


def test_the_whole_set_as_a_batch_meets_every_mate() -> None:
    found = check_pairs(TextSet(texts=("a", "a", "b", "c"), seconds=("1", "2", "3", "4")), 4).same
    assert (found.anchors, found.grouped, found.largest) == (0.5, 2, 2)
    assert found.negatives == pytest.approx(2 / 12)
    with pytest.raises(ValueError, match="expected 2 to 4, the number of pairs, got 5"):
        check_pairs(TextSet(texts=("a", "a", "b", "c"), seconds=("1", "2", "3", "4")), 5)


def test_duplicates_and_near_duplicates() -> None:
    texts = ("Pay now!", "pay now!", "now, pay", "other", "other", "what now", "three", "four", "five", "six", "seven")
    seconds = ("s1", "s2", "s3", "s4", "s4", "Now what?", "s5", "s6", "s7", "s8", "s9")
    found = check_pairs(TextSet(texts=texts, seconds=seconds), 4)
    assert (found.pairs, found.copies, found.alike, found.commonest, found.times) == (11, 1, 1, "other", 2)
    assert (found.same.grouped, found.same.largest) == (2, 2)
    assert (found.near.grouped, found.near.largest) == (5, 3)
    assert found.same_class is None


@pytest.mark.parametrize(
    ("pairs", "advice"),
    [
        (random_pairs(10**9), "Nothing needs to be done"),
        (random_pairs(60), "Give the loss the groups"),
        (random_pairs(2), "First remove pairs with the commonest texts, such as 'first 1', which tie"),
        (reordered_pairs(), "Look at the near-duplicates"),
    ],
)
def test_the_advice_fits(pairs: TextSet, advice: str) -> None:
    assert check_pairs(pairs, 16).advice.startswith(advice)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.csv").write_text("q,a\n" + "".join(f"question {n // 2},answer {n}\n" for n in range(40)))
    columns = ["--text-column=q", "--second-column=a"]
    options = [*columns, "--batch-size=8", "--json", str(tmp_path / "checked.json"), "--no-encoder"]
    assert main(["pairs", "check", str(tmp_path / "own.csv"), *options]) == 0
    text = capsys.readouterr().out
    assert "Recommendation: give the loss the groups" in text
    command = f"pucl train pairs {tmp_path / 'own.csv'} --text-column q --second-column a --batch-size 8"
    assert f"then `{command} --correction plain --temperature 0.2`." in text
    record = json.loads((tmp_path / "checked.json").read_text())
    assert (record["pairs"], record["same"]["groups"], record["same"]["anchors"]) == (40, 20, pytest.approx(7 / 39))
    assert record["look"] is None
    assert main(["pairs", "check", "requests", "--no-encoder"]) == 0
    text = capsys.readouterr().out
    assert "negatives of the anchor's class" in text
    assert "12.3" in text
    assert main(["pairs", "check", str(tmp_path / "nowhere.csv")]) == 2
    assert main(["pairs", "check", str(tmp_path / "own.csv"), "--label-column=x"]) == 2
    assert "has no column 'x'" in capsys.readouterr().err


def test_groups_that_fill_a_batch_ask_for_a_larger_one() -> None:
    pairs = random_pairs(30, 400)
    found = check_pairs(pairs, 16)
    assert 8 < found.same.largest <= 40
    assert found.settings.batch_size == 4 * found.same.largest
    assert "a batch needs others to compare it with" in found.settings.reasons["batch size"]


def test_the_list_of_duplicates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        ("Pay now!", "s1"),
        ("now, pay", "s2"),
        ("Pay now!", "s1"),
        ("other", "s1"),
        ("is it", "It is?"),
        ("=1", "s3"),
    ]
    (tmp_path / "own.csv").write_text("q,a\n" + "".join(f'"{one}","{other}"\n' for one, other in rows))
    expected = [
        ("near-duplicate", 2, 1, "now, pay", 1, 1, "Pay now!"),
        ("repeated", 3, 1, "Pay now!", 1, 1, "Pay now!"),
        ("shared", 4, 2, "s1", 1, 2, "s1"),
        ("same words", 5, 2, "It is?", 5, 1, "is it"),
    ]
    command = ["pairs", "check", str(tmp_path / "own.csv"), "--batch-size=2", "--no-encoder", "--list"]
    assert main([*command, str(tmp_path / "list.jsonl")]) == 0
    assert "4 duplicates" in capsys.readouterr().out
    lines = [json.loads(line) for line in (tmp_path / "list.jsonl").read_text().splitlines()]
    assert [tuple(line.values()) for line in lines] == expected
    assert main([*command, str(tmp_path / "list.csv")]) == 0
    with (tmp_path / "list.csv").open(newline="") as file:
        assert [tuple(line) for line in csv.reader(file)] == [
            tuple(lines[0]),
            *(tuple(map(str, line)) for line in expected),
        ]
    assert main([*command, str(tmp_path / "list.csv")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "list.csv"), "--force"]) == 0
    capsys.readouterr()
    for name, message in (("list.txt", "ends in .csv or .jsonl"), ("no/list.csv", "in an existing directory")):
        assert main([*command, str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err


def test_a_text_of_all_pairs_is_listed_once_for_each() -> None:
    """The list grows with the rows, and not with the pairs of rows that share a text."""
    pairs = TextSet(texts=("yes",) * 2000, seconds=tuple(f"second {n}" for n in range(2000)))
    found = list(find_duplicates(pairs))
    assert len(found) == 1999
    assert {each.earlier_row for each in found} == {1}


def test_a_training_refuses_one_giant_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"question {n},yes\n" for n in range(100))
    (tmp_path / "giant.csv").write_text(f"anchor,positive\n{rows}")
    assert main(["train", "pairs", str(tmp_path / "giant.csv"), f"--out={tmp_path / 'run'}"]) == 2
    error = capsys.readouterr().err
    assert "expected two groups or more, got one of all 100 pairs; `pucl pairs check` names the texts" in error
    assert not (tmp_path / "run").exists()
    assert main(["pairs", "check", str(tmp_path / "giant.csv"), "--no-encoder", "--batch-size=8"]) == 0
    assert "such as 'yes', which tie 100 of 100 pairs together" in (text := capsys.readouterr().out)
    assert text.rstrip().endswith("then check again.")


def test_notes_on_large_groups() -> None:
    groups = np.array([0] * 10 + list(range(1, 11)))
    assert check_groups(groups, 20, "own.csv") == ()
    assert "more than half of a batch of 16" in check_groups(groups, 16, "own.csv")[0]
    assert "a batch of this group alone has no negatives" in check_groups(groups, 10, "own.csv")[0]
    assert check_groups(np.arange(5), 1, "own.csv") == ()
    with pytest.raises(DataError, match="own.csv: .* got one of all 20 pairs"):
        check_groups(np.zeros(20, np.int64), 10, "own.csv")


def test_one_pair_has_nothing_to_be_compared_with() -> None:
    with pytest.raises(DataError, match="expected two pairs or more, got one"):
        check_pairs(TextSet(texts=("a",), seconds=("b",)), 2)
