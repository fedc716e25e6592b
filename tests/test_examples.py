"""Every file of examples/ runs as it is, says something true, and marks the line that matters."""

import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
MARK = "# <- the one line that matters"
NUMBER = r"(\d\.\d{3})"


def rising(text: str) -> Callable[[str], None]:
    """A check that this text is printed, and that the second number in it is the larger one."""

    def check(output: str) -> None:
        found = re.search(text.replace("#", NUMBER), output)
        assert found is not None, output
        before, after = map(float, found.groups())
        assert before < after <= 1, output

    return check


def found(text: str) -> Callable[[str], None]:
    """A check that this is printed."""

    def check(output: str) -> None:
        assert re.search(text.replace("#", NUMBER), output), output

    return check


SAYS: dict[str, Callable[[str], None]] = {
    "torch_loop": rising("retrieval of digits: # with InfoNCE, # corrected"),
    "lightning_loop": found(
        r"epoch 3: loss #; \d+% of plain's sum was removed in this epoch; found at its end: \d+ to \d+"
    ),
    "metric_learning_wrappers": found("retrieval of digits: # with SelfSupervisedLoss, # with CrossBatchMemory"),
    "clip_towers": rising("captions of the right meaning: # with CLIP's loss, # corrected"),
    "sentence_transformers_pairs": rising("retrieval of intents: # untrained, # trained"),
    "huggingface_trainer": found("loss over 21 steps: #"),
    "graph_list": rising("shapes recognised by nearest neighbours: # untrained, # trained"),
    "diagnose_embeddings": found(r"(?:9\d|100) of the 100 costliest pairs are of one class"),
    "recommender": rising("hidden purchases among the first 30 items: # untrained, # trained"),
}
"""What each example prints. lightly's is below: lightly is not installed where the tests run."""


def run(name: str) -> None:
    """Run an example in this process, as a script."""
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Those of other libraries.
@pytest.mark.filterwarnings("error::pucl.floored.FlooredWarning")
@pytest.mark.parametrize("name", SAYS)
def test_example(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(name)
    SAYS[name](capsys.readouterr().out)
    assert not list(tmp_path.iterdir()), "an example leaves no files behind"


class TestLightly:
    """Its torchvision does not fit every build of torch, so stand-ins take the place of what the example imports."""

    def test_says_what_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "lightly", None)
        with pytest.raises(SystemExit, match="this example needs lightly with a torchvision that fits torch"):
            run("lightly_loop")

    def test_its_loop_runs(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        modules, transforms = ModuleType("lightly.models.modules"), ModuleType("lightly.transforms")
        modules.SimCLRProjectionHead = head  # type: ignore[attr-defined]
        transforms.SimCLRTransform = TwoViews  # type: ignore[attr-defined]
        for each in (ModuleType("lightly"), ModuleType("lightly.models"), modules, transforms):
            monkeypatch.setitem(sys.modules, each.__name__, each)
        run("lightly_loop")
        losses = [float(each) for each in re.findall(rf"loss {NUMBER}", capsys.readouterr().out)]
        assert len(losses) == 3
        assert losses[2] < losses[0]


def head(inputs: int, hidden: int, outputs: int) -> nn.Module:
    """lightly's head without its batch norms."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


class TwoViews:
    """Two noisy copies of a picture, as lightly's transform returns two views of one."""

    def __init__(self, input_size: int, gaussian_blur: float) -> None:
        assert (input_size, gaussian_blur) == (16, 0.0)

    def __call__(self, picture: object) -> list[torch.Tensor]:
        pixels = torch.tensor(np.asarray(picture), dtype=torch.float32).permute(2, 0, 1) / 255
        return [pixels + 0.1 * torch.randn_like(pixels) for _ in range(2)]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_each_example_is_short_listed_and_marks_one_line(path: Path) -> None:
    text = path.read_text()
    assert path.stem in {*SAYS, "lightly_loop"}
    assert f"[{path.name}]({path.name})" in (EXAMPLES / "README.md").read_text()
    assert f"python examples/{path.name}" in text
    assert text.count(MARK) == 1
    assert len(text.splitlines()) <= 80
