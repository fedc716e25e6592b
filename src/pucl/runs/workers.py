"""Processes that run the jobs of a grid: workers on this machine, or a Ray cluster.

The process that runs the grid is called its driver. The workers are children of the driver. They stop when the driver
is asked to stop, and they never outlive it.
"""

import multiprocessing
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from typing import Any
from urllib.parse import urlsplit

from pucl import signals
from pucl.data.errors import ExtraMissingError
from pucl.signals import STOPPING, Stop

LOOK_SECONDS = 0.2
REPEAT_SECONDS = 30.0  # Saving a run takes less.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
LOCAL = "local"  # Instead of the address of a Ray cluster: start one here.
ANSWER_SECONDS = 10.0  # A host that takes longer to answer counts as absent.

_is_worker = False
_stopped: int | None = None


def start_worker(driver: int) -> None:
    """Prepare a worker, before its first job: end it when its driver is gone, however the driver died.

    A worker without a driver would hold directories that the next grid needs. The parent of a process changes when
    the parent dies, and no later process becomes its parent, so comparing process ids is exact.

    Args:
        driver: Process id. It comes from the driver itself: this process may have lost its parent while it imported.
    """
    global _is_worker  # noqa: PLW0603 - It is a fact about this process.
    _is_worker = True

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(LOOK_SECONDS)
        os._exit(1)

    if os.getppid() != driver:
        os._exit(1)
    threading.Thread(target=watch, daemon=True, name="pucl-driver").start()


@contextmanager
def job_of_worker() -> Iterator[None]:
    """Let signals stop the job that is run inside of this context; outside of it they wait, see `local_workers`.

    A worker that was stopped once also refuses jobs that were sent to it before the driver knew.
    """
    global _stopped  # noqa: PLW0603 - It is a fact about this process.
    if not _is_worker:  # Ray has its own way to stop workers.
        yield
        return
    if _stopped is not None:
        raise signals.Stopped(_stopped)
    with signals.raised():
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
            yield
        except KeyboardInterrupt as stop:
            _stopped = signals.signal_of(stop)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)


@dataclass
class Workers:
    """The worker processes of a grid, as its driver sees them.

    Args:
        pool: Runs functions in the workers.
        stop: Whether a signal asked the driver to stop.
        signalled: Time of the last signal to each worker, by process id.
    """

    pool: Executor
    stop: Stop
    signalled: dict[int, float] = field(default_factory=dict)

    def pass_on_signals(self) -> None:
        """Send a signal that the driver got to the workers, which save their jobs and return.

        It is sent again after a while to workers that go on: a signal can get lost where a library catches all errors.
        """
        if not self.stop.is_set() and signal.sigpending() & set(STOPPING):
            self.stop.note(signal.sigwait(STOPPING))
        if self.stop.number is None:
            return
        now = time.monotonic()
        for worker in multiprocessing.active_children():
            if worker.pid is not None and now - self.signalled.get(worker.pid, -REPEAT_SECONDS) >= REPEAT_SECONDS:
                self.signalled[worker.pid] = now
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, self.stop.number)


@contextmanager
def local_workers(number: int, threads: int) -> Iterator[Workers]:
    """Worker processes that live until the end of this context.

    Args:
        number: How many.
        threads: Threads of each, also in the libraries that it calls.

    Workers inherit blocked signals from the threads that start them. So a signal that arrives while a worker still
    imports does not kill it with a traceback: it waits for the worker's next job.
    """
    from joblib.externals.loky import ProcessPoolExecutor  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)

    with warnings.catch_warnings(), _blocked_signals() as stop:
        # A worker whose run took much memory is replaced. That is no reason for a warning.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
        pool = ProcessPoolExecutor(
            number, initializer=start_worker, initargs=(os.getpid(),), env=dict.fromkeys(THREADS, str(threads))
        )
        try:
            yield Workers(pool, stop)
        finally:
            pool.shutdown(kill_workers=True)  # All jobs have ended, or their results are not wanted any more.


@contextmanager
def _blocked_signals() -> Iterator[Stop]:
    """Block signals in this thread and in the threads and processes that it starts; other threads note them."""
    if threading.current_thread() is not threading.main_thread():
        yield Stop()
        return
    _start_trackers()
    with signals.noted() as stop:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        try:
            yield stop
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_trackers() -> None:
    """Start the helper processes of multiprocessing and joblib now: starting them unblocks signals as a side effect."""
    from joblib.externals.loky.backend import (  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)
        resource_tracker as trackers_of_joblib,
    )

    resource_tracker.ensure_running()
    trackers_of_joblib.ensure_running()


@contextmanager
def ray_workers(address: str, number: int, threads: int) -> Iterator[Workers]:
    """Workers on a Ray cluster. A signal stops the driver alone; their jobs continue from checkpoints another time.

    Args:
        address: HOST:PORT or ray://HOST:PORT, ``"auto"`` to find a cluster, or ``"local"`` to start one here.
        number: Number of workers of a cluster that is started here.
        threads: Threads of each.
    """
    try:
        import ray  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise ExtraMissingError("--ray", "ray", "ray") from error
    started = not ray.is_initialized()
    if started and address == LOCAL:
        ray.init(num_cpus=number * threads, include_dashboard=False, log_to_driver=False)
    elif started:
        _check_answer(address)
        try:
            ray.init(address=address, log_to_driver=False)
        except ConnectionError as error:
            raise ValueError(f"{_meaning(address)}, and there is none: {error}") from error
    try:
        yield Workers(_RayPool(threads), Stop())
    finally:
        if started:
            ray.shutdown()


class _RayPool(Executor):
    """Runs functions on a Ray cluster.

    Args:
        threads: Cores that each function needs.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a function; its result is that of the future."""
        import ray  # noqa: PLC0415 (an extra)

        future: Future[Any] = ray.remote(num_cpus=self._threads)(fn).remote(*args, **kwargs).future()
        return future


def _check_answer(address: str) -> None:
    """Refuse an address that does not answer: Ray itself would try for minutes."""
    if address == "auto":
        return
    try:
        parts = urlsplit(address if "://" in address else f"ray://{address}")
        host, port = parts.hostname, parts.port
    except ValueError:  # The port is no number.
        host = port = None
    if host is None or port is None:
        raise ValueError(f"{_meaning(address)}: expected HOST:PORT, auto or {LOCAL}")
    try:
        socket.create_connection((host, port), timeout=ANSWER_SECONDS).close()
    except OSError as error:
        raise ValueError(f"{_meaning(address)}, which does not answer: {error}") from error


def _meaning(address: str) -> str:
    return f"--ray {address} is the address of a Ray cluster"
