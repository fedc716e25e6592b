"""Which images a run trains on, and which it is tested on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pucl.frameworks.recipes import recipe
from pucl.images.config import ImageConfig
from pucl.images.registry import load
from pucl.images.task import ImageTask


def task_of(data: str, **changes: Any) -> ImageTask:
    config = recipe("simclr", data, **changes)
    assert isinstance(config, ImageConfig)
    return ImageTask(config)


def test_validation_images_are_training_images_that_are_not_trained_on() -> None:
    whole, held = load("digits", image_size=8), task_of("digits", validation=True, image_size=8).data
    assert held.test is not None
    assert whole.train.labels is not None
    assert held.pretrain is held.train
    assert len(held.train) + len(held.test) == len(whole.train)
    pictures = {image.tobytes() for image in whole.train.pixels}
    trained = {image.tobytes() for image in held.train.pixels}
    tested = {image.tobytes() for image in held.test.pixels}
    assert trained | tested == pictures
    assert not trained & tested
    assert held.test.labels is not None
    share = np.bincount(held.test.labels) / np.bincount(whole.train.labels)
    np.testing.assert_allclose(share, 0.2, atol=0.02)


def test_a_limit_leaves_the_validation_images_as_they_are() -> None:
    some, every = (task_of("digits", validation=True, image_size=8, limit=limit).data for limit in (100, None))
    assert some.test is not None
    assert every.test is not None
    assert len(some.train) == 100
    np.testing.assert_array_equal(some.test.pixels, every.test.pixels)


def test_validation_needs_labels(tmp_path: Path) -> None:
    file = tmp_path / "unlabelled.npz"
    np.savez(file, images=np.zeros((12, 8, 8, 3), dtype=np.uint8))
    with pytest.raises(ValueError, match="expected data whose training images all have labels"):
        task_of(str(file), validation=True)
