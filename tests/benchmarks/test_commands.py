"""Each benchmark as a command: options, the record, what is refused. How fast anything is, no test says."""

import argparse
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import ranking
from benchmarks.__main__ import SUBJECTS, main
from benchmarks.memory import Peak
from benchmarks.options import Settings, add_options, command_line, option


@dataclass(frozen=True, kw_only=True)
class Toy(Settings):
    sizes: tuple[int, ...] = option((1, 2), "which sizes")
    names: tuple[str, ...] = option(("a",), "which names")
    share: float = option(0.5, "what share")
    limit: int | None = option(None, "how many (default: all)", least=2)
    root: Path | None = option(None, "where (default: here)")
    cores: int = option(lambda: 3, "how many cores")
    kind: str = option("plain", "which kind")
    memory: bool = option(True, "measure memory")


def read(kind: type[Settings], words: list[str]) -> Settings:
    parser = argparse.ArgumentParser()
    add_options(parser, kind)
    return kind(**vars(parser.parse_args(words)))


CHANGED = Toy(sizes=(7,), names=("b", "c"), share=0.25, limit=3, root=Path("x"), cores=1, kind="new", memory=False)


@pytest.mark.parametrize("settings", [Toy(), CHANGED, *(kind() for kind, _ in SUBJECTS.values())])
def test_command_line_repeats_the_settings(settings: Settings) -> None:
    words = shlex.split(command_line("loss", settings, Path("figures.json")))
    assert words[:4] == ["python", "-m", "benchmarks", "loss"]
    assert words[-1] == "--out=figures.json"
    assert read(type(settings), words[4:-1]) == settings


def test_help_names_meaning_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read(Toy, ["--help"])
    text = " ".join(capsys.readouterr().out.split())
    for words in ("which sizes (default: 1,2)", "how many (default: all)", "(default: 3)", "memory (default: yes)"):
        assert words in text


def test_subject_is_one_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "choose from" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["loss", "--batch-sizes=8,many"])
    assert "such as 256,1024, got '8,many'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("loss --batch-sizes=1", "--batch-sizes (samples in a batch, each in two views): expected at least 2, got 1"),
        ("loss --batch-sizes=", "each in two views): expected different values, at least one, got none"),
        ("loss --batch-sizes=8,8", "expected different values, at least one, got 8,8"),
        ("loss --losses=plain,dcl", "'dcl' is no loss: expected one of plain, deb, hard, ring, pucl"),
        ("loss --dim=0", "--dim (length of an embedding): expected at least 1, got 0"),
        ("loss --temperature=0", "--temperature (divisor of the cosines): expected a number above 0, got 0"),
        ("loss --peer-limit=-1", "cube of the batch): expected at least 0, got -1"),
        ("loss --out=/no/such/directory/figures.json", "expected one in a directory that exists, got /no/such"),
        ("train --encoders=resnet19", "'resnet19' is no encoder: "),
        ("train --encoders=small,small", "expected different values, at least one, got small,small"),
        ("train --frameworks=byol", "'byol' is no framework: expected one of simclr, moco, cmc"),
        ("train --frameworks=infograph", "encoder is a setting of simclr, moco, cmc, pairs, not of infograph"),
        ("train --batch-size=3", "--batch-size (images in a step): expected at least 4, got 3"),
        ("train --seconds=inf", "expected a number above 0, got inf"),
        ("graph --data=shape", "no set of graphs 'shape'. "),
        ("graph --data=DD --root=/no/such/directory", "DD is not in /no/such/directory"),
        ("graph --corrections=hcl", "'hcl' is no correction: expected one of plain, deb, hard, ring, pucl"),
        ("graph --no-training --no-svm", "expected one of them or both, got neither"),
        ("graph --limit=1", "(default: all)): expected at least 2, got 1"),
        ("graph --data=shapes --limit=16", "10 graphs in one of them and three in another, which shapes does not have"),
        ("grid --runs=0", "--runs (number of runs in the grid): expected at least 1, got 0"),
        ("retrieval --samples=3", "samples is their number: expected two or more for each of 10 classes, got 3"),
        ("ranking --corrections=puc", "'puc' is no correction: expected one of plain, deb, hard, ring, pucl"),
        ("ranking --mini-batch-size=1", "rows of the plain step): expected at least 2, got 1"),
    ],
)
def test_wrong_options_are_refused(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"benchmarks {words.split(maxsplit=1)[0]}: ")
    assert message in line


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "loss --batch-sizes=4 --losses=pucl --dim=16 --seconds=0.02 --threads=1 --no-memory",
        "train --encoders=small --batch-size=4 --size=8 --seconds=0.02 --threads=1 --no-memory --no-views",
        "graph --data=shapes --limit=16 --seconds=0.02 --threads=1 --no-svm --corrections=plain --root=.",
    ],
)
def test_record_says_how_it_was_made(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command in the record is one that runs, and its record has the same settings."""
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert main([*words.split(), f"--out={first}"]) == 0
    record = json.loads(first.read_text())
    given = shlex.split(record["command"])
    assert set(words.split()[1:]) < set(given)
    assert record["versions"]["torch"] == torch.__version__
    assert record["machine"]["threads"] == 1
    assert record["machine"]["cores"] >= 1
    assert record["machine"]["cpu"]
    printed = capsys.readouterr()
    assert f"benchmarks {given[3]}: 1 of 1: " in printed.err
    assert printed.out.splitlines()[-1] == f"All figures: {first}"
    assert main([*given[3:-1], f"--out={second}"]) == 0
    assert json.loads(second.read_text())["settings"] == record["settings"]


@pytest.mark.parametrize("load", [0.5, 2.5])
def test_busy_machine_is_reported(
    load: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    monkeypatch.setattr(command, "usable_cores", lambda: 2)
    main(["loss", "--batch-sizes=4", "--losses=pucl", "--seconds=0.02", "--threads=1", "--no-memory"])
    warned = "busy before the benchmark began (load 2.5 on 2 cores)" in " ".join(capsys.readouterr().out.split())
    assert warned == (load > 1)


@pytest.mark.slow
def test_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "grid.json"
    assert main(["grid", "--epochs=1", "--runs=2", "--workers=2", "--rounds=1", f"--out={out}"]) == 0
    assert "times as fast as with one" in capsys.readouterr().out
    record = json.loads(out.read_text())
    assert record["equal"]
    assert record["seconds"].keys() == {"1", "2"}
    assert record["speedups"] == [record["seconds"]["1"][0] / record["seconds"]["2"][0]]


@pytest.mark.slow
def test_retrieval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    out = tmp_path / "retrieval.json"
    assert main(["retrieval", "--samples=300", "--dim=8", "--rounds=2", f"--out={out}"]) == 0
    assert "queries differ from scikit-learn by at most" in " ".join(capsys.readouterr().out.split())
    record = json.loads(out.read_text())
    assert len(record["seconds"]) == 2
    assert record["error"] < 1e-5
    assert 0.1 < record["mean_average_precision"] < 1
    assert record["peak"]["bytes"] is not None


def test_ranking_compares_with_a_plain_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Mapping[str, object]] = []

    def measured(target: str, case: Mapping[str, object], *, patience: float) -> Peak:
        assert target == "benchmarks.ranking:ready_step"
        asked.append(case)
        return (
            Peak(bytes=None, missing="no memory") if "auto" in str(case["contender"]) else Peak(bytes=100 + len(asked))
        )

    monkeypatch.setattr("benchmarks.ranking.peak_in_child", measured)
    monkeypatch.setattr("benchmarks.ranking._need_libraries", lambda: None)
    out = tmp_path / "ranking.json"
    assert main(["ranking", "--corrections=pucl,auto", "--batch-size=64", f"--out={out}"]) == 0
    printed = capsys.readouterr().out
    assert "1.02" in printed
    assert "No peak memory of cached, auto: no memory." in printed
    assert [case["batch"] for case in asked] == [32, 64, 64, 64]
    assert json.loads(out.read_text())["peaks"]["cached, pucl"]["bytes"] == 103


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_step_of_the_cached_ranking_loss() -> None:
    step = ranking.ready_step(contender="cached, ratio", batch=6, mini_batch=4, words=3, threads=1)
    step()
