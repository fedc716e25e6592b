"""Run many trainings: skip finished ones, resume interrupted ones, and continue when one fails."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from pucl import processes, signals
from pucl.config import RunConfig
from pucl.devices import usable_cores
from pucl.progress import duration
from pucl.runs.collection import RUNS, Collection, Run, open_collection, read_run, write_collection
from pucl.runs.directory import RunDirectory
from pucl.runs.display import PROGRESS, SILENT, Dashboard, Display, ProgressWriter
from pucl.runs.jobs import Done, Job, Outlook, Result
from pucl.runs.loggers import check_loggers
from pucl.runs.reuse import copy_finished, same_data_checker
from pucl.runs.run import check_checkpoint_seconds, run
from pucl.runs.workers import LOOK_SECONDS, job_of_worker, local_workers, ray_workers
from pucl.texts import counted

MOST_DEATHS = 3  # Deaths of workers in a row, without a finished job in between.
SAVED = "unfinished runs are saved; the same command resumes them"


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What the runs of a grid may use.

    Args:
        root: The directory of data sets.
        device: The device to train on; see `pucl.devices.choose_device`.
        compiled: Compile encoder and head with torch.compile first.
        workers: Number of runs at a time, each in its own process with its share of the cores.
        ray: Address of a Ray cluster to run on, or ``"local"`` to start one here; None for the cores of this machine.
            All machines of the cluster must have the runs' directory and the data under the same paths.
        log: Names of loggers that get the metrics too; each run is logged on its own. See `pucl.runs.loggers`.
        checkpoint_seconds: Time between checkpoints: the work that a kill may cost at most.
        reuse: Directories whose finished runs are copied instead of repeated, if their configuration is the same.
    """

    root: Path | None = None
    device: str = "auto"
    compiled: bool = False
    workers: int = 1
    ray: str | None = None
    log: tuple[str, ...] = ()
    checkpoint_seconds: float = 60.0
    reuse: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"workers is the number of runs at a time: expected at least 1, got {self.workers}")
        check_checkpoint_seconds(self.checkpoint_seconds)
        check_loggers(self.log)

    @property
    def threads(self) -> int:
        """Threads of each worker, by the cores of this machine."""
        return max(1, usable_cores() // self.workers)


def run_grid(jobs: Sequence[Job], out: Path, resources: Resources, display: Display = SILENT) -> list[Done]:
    """Run all jobs, collect the finished ones, also after an interruption, and return how each ended, in their order.

    Args:
        jobs: What to run, in this order.
        out: The directory of the grid; each run has its own directory below it.
        resources: What the runs may use.
        display: Shows the progress.
    """
    if len({job.path for job in jobs}) < len(jobs):
        raise ValueError("each run has its own directory: expected a path for each job, got one twice")
    done = _finished_before(jobs, out, resources, display)
    left = [job for job in jobs if job.path not in done]
    outlook = Outlook(left, resources.workers)
    alone = (resources.ray is None and min(resources.workers, len(left)) <= 1) or processes.world_size() > 1 or not left
    dashboard = None
    if display.area and display.area.live and left:
        names = {job.path: job.name for job in jobs}
        rows = {job.path: (job.row, job.part) for job in jobs}
        dashboard = Dashboard(display.area, names, rows, out, resources.workers, outlook.left, display.score)
        for path, each in done.items():
            dashboard.finish(path, each.result)
    try:
        with dashboard or nullcontext():
            if alone:
                ending = _one_by_one(left, out, resources, display, dashboard)
            else:
                ending = _side_by_side(left, out, resources, dashboard)
            for each in ending:
                done[each.job.path] = each
                outlook.note(each)
                words = f"failed: {each.error}" if each.error else f"done in {duration(each.seconds)}"
                if dashboard is not None:
                    dashboard.finish(each.job.path, each.result)
                    if each.error:
                        dashboard.say(f"{each.job.name}: {words}")
                elif each.error or not alone:
                    rest = f"; {outlook.left()}" if len(done) < len(jobs) else ""
                    display.say(f"[{len(done)} of {len(jobs)}] {each.job.name}: {words}{rest}")
    finally:
        if processes.rank() == 0:
            _collect(out, [job for job in jobs if job.path in done and done[job.path].result is not None], display)
    return [done[job.path] for job in jobs]


def _finished_before(jobs: Sequence[Job], out: Path, resources: Resources, display: Display) -> dict[str, Done]:
    """Jobs that are finished already, by path: by an earlier call, or copied from another directory."""
    same_data = same_data_checker(resources.root)
    if resources.reuse:
        wanted = {job.path: job.config for job in jobs}
        reused = processes.from_first(lambda: copy_finished(wanted, out, resources.reuse, same_data))
        display.say(f"{len(reused.copied)} of {len(jobs)} runs are copied from {', '.join(map(str, resources.reuse))}")
        if reused.collected:
            display.say(f"{counted(reused.collected, 'run')} there only in {RUNS}, without an encoder: run again")
    if processes.world_size() > 1:
        return {}
    for damaged in _damaged_collection(out):
        display.say(f"{damaged}; runs that are only there are run again")
    done = _finished(jobs, out, same_data)
    if done:
        display.say(f"{len(done)} of {len(jobs)} runs are finished already")
    collected = sum(not (out / path).exists() for path in done)
    if collected:
        display.say(f"{counted(collected, 'run')} of these only in {out / RUNS}; delete it to train them again")
    return done


def _finished(
    jobs: Sequence[Job], out: Path, same_data: Callable[[RunConfig, Result], bool] = lambda _config, _result: True
) -> dict[str, Done]:
    """Finished jobs, by path: those whose directory has a result, and those without a directory that were collected.

    All other directories, also damaged ones and those of other runs, are left to `run`.
    """
    done = {}
    collection = _collection_in(out)
    for job in jobs:
        directory = RunDirectory(out / job.path)
        with suppress(ValueError):
            if directory.path.exists():
                result, config = directory.result(), directory.config()
            elif collection is not None and job.path in collection:
                result, config = collection.result(job.path), collection.config(job.path)
            else:
                continue
            if result is not None and config == job.config and same_data(job.config, result):
                done[job.path] = Done(job=job, result=result, error=None, seconds=0.0)
    return done


def check_some_finished(done: Sequence[Done]) -> None:
    """Raise the first error if all runs failed: most likely they share its cause."""
    if all(each.error is not None for each in done):
        raise ValueError(done[0].error)


def _collect(out: Path, finished: Sequence[Job], display: Display) -> None:
    """Write the collection of a grid's finished runs beside their directories.

    Runs without a directory, and those of other grids in this directory, stay as the collection has them.

    Args:
        out: The directory of the grid.
        finished: Its jobs that have a result.
        display: Reports damaged runs, which are skipped.
    """
    collection = _collection_in(out)
    names = {path: path for path in collection or ()} | {job.path: job.name for job in finished}
    runs: dict[str, Run] = {}
    for path, name in names.items():
        try:
            if collection is None or (out / path).exists():
                runs[path] = read_run(out / path)
            else:
                runs[path] = collection.run(path)
        except (ValueError, OSError) as error:
            display.say(f"{name} is left out of the collection: {error}")
    if runs:
        write_collection(out, {path: run for path, run in runs.items() if run.result is not None})


def _damaged_collection(out: Path) -> list[ValueError]:
    """What is damaged in the collection of an earlier call."""
    try:
        collection = open_collection(out)
    except ValueError as error:
        return [error]
    return [] if collection is None else list(collection.damaged)


def _collection_in(out: Path) -> Collection | None:
    """The collection of an earlier call; None if there is none, or if it is damaged and will be replaced."""
    with suppress(ValueError):
        return open_collection(out)
    return None


def _one_by_one(
    jobs: Sequence[Job], out: Path, resources: Resources, display: Display, dashboard: Dashboard | None
) -> Iterator[Done]:
    """Run jobs in this process."""
    for number, job in enumerate(jobs, 1):
        if dashboard is not None:
            dashboard.send(job.path)
            shown: Display = dashboard.writer(job.path)
        else:
            shown = display.labelled(f"{job.name} ({number} of {len(jobs)})")
        try:
            yield _run(job, out, resources, shown)
        except KeyboardInterrupt as stop:
            raise signals.Stopped(signals.signal_of(stop), SAVED) from stop


def _side_by_side(jobs: Sequence[Job], out: Path, resources: Resources, dashboard: Dashboard | None) -> Iterator[Done]:
    """Run several jobs at a time. A worker that dies ends the others too; their jobs resume from checkpoints."""
    left = {job.path: job for job in jobs}
    deaths = 0
    while left:
        before = len(left)
        try:
            for done in _in_workers(list(left.values()), out, resources, dashboard):
                del left[done.job.path]
                yield done
        except BrokenProcessPool:
            deaths = deaths + 1 if len(left) == before else 0
            if deaths == MOST_DEATHS:  # One job kills all the others, or several at a time need too much memory.
                break
    for job in left.values():
        try:
            yield from _in_workers([job], out, resources, dashboard)
        except BrokenProcessPool as error:
            yield Done(job=job, result=None, error=_death_in_words(error), seconds=0.0)


def _death_in_words(error: BaseException) -> str:
    """Why a job failed whose worker died: the last line of the worker's traceback, if there is one."""
    words = "its process died several times, also when it ran alone"
    reason = str(error.__cause__ or "").strip().splitlines()
    return f"{words}: {reason[-1]}" if reason else f"{words}, perhaps for lack of memory"


def _in_workers(jobs: Sequence[Job], out: Path, resources: Resources, dashboard: Dashboard | None) -> Iterator[Done]:
    """Run jobs in worker processes. After a signal no job begins, and on this machine those that run are saved."""
    waiting = list(reversed(jobs))
    running: dict[Future[Done | None], Job] = {}
    grid = None if dashboard is None else dashboard.grid
    number, threads = min(resources.workers, len(jobs)), resources.threads
    starting = local_workers(number, threads) if resources.ray is None else ray_workers(resources.ray, number, threads)
    with starting as workers:
        try:
            while running or (waiting and not workers.stop.is_set()):
                while waiting and len(running) < number and not workers.stop.is_set():
                    job = waiting.pop()
                    if dashboard is not None:
                        dashboard.send(job.path)
                    running[workers.pool.submit(_run_in_worker, job, out, resources, threads, grid)] = job
                for future in wait(running, LOOK_SECONDS, FIRST_COMPLETED).done:
                    done = _done_of(future, running.pop(future))
                    if done is not None:
                        yield done
                workers.pass_on_signals()
        except BrokenProcessPool:
            workers.pass_on_signals()
            if not workers.stop.is_set():
                raise
        if workers.stop.is_set():
            raise workers.stop.exception(SAVED)


def _done_of(future: "Future[Done | None]", job: Job) -> Done | None:
    """How a job ended in a worker; None if a signal stopped it."""
    try:
        return future.result()
    except BrokenProcessPool:
        raise
    except Exception as error:  # Of Ray, about a worker that died.
        return Done(job=job, result=None, error=f"{type(error).__name__}: {error}", seconds=0.0)


def _run_in_worker(job: Job, out: Path, resources: Resources, threads: int, grid: str | None = None) -> Done | None:
    """Run a job in a worker process that reports its progress to a grid; return None if a signal stopped it."""
    torch.set_num_threads(threads)
    display = SILENT if grid is None else ProgressWriter(file=out / job.path / PROGRESS, grid=grid)
    try:
        with job_of_worker():
            return _run(job, out, resources, display)
    except KeyboardInterrupt:
        return None


def _run(job: Job, out: Path, resources: Resources, display: Display) -> Done:
    began = time.monotonic()
    try:
        result = run(
            job.config,
            out / job.path,
            root=resources.root,
            device=resources.device,
            compiled=resources.compiled,
            log=resources.log,
            checkpoint_seconds=resources.checkpoint_seconds,
            display=display,
        )
    except Exception as error:  # Whatever went wrong, the other runs continue.
        words = str(error) if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: {error}"
        return Done(job=job, result=None, error=words, seconds=time.monotonic() - began)
    finally:
        with suppress(OSError):
            (out / job.path / PROGRESS).unlink(missing_ok=True)  # Also the file of a grid that was killed.
    return Done(job=job, result=result, error=None, seconds=time.monotonic() - began)
