"""Work in a forked process that may be killed, may crash, may hang, and cannot harm the campaign.

The campaign imports torch and pucl once and computes nothing itself, so that a fork starts in milliseconds where a new
interpreter needs seconds. Each forked process leads a session of its own, so that what it leaves behind can be found.
"""

import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any, Literal, NoReturn

ADDRESS_ROOM = 15 << 27  # Bytes of address space beyond what the campaign has: enough for pucl, too little for a bomb.
LONG = 300.0  # Seconds for work that is not under attack.


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How work in a process of its own ended.

    Args:
        how: It returned, raised an error, died of a signal (or left without a word), or had to be stopped.
        value: What it returned.
        error: The type of what it raised.
        polite: Whether pucl's command line reports the error as a sentence: ValueError or OSError.
        words: The message of the error, or how the process died.
        printed: Its standard output.
        errors: Its standard error.
        orphans: Whether processes that it started outlived it.
    """

    how: Literal["returned", "raised", "died", "hung"]
    value: Any = None
    error: str = ""
    polite: bool = False
    words: str = ""
    printed: str = ""
    errors: str = ""
    orphans: bool = False


class Child:
    """A forked process that does some work.

    Args:
        work: What it does. Its result must be something that pickle knows.
        bounded: Whether its memory has a bound.
    """

    def __init__(self, work: Callable[[], object], *, bounded: bool = True) -> None:
        self._reader, writer = Pipe(duplex=False)
        self._printed, self._errors = (tempfile.TemporaryFile("w+b") for _ in range(2))  # noqa: SIM115
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            os.dup2(self._printed.fileno(), 1)
            os.dup2(self._errors.fileno(), 2)
            _work_and_leave(work, writer, bounded=bounded)
        writer.close()

    def finished(self, seconds: float = 0.0) -> bool:
        """Whether it has ended, or ends within so many seconds."""
        return self._reader.poll(seconds)

    def kill(self) -> Ending:
        """End it as nothing can be done against, wherever it is."""
        os.kill(self.pid, signal.SIGKILL)
        return self._closed(None)

    def wait(self, seconds: float = LONG) -> Ending:
        """Let it end, within so many seconds."""
        hung = not self.finished(seconds)
        if hung:
            os.kill(self.pid, signal.SIGKILL)
        try:
            fields: dict[str, Any] | None = None if hung else self._reader.recv()
        except EOFError:
            fields = None
        return self._closed(fields, hung=hung)

    def _closed(self, fields: dict[str, Any] | None, *, hung: bool = False) -> Ending:
        _, status = os.waitpid(self.pid, 0)
        orphans = bool(stayed(lambda: in_session(self.pid), 0.0))
        texts: dict[str, Any] = {}
        for name, file in (("printed", self._printed), ("errors", self._errors)):
            file.seek(0)
            texts[name] = file.read().decode(errors="backslashreplace")
            file.close()
        self._reader.close()
        if fields is None:
            how = f"exit {os.waitstatus_to_exitcode(status)}" if not hung else "it did not end"
            return Ending(how="hung" if hung else "died", words=how, orphans=orphans, **texts)
        return Ending(orphans=orphans, **fields, **texts)


def attempt(work: Callable[[], object], seconds: float = LONG) -> Ending:
    """Do some work in a forked process with bounds on time and memory."""
    return Child(work).wait(seconds)


def _work_and_leave(work: Callable[[], object], writer: Any, *, bounded: bool) -> NoReturn:
    if bounded:
        room = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + ADDRESS_ROOM
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
    fields: dict[str, Any]
    try:
        fields = {"how": "returned", "value": work()}
    except SystemExit as stop:  # argparse refuses so.
        fields = {"how": "returned", "value": stop.code}
    except BaseException as error:
        traceback.print_exc()
        polite = isinstance(error, ValueError | OSError)
        fields = {"how": "raised", "error": type(error).__name__, "polite": polite, "words": str(error)[:20_000]}
    sys.stdout.flush()
    sys.stderr.flush()
    writer.send(fields)
    os._exit(0)


def alive(wanted: Callable[[Path], bool]) -> list[int]:
    """The ids of processes that are no zombies, and whose directory in /proc is wanted."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # It has ended meanwhile.
            if wanted(directory) and " Z " not in (directory / "stat").read_text():
                found.append(int(directory.name))
    return found


def marked(mark: str) -> list[int]:
    """The processes whose environment has this mark: a command and everything that it started, however deep."""
    return alive(lambda directory: mark.encode() in (directory / "environ").read_bytes())


def in_session(leader: int) -> list[int]:
    """The processes of the session that this process leads."""
    return alive(lambda directory: (directory / "stat").read_text().rpartition(")")[2].split()[3] == str(leader))


def stayed(processes: Callable[[], list[int]], seconds: float) -> list[str]:
    """The command lines of those processes that do not end within so many seconds, and are killed then."""
    end = time.monotonic() + seconds
    while left := processes():
        if time.monotonic() > end:
            names = []
            for pid in left:
                with suppress(OSError):
                    names.append(
                        Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    )
                    os.kill(pid, signal.SIGKILL)
            return names
        time.sleep(0.1)
    return []
