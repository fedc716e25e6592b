"""Worker processes of a grid on this machine: they stop when the grid is asked to, and never outlive it.

The process that runs the grid is called its driver. joblib starts the workers as children of the driver.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker

from pucl import signals
from pucl.signals import STOPPING, Stop

LOOK_SECONDS = 0.2
IDLE_LOOKS = 15  # Looks without a job, after a signal, before workers are killed: three seconds.

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
    """Let signals stop the job that is run inside of this context; outside of it they wait, see `stop_of_driver`.

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


@contextmanager
def stop_of_driver(busy: Callable[[], bool]) -> Iterator[Stop]:
    """Note signals in the driver and pass them on to the workers, which save their jobs and return.

    Once no job is going on any more, the workers are killed: joblib sometimes waits for the result of a job that was
    stopped, for ever.

    Args:
        busy: Whether a job is going on.

    Workers inherit blocked signals from the threads that start them. So a signal that arrives while a worker still
    imports does not kill it with a traceback: it waits for the worker's next job.
    """
    if threading.current_thread() is not threading.main_thread():
        yield Stop()
        return
    _start_trackers()
    with signals.noted() as stop, _blocked():
        end = threading.Event()
        thread = threading.Thread(target=_pass_on, args=(stop, end, busy), daemon=True, name="pucl-signals")
        thread.start()
        try:
            yield stop
        finally:
            end.set()
            thread.join()


def _start_trackers() -> None:
    """Start the helper processes of multiprocessing and joblib now: starting them unblocks signals as a side effect."""
    from joblib.externals.loky.backend import (  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)
        resource_tracker as trackers_of_joblib,
    )

    resource_tracker.ensure_running()
    trackers_of_joblib.ensure_running()


@contextmanager
def _blocked() -> Iterator[None]:
    """Block signals in this thread and in the threads and processes that it starts."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _pass_on(stop: Stop, end: threading.Event, busy: Callable[[], bool]) -> None:
    """Take signals that wait because they are blocked, and send the first to each worker once, also to late ones."""
    told: set[int] = set()
    idle = 0
    while not end.wait(LOOK_SECONDS):
        if signal.sigpending() & set(STOPPING):
            stop.note(signal.sigwait(STOPPING))
        if stop.number is not None:
            for worker in multiprocessing.active_children():
                if worker.pid is not None and worker.pid not in told:
                    told.add(worker.pid)
                    with suppress(ProcessLookupError):
                        os.kill(worker.pid, stop.number)
            idle = 0 if busy() else idle + 1
            if idle == IDLE_LOOKS:
                for worker in multiprocessing.active_children():
                    if worker.pid is not None:
                        with suppress(ProcessLookupError):
                            os.kill(worker.pid, signal.SIGKILL)
