"""One training in several processes, started by torchrun: the same program, the same result, and no fear of a death."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from torch.distributed.run import get_args_parser

from pucl.commands import compare, train
from pucl.runs.trained import read_weights

OPTIONS = ["--epochs=60", "--width=8", "--batch-size=12", "--dim=8"]
OWN = {"simclr": [], "moco": ["--queue-size=24", "--splits=2"], "cmc": ["--draws=16"]}


def torchrun(framework: str, pictures: Path, out: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2"]
    command += ["-m", "pucl", "train", framework, str(pictures), *OPTIONS, *OWN[framework], "--correction=pucl"]
    command += ["--checkpoint-seconds=0.05"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(  # noqa: S603
        [*command, "--out", str(out)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def workers_of(parent: int) -> list[int]:
    """The processes that torchrun started, oldest first."""
    children = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(word) for word in children.read_text().split()]


@pytest.mark.slow
def test_a_dead_process_is_restarted_and_the_run_goes_on(pictures: Path, tmp_path: Path) -> None:
    if not Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists():
        pytest.skip("children are found through /proc, which this system has not")
    whole = torchrun("moco", pictures, tmp_path / "whole")
    killed = torchrun("moco", pictures, tmp_path / "killed")
    checkpoint = tmp_path / "killed" / "checkpoint.pt"
    end = time.monotonic() + 240
    while not checkpoint.exists() and killed.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    os.kill(workers_of(killed.pid)[-1], signal.SIGKILL)
    outputs = [process.communicate(timeout=240) for process in (whole, killed)]
    assert whole.returncode == 0, outputs[0][1]
    assert killed.returncode == 0, outputs[1][1]
    assert "resuming at step" in outputs[1][1]
    assert outputs[1][0].count("everything is in") == 1  # One of the processes speaks.
    one, other = (read_weights(tmp_path / name / "encoder.safetensors")[0] for name in ("whole", "killed"))
    assert one.keys() == other.keys()
    assert all(one[name].equal(other[name]) for name in one)
    results = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("whole", "killed")]
    assert results[0]["linear"] == results[1]["linear"]
    assert results[0]["processes"] == 2


@pytest.mark.slow
def test_an_error_is_told_by_all_and_ends_all(pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "thesis.tex").write_text("mine")
    process = torchrun("simclr", pictures, tmp_path / "theirs")
    _, errors = process.communicate(timeout=240)
    assert process.returncode != 0
    assert "holds files that are not a run of pucl" in errors
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("command", [train, compare])
def test_no_option_is_taken_for_one_of_torchrun(command: ModuleType) -> None:
    """torchrun's parser also reads what follows the program: it refuses the beginning of two options of its own."""
    own = argparse.ArgumentParser()
    command.add_arguments(own)
    torchrun_options = {option for action in get_args_parser()._actions for option in action.option_strings}
    for option in (option for action in own._actions for option in action.option_strings):
        meant = {other for other in torchrun_options if other.startswith(option)}
        assert option in torchrun_options or not meant, f"{option} could be {meant}"
        parsed = get_args_parser().parse_args(["-m", "pucl", "train", "simclr", "digits", option, "3"])
        assert parsed.training_script_args[-2:] == [option, "3"]


def test_the_old_name_of_the_monitor_is_understood() -> None:
    for option in ("--monitor", "--monitor-times"):
        parser = argparse.ArgumentParser()
        train.add_arguments(parser)
        assert parser.parse_args(["simclr", "digits", option, "3"]).monitor == 3
