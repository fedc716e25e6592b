"""The world on the sphere against integrals and plain loops; the command from its arguments to its files."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pucl.cli import main
from pucl.commands import theory as command
from pucl.corrections import PUCL
from pucl.functional import pair_up
from pucl.paper.theory import lemma
from pucl.paper.theory.estimates import Estimate, controlled_means
from pucl.paper.theory.lemma import DensityCheck, SampleCheck, check_lemma_densities, check_lemma_samples
from pucl.paper.theory.sweeps import TheoryResult, TheorySettings, check_theory
from pucl.paper.theory.trials import Anchors, run_trials
from pucl.paper.theory.world import World, unlabelled_density
from pucl.shapes import Float, Tensor

SMALL = TheorySettings(
    trials=500,
    draws=20_000,
    unlabelled=128,
    unlabelled_sweep=(16, 512),
    alpha_sweep=(0.05, 0.3),
    c_sweep=(0.0, 0.5, 1.0),
)
TINY = ["--trials", "100", "--draws", "2000", "--unlabelled", "32"]


@pytest.fixture(scope="module")
def small() -> TheoryResult:
    return check_theory(SMALL)


def fixed_generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sphere() -> tuple[Float[Tensor, "node 3"], Float[Tensor, " node"]]:
    """Nodes and weights that integrate smooth functions over the sphere to about rounding."""
    heights, weights = np.polynomial.legendre.leggauss(120)
    turns = np.arange(240) * math.tau / 240
    height, turn = (grid.ravel() for grid in np.meshgrid(heights, turns, indexing="ij"))
    radius = np.sqrt(1 - height**2)
    nodes = np.stack([radius * np.cos(turn), radius * np.sin(turn), height], axis=1)
    return torch.from_numpy(nodes), torch.from_numpy(np.repeat(weights, 240) * math.tau / 240)


def draw_anchors(world: World, count: int, positives: int, unlabelled: int) -> Anchors:
    return Anchors.draw(world, count, positives=positives, most=unlabelled, generator=fixed_generator())


@pytest.mark.parametrize(("classes", "concentration"), [(2, 0.5), (3, 1e-6), (10, 10.0), (7, 60.0)])
def test_densities_integrate_to_one(classes: int, concentration: float) -> None:
    nodes, weights = sphere()
    for density in World(classes=classes, concentration=concentration).densities(nodes):
        assert float(density @ weights) == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("temperature", [1.0, 0.5, 0.1])
def test_mean_h_is_the_integral_of_h_under_the_density(temperature: float) -> None:
    world = World(classes=5, concentration=10.0)
    anchors = world.sample_positives(6, generator=fixed_generator())
    nodes, weights = sphere()
    h = torch.exp(anchors @ nodes.T / temperature)
    for mean, density in zip(world.mean_h(anchors, temperature), world.densities(nodes), strict=True):
        torch.testing.assert_close(mean, h @ (density * weights), rtol=1e-9, atol=0)


@pytest.mark.parametrize("concentration", [0.5, 10.0, 200.0])
def test_samples_follow_their_law(concentration: float) -> None:
    world = World(classes=4, concentration=concentration)
    points = world.sample(torch.full((100_000,), 2), fixed_generator())
    torch.testing.assert_close(points.norm(dim=1), torch.ones(100_000, dtype=torch.float64))
    resultant = 1 / math.tanh(concentration) - 1 / concentration
    height = points @ world.means[2]
    for sampled, expected in ((height, resultant), (height**2, 1 - 2 * resultant / concentration)):
        assert float(sampled.mean()) == pytest.approx(expected, abs=4 * float(sampled.std()) / 100_000**0.5)
    # Around the mean no direction is preferred.
    sideways = points - height[:, None] * world.means[2]
    assert sideways.mean(dim=0).abs().max() < 4 * sideways.std() / 100_000**0.5


@pytest.mark.parametrize(("alpha", "c"), [(0.12, 0.1), (0.5, 0.0), (0.9, 0.7), (0.05, 1.0)])
def test_lemma_holds_as_densities(alpha: float, c: float) -> None:
    world = World(classes=10, concentration=10.0)
    assert check_lemma_densities(world, alpha, c, points=2000, generator=fixed_generator()).largest_error < 1e-14


def test_a_wrong_lemma_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lemma, "unlabelled_density", lambda p, n, alpha, c: unlabelled_density(p, n, alpha, c + 1e-9))
    check = check_lemma_densities(
        World(classes=10, concentration=10.0), 0.12, 0.1, points=2000, generator=fixed_generator()
    )
    assert not check.holds


@pytest.mark.parametrize(("alpha", "c", "tau_plus"), [(0.12, 0.1, 0.10931), (0.5, 0.8, 1 / 6), (0.3, 1.0, 0.0)])
def test_lemma_holds_on_thinned_data(alpha: float, c: float, tau_plus: float) -> None:
    world = World(classes=10, concentration=10.0)
    checks = check_lemma_samples(world, alpha, c, temperature=0.5, draws=100_000, generator=fixed_generator())
    assert len(checks) == 3
    assert all(check.holds for check in checks)
    assert checks[0].expected == pytest.approx(tau_plus, abs=1e-5)
    assert checks[0].measured.value == pytest.approx(tau_plus, abs=0.006)


def test_a_surprising_sample_fails_its_check() -> None:
    check = SampleCheck(quantity="a share", expected=0.1, measured=Estimate(0.15, 0.01))
    assert check.deviation == pytest.approx(5)
    assert not check.holds
    assert replace(check, expected=0.12).holds


def test_unlabelled_samples_hold_the_share_of_positives_that_is_left() -> None:
    anchors = draw_anchors(World(classes=10, concentration=10.0), 200, 1, 200)
    tau_plus = PUCL(alpha=0.4, c=0.3).tau_plus
    unlabelled = anchors.unlabelled(150, tau_plus)
    is_hidden = (unlabelled == anchors.hidden[:, :150]).all(dim=-1)
    assert ((unlabelled == anchors.negative[:, :150]).all(dim=-1) == ~is_hidden).all()
    assert float(is_hidden.double().mean()) == pytest.approx(0.4 * 0.7 / (1 - 0.4 * 0.3), abs=0.01)


def test_losses_are_those_of_the_paper() -> None:
    alpha, c, t, n = 0.12, 0.1, 0.5, 40
    world = World(classes=4, concentration=5.0)
    anchors = draw_anchors(world, 5, 3, n)
    trials = run_trials(anchors, world, PUCL(alpha=alpha, c=c), n, t)
    assert float(trials.floored.max()) == 0
    unlabelled = anchors.unlabelled(n, alpha * (1 - c) / (1 - alpha * c))
    mu = world.mean_h(anchors.anchor, t)[1].tolist()
    exact_of_one = []
    for a in range(5):

        def h(points: Tensor, anchor: Tensor = anchors.anchor[a]) -> list[float]:
            return [math.exp(sum(map(float, anchor * point)) / t) for point in points]

        def mean_loss(positives: list[float], total: float) -> float:
            return sum(-math.log(p / (p + total)) for p in positives) / len(positives)

        positives, negatives, others = h(anchors.positive[a]), h(anchors.negative[a]), h(unlabelled[a])
        scaled = (1 - alpha * c) / (1 - alpha) * sum(others) / n
        taken = alpha * (1 - c) / (1 - alpha)
        ideal, standard, exact, one, several = trials.losses[a].tolist()
        assert ideal == pytest.approx(mean_loss(positives, sum(negatives)))
        assert standard == pytest.approx(mean_loss(positives, sum(others)))
        assert exact == pytest.approx(mean_loss(positives, n * mu[a]))
        assert several == pytest.approx(mean_loss(positives, n * (scaled - taken * sum(positives) / 3)))
        # With one positive, the difference to the exact loss with that positive is what counts.
        exact_of_one.append(mean_loss(positives[:1], n * mu[a]))
        of_one = mean_loss(positives[:1], n * (scaled - taken * positives[0]))
        assert one - exact == pytest.approx(of_one - exact_of_one[a])


def test_corrected_mean_is_unbiased_before_the_logarithm() -> None:
    world, correction, t = World(classes=10, concentration=10.0), PUCL(alpha=0.3, c=0.2), 0.5
    anchors = draw_anchors(world, 2000, 1, 64)
    unlabelled = anchors.unlabelled(64, correction.tau_plus)
    comparison = pair_up(anchors.anchor, anchors.positive, unlabelled, temperature=t).comparison()
    estimate = (1 + correction.odds) * comparison.unlabelled.exp().mean(dim=1)
    estimate -= correction.odds * comparison.positive.exp().mean(dim=1)
    excess = estimate - world.mean_h(anchors.anchor, t)[1]
    assert abs(float(excess.mean())) < 4 * float(excess.std()) / 2000**0.5
    assert float(excess.mean() + correction.odds) > 4 * float(excess.std()) / 2000**0.5  # It could have been seen.


def test_controls_take_noise_out_and_leave_the_mean() -> None:
    generator = fixed_generator()
    control = torch.randn(2000, 2, dtype=torch.float64, generator=generator)
    noise = torch.randn(2000, 1, dtype=torch.float64, generator=generator)
    values = 3 + 5 * control[:, :1] - control[:, 1:] + 0.1 * noise
    mean, error = controlled_means(values, control)
    assert float(error) == pytest.approx(0.1 / 2000**0.5, rel=0.1)
    assert float(mean) == pytest.approx(3, abs=4 * float(error))
    # Coinciding controls are one control.
    twice = controlled_means(values, torch.cat([control, control], dim=1))
    torch.testing.assert_close(twice[0], mean)


def test_controlled_biases_agree_with_plain_averages() -> None:
    world = World(classes=10, concentration=10.0)
    trials = run_trials(draw_anchors(world, 3000, 8, 32), world, PUCL(alpha=0.3, c=0.1), 32, 0.5)
    difference = trials.losses[:, 1:] - trials.losses[:, :1]
    mean, error = controlled_means(difference, torch.cat([trials.controls, trials.unlabelled_controls], dim=1))
    plain_error = difference.std(dim=0) / 3000**0.5
    assert (error < 0.8 * plain_error).all()
    assert ((mean - difference.mean(dim=0)).abs() < 4 * plain_error).all()


def test_correction_takes_off_nearly_all_of_the_bias(small: TheoryResult) -> None:
    base = small.base
    assert base.unlabelled == 128
    assert base.corrected_one.floored == base.corrected_several.floored == 0
    assert base.standard.bias.value > 0.2
    assert abs(base.corrected_one.bias.value) < 0.1 * base.standard.bias.value
    assert abs(base.corrected_several.bias.value) < 0.05 * base.standard.bias.value
    assert base.standard.loss == pytest.approx(base.ideal.value + base.standard.bias.value)


def test_biases_move_as_they_should(small: TheoryResult) -> None:
    for name in ("corrected_several", "exact"):
        few, many = (
            abs(getattr(row, name).bias.value) for row in (small.over_unlabelled[0], small.over_unlabelled[-1])
        )
        assert few > 5 * many
    in_alpha = [row.standard.bias.value for row in small.over_alpha]
    assert in_alpha == sorted(in_alpha)
    in_c = [row.standard.bias.value for row in small.over_c]
    assert in_c == sorted(in_c, reverse=True)


def test_where_all_positives_are_labelled_nothing_is_left_to_correct(small: TheoryResult) -> None:
    row = small.over_c[-1]
    assert row.c == 1
    assert row.tau_plus == 0
    assert row.standard.bias.value == 0
    assert abs(row.corrected_one.bias.value) <= 4 * row.corrected_one.bias.error


def test_theorem_holds_and_jensen_gives_the_sign(small: TheoryResult) -> None:
    assert small.lemma_holds
    assert small.bound_holds
    for row in small.rows:
        assert 0 < row.exact.bias.value < row.bound


def test_a_broken_bound_would_be_noticed(small: TheoryResult) -> None:
    broken = replace(small.base, bound=small.base.exact.bias.value * 0.99)
    assert not replace(small, over_alpha=(broken,)).bound_holds


def test_seed_decides_everything(small: TheoryResult) -> None:
    quick = replace(SMALL, trials=100, draws=1000, unlabelled_sweep=(), alpha_sweep=(), c_sweep=())
    first, again, other = (json.dumps(check_theory(replace(quick, seed=seed)).as_json()) for seed in (3, 3, 4))
    assert first == again
    assert first != other
    assert "NaN" not in json.dumps(small.as_json())


def test_number_of_threads_changes_nothing_and_is_left_alone() -> None:
    quick = replace(SMALL, trials=100, draws=1000, alpha_sweep=(), c_sweep=())
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(check_theory(quick).as_json())
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"alpha": 0.0}, "alpha is the share of positives in the data: expected 0 < alpha < 1, got 0.0"),
        ({"alpha": 1.0}, "alpha is the share"),
        ({"alpha_sweep": (0.5, 1.5)}, "got 1.5"),
        ({"c": 1.1}, "c is the share of positives that are labelled: expected 0 <= c <= 1, got 1.1"),
        ({"c": math.nan}, "c is the share"),
        ({"temperature": 0.0}, "temperature is the divisor of similarities: expected 0.01 to 100, got 0.0"),
        ({"classes": 1}, "classes is the number of classes: expected 2 to 1000, got 1"),
        ({"concentration": -1.0}, "concentration is the concentration of a class"),
        ({"unlabelled": 0}, "unlabelled is the number N"),
        ({"positives": 1}, "positives is the larger number"),
        ({"trials": 1}, "trials is the number of anchors to average over: expected at least 100, got 1"),
        ({"draws": 10}, "draws is the size"),
        ({"seed": -1}, "seed is the seed of the random numbers"),
    ],
)
def test_bad_settings_are_refused(setting: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        replace(SMALL, **setting)  # type: ignore[arg-type]


def test_too_few_samples_of_a_kind() -> None:
    """Without labelled samples their check is left out; without unlabelled samples nothing can be checked."""
    world = World(classes=3, concentration=5.0)
    assert len(check_lemma_samples(world, 0.2, 0.0, temperature=0.5, draws=1000, generator=fixed_generator())) == 2
    with pytest.raises(ValueError, match="expected enough to leave 100 unlabelled samples, got 1000"):
        check_lemma_samples(world, 0.99, 1.0, temperature=0.5, draws=1000, generator=fixed_generator())


@pytest.mark.slow
def test_command_from_arguments_to_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pucl.progress.QUIET_SECONDS", 0.0)
    out = tmp_path / "new" / "folder"
    given = ["theory", "--out", str(out), *TINY, "--alpha", "0.25"]
    assert main(given) == 0
    printed, progress = capsys.readouterr()
    for path in (out / "theory.json", out / "theory.png"):
        assert str(path) in printed
    assert "holds" in printed
    assert "FAILS" not in printed
    assert "100% of the work" in progress
    files = {path.name: path.read_bytes() for path in out.iterdir()}
    assert sorted(files) == ["theory.json", "theory.png"]
    assert files["theory.png"].startswith(b"\x89PNG")
    record = json.loads(files["theory.json"])
    assert record["command"] == f"pucl {' '.join(given)}"
    assert record["settings"]["alpha"] == 0.25
    assert [row["alpha"] for row in record["over_alpha"]] == [0.02, 0.05, 0.12, 0.2, 0.25, 0.3, 0.4, 0.5]
    assert record["lemma_holds"] is True
    assert record["bound_holds"] is True
    assert main(given) == 0
    assert files == {path.name: path.read_bytes() for path in out.iterdir()}


def test_command_without_matplotlib_still_writes_the_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, small: TheoryResult
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr(command, "check_theory", lambda *_: small)
    (tmp_path / "theory.png").write_bytes(b"of an earlier run")
    assert main(["theory", "--out", str(tmp_path)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["theory.json"]
    printed = capsys.readouterr().out
    assert "not drawn" in printed
    assert "pip install '.[plot]'" in printed


def test_command_tells_of_a_failed_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, small: TheoryResult
) -> None:
    failed = replace(small, lemma_densities=DensityCheck(points=10, largest_error=0.5))
    monkeypatch.setattr(command, "check_theory", lambda *_: failed)
    monkeypatch.setattr(command, "draw_theory", lambda _: b"")
    assert main(["theory", "--out", str(tmp_path)]) == 1
    assert "FAILS" in capsys.readouterr().out


def test_command_refuses_a_file_for_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = tmp_path / "notes.txt"
    taken.write_text("mine")
    assert main(["theory", "--out", str(taken), *TINY]) == 2
    assert "--out is the directory of the results" in capsys.readouterr().err
    assert taken.read_text() == "mine"
