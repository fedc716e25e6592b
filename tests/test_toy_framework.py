"""A throw-away framework, whole in this file: the last keys are unlabelled. One line adds it to all commands."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pucl.cli import main
from pucl.config import CosineConfig
from pucl.contrast.pairing import pair_up
from pucl.contrast.pairs import Pairs
from pucl.frameworks import FRAMEWORKS
from pucl.frameworks.kind import FrameworkKind, encoder_and_views
from pucl.modality import EncoderSource
from pucl.recipe import Recipes
from pucl.runs.trained import read_weights
from pucl.settings import setting
from pucl.training.framework import Batch, Framework
from pucl.training.loop import Training
from small_runs import assert_same_bits, load_images

UNKNOWN = -1


@dataclass(frozen=True, kw_only=True)
class ToyConfig(CosineConfig):
    """Toy: the keys of the last steps are unlabelled."""

    framework: str = "toy"
    kept_keys: int = setting(24, "keys of the last steps that each anchor is compared with")


class Toy(Framework[Any]):
    """One view against another view of its sample, and against the keys of the last steps."""

    keys: Tensor
    key_ids: Tensor

    def __init__(self, config: ToyConfig, shape: Any, encoder: EncoderSource | None = None) -> None:
        super().__init__()
        self.config = config
        self.encoder, self.views, features = encoder_and_views(config, shape, encoder)
        self.head = nn.Linear(features, config.dim)
        self.register_buffer("keys", torch.zeros(config.kept_keys, config.dim))
        self.register_buffer("key_ids", torch.full((config.kept_keys,), UNKNOWN))
        self._pending: tuple[Tensor, Tensor] | None = None

    @property
    def ready(self) -> bool:
        return bool((self.key_ids != UNKNOWN).all())

    def pairs(self, batch: Batch[Any]) -> list[Pairs]:
        query, key = (self.head(self.encoder(self.views.see(batch))) for _ in range(2))
        self._pending = key.detach(), batch.ids
        if not self.ready:
            return []
        keys, ids = self.keys.clone(), self.key_ids.clone()
        return [pair_up(query, key, keys, temperature=self.config.temperature, query_ids=batch.ids, unlabelled_ids=ids)]

    def commit(self) -> None:
        if self._pending is not None:
            keys, ids = self._pending
            self.keys.copy_(torch.cat([keys, self.keys])[: len(self.keys)])
            self.key_ids.copy_(torch.cat([ids, self.key_ids])[: len(self.keys)])
            self._pending = None


TOY = FrameworkKind(config=ToyConfig, build=Toy, recipes=Recipes(reference={"learning_rate": 0.002}))


@pytest.fixture(scope="module", autouse=True)
def added() -> Iterator[None]:
    FRAMEWORKS[TOY.name] = TOY  # The one line.
    yield
    del FRAMEWORKS[TOY.name]


# The tests.


SMALL = ["--epochs=3", "--batch-size=12", "--width=8", "--dim=8"]


def train(pictures: Path, out: Path, *options: str) -> int:
    return main(["train", "toy", str(pictures), "--out", str(out), *SMALL, "--correction=pucl", *options])


@pytest.fixture(scope="module")
def finished(added: None, pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("toy") / "run"
    assert train(pictures, out) == 0
    return out


def test_it_is_trained_with_its_own_settings(finished: Path) -> None:
    config = json.loads((finished / "config.json").read_text())
    assert (config["framework"], config["kept_keys"], config["learning_rate"]) == ("toy", 24, 0.002)
    assert "queue_size" not in config
    metrics = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert len(metrics) == 3
    assert metrics[-1]["loss"] < metrics[0]["loss"]
    assert metrics[-1]["tau_plus"] > 0


def test_its_encoder_is_saved_and_loaded(finished: Path) -> None:
    state, _ = read_weights(finished / "encoder.safetensors")
    assert {name.partition(".")[0] for name in state} == {"encoder", "head"}
    loaded = load_images(finished)
    with np.load(finished / "embeddings.npz") as embeddings:
        np.testing.assert_array_equal(loaded.encode(loaded.data().train), embeddings["train"])


def test_its_help_shows_its_settings_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "toy", "--help"])
    text = capsys.readouterr().out
    assert "the keys of the last steps are unlabelled" in text
    assert "--kept-keys" in text
    assert "--queue-size" not in text


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_bits(
    finished: Path, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed by SIGKILL in the middle of an epoch, when the keys are in use."""
    out, advance = tmp_path / "run", Training.advance

    def die(training: Training[Any]) -> int:
        if training.step == 8:
            os.kill(os.getpid(), signal.SIGKILL)
        return advance(training)

    child = os.fork()
    if child == 0:
        monkeypatch.setattr(Training, "advance", die)
        train(pictures, out, "--checkpoint-seconds=0")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert (out / "checkpoint.pt").exists()
    assert train(pictures, out, "--resume") == 0
    assert_same_bits(finished, out)


@pytest.mark.slow
def test_corrections_are_compared_and_reported(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["untrained", "plain", "pucl", "oracle"]
    command = ["compare", "toy", str(pictures), *SMALL, "--epochs=1", f"--corrections={','.join(rows)}", "--seeds=1"]
    assert main([*command, "--out", str(tmp_path / "all")]) == 0
    record = json.loads((tmp_path / "all" / "comparison.json").read_text())
    assert [row["name"] for row in record["lines"]] == rows
    assert "toy" in (tmp_path / "all" / "report.html").read_text()
    assert main(["report", str(tmp_path / "all"), "--out", str(tmp_path / "page.html")]) == 0
    capsys.readouterr()
    assert main(["runs", str(tmp_path), "--where", "kept_keys=24"]) == 0
    assert capsys.readouterr().out.count("toy") == len(rows)


def test_it_is_evaluated_and_its_prior_estimated(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", str(finished), "--json", str(tmp_path / "scores.json")]) == 0
    record = json.loads((tmp_path / "scores.json").read_text())["runs"][0]
    assert record["accuracies"] == record["recorded"]
    assert main(["prior", str(finished)]) == 0
    assert "tau" in capsys.readouterr().out
