"""TensorBoard's events: the metrics of the run, once for each epoch, also after a resume."""

import sys
from pathlib import Path

import pytest

from pucl.frameworks.recipes import recipe
from pucl.runs.directory import RunDirectory
from pucl.runs.log import TensorBoard
from pucl.runs.run import run

pytest.importorskip("tensorboard", reason="the tensorboard extra is not installed")


def test_events_are_the_metrics(few_graphs: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import (  # type: ignore[import-untyped]  # noqa: PLC0415
        EventAccumulator,
    )

    config = recipe("infograph", str(few_graphs), epochs=3, batch_size=16, probes="knn")
    result, other = run(config, tmp_path / "with", tensorboard=True), run(config, tmp_path / "without")
    assert (result["knn"], result["loss"]) == (other["knn"], other["loss"])
    assert not (tmp_path / "without" / "tensorboard").exists()
    events = EventAccumulator(str(tmp_path / "with" / "tensorboard")).Reload()
    history = RunDirectory(tmp_path / "with").history()
    losses = events.Scalars("loss")
    assert [event.step for event in losses] == [line["step"] for line in history]
    assert [event.value for event in losses] == pytest.approx([line["loss"] for line in history])
    assert "seconds_left" not in events.Tags()["scalars"]


def test_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match=r"tensorboard, which is not installed: pip install '\.\[tensorboard\]'"):
        TensorBoard(tmp_path)
