"""``pucl diagnose`` and ``pucl suspects``: what they read, print and write, and what they refuse."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from classed_samples import make
from pucl.cli import main
from pucl.data.pairlist import read_pairs
from pucl.frameworks.recipes import recipe
from pucl.runs.run import run
from small_runs import small_run

TINY: dict[str, Any] = {
    "epochs": 2,
    "width": 4,
    "image_size": 8,
    "limit": 160,
    "batch_size": 32,
    "probes": "knn",
    "monitor": 0,
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows, labels = make()
    np.savez(tmp_path / "rows.npz", embeddings=rows, views=make(seed=1)[0], labels=labels)
    return tmp_path / "rows.npz"


def test_an_npz_file(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(file), "--temperature", "0.2", "--json", str(tmp_path / "answer.json")]) == 0
    out = capsys.readouterr().out
    assert "320 samples of 16 dimensions, with views; temperature 0.2." in out
    assert "anchors at the floor" in out
    assert "inside the interval" in out
    record = json.loads((tmp_path / "answer.json").read_text())
    assert record["temperature"] == 0.2
    assert record["truth"]["inside"] is True
    assert record["command"].startswith("pucl diagnose ")


@pytest.mark.slow
def test_npy_parquet_and_folders_give_the_same_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet  # noqa: PLC0415

    rows, _ = make()
    np.save(tmp_path / "rows.npy", rows)
    parquet.write_table(pyarrow.table({"embeddings": rows.tolist()}), tmp_path / "rows.parquet")
    fixed = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows.ravel()), 16)
    parquet.write_table(pyarrow.table({"embedding": fixed, "name": list("ab" * 160)}), tmp_path / "fixed.parquet")
    np.savez(tmp_path / "embedded.npz", train=rows, test=rows[:5])
    (tmp_path / "parts").mkdir()
    np.save(tmp_path / "parts" / "0.npy", rows[:100])
    np.save(tmp_path / "parts" / "1.npy", rows[100:])
    answers = []
    for name in ("rows.npy", "rows.parquet", "fixed.parquet", "embedded.npz", "parts"):
        assert main(["diagnose", str(tmp_path / name)]) == 0
        answers.append(capsys.readouterr().out.partition("\n\n")[2])
    assert len(set(answers)) == 1
    assert "without views; temperature 0.5" in answers[0]


@pytest.mark.slow
def test_a_run_and_its_suspects_are_excluded_from_the_next_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(recipe("simclr", "digits", correction="plain", **TINY, temperature=0.3), tmp_path / "plain")
    assert main(["diagnose", "plain"]) == 0
    out = capsys.readouterr().out
    assert "simclr on digits, plain, seed 0: 160 training samples" in out
    assert "160 samples of 128 dimensions, with views; temperature 0.3." in out
    options = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items() if name != "monitor"]
    command = ["train", "simclr", "digits", "--correction=plain", "--monitor-times=0", *options]
    (tmp_path / "pairs.csv").write_text("first,second\n" + "".join(f"{i},{i + 1}\n" for i in range(100)))
    assert main([*command, "--exclude=pairs.csv", "--out=excluded"]) == 0
    assert main([*command, "--out=usual"]) == 0
    losses = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("excluded", "usual")]
    assert losses[0]["loss"] != losses[1]["loss"]
    assert "excluded" in losses[0]["data"]
    assert "excluded" not in losses[1]["data"]
    assert main([*command, "--exclude=pairs.csv", "--out=excluded", "--resume"]) == 0
    capsys.readouterr()
    (tmp_path / "pairs.csv").write_text("first,second\n0,1\n")
    assert main([*command, "--exclude=pairs.csv", "--out=excluded", "--resume"]) == 2
    assert "other data" in capsys.readouterr().err
    for content, words in (("first,second\n0,160\n", "expected 0 to 159, got 160"), (None, "does not exist")):
        (tmp_path / "pairs.csv").unlink()
        if content is not None:
            (tmp_path / "pairs.csv").write_text(content)
        assert main([*command, "--exclude=pairs.csv", "--out=wrong"]) == 2
        assert words in capsys.readouterr().err
        if content is None:
            break


@pytest.mark.slow
def test_a_run_on_graphs_has_no_views(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(small_run(limit=66), tmp_path / "run")
    assert main(["suspects", str(tmp_path / "run"), "--count", "5"]) == 0
    assert main(["diagnose", str(tmp_path / "run")]) == 0
    assert "66 samples of 16 dimensions, without views" in capsys.readouterr().out


def test_suspects_are_printed_and_written(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "pairs.csv"
    assert main(["suspects", str(file), "-o", str(out), "--count", "50"]) == 0
    text = capsys.readouterr().out
    assert "50 pairs: 50 same group. Together they take" in text
    assert "By the labels 50 of them are of one class." in text
    pairs = read_pairs(out).within(320, None)
    assert len(pairs) == 50
    assert all(first % 8 == second % 8 for first, second in pairs.tolist())
    assert main(["suspects", str(file), "-o", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["suspects", str(file), "-o", str(out), "--force", "--count", "7"]) == 0
    assert len(read_pairs(out).within(320, None)) == 7


def test_names_are_shown_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, _ = make()
    names = np.array([f"cats/\x1b[2J{index}.png" for index in range(320)])
    np.savez(tmp_path / "rows.npz", embeddings=rows, names=names)
    assert main(["suspects", str(tmp_path / "rows.npz"), "-o", str(tmp_path / "pairs.json"), "--count", "3"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert r"cats/\x1b[2J" in out
    record = json.loads((tmp_path / "pairs.json").read_text())
    assert record["pairs"][0]["first_name"] in names
    assert record["command"].startswith("pucl suspects")


def save(folder: Path, **arrays: object) -> Path:
    np.savez(folder / "given.npz", **arrays)  # type: ignore[arg-type]
    return folder / "given.npz"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"rows": np.ones((100, 3))},
            "given.npz has no embeddings: expected an array or column 'embeddings', got rows",
        ),
        ({"embeddings": np.ones((1, 3))}, "expected at least 60 rows, got 1"),
        ({"embeddings": np.full((100, 3), np.inf)}, "expected finite numbers"),
        ({"embeddings": np.ones((100, 3, 2))}, "expected the shape [batch, dim], got (100, 3, 2)"),
        ({"embeddings": np.ones((100, 3)), "labels": np.ones(99)}, "expected one for each of 100 samples, got 99"),
        ({"embeddings": np.ones((100, 3)), "views": np.ones((100, 4))}, "views are the positives of the embeddings"),
        ({"embeddings": np.ones((100, 3)), "names": np.array(["a"])}, "names are what the samples are called"),
        ({"embeddings": np.array([{}] * 100)}, "is not a plain array: expected numbers or text, got object"),
    ],
)
def test_wrong_arrays(
    tmp_path: Path, arrays: dict[str, object], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = save(tmp_path, **arrays)
    assert main(["diagnose", str(file)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert str(file) in error
    assert error.count("\n") == 1


def test_wrong_files(tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.txt").write_text("1 2 3")
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY nothing")
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "pictures").mkdir()
    (tmp_path / "mixed").mkdir()
    np.save(tmp_path / "mixed" / "0.npy", np.ones((50, 3)))
    np.save(tmp_path / "mixed" / "1.npy", np.ones((50, 4)))
    (tmp_path / "partly").mkdir()
    np.savez(tmp_path / "partly" / "0.npz", embeddings=np.ones((50, 3)), labels=np.ones(50))
    np.save(tmp_path / "partly" / "1.npy", np.ones((50, 3)))
    for name, message in (
        ("rows.txt", "expected .npz, .npy, .parquet, got '.txt'"),
        ("none.npz", "does not exist: expected the directory of a run"),
        ("bad.npy", "is not a .npy file of numbers, or is damaged"),
        ("objects.npy", "is not a .npy file of numbers, or is damaged"),
        ("pictures", "neither the directory of a run nor a folder of"),
        ("mixed", "those of 1.npy have [4]"),
        ("partly", "expected labels in all or none of them, and 1.npy has none"),
    ):
        assert main(["diagnose", str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err
    for options, message in (
        (["--temperature", "0"], "temperature is what similarities are divided by"),
        (["--json", str(tmp_path / "none" / "a.json")], "--json is a file to write"),
    ):
        assert main(["diagnose", str(file), *options]) == 2
        assert message in capsys.readouterr().err
    for options, message in (
        (["--count", "0"], "--count is the number of pairs to list: expected at least 1, got 0"),
        (["-o", str(tmp_path / "pairs.txt")], "expected a name that ends in .csv, .parquet or .json"),
        (["-o", str(tmp_path / "none" / "pairs.csv")], "--out is a file to write"),
    ):
        assert main(["suspects", str(file), *options]) == 2
        assert message in capsys.readouterr().err
