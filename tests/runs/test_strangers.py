"""Files from strangers: nothing in them is run, and a damaged run is one line, for all commands."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import pucl
from pucl.cli import main
from pucl.frameworks.recipes import recipe
from pucl.records import DamagedError
from pucl.runs.directory import RunDirectory
from pucl.runs.display import Display
from pucl.runs.run import run
from small_runs import save_pictures, small_run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on pictures."""
    place = tmp_path_factory.mktemp("finished")
    pictures = save_pictures(place / "pictures.npz", count=40, size=8)
    run(recipe("simclr", str(pictures), epochs=2, batch_size=8, dim=8), place / "run")
    return place / "run"


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    """The same run, to be damaged."""
    place = tmp_path / "runs" / "stranger"
    place.mkdir(parents=True)
    for file in finished.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    return place


def name_encoder(place: Path, path: str) -> None:
    """Let all files of a run name this encoder, as someone would who wants it to be called."""
    config = json.loads((place / "config.json").read_text()) | {"encoder": path}
    (place / "config.json").write_text(json.dumps(config))
    with safe_open(place / "encoder.safetensors", "pt") as file:
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        note = json.loads(file.metadata()["pucl"])
    del note["sha256"]
    note |= {"config": config, "encoder": path}
    save_file(state, place / "encoder.safetensors", {"pucl": json.dumps(note)})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*has no digest")
def test_a_file_never_says_which_code_is_run(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No command imports what a file names, nor `pucl.load`; the refusal shows what the file says."""
    (tmp_path / "trap.py").write_text("from pathlib import Path\nPath('sprung').touch()\ndef make(): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    name_encoder(copy, "trap:make")
    for file in (copy, copy / "encoder.safetensors"):
        with pytest.raises(ValueError, match=r"the file calls it 'trap:make'.*name it yourself"):
            pucl.load(file)
    run_directory = str(copy)
    for command in (
        ["embed", run_directory, "digits", "-o", "rows.npz"],
        ["eval", run_directory],
        ["export", run_directory, "-o", "exported"],
        ["prior", run_directory],
        ["umap", run_directory],
    ):
        assert main(command) == 2
        assert "the file calls it 'trap:make'" in capsys.readouterr().err
    for command in (["report", run_directory, "--out", "page.html"], ["runs", str(copy.parent)]):
        assert main(command) == 0
    assert "trap" not in sys.modules
    assert not (tmp_path / "sprung").exists()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def write(text: str) -> Callable[[Path], object]:
    return lambda file: file.write_text(text)


DAMAGES = {
    "result-empty": ("result.json", write("{}")),
    "config-settings-of-texts": ("config.json", write('{"framework": "simclr", "data": "x", "settings": {"c": "a"}}')),
    "config-brackets": ("config.json", write("[" * 100_000)),
    "config-cut": ("config.json", cut),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_one_line_of_the_list(copy: Path, capsys: pytest.CaptureFixture[str], damage: str) -> None:
    name, harm = DAMAGES[damage]
    other = copy.parent / "good"
    run(small_run(), other)
    harm(copy / name)
    assert main(["runs", str(copy.parent)]) == 0
    shown = capsys.readouterr().out
    assert "good" in shown
    assert "2 of 2 runs" in shown
    assert "damaged" in next(line for line in shown.splitlines() if line.startswith("stranger"))
    assert str(copy / name) in shown
    page = copy.parent / "page.html"
    assert main(["report", str(copy), str(other), "--out", str(page)]) == 0
    assert f"{copy}: {name} is damaged" in capsys.readouterr().err
    assert page.exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"epoch": 1, "step": 4}\n{"epoch": 2, "st', "line 2: expected JSON"),
        ('{"epoch": 1}\n', "line 1: the record lacks 'step'"),
        ("3\n", "line 1: the record should be an object, got 3"),
    ],
)
def test_damaged_metrics_are_named(copy: Path, capsys: pytest.CaptureFixture[str], text: str, why: str) -> None:
    (copy / "metrics.jsonl").write_text(text)
    assert main(["report", str(copy), "--out", str(copy / "page.html")]) == 1
    assert f"{copy}: metrics.jsonl is damaged, or another program wrote it: {why}" in capsys.readouterr().err


def test_metrics_that_lack_epochs_are_not_continued(tmp_path: Path) -> None:
    config = small_run(epochs=3)
    steps = 0

    class StopError(Exception):
        pass

    class Stopping(Display):
        def step(self, metrics: object) -> None:
            nonlocal steps
            steps += 1
            if steps == 4:
                raise StopError

    with pytest.raises(StopError):
        run(config, tmp_path / "run", checkpoint_seconds=0, display=Stopping())
    directory = RunDirectory(tmp_path / "run")
    assert directory.checkpoint.exists()
    kept = directory.metrics.read_text()
    directory.metrics.write_text("")
    with pytest.raises(DamagedError, match=r"metrics.jsonl is damaged.*expected a line for each, got 0"):
        run(config, tmp_path / "run")
    assert directory.checkpoint.exists()
    directory.metrics.write_text(kept)
    state = torch.load(directory.checkpoint, weights_only=True)
    assert state["step"] >= 2
    run(config, tmp_path / "run")


def test_a_record_of_rows_leads_nowhere_else(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page shows what is in its directory: a hostile record cannot bring in other runs."""
    inside = copy.parent / "comparison"
    inside.mkdir()
    record = {"lines": [], "runs": {"plain": ["../stranger", str(copy)]}}
    (inside / "comparison.json").write_text(json.dumps(record))
    main(["report", str(inside), "--out", str(copy / "page.html")])
    assert capsys.readouterr().err.count("runs are below it: expected a relative path") == 2
