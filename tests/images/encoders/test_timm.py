"""Models of timm. timm needs a torchvision that fits torch, so that a stand-in with timm's interface is called here."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pucl.cli import main
from pucl.frameworks.recipes import recipe
from pucl.images.encoders.registry import make_encoder
from pucl.runs.directory import RunDirectory
from pucl.runs.run import run
from small_runs import load_images, save_pictures

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.5)
SIZES = {"tiny": 24, "patches": 16}


class Tiny(nn.Module):
    """A small model; one of patches takes images of one size alone."""

    def __init__(self, in_chans: int, size: int | None) -> None:
        super().__init__()
        self.conv, self.size = nn.Conv2d(in_chans, 6, 3), size

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        assert self.size in (None, images.shape[-1]), "Input height doesn't match model"
        return torch.relu(self.conv(images)).mean((2, 3))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The models that were made by the stand-in, as `timm.create_model` was called."""
    made: list[dict[str, Any]] = []

    def create_model(name: str, *, pretrained: bool, num_classes: int, in_chans: int, **size: int) -> nn.Module:
        made.append({"name": name, "pretrained": pretrained, "num_classes": num_classes, "in_chans": in_chans, **size})
        kind = name.partition(".")[0]
        model = Tiny(in_chans, size.get("img_size", SIZES[kind]) if kind == "patches" else None)
        if pretrained:
            nn.init.constant_(model.conv.weight, 0.01)
        return model

    def get_pretrained_cfg(name: str) -> SimpleNamespace:
        kind, _, tag = name.partition(".")
        if tag not in ("", "in1k"):
            raise RuntimeError(f"Invalid pretrained tag ({tag}) for {kind}.")
        side, fixed = SIZES[kind], kind == "patches"
        known = {"input_size": (3, side, side), "mean": MEAN, "std": STD, "fixed_input_size": fixed}
        return SimpleNamespace(to_dict=lambda: known)

    timm, data = ModuleType("timm"), ModuleType("timm.data")
    vars(timm).update(
        create_model=create_model,
        get_pretrained_cfg=get_pretrained_cfg,
        is_model=lambda name: name.partition(".")[0] in SIZES,
        list_models=lambda: list(SIZES),
        data=data,
    )
    vars(data)["resolve_data_config"] = lambda args, pretrained_cfg: {**args, **pretrained_cfg}
    monkeypatch.setitem(sys.modules, "timm", timm)
    monkeypatch.setitem(sys.modules, "timm.data", data)
    return made


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return save_pictures(tmp_path / "pictures.npz", count=24, size=12)


def config(pictures: Path, framework: str = "simclr", **changes: Any) -> Any:
    small: dict[str, Any] = {"epochs": 1, "batch_size": 8, "dim": 4, "monitor": 0, "probes": "knn"}
    return recipe(framework, str(pictures), **(small | {"encoder": "timm:tiny"} | changes))


def test_mean_deviation_and_size_are_those_of_the_model(calls: list[Any], pictures: Path, tmp_path: Path) -> None:
    """Images of 12 pixels are seen with 24, and normalised as the model expects."""
    run(config(pictures), tmp_path / "run")
    trained = load_images(tmp_path / "run")
    images = np.random.default_rng(0).integers(0, 256, (5, 3, 24, 24)).astype(np.uint8)
    shares = torch.from_numpy(images) / 255
    prepared = (shares - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
    with torch.no_grad():
        expected = trained.module.encoder.module(prepared)
    np.testing.assert_allclose(trained.encode(images), expected, atol=1e-6)
    with torch.no_grad():  # What is exported.
        np.testing.assert_allclose(trained.encoder(torch.from_numpy(images)), expected, atol=1e-6)
    assert (trained.module.views.size, trained.features) == (24, 6)
    assert {each["num_classes"] for each in calls} == {0}


def test_another_size_is_told_to_a_model_that_must_know(calls: list[Any], pictures: Path, tmp_path: Path) -> None:
    run(config(pictures, encoder="timm:patches", image_size=20), tmp_path / "run")
    assert calls[-1]["img_size"] == 20
    assert load_images(tmp_path / "run").module.views.size == 20
    run(config(pictures), tmp_path / "free")
    assert "img_size" not in calls[-1]


def test_published_weights_are_asked_for_and_not_needed_to_load(
    calls: list[Any], pictures: Path, tmp_path: Path
) -> None:
    run(config(pictures, encoder="timm:tiny.in1k", pretrained=True, correction="untrained"), tmp_path / "run")
    assert [each["pretrained"] for each in calls] == [True]
    trained = load_images(tmp_path / "run")
    assert [each["pretrained"] for each in calls] == [True, False]
    assert torch.all(trained.module.encoder.module.conv.weight == 0.01)  # The weights of the run.


def test_cmc_has_two_of_them(calls: list[Any], pictures: Path, tmp_path: Path) -> None:
    run(config(pictures, "cmc"), tmp_path / "run")
    assert [each["in_chans"] for each in calls] == [1, 2]
    assert load_images(tmp_path / "run").features == 12


def test_pictures_of_a_folder_have_the_size_of_the_model(calls: list[Any], tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for number in range(24):
        folder = tmp_path / "folder" / f"class{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        image.fromarray(np.full((40, 50, 3), 5 * number, np.uint8)).save(folder / f"{number}.png")
    run(config(tmp_path / "folder"), tmp_path / "run", root=tmp_path / "root")
    result = RunDirectory(tmp_path / "run").result()
    assert result is not None
    assert result["data"]["size"] == [24, 24]
    assert load_images(tmp_path / "run").data(root=tmp_path / "root").train.size == (24, 24)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--encoder", "timm:tinny"], "timm has no 'tinny'. Did you mean 'tiny'?"),
        (["--encoder", "timm:tiny.nope"], "no model that timm describes: Invalid pretrained tag (nope) for tiny."),
        (["--encoder", "timm:hf-hub:someone/model"], "timm has no 'hf-hub:someone/model'"),
        (
            ["--pretrained"],
            "pretrained starts from the published weights of a model of timm: expected encoder timm:NAME",
        ),
    ],
)
def test_wrong_names(
    calls: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["train", "simclr", "digits", *options, "--out", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_file_does_not_make_timm_download(
    calls: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.toml"
    file.write_text('framework = "simclr"\ndata = "digits"\nencoder = "timm:tiny"\npretrained = true\n')
    assert main(["train", "--config", str(file)]) == 2
    assert "names the encoder 'timm:tiny', a model to download" in capsys.readouterr().err
    assert calls == []


def test_a_missing_timm_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ValueError, match=r"timm:resnet18 needs timm, which is not installed: pip install '\.\[timm\]'"):
        make_encoder("timm:resnet18")


@pytest.mark.parametrize(
    "raised", ["RuntimeError('operator torchvision::nms does not exist')", "ImportError('no torchvision')"]
)
def test_a_broken_timm_is_named_with_its_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: str) -> None:
    (tmp_path / "timm.py").write_text(f"raise {raised}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    with pytest.raises(ValueError, match=r"installed but cannot be imported: .*torchvision.*same build as torch"):
        make_encoder("timm:resnet18")


def test_a_seed_gives_the_same_weights_when_timm_is_first_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "timm").mkdir()
    (tmp_path / "timm" / "data.py").write_text(
        "def resolve_data_config(args, pretrained_cfg):\n"
        "    return {'input_size': (3, 8, 8), 'mean': (0, 0, 0), 'std': (1, 1, 1)}\n"
    )
    (tmp_path / "timm" / "__init__.py").write_text(
        "import torch\nfrom torch import nn\ntorch.rand(3)  # Drawn once, at the import.\n"
        "is_model, get_pretrained_cfg = (lambda name: True), (lambda name: None)\n"
        "def create_model(name, **_):\n"
        "    return nn.Sequential(nn.Conv2d(3, 4, 8), nn.Flatten())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    weights = []
    for _ in range(2):
        torch.manual_seed(3)
        weights.append(make_encoder("timm:any", image_sizes=(8,)).get_parameter("module.0.weight"))
    for name in ("timm", "timm.data"):
        sys.modules.pop(name)
    torch.testing.assert_close(*weights, atol=0, rtol=0)
