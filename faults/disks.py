"""Disks that fill up while a run is written: it stops with a sentence, and goes on once there is room."""

import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pucl.cli
from faults.attempt import attempt
from faults.trial import Kind, Outcome, Trial, fault_of
from faults.victims import differences, finished_run, leftovers, train

FRAMEWORKS = ("simclr", "moco", "infograph")
FULL = ("No space left", "File too large", "disk", "space")


def fill_disk(trial: Trial) -> Outcome:
    """A file system of a few kilobytes, made larger when the run has stopped."""
    framework, size = trial.one_of(FRAMEWORKS), int(trial.rng.integers(4, 1500))
    with _tiny(trial.place / "disk", size) as disk:
        return _stop_and_go_on(trial, framework, disk / "run", f"a disk of {size} KiB", full=None, disk=disk)


def limit_files(trial: Trial) -> Outcome:
    """Files may not grow beyond a few kilobytes, until the run has stopped."""
    framework, most = trial.one_of(FRAMEWORKS), int(trial.rng.integers(100, 600_000))
    return _stop_and_go_on(
        trial, framework, trial.place / "run", f"files of {most} bytes at most", full=most, disk=None
    )


def _stop_and_go_on(
    trial: Trial, framework: str, out: Path, words: str, *, full: int | None, disk: Path | None
) -> Outcome:
    whole = finished_run(trial.workspace, framework)
    arguments = train(framework, out, checkpoint_seconds=trial.one_of((0.0, 0.05)))

    def narrow() -> int:
        if full is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (full, full))
        return pucl.cli.main(arguments)

    words = f"{framework}, {words}"
    first = attempt(narrow)
    if fault := fault_of(first):
        return Outcome("failed", f"{words}: {fault}")
    if first.value != 0 and not any(word in first.errors for word in FULL):
        return Outcome("failed", f"{words}: exit {first.value} and no word of a full disk: {first.errors[-300:]}")
    parts = [path.name for path in out.glob(".*.part")] if out.exists() else []
    if parts:
        return Outcome("failed", f"{words}: {', '.join(parts)} takes up the room that is wanting")
    if disk is not None:
        _mount("-o", "remount,size=64m", str(disk))
    second = attempt(lambda: pucl.cli.main(arguments))
    if second.value != 0 or fault_of(second):
        return Outcome("failed", f"{words}: with room again, {fault_of(second)} {second.errors[-500:]}")
    if wrong := differences(whole, out) + leftovers(out):
        return Outcome("failed", f"{words}: with room again it differs: {', '.join(wrong)}")
    return Outcome("recovered", f"{words}: {'it was enough' if first.value == 0 else first.errors[-200:].strip()}")


@contextmanager
def _tiny(place: Path, kibibytes: int) -> Iterator[Path]:
    place.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(place))
    try:
        yield place
    finally:
        subprocess.run([shutil.which("umount") or "umount", "-l", str(place)], check=True)  # noqa: S603


def _mount(*arguments: str) -> None:
    subprocess.run([shutil.which("mount") or "mount", *arguments], check=True, capture_output=True)  # noqa: S603


def _cannot_mount() -> str:
    """Why no small file system can be had."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return "mounting a small file system needs the superuser"
    import tempfile  # noqa: PLC0415

    try:
        with tempfile.TemporaryDirectory() as place, _tiny(Path(place) / "disk", 16):
            return ""
    except (subprocess.CalledProcessError, OSError) as error:
        return f"mounting is not permitted: {error}"


KINDS = (
    Kind(
        "disk-full", "full disks", "a training on a small disk, made larger later", fill_disk, 3, missing=_cannot_mount
    ),
    Kind("disk-limit", "full disks", "a training whose files may not grow, until it has stopped", limit_files, 3),
)
