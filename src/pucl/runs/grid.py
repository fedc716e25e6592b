"""Many runs: what is finished is skipped, what was interrupted goes on, and one that fails does not stop the rest."""

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch

from pucl import processes, signals
from pucl.config import RunConfig
from pucl.devices import usable_cores
from pucl.progress import duration
from pucl.runs.cluster import ray_cluster
from pucl.runs.collection import RUNS
from pucl.runs.dashboard import Dashboard, Positions
from pucl.runs.directory import RunDirectory
from pucl.runs.display import PROGRESS, Display, ProgressWriter
from pucl.runs.reuse import bring_finished, on_same_data
from pucl.runs.run import SILENT, check_checkpoint_seconds, run
from pucl.runs.workers import job_of_worker, start_worker, stop_of_driver
from pucl.texts import counted

NOWHERE: Positions = {}
MOST_DEATHS = 3  # Of workers, one after the other without a job done in between.
GOES_ON = "what was going on is saved; the same command goes on with it"


Result = dict[str, Any]
"""What a run came to, as its record has it."""

Kind = tuple[str, str, str, int]
"""Framework, data, correction and epochs."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run of a grid.

    Args:
        name: What it is called while it goes on.
        place: Its directory below that of the grid.
        config: What to run.
        row: The row of the table that it belongs to, as it is shown.
        part: The part of the table, as it is shown; empty where a table has one part.
    """

    name: str
    place: str
    config: RunConfig
    row: str = ""
    part: str = ""

    @property
    def kind(self) -> Kind:
        """Runs of one kind take about the same time."""
        return self.config.framework, self.config.data, self.config.correction, self.config.epochs


@dataclass(frozen=True, kw_only=True)
class Done:
    """What a job came to.

    Args:
        job: The job.
        result: Its result; None if it failed.
        error: What went wrong; None if nothing did.
        seconds: How long it took now; 0 where it was finished before.
    """

    job: Job
    result: Result | None
    error: str | None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Means:
    """With what jobs are run.

    Args:
        root: Where data are.
        device: Where to train; see `pucl.devices.choose_device`.
        compiled: Let torch.compile translate encoder and head first.
        workers: How many runs at a time, each in a process of its own with its share of the cores.
        ray: Address of a Ray cluster to run on, or ``"local"`` to start one here; None for this machine's cores. The
            runs' directory and the data must be there on every machine, under the same paths.
        tensorboard: Write metrics as TensorBoard's events as well.
        checkpoint_seconds: How much work of a run a kill may cost at most.
        reuse: Directories whose finished runs are copied where a job is the same, in place of running it once more.
    """

    root: Path | None = None
    device: str = "auto"
    compiled: bool = False
    workers: int = 1
    ray: str | None = None
    tensorboard: bool = False
    checkpoint_seconds: float = 60.0
    reuse: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"workers is how many runs go on at a time: expected at least 1, got {self.workers}")
        check_checkpoint_seconds(self.checkpoint_seconds)


def run_grid(jobs: Sequence[Job], out: Path, means: Means, display: Display = SILENT) -> list[Done]:
    """Run all jobs; what each came to, in their order.

    Args:
        jobs: What to run, in this order.
        out: Where the runs are kept, each in a directory of its own.
        means: With what.
        display: Shows how it goes.
    """
    if len({job.place for job in jobs}) < len(jobs):
        raise ValueError("runs are kept in directories of their own: expected a place for each job, got one twice")
    same = on_same_data(means.root)
    if means.reuse:
        wanted = {job.place: job.config for job in jobs}
        brought = processes.from_first(lambda: bring_finished(wanted, out, means.reuse, same))
        display.say(f"{len(brought.copied)} of {len(jobs)} runs are copied from {', '.join(map(str, means.reuse))}")
        if brought.collected:
            display.say(f"{counted(brought.collected, 'run')} there only in {RUNS}, without an encoder: run again")
    done = {} if processes.world_size() > 1 else _finished(jobs, out, same)
    if done:
        display.say(f"{len(done)} of {len(jobs)} runs are finished already")
    left = [job for job in jobs if job.place not in done]
    ahead = Outlook(left, means.workers)
    alone = (means.ray is None and min(means.workers, len(left)) <= 1) or processes.world_size() > 1 or not left
    dashboard = None
    if display.area and display.area.live and left:
        names = {job.place: job.name for job in jobs}
        rows = {job.place: (job.row, job.part) for job in jobs}
        dashboard = Dashboard(display.area, names, rows, out, means.workers, ahead.left, display.score)
        for place, each in done.items():
            dashboard.finish(place, each.result)
    with dashboard or nullcontext():
        if alone:
            going = _one_by_one(left, out, means, display, dashboard)
        elif means.ray is None:
            going = _side_by_side(left, out, means, dashboard)
        else:
            going = _on_ray(means.ray, left, out, means, dashboard)
        for each in going:
            done[each.job.place] = each
            ahead.note(each)
            words = f"failed: {each.error}" if each.error else f"done in {duration(each.seconds)}"
            if dashboard is not None:
                dashboard.finish(each.job.place, each.result)
                if each.error:
                    dashboard.say(f"{each.job.name}: {words}")
            elif each.error or not alone:
                rest = f"; {ahead.left()}" if len(done) < len(jobs) else ""
                display.say(f"[{len(done)} of {len(jobs)}] {each.job.name}: {words}{rest}")
    return [done[job.place] for job in jobs]


class Outlook:
    """How long the rest of a grid will take.

    Args:
        jobs: All jobs.
        workers: How many at a time.
    """

    def __init__(self, jobs: Sequence[Job], workers: int) -> None:
        self._waiting = {job.place: job.kind for job in jobs}
        self._workers = workers
        self._took: dict[Kind, list[float]] = {}
        self._lock = threading.Lock()  # The dashboard asks from another thread.

    def note(self, done: Done) -> None:
        """Learn from a job that is done."""
        with self._lock:
            del self._waiting[done.job.place]
            if done.error is None:
                self._took.setdefault(done.job.kind, []).append(max(done.seconds, _whole_seconds(done.result or {})))

    def left(self, positions: Positions = NOWHERE) -> str:
        """The rest in words: by what runs of the same kind took, or else by the mean.

        Args:
            positions: Of jobs that go on. Before the first is done, these say how long one takes.
        """
        with self._lock:
            everything = [seconds for kind in self._took.values() for seconds in kind]
            everything = everything or [rest / (1 - share) for share, rest in positions.values() if share < 1]
            if not everything:
                return f"{len(self._waiting)} to go"
            mean = sum(everything) / len(everything)
            means = {kind: sum(values) / len(values) for kind, values in self._took.items()}
            going = {place: rest for place, (_, rest) in positions.items() if place in self._waiting}
            ahead = [going.get(place, means.get(kind, mean)) for place, kind in self._waiting.items()]
        together = min(self._workers, len(ahead)) or 1
        return f"about {duration(max([sum(ahead) / together, *going.values()]))} left"


def _whole_seconds(result: Result) -> float:
    """What a run took in all, where it was begun by an earlier call too."""
    return float(result.get("seconds", 0.0) + result.get("evaluation_seconds", 0.0))


def _finished(
    jobs: Sequence[Job], out: Path, counts: Callable[[RunConfig, Result], bool] = lambda _config, _result: True
) -> dict[str, Done]:
    """The jobs that are finished, by place. Whatever else is there, damaged or of others, is for `run` to judge."""
    done = {}
    for job in jobs:
        directory = RunDirectory(out / job.place)
        with suppress(ValueError):
            result = directory.result()
            if result is not None and directory.config() == job.config and counts(job.config, result):
                done[job.place] = Done(job=job, result=result, error=None, seconds=0.0)
    return done


def _one_by_one(
    jobs: Sequence[Job], out: Path, means: Means, display: Display, dashboard: Dashboard | None
) -> Iterator[Done]:
    for number, job in enumerate(jobs, 1):
        if dashboard is not None:
            dashboard.send(job.place)
            shown: Display = dashboard.writer(job.place)
        else:
            shown = display.labelled(f"{job.name} ({number} of {len(jobs)})")
        try:
            yield _run(job, out, means, shown)
        except KeyboardInterrupt as stop:
            raise signals.Stopped(signals.signal_of(stop), GOES_ON) from stop


def _side_by_side(jobs: Sequence[Job], out: Path, means: Means, dashboard: Dashboard | None) -> Iterator[Done]:
    """Several at a time. A worker that dies ends the others too; their jobs continue from their checkpoints."""
    from joblib.externals.loky import BrokenProcessPool  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)

    left = {job.place: job for job in jobs}
    deaths = 0
    while left:
        before = len(left)
        try:
            for done in _in_workers(list(left.values()), out, means, dashboard):
                del left[done.job.place]
                yield done
        except BrokenProcessPool:
            deaths = deaths + 1 if len(left) == before else 0
            if deaths == MOST_DEATHS:  # One of them takes all others with it, or there is no memory for several.
                break
    for job in left.values():
        try:
            yield from _in_workers([job], out, means, dashboard)
        except BrokenProcessPool as error:
            yield Done(job=job, result=None, error=_of_death(error), seconds=0.0)


def _of_death(error: BaseException) -> str:
    """Why a job failed whose worker died, in words; the last line of the worker's traceback where there is one."""
    words = "its process died again and again, alone too"
    reason = str(error.__cause__ or "").strip().splitlines()
    return f"{words}: {reason[-1]}" if reason else f"{words}, perhaps for want of memory"


def _in_workers(jobs: Sequence[Job], out: Path, means: Means, dashboard: Dashboard | None) -> Iterator[Done]:
    """In processes of this machine."""
    from joblib import Parallel, delayed, parallel_config  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)
    from joblib.externals.loky import BrokenProcessPool, get_reusable_executor  # noqa: PLC0415

    threads = max(1, usable_cores() // means.workers)
    with (
        warnings.catch_warnings(),
        stop_of_driver(lambda: any(RunDirectory(out / job.place).in_use for job in jobs)) as stop,
        parallel_config(
            backend="loky", inner_max_num_threads=threads, initializer=start_worker, initargs=(os.getpid(),)
        ),
    ):
        # Where a run took much memory, a fresh worker takes the place of its own: nothing to worry anyone with.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
        # No job is sent ahead, so that after a signal none is begun.
        parallel = Parallel(n_jobs=means.workers, return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs")
        waiting = _sent(takewhile(lambda _: not stop.is_set(), jobs), dashboard)
        grid = None if dashboard is None else dashboard.grid
        try:
            for done in parallel(delayed(_run_in_worker)(job, out, means, threads, grid) for job in waiting):
                if done is not None:
                    yield done
        except BrokenProcessPool:
            if not stop.is_set():
                raise
        if stop.is_set():
            get_reusable_executor(kill_workers=True).shutdown(kill_workers=True)  # Signals may still wait in workers.
            raise stop.exception(GOES_ON)


def _sent(jobs: Iterable[Job], dashboard: Dashboard | None) -> Iterator[Job]:
    """The same jobs; the dashboard is told when one is taken."""
    for job in jobs:
        if dashboard is not None:
            dashboard.send(job.place)
        yield job


def _on_ray(address: str, jobs: Sequence[Job], out: Path, means: Means, dashboard: Dashboard | None) -> Iterator[Done]:
    """On a Ray cluster. Its joblib backend gives all results at the end, so on the way their files are looked for."""
    from joblib import Parallel, delayed, parallel_config  # noqa: PLC0415 (an extra)

    threads = max(1, usable_cores() // means.workers)
    judged = set(_finished(jobs, out))  # Of other data, or they would not be here: their workers say so.
    told = set(judged)
    with (
        ray_cluster(address, means.workers * threads),
        parallel_config(backend="ray", ray_remote_args={"num_cpus": threads}),
    ):
        parallel = Parallel(n_jobs=means.workers, batch_size=1)
        grid = None if dashboard is None else dashboard.grid
        tasks = [delayed(_run_in_worker)(job, out, means, threads, grid) for job in jobs]
        everything = _in_background(lambda: parallel(tasks))
        while not everything.done():
            for place, done in _finished([job for job in jobs if job.place not in told], out).items():
                told.add(place)
                yield replace(done, seconds=_whole_seconds(done.result or {}))
            time.sleep(0.5)
        told -= judged
        yield from (done for done in everything.result() if done is not None and done.job.place not in told)


def _in_background(work: Callable[[], list[Done | None]]) -> "Future[list[Done | None]]":
    """Work in a thread for which nobody waits at the end: Ctrl-C would have to, for the whole of a grid."""
    result: Future[list[Done | None]] = Future()

    def go() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # It is raised where the result is asked for.
            result.set_exception(error)

    threading.Thread(target=go, daemon=True, name="pucl-ray").start()
    return result


def _run_in_worker(job: Job, out: Path, means: Means, threads: int, grid: str | None = None) -> Done | None:
    """One job in a process of its own that reports its progress to a grid; None if a signal stopped it."""
    torch.set_num_threads(threads)
    display = SILENT if grid is None else ProgressWriter(file=out / job.place / PROGRESS, grid=grid)
    try:
        with job_of_worker():
            return _run(job, out, means, display)
    except KeyboardInterrupt:
        return None


def _run(job: Job, out: Path, means: Means, display: Display) -> Done:
    began = time.monotonic()
    try:
        result = run(
            job.config,
            out / job.place,
            root=means.root,
            device=means.device,
            compiled=means.compiled,
            tensorboard=means.tensorboard,
            checkpoint_seconds=means.checkpoint_seconds,
            display=display,
        )
    except Exception as error:  # Whatever went wrong, the other runs go on.
        words = str(error) if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: {error}"
        return Done(job=job, result=None, error=words, seconds=time.monotonic() - began)
    finally:
        with suppress(OSError):
            (out / job.place / PROGRESS).unlink(missing_ok=True)  # Also that of a grid that was killed.
    return Done(job=job, result=result, error=None, seconds=time.monotonic() - began)
