"""The paper's ablations: their rows, their pictures, and the axis on which the grid is one curve."""

import json
import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from pucl.cli import main
from pucl.paper import ablation_figure
from pucl.paper.ablation_figure import draw_alpha_c, draw_unlabelled
from pucl.paper.ablations import (
    ALPHAS,
    FREQUENCIES,
    UNLABELLED,
    alpha_and_c,
    lines_over_unlabelled,
    part_of_ablation,
)
from pucl.runs.rows import make_row


def test_alpha_and_c() -> None:
    part = part_of_ablation("alpha-c", budget="small")
    found = alpha_and_c(part.rows)
    assert sorted(found.values()) == sorted((alpha, c) for alpha in ALPHAS for c in FREQUENCIES)
    assert part.rows.keys() - found.keys() == {"untrained", "plain", "oracle"}
    assert part.base in part.rows
    assert len({config.batch_size for config in part.rows.values()}) == 1


def test_unlabelled() -> None:
    part = part_of_ablation("unlabelled", budget="small")
    found = lines_over_unlabelled(part.rows)
    assert {count for count, _ in found.values()} == set(UNLABELLED)
    assert {line for _, line in found.values()} == {"plain", "oracle", *(f"alpha = {alpha:g}" for alpha in ALPHAS)}
    assert len(set(found.values())) == len(part.rows)
    assert {config.batch_size for config in part.rows.values()} == {32, 64, 128, 256}
    assert part.base in part.rows


def test_bundled_data_stand_in(tmp_path: Path) -> None:
    part = part_of_ablation("alpha-c", budget="quick", root=tmp_path)
    assert part.name == "simclr-digits"
    assert "in place of cifar10" in part.note


@pytest.mark.parametrize("subject", ["alpha-c", "unlabelled"])
@pytest.mark.parametrize("seeds", [1, 2])
def test_axes_end_at_100_percent_and_one_seed_has_no_bars(
    subject: str, seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Figure] = []

    def keep(figure: Figure) -> bytes:
        figures.append(figure)
        return b""

    monkeypatch.setattr(ablation_figure, "as_png", keep)
    part = part_of_ablation(subject, budget="small")
    lines = [
        make_row(
            name, config.correction, {seed: {"retrieval": 1 - 0.01 * seed, "seconds": 1.0} for seed in range(seeds)}
        )
        for name, config in part.rows.items()
    ]
    draw = draw_alpha_c if subject == "alpha-c" else draw_unlabelled
    draw(lines, part.rows)
    for axes in figures[0].axes:
        assert axes.get_ylim()[1] == 100
        assert any(bars.has_yerr for bars in axes.containers) == (seeds > 1)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("pucl.paper.ablations.ALPHAS", (0.1,))
    monkeypatch.setattr("pucl.paper.ablations.FREQUENCIES", (0.02,))
    command = ["ablate", "alpha-c", "--budget=quick", "--seeds=1", "--epochs=1", "--workers=1", "--no-page"]
    assert main([*command, "--root", str(tmp_path / "root"), "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "alpha 0.1, c 0.02" in printed
    assert "in place of cifar10" in printed
    assert (tmp_path / "out" / "alpha-c.png").exists()


@pytest.mark.slow
def test_settings_of_graphs(few_graphs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Judged on the folds by which C is chosen, and on no other."""
    command = ["ablate", "graphs", f"--data={few_graphs}", "--variants=reference", "--seeds=2"]
    out = tmp_path / "out"
    assert main([*command, "--workers=1", "--root", str(tmp_path), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("FEW, validation accuracy")
    assert "FEW/reference" in (out / "report.html").read_text()
    record = json.loads((out / "settings.json").read_text())
    assert record["priors"] == {"FEW": pytest.approx(0.25, abs=0.02)}
    first = record["settings"][0]
    assert (first["data"], first["variant"], first["probe"]) == ("FEW", "reference", "svm")
    runs = [out / "few" / "reference" / "plain" / f"seed-{seed}" / "result.json" for seed in range(2)]
    validation = [100 * json.loads(run.read_text())["validation"]["svm"] for run in runs]
    assert first["plain"]["mean"] == pytest.approx(sum(validation) / 2)
    (part,) = json.loads((out / "table.json").read_text())["data"].values()
    plain = next(line for line in part["lines"] if line["name"] == "plain")
    assert plain["scores"].keys() == {"svm", "svm_scaled"}
    assert plain["by_seed"]["svm"] == pytest.approx(validation)

    taken = out / "few" / "reference" / "oracle" / "seed-0"
    shutil.rmtree(taken)
    taken.mkdir()
    (taken / "thesis.tex").write_text("mine")
    assert main([*command, "--workers=1", "--no-page", "--root", str(tmp_path), "--out", str(out)]) == 1
    assert "failed: FEW/reference, oracle, seed 0: " in capsys.readouterr().err
    first, *_ = json.loads((out / "settings.json").read_text())["settings"]
    assert first["plain"]["count"] == 2
    assert first["oracle"]["low"] is None  # One seed in common with plain gives no interval.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["alpha"], "'alpha' is no ablation: expected one of alpha-c, unlabelled, graphs. Did you mean 'alpha-c'?"),
        (["alpha-c", "--variants=reference"], "--variants is for graphs, not for alpha-c"),
        (["graphs", "--budget=quick"], "--budget is for images, not for graphs"),
        (["graphs", "--variants=referense"], "Did you mean 'reference'?"),
        (["graphs", "--data=,"], "a search has sets of graphs: expected at least one, each once, got none"),
        (["graphs", "--data=dd,DD"], "expected at least one, each once, got DD, DD"),
        (
            ["graphs", "--variants=;"],
            "variants are the settings to compare: expected at least one, each once, got none",
        ),
        (["alpha-c", "--budget=quik"], "Did you mean 'quick'?"),
    ],
)
def test_wrong_arguments(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["ablate", *arguments]) == 2
    assert message in capsys.readouterr().err
