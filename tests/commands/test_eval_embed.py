"""`pucl eval` and `pucl embed`: the numbers of the run itself, and files that are whole."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file

import pucl
from pucl.cli import main
from pucl.evaluation import LinearClassifier, ReferenceLinearClassifier, numbers_in
from pucl.frameworks.recipes import recipe
from pucl.images.registry import load
from pucl.runs.run import run
from small_runs import load_images

COUNT, SIDE = 60, 8


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two kinds of noisy pictures in a .npz file, too much alike to be told apart without mistakes."""
    labels = np.arange(COUNT) % 2
    images = np.random.default_rng(0).integers(0, 230, (COUNT, SIDE, SIDE, 3))
    images[labels == 0, : SIDE // 2] += 12
    path = tmp_path_factory.mktemp("data") / "pictures.npz"
    np.savez(path, images=images.astype(np.uint8), labels=labels, classes=np.array(["top", "none"]))
    return path


@pytest.fixture(scope="module")
def runs(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two finished runs."""
    places = [tmp_path_factory.mktemp("runs") / name for name in ("simclr", "cmc")]
    for place in places:
        run(recipe(place.name, str(pictures), epochs=1, batch_size=12, dim=8, limit=40), place)
    return places


def evaluated(arguments: list[str], out: Path) -> list[dict[str, Any]]:
    assert main(["eval", *arguments, "--json", str(out)]) == 0
    record: list[dict[str, Any]] = json.loads(out.read_text())["runs"]
    return record


def test_eval_gives_what_the_run_has(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = evaluated(list(map(str, runs)), tmp_path / "eval.json")
    for place, record in zip(runs, records, strict=True):
        result = json.loads((place / "result.json").read_text())
        assert record["accuracies"] == record["recorded"] == {name: result[name] for name in numbers_in([result])}
        assert {"retrieval", "linear", "knn", "clustering_ari", "fewshot_1"} <= record["recorded"].keys()
        assert 0 < result["linear"] < 1
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0].split()[:6] == ["run", "data", "mAP,", "%", "R-precision,", "%"]
    assert all(str(place) in printed.out for place in runs)
    assert "result.json has" not in printed.err


def test_eval_tells_where_the_record_differs(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "run"
    copy.mkdir()
    for name in ("config.json", "encoder.safetensors"):
        (copy / name).write_bytes((runs[0] / name).read_bytes())
    (copy / "result.json").write_text(json.dumps({"linear": 0.123, "knn": 2, "seconds": 1}))
    assert main(["eval", str(copy), "--probe=linear"]) == 0
    assert "its result.json has linear 12.30%" in capsys.readouterr().err


def test_few_samples_for_the_references_recipe(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (record,) = evaluated([str(runs[0]), "--probe=linear-reference"], tmp_path / "eval.json")
    assert record["accuracies"].keys() == {"linear-reference"}
    assert record["samples"] == 40
    assert "with 40 its 100 epochs are too few steps" in capsys.readouterr().out


def test_eval_on_other_data(runs: list[Path], pictures: Path, tmp_path: Path) -> None:
    """The run's own file, but all of it: there are more images to learn from than the run's limit."""
    (record,) = evaluated([str(runs[0]), "--data", str(pictures)], tmp_path / "eval.json")
    trained = load_images(runs[0])
    data = load(pictures)
    assert data.test is not None
    assert data.train.labels is not None
    assert data.test.labels is not None
    probe = LinearClassifier().fit(trained.encode(data.train), data.train.labels)
    assert record["accuracies"]["linear"] == probe.score(trained.encode(data.test), data.test.labels)
    assert record["recorded"] == {}
    assert len(data.train) > 40


def test_eval_refuses(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "unlabelled.npz", images=np.zeros((4, SIDE, SIDE, 3), np.uint8))
    place = str(runs[0])
    for wrong, message in (
        ([place, "--probe=linaer"], "'linaer' is no probe: expected one of retrieval, linear, linear-reference, knn,"),
        ([place, "--probe=,"], "--probes names probes: expected one or more of"),
        ([place, "--data", str(tmp_path / "unlabelled.npz")], "expected images with labels, got unlabelled without"),
        ([place, "--json", str(tmp_path / "nowhere" / "x.json")], "in an existing directory"),
        ([str(tmp_path)], "is not a run of pucl"),
    ):
        assert main(["eval", *wrong]) == 2
        assert message in capsys.readouterr().err


def test_embed_keeps_data_without_a_test_set_together(
    runs: list[Path], pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "embeddings.npz"
    assert main(["embed", str(runs[0]), str(pictures), "-o", str(out)]) == 0
    assert f"images: {COUNT}; features of each: " in (printed := capsys.readouterr().out)
    assert f"written: {out}" in printed
    with np.load(pictures) as file:
        images, labels = file["images"], file["labels"]
    with np.load(out) as written:
        arrays = dict(written)
    assert arrays.keys() == {"embeddings", "labels", "names", "classes"}
    assert arrays["classes"].tolist() == ["top", "none"]
    assert arrays["names"].tolist() == [str(row) for row in range(COUNT)]
    np.testing.assert_array_equal(arrays["labels"], labels)
    np.testing.assert_allclose(arrays["embeddings"], pucl.load(runs[0]).encode(images), rtol=1e-4, atol=1e-5)
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    assert main(["embed", str(runs[1]), str(pictures), "-o", str(tmp_path / "rows.npy")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), pucl.load(runs[1]).encode(pictures))


def test_embed_a_folder_with_classes(runs: list[Path], tmp_path: Path) -> None:
    """In the order of the folder, and in parts only where the folder itself has them."""
    folder, split, out = tmp_path / "folder", tmp_path / "split", tmp_path / "out.npz"
    names = [f"{kind}/{number}.png" for kind in ("cat", "dog") for number in range(5)]
    for number, name in enumerate(names):
        part = "test" if number % 5 == 3 else "train"
        for path in (folder / name, split / part / name):
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((SIDE, SIDE, 3), 20 * number, np.uint8)).save(path)
    expected = pucl.load(runs[0]).encode([folder / name for name in names])
    root = ["--root", str(tmp_path / "root")]

    assert main(["embed", str(runs[0]), str(folder), "-o", str(out), *root]) == 0
    with np.load(out) as written:
        assert set(written.files) == {"embeddings", "labels", "names", "classes"}
        assert written["names"].tolist() == names
        assert written["labels"].tolist() == [0] * 5 + [1] * 5
        np.testing.assert_allclose(written["embeddings"], expected, rtol=1e-4, atol=1e-5)

    assert main(["embed", str(runs[0]), str(split), "-o", str(out), "--force", *root]) == 0
    with np.load(out) as written:
        for part, chosen in (("train", [0, 1, 2, 4, 5, 6, 7, 9]), ("test", [3, 8])):
            assert written[f"{part}_names"].tolist() == [f"{part}/{names[row]}" for row in chosen]
            assert written[f"{part}_labels"].tolist() == [row // 5 for row in chosen]
            np.testing.assert_allclose(written[part], expected[chosen], rtol=1e-4, atol=1e-5)


def test_embed_a_folder_without_labels(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(3):
        pixels = np.full((20, 16, 3), 60 * number, np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    (folder / "damaged.png").write_bytes(b"")
    arguments = ["embed", str(runs[0]), str(folder), "-o", str(tmp_path / "out.npz"), "--root", str(tmp_path / "root")]
    assert main(arguments) == 0
    assert "1 of 4 pictures could not be read" in capsys.readouterr().err
    with np.load(tmp_path / "out.npz") as written:
        assert written["names"].tolist() == ["0.png", "1.png", "2.png"]
        assert set(written.files) == {"embeddings", "names"}
        expected = pucl.load(runs[0]).encode([folder / f"{number}.png" for number in range(3)])
        np.testing.assert_array_equal(written["embeddings"], expected)


def test_embed_never_writes_over_a_file_unasked(
    runs: list[Path],
    pictures: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "thesis.npz"
    out.write_text("mine")
    arguments = ["embed", str(runs[0]), str(pictures), "-o", str(out)]
    assert main(arguments) == 2
    assert "exists already: choose another name, or give --force" in capsys.readouterr().err
    assert out.read_text() == "mine"

    def fail(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("numpy.savez", fail)
        assert main([*arguments, "--force"]) == 2
    assert out.read_text() == "mine"
    assert main([*arguments, "--force"]) == 0
    with np.load(out) as written:
        assert "embeddings" in written.files


def test_embed_refuses(runs: list[Path], pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, message in (
        ([str(runs[0]), str(pictures), "-o", str(tmp_path / "x.csv")], "ends in .npz or .npy"),
        ([str(runs[0]), "digit", "-o", str(tmp_path / "x.npz")], "Did you mean 'digits'?"),
        ([str(tmp_path), str(pictures), "-o", str(tmp_path / "x.npz")], "is not a run of pucl"),
    ):
        assert main(["embed", *wrong]) == 2
        assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_fast_probe_agrees_with_the_references_recipe(tmp_path: Path) -> None:
    """Within 1.5 points on the digits, once the recipe has had enough steps to learn its training images.

    Its 100 epochs are meant for 50,000 images; for 1,438 they are 300 steps. The features come from a short training:
    on the smaller ones of an untrained encoder the recipe, whose step size is fixed, needs several times as many steps.
    """
    run(recipe("simclr", "digits", epochs=2), tmp_path / "run")
    with np.load(tmp_path / "run" / "embeddings.npz") as kept:
        train, test = ((kept[part], kept[f"{part}_labels"]) for part in ("train", "test"))
    fast, short, long = LinearClassifier(), ReferenceLinearClassifier(), ReferenceLinearClassifier(epochs=1600)
    for probe in (fast, short, long):
        probe.fit(*train)
    assert fast.score(*train) > 0.99
    assert short.score(*train) < long.score(*train)  # The recipe as it is stops short.
    assert long.score(*train) > 0.99
    assert fast.score(*test) < 1
    assert abs(fast.score(*test) - long.score(*test)) <= 0.015


@pytest.mark.filterwarnings("ignore:.*has no digest")
def test_weights_that_are_not_finite_are_refused(
    runs: list[Path], pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = shutil.copytree(runs[0], tmp_path / "run")
    file = place / "encoder.safetensors"
    with safe_open(file, "pt") as kept:
        metadata, state = kept.metadata(), {name: kept.get_tensor(name) for name in kept.keys()}  # noqa: SIM118
    state["encoder.conv1.weight"][0] = torch.nan
    note = json.loads(metadata["pucl"])
    del note["sha256"]  # As older files are, which nothing else protects.
    save_file(state, file, {"pucl": json.dumps(note)})
    with pytest.raises(ValueError, match=r"expected finite ones, got NaN or infinity for 2 of 2 images.*conv1.weight"):
        load_images(place).encode(np.zeros((2, SIDE, SIDE, 3), np.uint8))
    assert main(["embed", str(place), str(pictures), "-o", str(tmp_path / "rows.npz")]) == 2
    assert "the training diverged, or the file is damaged" in capsys.readouterr().err
    assert not (tmp_path / "rows.npz").exists()
