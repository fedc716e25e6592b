"""What a finished run gives its user: weights that plain torch reads, and an encoder for images in every form."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import pucl
from pucl.data.errors import DataError
from pucl.frameworks import build_framework
from pucl.frameworks.recipes import read_config, recipe
from pucl.images.config import ImageConfig
from pucl.images.embedding import embed
from pucl.images.encoders.registry import make_encoder
from pucl.images.imageset import ImageSet
from pucl.images.task import ImageShape, ImageTask
from pucl.images.trained import TrainedImages
from pucl.records import DamagedError
from pucl.runs.run import run
from pucl.runs.trained import encoder_state, need_safetensors, save_weights
from small_runs import fitting, load_images, make_pictures, save_pictures

FRAMEWORKS = ("simclr", "moco", "cmc")
SIDE, COUNT = 8, 40


def pictures() -> NDArray[np.uint8]:
    return make_pictures(COUNT, SIDE)[0]


@pytest.fixture(scope="module")
def npz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pictures(tmp_path_factory.mktemp("data") / "pictures.npz", COUNT, SIDE)


def config_of(npz: Path, framework: str = "simclr", **changes: object) -> ImageConfig:
    settings: dict[str, Any] = {"epochs": 1, "batch_size": 8, "dim": 8, "queue_size": 16, "draws": 16}
    config = recipe(framework, str(npz), **(fitting(framework, **settings) | changes))
    assert isinstance(config, ImageConfig)
    return config


@pytest.fixture(scope="module")
def runs(npz: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run of each framework."""
    place = tmp_path_factory.mktemp("runs")
    for framework in FRAMEWORKS:
        run(config_of(npz, framework), place / framework)
    return {framework: place / framework for framework in FRAMEWORKS}


@pytest.fixture(scope="module")
def trained(runs: dict[str, Path]) -> TrainedImages:
    return load_images(runs["simclr"])


every = pytest.mark.parametrize("framework", FRAMEWORKS)


@every
def test_encodes_as_the_run_did(runs: dict[str, Path], framework: str) -> None:
    loaded = load_images(runs[framework])
    data = loaded.data()
    assert data.test is not None
    with np.load(runs[framework] / "embeddings.npz") as kept:
        assert np.array_equal(loaded.encode(data.train), kept["train"])
        assert np.array_equal(loaded.encode(data.test.pixels), kept["test"])
        alone = load_images(str(runs[framework] / "encoder.safetensors"))  # The file alone is enough.
        assert np.array_equal(alone.encode(data.test.pixels), kept["test"])
        assert loaded.features == kept["train"].shape[1]
    assert loaded.config.framework == framework
    assert not any(module.training for module in loaded.module.modules())


@every
def test_the_file_holds_what_encodes_and_nothing_else(runs: dict[str, Path], framework: str) -> None:
    file = runs[framework] / "encoder.safetensors"
    with safe_open(file, "pt") as weights:
        names = {name.partition(".")[0] for name in weights.keys()}  # noqa: SIM118
        about = json.loads(weights.metadata()["pucl"])
    assert names == ({"encoders", "heads"} if framework == "cmc" else {"encoder", "head"})
    assert about["framework"] == framework
    assert about["encoder"] == "small"
    assert about["image_size"] == SIDE
    assert about["features"] == load_images(file).features
    assert read_config(about["config"]) == load_images(runs[framework]).config


def test_plain_torch_reads_the_file(runs: dict[str, Path], trained: TrainedImages) -> None:
    """The way that the module's docstring shows, without anything of a run."""
    with safe_open(runs["simclr"] / "encoder.safetensors", "pt") as file:
        about = json.loads(file.metadata()["pucl"])
        state = {
            name.removeprefix("encoder."): file.get_tensor(name)
            for name in file.keys()  # noqa: SIM118
            if name.startswith("encoder.")
        }
    network = make_encoder(about["encoder"], stem=about["stem"]).eval()
    network.load_state_dict(state)
    images = torch.from_numpy(pictures().transpose(0, 3, 1, 2).copy())
    mean, std = torch.tensor(about["mean"])[:, None, None], torch.tensor(about["std"])[:, None, None]
    with torch.no_grad():
        expected = network((images / 255 - mean) / std)
    close(trained.encode(images), expected.numpy())
    assert trained.encoder.networks[0].state_dict().keys() == state.keys()


def test_the_same_weights_give_the_same_bytes(npz: Path, tmp_path: Path) -> None:
    config = config_of(npz, "moco")
    for name in ("one", "other"):
        framework = build_framework(config, ImageShape(samples=COUNT, size=SIDE))
        save_weights(tmp_path / name, framework, config, ImageTask(config).about(framework))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_tied_and_unusual_layouts_are_kept(npz: Path, tmp_path: Path) -> None:
    config = config_of(npz)
    framework = build_framework(config, ImageShape(samples=COUNT, size=SIDE))
    module = framework
    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    module.register_module("head", nn.ModuleList([nn.Linear(4, 4)] * 2))  # Two names for one memory.
    save_weights(tmp_path / "weights", framework, config, {})
    with safe_open(tmp_path / "weights", "pt") as file:
        for name, value in encoder_state(module).items():
            assert torch.equal(file.get_tensor(name), value), name
            assert file.get_tensor(name).is_contiguous()


def close(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    """Equal up to what the size of a batch changes in the last digits."""
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_arrays_in_every_layout(trained: TrainedImages) -> None:
    images = pictures()[:5]
    expected = trained.encode(images)
    assert expected.shape == (5, trained.features)
    assert expected.dtype == np.float32
    for same in (
        images.transpose(0, 3, 1, 2),
        images / np.float32(255),
        torch.from_numpy(images),
        torch.from_numpy(images) / 255,
        ImageSet(np.ascontiguousarray(images.transpose(0, 3, 1, 2))),
        list(images),
    ):
        close(trained.encode(same), expected)
    close(trained.encode(images[0]), expected[:1])
    grey = images[..., 0]
    close(trained.encode(grey[0]), trained.encode(grey[:1]))
    close(trained.encode(grey[:1]), trained.encode(np.repeat(grey[:1, ..., None], 3, axis=3)))
    close(trained.encode(images, batch_size=2), expected)
    with pytest.raises(ValueError, match="the number of images to encode at a time: expected 1 or more, got 0"):
        trained.encode(images, batch_size=0)


def test_other_sizes_are_brought_to_the_encoders(trained: TrainedImages) -> None:
    colours = np.random.default_rng(0).integers(0, 256, (4, 1, 1, 3), dtype=np.uint8)
    large, small = (colours.repeat(side, axis=1).repeat(side, axis=2) for side in (4 * SIDE, SIDE))
    close(trained.encode(large), trained.encode(small))
    assert trained.encode(np.zeros((2, 5, 30, 3), np.uint8)).shape == (2, trained.features)


def test_pictures_and_paths(trained: TrainedImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUCL_DATA", str(tmp_path / "cache"))
    images = pictures()[:6]
    opened = [Image.fromarray(image) for image in images]
    folder = tmp_path / "folder"
    files = []
    for number, picture in enumerate(opened):
        # The names are not in the order of the numbers; the classes make two sub-folders.
        file = folder / ("cats" if number % 2 else "dogs") / f"{9 - number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        picture.save(file)
        files.append(file)
    expected = trained.encode(images)
    close(trained.encode(opened), expected)
    close(trained.encode(files), expected)
    close(trained.encode([str(files[0]), opened[1]]), expected[:2])
    close(trained.encode(files[0]), expected[:1])
    close(trained.encode(str(files[0])), expected[:1])
    close(trained.encode(opened[0]), expected[:1])
    by_name = np.argsort([str(file) for file in files])
    close(trained.encode(folder), expected[by_name])
    large = opened[0].resize((4 * SIDE, 6 * SIDE))
    assert trained.encode([large, opened[1]]).shape == (2, trained.features)


def test_a_damaged_picture_of_a_folder_is_told_of(
    trained: TrainedImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUCL_DATA", str(tmp_path / "cache"))
    for number, image in enumerate(pictures()[:3]):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    (tmp_path / "damaged.png").write_bytes(b"not a picture")
    with pytest.warns(UserWarning, match="damaged.png"):
        assert len(trained.encode(tmp_path)) == 3


def test_a_file_is_encoded_in_its_own_order(trained: TrainedImages, npz: Path) -> None:
    """Labelled sets are put in another order to be split; the rows that come back are those of the file."""
    close(trained.encode(npz), trained.encode(pictures()))
    assert trained.data(npz).train.names != tuple(map(str, range(32)))


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], "at least one, got an empty list"),
        (np.zeros((0, 8, 8, 3), np.uint8), "at least one"),
        (np.zeros((3, 8, 8), np.uint8), "one image in colour or three in grey"),
        (np.zeros((2, 8, 8, 5), np.uint8), "channels as second or last axis"),
        (np.zeros((2, 8, 8, 3), np.int64), "uint8 in 0..255 or floats"),
        ([np.zeros((2, 8, 8, 3), np.uint8)], "holds one image"),
        (3, "arrays, pictures of Pillow, paths or an ImageSet, got int"),
        (["nowhere.png"], "nowhere.png cannot be read: No such file"),
        ("nowhere.png", "nowhere.png cannot be read: No such file"),
        ("nowhere/", "no folder or file nowhere"),
        ("digit", "Did you mean 'digits'"),
    ],
)
def test_what_cannot_be_encoded(trained: TrainedImages, images: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        trained.encode(images)


def test_data_are_those_of_the_run(runs: dict[str, Path], npz: Path, tmp_path: Path) -> None:
    run(config_of(npz, limit=20, image_size=6), tmp_path / "limited")
    loaded = load_images(tmp_path / "limited")
    assert len(loaded.data().train) == 20
    assert loaded.data().train.size == (6, 6)
    assert len(loaded.data(npz).train) == 32
    assert loaded.data().parts.keys() == {"train", "test"}


def test_an_untrained_run_loads(npz: Path, tmp_path: Path) -> None:
    config = config_of(npz, correction="untrained")
    run(config, tmp_path / "run")
    fresh = build_framework(config, ImageShape(samples=COUNT, size=SIDE))
    pixels = np.ascontiguousarray(pictures().transpose(0, 3, 1, 2))
    expected = embed(fresh, pixels)
    np.testing.assert_array_equal(load_images(tmp_path / "run").encode(pixels), expected)


class OwnEncoder(nn.Module):
    """An encoder of the user's, by its import path."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(in_channels * SIDE * SIDE, 6), nn.ReLU())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.layers(images)
        return features


def test_an_encoder_of_the_users_own(npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "own_encoders", sys.modules[OwnEncoder.__module__])
    run(config_of(npz, encoder="own_encoders:OwnEncoder"), tmp_path / "run")
    for encoder in ("own_encoders:OwnEncoder", OwnEncoder, OwnEncoder(3)):
        loaded = load_images(tmp_path / "run", encoder=encoder)
        assert loaded.features == 6
        with np.load(tmp_path / "run" / "embeddings.npz") as kept:
            np.testing.assert_array_equal(loaded.encode(loaded.data().train), kept["train"])
    with pytest.raises(DataError, match="does not fit the network that its configuration names"):
        load_images(tmp_path / "run", encoder=lambda: nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 7)))
    monkeypatch.delitem(sys.modules, "own_encoders")
    with pytest.raises(ValueError, match="own_encoders, which cannot be imported"):
        load_images(tmp_path / "run", encoder="own_encoders:OwnEncoder")


def test_one_module_is_not_two_encoders(npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "own_encoders", sys.modules[OwnEncoder.__module__])
    run(config_of(npz, "cmc", encoder="own_encoders:OwnEncoder"), tmp_path / "run")
    assert load_images(tmp_path / "run", encoder=OwnEncoder).features == 12
    with pytest.raises(ValueError, match="CMC has two encoders"):
        load_images(tmp_path / "run", encoder=OwnEncoder(3))


def test_an_encoder_of_pucls_own_is_not_replaced(runs: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="holds an encoder of pucl's own: expected no other encoder"):
        load_images(runs["simclr"], encoder=OwnEncoder)


@every
def test_the_network_that_is_handed_out_normalises(runs: dict[str, Path], framework: str) -> None:
    """An export by hand gives what `encode` gives, from bytes and from floats, at any size."""
    loaded, images = load_images(runs[framework]), pictures()
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2)
    expected = torch.from_numpy(loaded.encode(images))
    with torch.no_grad():
        torch.testing.assert_close(loaded.encoder(pixels), expected)
        torch.testing.assert_close(loaded.encoder(pixels / 255), expected, atol=1e-5, rtol=1e-4)
        assert loaded.encoder(pixels.repeat(1, 1, 3, 3)).shape == expected.shape
    assert not loaded.encoder.training


def test_loading_leaves_random_numbers_alone(runs: dict[str, Path]) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    load_images(runs["moco"])
    assert torch.equal(torch.rand(3), expected)


def test_what_is_no_finished_run(runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a run of pucl"):
        pucl.load(tmp_path / "nowhere")
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    (unfinished / "config.json").write_text((runs["simclr"] / "config.json").read_text())
    with pytest.raises(ValueError, match="unfinished run, which has no encoder.safetensors yet.*--resume"):
        pucl.load(unfinished)
    (unfinished / "encoder.safetensors").write_bytes(b"garbage")
    with pytest.raises(DamagedError, match="expected weights as safetensors"):
        pucl.load(unfinished)
    save_file({"x": torch.zeros(2)}, unfinished / "encoder.safetensors")
    with pytest.raises(DataError, match="weights that pucl did not write"):
        pucl.load(unfinished)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda state: state.pop("head.3.bias"), "head.3.bias"),
        (lambda state: state.update(more=torch.zeros(1)), "more"),
        (lambda state: state.update({"head.3.bias": torch.zeros(1)}), "head.3.bias"),
    ],
)
def test_weights_of_another_network(
    runs: dict[str, Path], tmp_path: Path, change: Callable[[dict[str, torch.Tensor]], object], wrong: str
) -> None:
    with safe_open(runs["simclr"] / "encoder.safetensors", "pt") as file:
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about = file.metadata()
    change(state)
    note = json.loads(about["pucl"])
    del note["sha256"]
    save_file(state, tmp_path / "changed.safetensors", {"pucl": json.dumps(note)})
    with (
        pytest.raises(
            DataError, match=f"does not fit the network that its configuration names: 1 of .* the first is {wrong}"
        ),
        pytest.warns(UserWarning, match="has no digest"),
    ):
        pucl.load(tmp_path / "changed.safetensors")


@pytest.mark.slow
def test_a_flipped_bit_in_an_encoder_file_is_noticed(runs: dict[str, Path], tmp_path: Path) -> None:
    content = bytearray((runs["simclr"] / "encoder.safetensors").read_bytes())
    file = tmp_path / "encoder.safetensors"
    header = int.from_bytes(content[:8], "little")
    rng = np.random.default_rng(0)
    places = [*rng.integers(64 + 8 * header, size=150), *rng.integers(8 * len(content), size=50)]  # Header, anywhere.
    for place in places:
        byte, bit = divmod(int(place), 8)
        content[byte] ^= 1 << bit
        file.write_bytes(content)
        with pytest.raises(ValueError, match="encoder.safetensors"):
            pucl.load(file)
        content[byte] ^= 1 << bit


def test_safetensors_is_asked_for_before_training(npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(DataError, match=r"pip install '\.\[images,graphs\]'"):
        need_safetensors()
    with pytest.raises(DataError, match="needs safetensors"):
        run(replace(config_of(npz), seed=3), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_importing_pucl_imports_nothing_of_this() -> None:
    program = "import sys, pucl; print([n for n in ('sklearn', 'PIL', 'pucl.runs') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)  # noqa: S603
    assert done.stdout.strip() == "[]"
