"""The modules: what they promise beyond the mathematics, and what they say to wrong input."""

import copy
import dataclasses
import inspect
import io
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import pucl
from examples import related_views
from pucl import ContrastiveLoss, FlooredWarning, NTXentLoss, OracleLoss, PUCLLoss, RingLoss
from pucl.contrast.loss import ObjectiveName, Outcome
from pucl.contrast.objective import Floor, average_unlabelled
from pucl.contrast.objectives import InfoNCE
from pucl.corrections import PUCL, Hard, Plain, Ring
from pucl.floored import FloorWatch
from pucl.functional import contrastive_loss, corrected_loss, local_global_loss, pair_local_global, pair_views

LOSSES: list[Callable[..., ContrastiveLoss]] = [
    pucl.NTXentLoss,
    pucl.DebiasedLoss,
    pucl.HardLoss,
    pucl.RingLoss,
    pucl.BCLLoss,
    pucl.PUCLLoss,
]
Make = Callable[..., ContrastiveLoss]
Q, K, U = (torch.randn(count, 3, generator=torch.Generator().manual_seed(count)) for count in (4, 5, 6))
K = K[:4]
every_loss = pytest.mark.parametrize("make", LOSSES, ids=lambda make: make.__name__)


def views_of(batch: int = 16, dim: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    z0, z1 = related_views(batch, dim)
    return z0, z1


def last_of(loss: ContrastiveLoss) -> Outcome:
    assert loss.last is not None
    return loss.last


@every_loss
def test_views_may_be_exchanged_and_have_any_length(make: Make) -> None:
    z0, z1 = views_of()
    torch.testing.assert_close(make()(z0, z1), make()(z1, z0), rtol=1e-12, atol=0)
    scale = torch.rand(16, 1, dtype=torch.float64) * 1e3 + 1e-3
    torch.testing.assert_close(make()(z0 * scale, z1 / scale), make()(z0, z1), rtol=1e-10, atol=0)


@every_loss
def test_reductions(make: Make) -> None:
    z0, z1 = views_of()
    losses = make(reduction="none")(z0, z1)
    assert losses.shape == (32,)
    torch.testing.assert_close(make(reduction="mean")(z0, z1), losses.mean())
    torch.testing.assert_close(make(reduction="sum")(z0, z1), losses.sum())


@every_loss
def test_what_happened_is_kept(make: Make) -> None:
    loss = make()
    z0, z1 = (view.requires_grad_() for view in views_of())
    loss(z0, z1)
    last = last_of(loss)
    assert 0 <= last.floored < 1
    assert last.tau_plus == loss.tau_plus == loss.correction.tau_plus
    cosines = torch.nn.functional.cosine_similarity(z0, z1)
    torch.testing.assert_close(last.positive_similarity, cosines.mean().detach())
    assert "tau'" in repr(loss)


@every_loss
def test_all_keywords_are_in_the_signature(make: Make) -> None:
    """So that an editor shows them, and Python refuses others."""
    common = inspect.signature(ContrastiveLoss).parameters.keys() - {"correction", "samples"}
    own = inspect.signature(make).parameters
    assert common < own.keys() | {"correction"}
    assert all(each.kind is not inspect.Parameter.VAR_KEYWORD for each in own.values())
    defaults = inspect.signature(ContrastiveLoss).parameters
    assert all(own[name].default == defaults[name].default for name in common)
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'tau'"):
        make(tau=0.1)


@every_loss
def test_keywords_arrive(make: Make) -> None:
    given = {"gather_distributed": True, "reduction": "none", "floor": 0.3, "streaming": True, "temperature": 0.3}
    loss = make(**given, objective="jensen_shannon", memory_bank_size=(8, 3))
    assert {name: getattr(loss, name) for name in given} == given
    assert loss.objective == "jensen_shannon"
    assert loss.queue is not None
    assert loss.queue.keys.shape == (8, 3)


def test_pucl_from_tau_plus() -> None:
    views = views_of()
    loss = PUCLLoss.from_tau_plus(0.07, 0.5, temperature=0.4, reduction="none")
    assert loss.correction == PUCL(alpha=0.07, c=0.0, beta=0.5)
    assert loss.tau_plus == pytest.approx(0.07)
    expected = pucl.HardLoss(0.07, 0.5, temperature=0.4, reduction="none")(*views)
    torch.testing.assert_close(loss(*views), expected)
    given = {name: each.default for name, each in inspect.signature(PUCLLoss).parameters.items()}
    offered = {name: each.default for name, each in inspect.signature(PUCLLoss.from_tau_plus).parameters.items()}
    assert offered.pop("tau_plus") is inspect.Parameter.empty
    assert offered == {name: default for name, default in given.items() if name not in ("alpha", "c")}
    with pytest.raises(ValueError, match="tau_plus is the share of hidden positives among the unlabelled.*got 1.5"):
        PUCLLoss.from_tau_plus(1.5)


def test_records_print_shapes_and_numbers() -> None:
    loss = PUCLLoss()
    loss(*views_of(64))
    pairs = pair_views(views_of(64))
    for record in (loss.last, pairs, pairs.comparison(), average_unlabelled(pairs.comparison(), PUCL(), InfoNCE())):
        text = repr(record)
        assert text.startswith(f"{type(record).__name__}(")
        assert "float64[128" in text
        assert "\n" not in text
        assert len(text) < 400
    assert re.fullmatch(
        r"Outcome\(loss=float64\[128\], floored=[\d.]+, tau_plus=0\.1093, positive_similarity=0\.\d+, "
        r"unlabelled_similarity=-?\d\.[-\de]+, floor='temperature'\)",
        repr(loss.last),
    )


def test_more_views_are_more_positives() -> None:
    views = related_views(8, 6, views=4)
    loss = PUCLLoss(reduction="none")(*views)
    assert loss.shape == (32,)
    torch.testing.assert_close(loss, corrected_loss(pair_views(views), PUCL()).loss)


def test_twins_in_a_batch_are_left_out() -> None:
    z0, z1 = views_of(6)
    twice = [torch.cat([z, z[:1]]) for z in (z0, z1)]
    ids = torch.tensor([0, 1, 2, 3, 4, 5, 0])
    losses = NTXentLoss(reduction="none")(*twice, ids=ids).view(2, 7)
    without = NTXentLoss(reduction="none")(z0, z1).view(2, 6)
    # The twins themselves see exactly what the one sample saw; the others see it twice.
    torch.testing.assert_close(losses[:, 0], without[:, 0])
    torch.testing.assert_close(losses[:, 6], without[:, 0])
    assert (losses[:, 1:6] > without[:, 1:]).all()


def test_a_setting_can_be_moved_between_steps() -> None:
    loss = RingLoss(lower=0.0, upper=1.0)
    z0, z1 = views_of()
    torch.testing.assert_close(loss(z0, z1), NTXentLoss()(z0, z1))
    loss.correction = Ring(lower=0.0, upper=0.25)
    torch.testing.assert_close(loss(z0, z1), RingLoss(lower=0.0, upper=0.25)(z0, z1))


def test_oracle_compares_with_true_negatives_alone() -> None:
    z0, z1 = views_of(6)
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    losses = OracleLoss(reduction="none", temperature=0.5)(z0, z1, labels=labels).view(2, 6)
    stacked = torch.nn.functional.normalize(torch.stack([z0, z1]), dim=-1)
    for v in range(2):
        for i in range(6):
            anchor = stacked[v, i]
            others = stacked[:, labels != labels[i]].flatten(0, 1)
            mean = (others @ anchor / 0.5).exp().mean()
            positive = (stacked[1 - v, i] @ anchor / 0.5).exp()
            # Ten samples were drawn; those of other classes speak for all ten.
            torch.testing.assert_close(losses[v, i], -(positive / (positive + 10 * mean)).log())


def test_oracle_without_a_true_negative_has_no_negative_term() -> None:
    z0, z1 = (view.requires_grad_() for view in views_of(4))
    for streaming in (False, True):
        loss = OracleLoss(streaming=streaming)(z0, z1, labels=torch.zeros(4, dtype=torch.long))
        assert loss == 0
        assert (torch.autograd.grad(loss, z0)[0] == 0).all()


def test_oracle_with_distinct_labels_is_plain() -> None:
    z0, z1 = views_of()
    for streaming in (False, True):
        loss = OracleLoss(streaming=streaming)(z0, z1, labels=torch.arange(16))
        torch.testing.assert_close(loss, NTXentLoss()(z0, z1))


class TestMemoryBank:
    def test_compares_with_earlier_keys_alone(self) -> None:
        loss = PUCLLoss(memory_bank_size=24)
        steps = [views_of(8) for _ in range(5)]
        seen: list[torch.Tensor] = []
        for z0, z1 in steps:
            value = loss(z0, z1)
            if seen:
                expected = contrastive_loss(z0, z1, torch.cat(seen)[-24:], PUCL(), temperature=0.5)
                torch.testing.assert_close(value, expected)
            else:
                assert value == 0
            seen.append(z1)

    def test_first_step_trains_through(self) -> None:
        z0, z1 = (view.requires_grad_() for view in views_of())
        assert (torch.autograd.grad(PUCLLoss(memory_bank_size=64)(z0, z1), z0)[0] == 0).all()

    def test_gradient_after_the_queue_moved_on(self) -> None:
        """The backward pass comes after the push: it must see the keys that were compared."""
        loss = NTXentLoss(memory_bank_size=16)
        loss(*views_of())
        before = loss.queue.keys.clone() if loss.queue else torch.empty(0)
        z0, z1 = (view.requires_grad_() for view in views_of())
        gradients = [
            torch.autograd.grad(each, z0) for each in (loss(z0, z1), contrastive_loss(z0, z1, before, Plain()))
        ]
        torch.testing.assert_close(gradients[0], gradients[1])

    def test_never_meets_its_own_key(self) -> None:
        """The same sample came before: with its id it is left out, without it is met."""
        z0, z1 = views_of(8)
        ids = torch.arange(8)
        named, unnamed = PUCLLoss(memory_bank_size=16), PUCLLoss(memory_bank_size=16)
        for z in (z1, torch.randn_like(z1)):
            named(z0, z, ids=ids if z is z1 else ids + 8)
            unnamed(z0, z)
        assert unnamed.queue is not None
        keys = unnamed.queue.keys.clone()
        key_ids = torch.cat([ids, ids + 8])
        expected = contrastive_loss(z0, z1, keys, PUCL(), query_ids=ids, unlabelled_ids=key_ids)
        torch.testing.assert_close(named(z0, z1, ids=ids), expected)
        torch.testing.assert_close(unnamed(z0, z1), contrastive_loss(z0, z1, keys, PUCL()))
        assert expected < contrastive_loss(z0, z1, keys, PUCL())

    def test_survives_saving(self) -> None:
        loss = PUCLLoss(memory_bank_size=20)
        for _ in range(4):
            loss(*views_of(8), ids=torch.randint(0, 50, (8,)))
        file = io.BytesIO()
        torch.save(loss.state_dict(), file)
        file.seek(0)
        restored = PUCLLoss(memory_bank_size=20)
        restored.load_state_dict(torch.load(file, weights_only=True))
        for _ in range(3):
            z0, z1 = views_of(8)
            ids = torch.randint(0, 50, (8,))
            assert torch.equal(loss(z0, z1, ids=ids), restored(z0, z1, ids=ids))
        assert loss.queue is not None
        assert restored.queue is not None
        assert torch.equal(loss.queue.keys, restored.queue.keys)
        assert loss.queue.position == restored.queue.position == 56 % 20

    def test_stands_still_in_evaluation(self) -> None:
        loss = NTXentLoss(memory_bank_size=16)
        loss(*views_of(8))
        state = copy.deepcopy(loss.state_dict())
        with torch.no_grad():  # Validation, in which few think of the loss.
            loss(*views_of(8))
        assert all(torch.equal(state[name], value) for name, value in loss.state_dict().items())
        loss.eval()
        loss(*views_of(8))
        assert all(torch.equal(state[name], value) for name, value in loss.state_dict().items())

    def test_two_views_only(self) -> None:
        with pytest.raises(ValueError, match="expected two views, got 3"):
            NTXentLoss(memory_bank_size=8)(*related_views(4, 3, views=3))


class TestFloor:
    def test_the_user_is_told_once(self) -> None:
        z0, _ = views_of()
        loss = PUCLLoss(alpha=0.6, c=0.0, temperature=0.1)
        with pytest.warns(FlooredWarning, match=r"of the anchors are at the floor.*tau' = 0\.6 is too large"):
            loss(z0, z0 + 0.01 * torch.randn_like(z0))
        assert last_of(loss).floored == 1
        loss(z0, z0)  # Warnings are errors here: a second one would fail.

    @pytest.mark.parametrize("temperature", [0.05, 0.2, 0.25, 0.5])
    @pytest.mark.filterwarnings("ignore::pucl.FlooredWarning")
    def test_the_default_is_relative_at_low_temperatures_alone(self, temperature: float) -> None:
        z0, _ = views_of()
        views = z0, z0 + 0.3 * torch.randn_like(z0)
        expected: Floor = 0.1 if temperature < 0.25 else "temperature"
        loss, explicit = (PUCLLoss(alpha=0.3, temperature=temperature, **floor) for floor in ({}, {"floor": expected}))  # type: ignore[arg-type]
        assert torch.equal(loss(*views), explicit(*views))
        assert last_of(loss).floored > 0
        assert last_of(loss).floor == expected
        # A learnt temperature decides on its device.
        learnt = torch.tensor(temperature, dtype=torch.float64)
        torch.testing.assert_close(
            contrastive_loss(z0, views[1], z0.flip(0), PUCL(alpha=0.3), temperature=learnt),
            contrastive_loss(z0, views[1], z0.flip(0), PUCL(alpha=0.3), temperature=temperature, floor=expected),
        )
        # Jensen-Shannon keeps learning from positives, and keeps its floor.
        assert corrected_loss(pair_views(views, temperature=temperature), PUCL(), objective="jensen_shannon").floor == (
            "temperature"
        )

    @pytest.mark.filterwarnings("ignore::pucl.FlooredWarning")
    def test_scores_without_bound(self) -> None:
        """InfoNCE has no least value there, and would stop learning at once."""
        whole = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
        graph_of = torch.arange(4).repeat(2)
        pairs = pair_local_global(3 * whole.detach()[graph_of], whole, graph_of)
        outcome = corrected_loss(pairs, PUCL(alpha=0.4, c=0.0))
        assert outcome.floored > 0.5
        assert outcome.floor == 0.1
        assert torch.autograd.grad(outcome.loss.sum(), whole)[0].abs().max() > 1e-6
        assert corrected_loss(pairs, PUCL(), objective="jensen_shannon").floor == "temperature"

    def test_every_way_in_warns(self) -> None:
        z0, _ = views_of()
        z1 = z0 + 0.01 * torch.randn_like(z0)
        graph_of = torch.arange(16)
        high = PUCL(alpha=0.6, c=0.0)
        module = PUCLLoss(alpha=0.6, c=0.0, temperature=0.05)
        towers = pucl.adapters.TwoTowerLoss(PUCLLoss(alpha=0.6, c=0.0))
        labelled = pucl.adapters.MetricLearningLoss(PUCLLoss(alpha=0.6, c=0.0, temperature=0.05))
        ways: list[Callable[[], object]] = [
            lambda: module(z0, z1),
            lambda: towers(z0, z1, 20.0),
            lambda: labelled(torch.cat([z0, z1]), graph_of.repeat(2)),
            lambda: contrastive_loss(z0, z1, z0.flip(0), high, temperature=0.05, mask=~torch.eye(16).bool().flip(1)),
            lambda: corrected_loss(pair_views([z0, z1], temperature=0.05), high),
            lambda: local_global_loss(z0, z1, graph_of, high),
        ]
        for way in ways:
            with pytest.warns(FlooredWarning, match=r"of the anchors are at the floor.*tau' = 0\.6 is too large"):
                way()
        for adapter in (towers, labelled):
            assert adapter.last is last_of(adapter.loss)
            assert last_of(adapter.loss).floored == 1

    @pytest.mark.parametrize(
        ("floor", "effect"),
        [
            ("temperature", r"learn nothing from their negatives.*or set a relative floor such as 0\.1"),
            ("paper", "learn nothing from their negatives"),
            ("auto", r"count their unlabelled mean 0\.1 times, whatever the prior is"),
            (0.3, r"count their unlabelled mean 0\.3 times"),
        ],
    )
    def test_the_warning_says_what_the_floor_does(self, floor: Floor, effect: str) -> None:
        z0, _ = views_of()
        with pytest.warns(FlooredWarning, match=effect):
            PUCLLoss(alpha=0.6, c=0.0, temperature=0.05, floor=floor)(z0, z0 + 0.01 * torch.randn_like(z0))

    def test_functions_warn_once_for_each_line(self) -> None:
        """Of shares that differ a little, as they do from step to step."""
        z0, _ = views_of()
        outcome = corrected_loss(pair_views([z0, z0]), PUCL(alpha=0.0))
        watch = FloorWatch(once=False)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            for floored in (0.41, 0.61, 0.63, 0.68, 0.5):
                watch.look(dataclasses.replace(outcome, floored=torch.tensor(floored), tau_plus=0.2))
        assert [str(each.message)[:40] for each in caught] == ["at least 60% of the anchors are at the f"]

    @pytest.mark.slow
    def test_what_a_user_sees(self, tmp_path: Path) -> None:
        """In a process without the checks of shapes: warnings and errors name the line and the class of the user."""
        program = tmp_path / "training.py"
        program.write_text(
            "import torch, pucl\n"
            "from pucl.corrections import PUCL\n"
            "z = torch.randn(8, 4)\n"
            "pucl.functional.contrastive_loss(z, z, -z, PUCL(alpha=0.9, c=0.0), temperature=0.05)\n"
            "loss = pucl.PUCLLoss(alpha=0.9, c=0.0, temperature=0.05)\n"
            "loss(z, z)\n"
            "pucl.adapters.TwoTowerLoss(pucl.PUCLLoss(alpha=0.9, c=0.0))(z, z, 20.0)\n"
            "pucl.PUCLLoss(tau_plus=0.1)\n"
        )
        run = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)  # noqa: S603
        assert re.findall(r"training\.py:(\d+): FlooredWarning", run.stderr) == ["4", "6", "7"]
        assert "TypeError: PUCLLoss.__init__() got an unexpected keyword argument 'tau_plus'" in run.stderr

    @pytest.mark.filterwarnings("ignore::pucl.FlooredWarning")
    def test_the_three_floors(self) -> None:
        z0, _ = views_of()
        z1 = z0 + 0.01 * torch.randn_like(z0)
        temperature, count = 0.1, 30
        positive = torch.nn.functional.cosine_similarity(z0, z1).repeat(2) / temperature
        stacked = torch.nn.functional.normalize(torch.cat([z0, z1]), dim=1)
        logits = stacked @ stacked.T / temperature
        own = torch.arange(32)[:, None] % 16 == torch.arange(32) % 16
        mean = logits.masked_fill(own, -torch.inf).logsumexp(1).exp() / count
        expected = {
            "temperature": torch.tensor(-1 / temperature).exp(),
            "paper": torch.tensor(-1.0).exp(),
            0.2: 0.2 * mean,
        }
        for floor, least in expected.items():
            loss = PUCLLoss(alpha=0.6, c=0.0, temperature=temperature, floor=floor, reduction="none")  # type: ignore[arg-type]
            value = loss(z0, z1)
            assert last_of(loss).floored == 1
            torch.testing.assert_close(value, torch.log1p(count * least / positive.exp()), check_dtype=False)

    @pytest.mark.filterwarnings("ignore::pucl.FlooredWarning")
    def test_only_a_relative_floor_still_teaches_about_the_unlabelled(self) -> None:
        query, positive = related_views(4, 6, noise=0.01)
        unlabelled = torch.randn(9, 6, dtype=torch.float64)
        for floor, teaches in (("temperature", False), ("paper", False), (0.1, True)):
            leaf = unlabelled.clone().requires_grad_()
            loss = contrastive_loss(query, positive, leaf, PUCL(alpha=0.6, c=0), temperature=0.2, floor=floor)  # type: ignore[arg-type]
            assert bool((torch.autograd.grad(loss, leaf)[0] != 0).any()) == teaches


class TestBadInput:
    @pytest.mark.parametrize(
        ("build", "message"),
        [
            (lambda: PUCLLoss(alpha=1.0), r"alpha is the share of positives.*0 <= alpha < 1, got 1\.0"),
            (lambda: PUCLLoss(alpha=-0.1), "alpha is the share"),
            (lambda: PUCLLoss(alpha=float("nan")), "alpha is the share"),
            (lambda: PUCLLoss(c=1.5), r"c is the share of positives that is labelled.*got 1\.5"),
            (lambda: PUCLLoss(beta=-1.0), "beta is the concentration on hard samples.*got -1"),
            (lambda: pucl.DebiasedLoss(tau_plus=1), "tau_plus is the share of hidden positives"),
            (lambda: RingLoss(lower=0.5, upper=0.5), "the band from lower to upper.*lower < upper"),
            (lambda: RingLoss(lower=0.0, upper=1.2), "the band from lower to upper"),
            (lambda: NTXentLoss(temperature=0), "temperature is what similarities are divided by.*got 0"),
            (lambda: NTXentLoss(temperature=float("inf")), "temperature"),
            (lambda: NTXentLoss(temperature=1e-46), "expected 1e-06 <= temperature < inf, got 1e-46"),
            (lambda: NTXentLoss(floor=None), "floor is the lower limit.*got None"),  # type: ignore[arg-type]
            (lambda: NTXentLoss(floor="zero"), "floor is the lower limit.*got 'zero'"),  # type: ignore[arg-type]
            (lambda: NTXentLoss(floor=1.5), "floor is the lower limit"),
            (lambda: NTXentLoss(reduction="avg"), "reduction combines.*got 'avg'"),  # type: ignore[arg-type]
            *(
                (
                    lambda size=size: NTXentLoss(memory_bank_size=size),
                    f"memory_bank_size is .* got {re.escape(repr(size))}",
                )
                for size in (-3, 3.5, True, "8", None, (), (8, 2, 3), (8.0, 2), (8, True), (-8, 2))
            ),
            (lambda: NTXentLoss(memory_bank_size=(8, 0)), "dim is the dimension of the embeddings"),
            (lambda: OracleLoss(memory_bank_size=8), "labels are unknown"),
            (lambda: NTXentLoss(objective="nce"), "objective is the form of the loss"),  # type: ignore[arg-type]
            (
                lambda: PUCLLoss(floor="paper", objective="jensen_shannon"),
                "expected objective 'infonce', got 'jensen_shannon'",
            ),
        ],
    )
    def test_settings(self, build: Callable[[], object], message: str, without_shape_checks: None) -> None:
        with pytest.raises(ValueError, match=message):
            build()

    @pytest.mark.parametrize(
        ("views", "error", "message"),
        [
            ([torch.randn(4, 3)], ValueError, "expected at least two views, got 1"),
            ([torch.randn(1, 3)] * 2, ValueError, "expected a batch of at least 2, got 1"),
            ([torch.randn(0, 3)] * 2, ValueError, r"z0 holds embeddings: expected at least one.*\(0, 3\)"),
            ([torch.randn(4, 3), torch.randn(5, 3)], ValueError, r"the same shape, got \(4, 3\) and \(5, 3\)"),
            ([torch.randn(4, 3), torch.randn(4, 2)], ValueError, "the same dimension, got 3 and 2"),
            ([torch.randn(4), torch.randn(4)], ValueError, r"expected the shape \[batch, dim\], got \(4,\)"),
            (
                [torch.ones(4, 3, dtype=torch.int64)] * 2,
                TypeError,
                "expected a floating-point tensor of 16, 32 or 64 bits, got torch.int64",
            ),
            ([[1.0, 2.0]] * 2, TypeError, "expected a torch tensor, got list"),
            ([torch.full((4, 3), torch.nan)] * 2, ValueError, "NaN, infinite or overflowing values in 4 of 4 vectors"),
            ([torch.randn(4, 3), torch.full((4, 3), torch.inf)], ValueError, "z1 holds embeddings: expected finite"),
            ([torch.randn(4, 3), torch.randn(4, 3, device="meta")], ValueError, "one device, got cpu and meta"),
            ([torch.randn(4, 3, device="meta")] * 2, ValueError, "expected numbers, got a tensor on the meta device"),
            (
                [torch.randn(4, 3).to_sparse()] * 2,
                TypeError,
                r"dense tensor, got a torch.sparse_coo one.*\.to_dense\(\)",
            ),
            ([torch.randn(4, 3, dtype=torch.complex64)] * 2, TypeError, "16, 32 or 64 bits, got torch.complex64"),
            ([torch.randn(4, 3).to(torch.float8_e5m2)] * 2, TypeError, "16, 32 or 64 bits, got torch.float8_e5m2"),
        ],
    )
    def test_embeddings(
        self, views: list[torch.Tensor], error: type[Exception], message: str, without_shape_checks: None
    ) -> None:
        for loss in (PUCLLoss(), PUCLLoss(streaming=True)):
            with pytest.raises(error, match=message):
                loss(*views)

    @pytest.mark.parametrize("bank", [0, 8])
    def test_ids(self, bank: int, without_shape_checks: None) -> None:
        z0, z1 = views_of(4)
        loss = NTXentLoss(memory_bank_size=bank)
        wrong: list[tuple[Any, type[Exception], str]] = [
            (torch.rand(4), ValueError, "ids names the sample of each row: expected 4 integers, got torch.float32"),
            (torch.arange(3), ValueError, r"expected 4 integers, got torch.int64 of shape \(3,\)"),
            ([0, 1, 2, 3], TypeError, "ids names the sample of each row: expected a torch tensor, got list"),
        ]
        if bank:
            wrong.append((torch.arange(4) - 1, ValueError, "expected none below 0, got -1"))
        for ids, error, message in wrong:
            with pytest.raises(error, match=message):
                loss(z0, z1, ids=ids)
        loss(z0, z1, ids=torch.arange(4, dtype=torch.int32))
        if loss.queue is not None:
            assert loss.queue.contents()[1].tolist() == [0, 1, 2, 3]  # And nothing of the calls before.
        with pytest.raises(ValueError, match="expected labels of at least 0, got -1"):
            OracleLoss()(z0, z1, labels=torch.tensor([0, 1, -1, 1]))

    def test_a_class_is_no_correction(self, without_shape_checks: None) -> None:
        with pytest.raises(TypeError, match="expected a Correction, got <class"):
            ContrastiveLoss(PUCL)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("changes", "error", "message"),
        [
            ({"positive": K[:3]}, ValueError, "one row for each of the 4 anchors in query, got 3"),
            ({"unlabelled": U[:0]}, ValueError, "at least one.*got"),
            ({"unlabelled": U.expand(2, 6, 3)}, ValueError, "expected one for each of the 4 anchors in query, got 2"),
            ({"unlabelled": U.T}, ValueError, r"the same dimension, got 3 and 6; .* so pass unlabelled\.T"),
            ({"unlabelled": U.to_sparse()}, TypeError, "unlabelled holds embeddings: expected a dense tensor"),
            ({"mask": torch.ones(4, 6)}, ValueError, r"mask says which samples count.*\(4, 6\).*got torch.float32"),
            ({"mask": [True] * 6}, TypeError, "mask says which samples count: expected a bool tensor, got list"),
            (
                {"mask": torch.ones(4, 6, dtype=torch.bool, device="meta")},
                ValueError,
                "mask goes with the embeddings: expected it on cpu, got meta",
            ),
            ({"query_ids": torch.arange(4)}, ValueError, "expected both or neither, got one"),
            ({"query": Q * 9, "normalize": False}, ValueError, "expected vectors of length one, got one of length"),
            ({"objective": "nce"}, ValueError, "objective is the form of the loss.*got 'nce'"),
            ({"correction": Ring(lower=0.0, upper=0.1)}, ValueError, "at least one of the 6 unlabelled samples"),
        ],
    )
    def test_functional(
        self, changes: dict[str, Any], error: type[Exception], message: str, without_shape_checks: None
    ) -> None:
        given: dict[str, Any] = {"query": Q, "positive": K, "unlabelled": U, "correction": Plain()}
        with pytest.raises(error, match=message):
            contrastive_loss(**given | changes)

    def test_temperatures_and_scales(self, without_shape_checks: None) -> None:
        z0, z1 = views_of(4)
        for wrong in (torch.tensor(1e-46, dtype=torch.float64), torch.tensor(1e-20), torch.tensor(float("nan"))):
            with pytest.raises(ValueError, match="temperature is .* expected 1e-06 <= temperature < inf"):
                contrastive_loss(z0, z1, z1, Plain(), temperature=wrong)
        with pytest.raises(ValueError, match="temperature goes with the embeddings: expected it on cpu, got meta"):
            contrastive_loss(z0, z1, z1, Plain(), temperature=torch.tensor(0.5, device="meta"))
        for word in ("0.5", None, True):
            with pytest.raises(TypeError, match="temperature is .* expected a number or a tensor of one"):
                NTXentLoss(temperature=word)  # type: ignore[arg-type]
        two = pucl.adapters.TwoTowerLoss(NTXentLoss())
        for scale in (1e39, float("inf"), float("nan"), -1.0, torch.tensor(0.0), torch.tensor(1e30)):
            with pytest.raises(ValueError, match="logit_scale is 1 / temperature: expected 0 < logit_scale"):
                two(z0, z1, scale)
        with pytest.raises(ValueError, match="logit_scale is 1 / temperature: expected one number"):
            two(z0, z1, torch.ones(2))
        assert NTXentLoss(temperature=1e-6)(z0.float(), z1.float()).isfinite()

    def test_a_zero_vector_is_similar_to_nothing(self) -> None:
        z0, z1 = views_of(5)
        z0[2] = 0
        z0.requires_grad_()
        losses = PUCLLoss(temperature=0.1, reduction="none")(z0, z1)
        assert losses.isfinite().all()
        assert torch.autograd.grad(losses.mean(), z0)[0].abs().max() < 1e3

    def test_mixed_precision_is_computed_in_the_better_one(self) -> None:
        z0, z1 = views_of()
        assert PUCLLoss()(z0, z1.float()).dtype == torch.float64
        assert PUCLLoss()(z0.half(), z1.bfloat16()).dtype == torch.float32
        assert PUCLLoss()(z0.half(), z1.float()).dtype == torch.float32


class TestHalfPrecision:
    @every_loss
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    @pytest.mark.parametrize("streaming", [False, True])
    def test_under_autocast_the_loss_is_float32(self, make: Make, dtype: torch.dtype, streaming: bool) -> None:
        z0, z1 = (view.to(dtype) for view in views_of(32))
        exact = make(temperature=0.07)(z0.double(), z1.double())
        leaves = [z.clone().requires_grad_() for z in (z0, z1)]
        with torch.autocast("cpu", dtype=dtype):
            loss = make(temperature=0.07, streaming=streaming)(*leaves)
        loss.backward()
        assert loss.dtype == torch.float32
        torch.testing.assert_close(loss.double(), exact, rtol=2e-5, atol=1e-6)
        assert leaves[0].grad is not None
        assert leaves[0].grad.dtype == dtype
        assert leaves[0].grad.isfinite().all()

    def test_matrix_products_are_not_halved(self) -> None:
        """Float32 embeddings under autocast: a product in half precision would be off in the third digit."""
        z0, z1 = (view.float() for view in views_of(64))
        exact = NTXentLoss(temperature=0.05)(z0.double(), z1.double())
        for streaming in (False, True):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = NTXentLoss(temperature=0.05, streaming=streaming)(z0, z1)
            torch.testing.assert_close(loss.double(), exact, rtol=1e-6, atol=0)

    def test_back_inside_of_autocast(self) -> None:
        """With the scale that a gradient scaler begins with, half precision would overflow."""
        z0, z1 = (view.float() for view in views_of(64))
        gradients = []
        for inside in (True, False):
            leaf = z0.clone().requires_grad_()
            with torch.autocast("cpu", dtype=torch.float16, enabled=inside):
                loss = PUCLLoss(temperature=0.1, reduction="sum", streaming=True)(leaf, z1) * 65536
                loss.backward()
            gradients.append(leaf.grad)
        torch.testing.assert_close(*gradients)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_a_temperature_in_half_precision_is_divided_by_exactly(self, dtype: torch.dtype) -> None:
        views = views_of(16)
        for number in (0.07, 0.2):
            half = torch.tensor(number, dtype=dtype, requires_grad=True)
            pairs = pair_views(views, temperature=half)
            exact = corrected_loss(pair_views(views, temperature=half.item()), PUCL()).loss.mean()
            loss = corrected_loss(pairs, PUCL()).loss.mean()
            torch.testing.assert_close(loss, exact, rtol=1e-6, atol=0)
            loss.backward()
            assert half.grad is not None
        scale = torch.tensor(99.0, dtype=dtype)
        two = pucl.adapters.TwoTowerLoss(NTXentLoss())
        torch.testing.assert_close(two(*views, scale), two(*views, 99.0), rtol=1e-6, atol=0)


@pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])
@pytest.mark.parametrize(
    ("make", "queue"), [*((make, queue) for make in LOSSES for queue in (False, True)), (OracleLoss, False)]
)
def test_gradients_by_torch_func(make: Make, queue: bool, objective: ObjectiveName) -> None:
    """The same as by backward, for every loss; what it keeps can be read afterwards."""
    loss = make(streaming=False, objective=objective, memory_bank_size=32 if queue else 0)
    given = {"labels": torch.arange(16) % 4} if make is OracleLoss else {}
    if queue:
        for _ in range(2):
            loss(*views_of())
        loss.eval()  # A transform may not move a queue.
    z0, z1 = views_of()
    leaf = z0.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(leaf, z1, **given), leaf)
    torch.testing.assert_close(torch.func.grad(lambda z: loss(z, z1, **given))(z0), expected)
    assert repr(loss.last).startswith("Outcome(")


def test_hard_equals_published_form() -> None:
    """HCL's own formula: N sum h^(1+beta) / sum h^beta, debiased."""
    z0, z1 = views_of(8)
    tau, beta, t = 0.05, 0.7, 0.5
    stacked = torch.nn.functional.normalize(torch.cat([z0, z1]), dim=1)
    h = (stacked @ stacked.T / t).exp()
    keep = torch.arange(16)[:, None] % 8 != torch.arange(16) % 8
    negatives = h[keep].view(16, 14)
    positive = h[torch.arange(16), torch.arange(16).roll(8)]
    reweighted = 14 * negatives.pow(1 + beta).sum(1) / negatives.pow(beta).sum(1)
    estimate = (reweighted - 14 * tau * positive) / (1 - tau)
    expected = -(positive / (positive + estimate.clamp_min(14 * torch.tensor(-1 / t).exp()))).log()
    torch.testing.assert_close(corrected_loss(pair_views([z0, z1]), Hard(tau_plus=tau, beta=beta)).loss, expected)


class TestFoundInReview:
    """Each of these was wrong once."""

    @pytest.mark.parametrize("streaming", [False, True])
    def test_an_empty_band_is_an_error_in_the_usual_call_too(self, streaming: bool) -> None:
        with pytest.raises(ValueError, match="must hold at least one of the 6 unlabelled samples"):
            RingLoss(streaming=streaming)(*views_of(4))

    @every_loss
    @pytest.mark.parametrize("streaming", [False, True])
    @pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])
    def test_what_is_kept_has_no_graph(self, make: Make, streaming: bool, objective: str) -> None:
        loss = make(streaming=streaming, objective=objective)
        loss(*(view.requires_grad_() for view in views_of(64)))
        for value in vars(last_of(loss)).values():
            assert not (isinstance(value, torch.Tensor) and value.requires_grad)
        copy.deepcopy(loss)

    @pytest.mark.parametrize("make", [NTXentLoss, RingLoss], ids=lambda make: make.__name__)
    def test_a_second_derivative_is_refused_rather_than_wrong(self, make: Make) -> None:
        z0, z1 = (view.requires_grad_() for view in views_of(64))
        (gradient,) = torch.autograd.grad(make(streaming=True)(z0, z1), z0, create_graph=True)
        with pytest.raises(RuntimeError):
            gradient.square().sum().backward()

    @pytest.mark.parametrize("objective", ["infonce", "jensen_shannon"])
    def test_second_derivatives_of_the_dense_form(self, objective: ObjectiveName) -> None:
        torch.manual_seed(3)
        views = [torch.randn(4, 3, dtype=torch.float64, requires_grad=True) for _ in range(2)]
        loss = PUCLLoss(alpha=0.1, c=0.1, beta=1.0, streaming=False, objective=objective)
        assert torch.autograd.gradgradcheck(loss, views)

    @pytest.mark.parametrize("beta", [1e-40, 10.0, 100.0, 1e4])
    def test_a_steep_tilt_keeps_its_digits_in_float32(self, beta: float) -> None:
        """Loss and gradient of both forms against float64."""
        results = []
        for dtype, streaming in ((torch.float64, False), (torch.float32, False), (torch.float32, True)):
            torch.manual_seed(1)
            views = [view.to(dtype).requires_grad_() for view in views_of(32)]
            loss = pucl.HardLoss(tau_plus=0.01, beta=beta, temperature=0.05, streaming=streaming)
            value = loss(*views)
            results.append((value.detach().double(), torch.autograd.grad(value, views[0])[0].double()))
        scale = results[0][1].abs().max()
        for value, gradient in results[1:]:
            torch.testing.assert_close(value, results[0][0], rtol=1e-5, atol=0)
            assert (gradient - results[0][1]).abs().max() < 2e-3 * scale

    def test_a_step_that_went_wrong_does_not_spoil_the_queue(self) -> None:
        loss = NTXentLoss(memory_bank_size=16)
        z0, z1 = views_of(8)
        loss(z0, z1)
        assert loss.queue is not None
        loss.queue.push(torch.full_like(z1, torch.nan))
        assert loss(z0, z1).isfinite()

    def test_graphs(self, without_shape_checks: None) -> None:
        local, whole, graph_of = torch.randn(6, 3), torch.randn(3, 3), torch.tensor([0, 0, 1, 1, 2, 2])
        for wrong in (torch.nan, torch.inf):
            broken = local.clone()
            broken[2, 1] = wrong
            with pytest.raises(ValueError, match="local holds embeddings: expected finite numbers"):
                local_global_loss(broken, whole, graph_of, Plain())
        for shift, found in ((-1, "-1 to 1"), (1, "1 to 3")):
            with pytest.raises(ValueError, match=f"expected 0 to 2, got {found}"):
                local_global_loss(local, whole, graph_of + shift, Plain())
        assert local_global_loss(local * 0, whole, graph_of, Hard(), compat="hcl").isfinite()
        exact = local_global_loss(local, whole, graph_of, Hard(), compat="hcl")
        with torch.autocast("cpu", dtype=torch.float16):
            torch.testing.assert_close(local_global_loss(local, whole, graph_of, Hard(), compat="hcl"), exact)

    @pytest.mark.filterwarnings("ignore::pucl.FlooredWarning")
    def test_reports_are_of_anchors_with_a_positive(self) -> None:
        z = torch.randn(6, 4, dtype=torch.float64)
        z[1] = z[0]
        loss = PUCLLoss(alpha=0.5, c=0.0)
        value = pucl.adapters.MetricLearningLoss(loss)(z, torch.tensor([0, 0, 1, 2, 3, 4]))
        assert last_of(loss).positive_similarity == pytest.approx(1.0)
        assert last_of(loss).floored == 1  # Both of the two anchors that have one.
        torch.testing.assert_close(last_of(loss).loss.mean(), value)

    def test_adapters_refuse_what_they_cannot_do(self) -> None:
        for adapter in (pucl.adapters.MetricLearningLoss, pucl.adapters.TwoTowerLoss):
            with pytest.raises(ValueError, match="the oracle needs class labels"):
                adapter(OracleLoss())


def test_a_ring_in_a_queue_that_fills_up() -> None:
    """The band is one of the full queue: until then it keeps at least one sample."""
    loss = RingLoss(memory_bank_size=64)
    for _ in range(20):
        value = loss(*views_of(8))
    assert value > 0
    few = RingLoss(memory_bank_size=4)
    few(*views_of(8))
    with pytest.raises(ValueError, match="must hold at least one of the 4 unlabelled samples"):
        few(*views_of(8))


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_temperature_that_is_a_tensor(shape: tuple[int, ...], dtype: torch.dtype, without_shape_checks: None) -> None:
    query, positive = views_of(8)
    learned = torch.full(shape, 0.3, dtype=dtype, requires_grad=True)
    value = contrastive_loss(query, positive, query.flip(0), PUCL(alpha=0.1, c=0.1), temperature=learned)
    value.backward()
    assert learned.grad is not None
    assert learned.grad.abs().sum() > 0
    expected = contrastive_loss(query, positive, query.flip(0), PUCL(alpha=0.1, c=0.1), temperature=0.3)
    torch.testing.assert_close(value.detach(), expected)
    with pytest.raises(ValueError, match=r"divided by: expected one number, got torch.float32 of shape \(2,\)"):
        contrastive_loss(query, positive, query, Plain(), temperature=torch.ones(2))
