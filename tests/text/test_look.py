"""How pairs look: known and hidden positives of vectors whose classes are known, and pairs that are learnt by heart."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from pucl.cli import main
from pucl.data.errors import DataError
from pucl.shapes import Tensor
from pucl.text import Look, TextSet, load_texts, look_at_pairs
from pucl.text.look import split_pairs, train_briefly


class Known(nn.Module):
    """An encoder that knows the class and the pair of a text, "class pair side".

    Args:
        of_class: Length of the part that texts of a class share.
        of_pair: Length of the part that the two texts of a pair share.
        remembered: Pairs whose texts are equal.
    """

    features = 64

    def __init__(self, of_class: float, of_pair: float = 0.0, remembered: Sequence[int] = ()) -> None:
        super().__init__()
        self.of_class, self.of_pair, self.remembered = of_class, of_pair, set(remembered)

    def forward(self, texts: Sequence[str]) -> Tensor:
        return torch.stack([self.vector(*map(int, text.split())) for text in texts])

    def vector(self, label: int, pair: int, side: int) -> Tensor:
        parts = [(self.of_class, label), (self.of_pair, 10**4 + pair), (1.0, 10**6 + 2 * pair + side)]
        if pair in self.remembered:
            parts = [(1.0, 10**4 + pair)]
        return sum((length * unit(seed) for length, seed in parts), torch.zeros(64))


def unit(seed: int) -> Tensor:
    return nn.functional.normalize(torch.randn(64, generator=torch.Generator().manual_seed(seed)), dim=0)


def pairs_of(classes: int, count: int = 400) -> TextSet:
    labels = np.random.default_rng(0).integers(classes, size=count)
    return TextSet(
        texts=tuple(f"{label} {n} 0" for n, label in enumerate(labels)),
        seconds=tuple(f"{label} {n} 1" for n, label in enumerate(labels)),
    )


def test_two_texts_of_one_class_look_like_hidden_positives() -> None:
    look = look_at_pairs(pairs_of(10), encoder=Known(of_class=2.0))
    assert look.verdict == "alike"
    assert look.best_bin.tau_plus == pytest.approx(0.1, abs=0.03)
    assert look.mixture.tau_plus == pytest.approx(0.1, abs=0.03)
    assert look.tau_plus == look.best_bin.tau_plus
    assert not look.doubtful
    assert not look.alarm
    assert look.encoder == "Known"
    assert (look.train, look.held_out) == (320, 80)


def test_two_copies_of_one_text_are_closer_than_hidden_positives() -> None:
    look = look_at_pairs(pairs_of(10), encoder=Known(of_class=2.0, of_pair=8.0))
    assert look.verdict == "closer"
    assert look.best_bin.tau_plus < 0.01
    assert look.mixture.tau_plus > 0.05
    assert look.tau_plus is None
    assert "closer than hidden ones" in look.reason


def test_an_encoder_that_sees_nothing_says_so() -> None:
    look = look_at_pairs(pairs_of(10), encoder=Known(of_class=0.0))
    assert look.verdict == "unseparated"
    assert look.tau_plus is None


def test_training_pairs_that_are_learnt_by_heart_raise_the_alarm() -> None:
    pairs = pairs_of(10)
    train, held_out = split_pairs(pairs)
    remembered = [int(text.split()[1]) for text in train.texts]
    look = look_at_pairs(pairs, encoder=Known(of_class=1.0, remembered=remembered))
    assert look.train_similarity == pytest.approx(1.0)
    assert look.alarm
    assert look.memorised == pytest.approx((1 - look.held_out_similarity) / (1 - look.unlabelled_similarity))
    assert not look_at_pairs(pairs, encoder=Known(of_class=1.0)).alarm
    assert look_at_pairs(train, held_out, Known(of_class=1.0, remembered=remembered)) == look


@pytest.mark.slow
def test_the_short_training_brings_partners_together() -> None:
    train = load_texts("requests").train
    before = torch.random.get_rng_state()
    done: list[tuple[int, int]] = []
    encoder = train_briefly(train, progress=lambda *numbers: done.append(numbers))
    assert torch.equal(before, torch.random.get_rng_state()), "the generator of the user is left alone"
    assert done[-1][0] == done[-1][1]
    torch.manual_seed(0)
    untrained = type(encoder)(16384, 128)
    rows = np.arange(100)
    one, other = (side.texts for side in train.batch(rows).sides(np.linspace(0, 0.99, 100)))

    def lead(module: nn.Module) -> float:
        with torch.no_grad():
            cosines = module(one) @ module(other).T
        return float(cosines.diagonal().mean() - cosines.mean())

    assert lead(encoder) > 1.2 * lead(untrained)


def test_too_few_pairs() -> None:
    with pytest.raises(DataError, match="expected at least 20, got 10 held out, and 40 to train on"):
        look_at_pairs(pairs_of(3, 50), encoder=Known(1.0))
    with pytest.raises(DataError, match="a fifth of the pairs is held out: expected more of them, got 3"):
        look_at_pairs(pairs_of(3, 3), encoder=Known(1.0))
    with pytest.raises(ValueError, match="has an attribute features"):
        look_at_pairs(pairs_of(3), encoder=nn.Identity())


@pytest.mark.slow
def test_the_command_looks_at_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "checked.json"
    assert main(["pairs", "check", "requests", "--json", str(record)]) == 0
    text = capsys.readouterr().out
    assert "a hashed encoder after a short training on 464 of the training pairs" in text
    assert "known positives look like hidden ones" in text
    assert "about 12% of the negatives are false by the labels" in text
    found = json.loads(record.read_text())
    assert found["look"]["verdict"] == "alike"
    assert found["settings"]["correction"] == "auto"
    rows = "".join(f"question {n},answer {n}\n" for n in range(30))
    (tmp_path / "few.csv").write_text(f"q,a\n{rows}")
    command = ["pairs", "check", str(tmp_path / "few.csv"), "--text-column=q", "--second-column=a", "--batch-size=8"]
    assert main(command) == 0
    assert "note: how the pairs look is not checked" in capsys.readouterr().err
    for wrong, message in (
        ([*command, "--encoder=hashed"], "expected at least 20, got 6 held out"),
        (["pairs", "check", "requests", f"--encoder={tmp_path}"], "expected a file modules.json in it"),
        (["pairs", "check", "requests", f"--run={tmp_path / 'nowhere'}"], "nowhere"),
    ):
        assert main(wrong) == 2
        assert message in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_looks_with_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert main(["train", "pairs", "requests", "--epochs=2", "--probes=retrieval", "--out", str(run)]) == 0
    capsys.readouterr()
    assert main(["pairs", "check", "requests", "--run", str(run)]) == 0
    text = capsys.readouterr().out
    assert f"to the run {run}" in text
    assert "576" in text
    rows = "".join(f"question {n},answer {n}\n" for n in range(200))
    (tmp_path / "other.csv").write_text(f"anchor,positive\n{rows}")
    assert main(["pairs", "check", str(tmp_path / "other.csv"), "--run", str(run)]) == 2
    assert "expected one that was trained on other.csv, got one on requests" in capsys.readouterr().err


def test_a_look_is_a_record() -> None:
    look = look_at_pairs(pairs_of(10), encoder=Known(of_class=2.0))
    record = json.loads(json.dumps(look.as_json()))
    assert isinstance(look, Look)
    assert record["verdict"] == "alike"
    assert record["best_bin"]["tau_plus"] == look.best_bin.tau_plus
