"""Two oracles and rows with fixed settings: what they train, in every framework and in a comparison."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pucl.cli import main as pucl_command
from pucl.commands.frameworks import compared_rows
from pucl.config import NAMED_ROWS, ORACLES, settings_of
from pucl.contrast.pairs import Pairs
from pucl.corrections import PUCL, Hard, Plain
from pucl.frameworks import build_framework
from pucl.frameworks.recipes import recipe
from pucl.functional import corrected_loss
from pucl.graphs.task import GraphTask
from pucl.images.config import ImageConfig
from pucl.images.imageset import ImageSet
from pucl.images.modality import IMAGES
from pucl.images.task import ImageShape
from pucl.runs.directory import RunDirectory
from pucl.runs.run import make_plan, make_training
from pucl.runs.tables import compare_corrections
from pucl.training.loop import Training
from pucl.training.optimisers import make_optimiser
from small_runs import fitting, save_pictures, small_run

COUNT, SIDE = 48, 8


def make_oracle(framework: str, *, attract: bool) -> Training[torch.Tensor]:
    own: dict[str, Any] = fitting(framework, queue_size=24, draws=30, splits=4)
    config = recipe(framework, "none", batch_size=16, dim=16, width=8, correction=ORACLES[attract], **own)
    assert isinstance(config, ImageConfig)
    assert config.make_correction() == (Plain() if attract else Hard(tau_plus=0.0, beta=0.0))
    pixels = np.random.default_rng(0).integers(0, 256, (COUNT, 3, SIDE, SIDE), dtype=np.uint8)
    network = build_framework(config, ImageShape(samples=COUNT, size=SIDE))
    optimiser = make_optimiser(config.optimiser, network.parameters(), lr=config.learning_rate)
    labels = np.arange(COUNT) % 3
    data, plan = ImageSet(pixels), make_plan(config)
    return Training(network, optimiser, data, config.make_correction(), plan, labels=labels, attract=attract)


def pairs_of(training: Training[Any]) -> list[Pairs]:
    """The pairs of the next step, as the oracle sees them."""
    return [training._use_knowledge(pairs) for pairs in training.framework.pairs(training._batch())]


@pytest.mark.parametrize("framework", ["simclr", "moco", "cmc"])
def test_the_second_oracle_attracts_what_the_first_leaves_out(framework: str) -> None:
    training = make_oracle(framework, attract=True)
    for _ in range(3):
        training.advance()
    assert training.tally.sums["loss"] > 0
    for pairs in pairs_of(training):
        assert pairs.classes is not None
        queries, keys = pairs.sample_ids()
        assert torch.equal(pairs.classes.query, queries % 3)
        assert torch.equal(pairs.classes.key, keys % 3)
        loss = corrected_loss(pairs, Plain()).loss
        # SINCERE from the logits: the mates of an anchor are positives, samples of other classes are negatives.
        comparison = pairs.comparison()
        assert comparison.mask is not None
        for anchor in (0, 5):
            same = (keys % 3 == queries[anchor] % 3) & comparison.mask[anchor]
            other = (keys % 3 != queries[anchor] % 3) & comparison.mask[anchor]
            logits = comparison.unlabelled[anchor]
            positive = torch.cat([comparison.positive[anchor], logits[same]])
            expected = torch.log1p(logits[other].exp().sum() / positive.exp()).mean()
            torch.testing.assert_close(loss[anchor], expected)
    first = make_oracle(framework, attract=False)
    first.advance()
    for pairs in pairs_of(first):
        assert pairs.classes is None
        assert pairs.drawn is not None
        (queries, keys), counting = pairs.sample_ids(), pairs.counting()
        assert counting is not None
        assert torch.equal(counting, queries[:, None] % 3 != keys % 3)


def test_graphs_are_attracted_too() -> None:
    config = small_run("oracle-attract")
    task = GraphTask(config)
    training = make_training(config, build_framework(config, task.shape), task)
    assert training.attract
    training.advance()
    (pairs,) = pairs_of(training)
    loss, scores = corrected_loss(pairs, Plain(), objective="jensen_shannon").loss, pairs.query @ pairs.key.T
    assert training.labels is not None
    labels, own = training.labels[pairs.key_samples], pairs.query_ids
    assert own is not None
    same = labels[own][:, None] == labels
    softplus = torch.nn.functional.softplus
    positive = (softplus(-scores) * same).sum(dim=1) / same.sum(dim=1)
    negative = (softplus(scores) * ~same).sum(dim=1) / (~same).sum(dim=1)
    copies = torch.ones(len(scores)) if pairs.copies is None else pairs.copies
    torch.testing.assert_close(loss.mean(), ((positive + negative) * copies).sum() / copies.sum())


def test_rows_with_fixed_settings_stand_beside_their_correction() -> None:
    rows = compared_rows([IMAGES])
    assert rows[rows.index("hard") + 1] == "tilt-alone"
    assert rows[rows.index("pucl") + 1] == "pucl-stopped"
    assert rows[-2:] == ["oracle", "oracle-attract"]
    assert settings_of("tilt-alone") == ["beta"]
    assert "stop_gradient" not in settings_of("pucl-stopped")
    assert settings_of("oracle-attract") == []
    for correction, fixed in NAMED_ROWS.values():
        recipe("simclr", "none", correction=correction, settings=fixed)


@pytest.mark.slow
def test_a_comparison_has_them(tmp_path: Path) -> None:
    data = save_pictures(tmp_path / "pictures.npz", 40, 8)
    names = ["plain", "hard", "tilt-alone", "pucl-stopped", "oracle-attract"]
    command = ["compare", "simclr", str(data), "--seeds=1", "--epochs=1", "--batch-size=12", "--dim=8", "--beta=0.5"]
    command += ["--probes=knn", f"--corrections={','.join(names)}", "--out", str(tmp_path / "out")]
    assert pucl_command(command) == 0
    configs = {name: RunDirectory(tmp_path / "out" / name / "seed-0").config() for name in names}
    assert configs["tilt-alone"].make_correction() == Hard(tau_plus=0.0, beta=0.5)
    assert configs["pucl-stopped"].make_correction() == PUCL(beta=0.5, stop_gradient=True)
    assert configs["oracle-attract"].correction == "oracle-attract"
    with pytest.raises(ValueError, match="is no correction"):
        compare_corrections(configs["plain"], ["tilt"], 1, tmp_path / "other")


def test_without_labels_no_oracle_is_trained(tmp_path: Path) -> None:
    config = recipe("simclr", str(save_pictures(tmp_path / "pictures.npz", 40, 8)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pucl.runs.tables.has_labels", lambda *_: False)
        with pytest.raises(ValueError, match="remove it by --corrections plain$"):
            compare_corrections(config, ["plain", "oracle-attract"], 1, tmp_path / "out")
