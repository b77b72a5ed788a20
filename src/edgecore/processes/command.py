"""Run a command to its end, within limits, and kill all processes that it started."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from edgecore.processes.interrupts import uninterrupted

_POLL_SECONDS = 0.2
"""Seconds between two checks of a command's memory: each reads all of /proc for milliseconds and disturbs timings."""
_DRAIN_SECONDS = 5.0
_PART = 1 << 16
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096

Limit = Literal["", "seconds", "memory", "cancelled"]


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of a command that has ended.

    Attributes:
        status: The exit status; negative for a signal, as in `subprocess`.
        out: The text written to stdout.
        err: The text written to stderr.
        stopped: The limit for which the command was killed; empty if it ended by itself.
    """

    status: int
    out: str
    err: str
    stopped: Limit = ""

    @property
    def reason(self) -> str:
        """The reason of a failure: the last line of stderr, else of stdout, else a description of the exit status."""
        return last_line(self.err) or last_line(self.out) or exit_text(self.status)


def run_command(
    command: Sequence[str],
    *,
    seconds: float = math.inf,
    memory_mb: float = math.inf,
    stop: threading.Event | None = None,
    stdin: Iterable[bytes] | None = None,
    stdout: IO[bytes] | None = None,
    err_bytes: int | None = None,
    folder: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command until it ends, and return its outcome.

    All processes of the command's session are killed when it ends, at a limit, and at an exception such as Ctrl-C.
    Without this, an emulator, for example, would go on running and keep its folder in use.

    Args:
        command: The command and its arguments.
        seconds: Time limit.
        memory_mb: Limit in MiB for the resident memory of the command and its children together.
        stop: Event that cancels the command.
        stdin: The parts of the command's input, which another thread writes; by default no input.
        stdout: File that receives its stdout; `Ended.out` is then empty.
        err_bytes: Number of bytes at the end of stderr to keep; by default all.
        folder: Its working directory; by default the directory of this process.
        environment: All its environment variables; by default the variables of this process.

    Raises:
        OSError: The command cannot be started.
    """
    out, err = bytearray(), bytearray()
    readers: list[threading.Thread] = []
    process = None
    try:
        with uninterrupted():
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=stdout or subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                cwd=folder,
                env=environment,
            )
        readers.append(_begin(_drain, process.stderr, err, err_bytes))
        if process.stdout is not None:
            readers.append(_begin(_drain, process.stdout, out, None))
        if stdin is not None:
            _begin(_feed, process.stdin, stdin)
        stopped = _wait(process, readers, seconds, memory_mb, stop)
    finally:
        if process is not None:
            _end(process, readers)
    return Ended(process.returncode, _text(out), _text(err), stopped)


def _end(process: subprocess.Popen[bytes], readers: Sequence[threading.Thread]) -> None:
    """Kill all processes of a command, wait until all its output is read, and close its pipes."""
    with uninterrupted():
        kill_family(process)
        end = time.monotonic() + _DRAIN_SECONDS  # limit the wait: a child in another session may hold the pipes open
        for reader in readers:
            reader.join(max(0.0, end - time.monotonic()))
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def kill_family(process: subprocess.Popen[Any]) -> None:
    """Kill a session leader and its session; on Linux, also the commands that a running leader started.

    These commands, such as a vendor's compiler that a worker calls, have sessions of their own.
    """
    if not hasattr(os, "killpg"):
        process.kill()
        process.wait()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError), uninterrupted():
        started: list[int] = []
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGSTOP)  # the leader must not start others meanwhile
            started = _descendants(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        for pid in started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    process.wait()


def exit_text(status: int) -> str:
    """Describe an exit status: "signal 11 (SIGSEGV)" for -11, "status 3" for 3."""
    if status >= 0:
        return f"status {status}"
    try:
        return f"signal {-status} ({signal.Signals(-status).name})"
    except ValueError:  # a real-time signal, which has no name
        return f"signal {-status}"


def last_line(text: str) -> str:
    """Return the last line that is not blank, cut to 300 characters; empty if there is none."""
    return next((line.strip()[:300] for line in reversed(text.splitlines()) if line.strip()), "")


def _wait(
    process: subprocess.Popen[bytes],
    readers: Sequence[threading.Thread],
    seconds: float,
    memory_mb: float,
    stop: threading.Event | None,
) -> Limit:
    """Wait until the process ends or exceeds a limit; return the exceeded limit."""
    end = time.monotonic() + seconds
    while True:
        # To wait for the process, join the thread that reads its stderr: the stream is closed when the process ends.
        # `Popen.wait` with a timeout would poll instead (check and sleep in turn).
        pause = min(_POLL_SECONDS, max(0.0, end - time.monotonic()))
        readers[0].join(pause)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0 if readers[0].is_alive() else pause)
            return ""
        if memory_mb < math.inf and _resident(process.pid) > memory_mb * (1 << 20):
            return "memory"
        if time.monotonic() >= end:
            return "seconds"
        if stop is not None and stop.is_set():
            return "cancelled"


def _begin(target: Any, *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments, daemon=True)
    thread.start()
    return thread


def _drain(stream: IO[bytes], kept: bytearray, count: int | None) -> None:
    """Read a stream to its end, and store its last `count` bytes (None: all bytes) in `kept`."""
    with contextlib.suppress(ValueError, OSError):  # the stream was closed
        while part := os.read(stream.fileno(), _PART):
            kept += part
            if count is not None:
                del kept[:-count]


def _feed(stream: IO[bytes], parts: Iterable[bytes]) -> None:
    with contextlib.suppress(OSError), stream:  # ignore a broken pipe: the process has ended, and its status says why
        for part in parts:
            stream.write(part)


def _text(content: bytearray) -> str:
    return content.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def _resident(session: int) -> int:
    """Return the resident bytes of all processes of a session; 0 on systems without /proc."""
    return sum(int(facts[21]) * _PAGE for _, facts in _processes() if int(facts[3]) == session)


def _descendants(ancestor: int) -> list[int]:
    """Return the ids of all processes that a process started, directly or not; empty on systems without /proc."""
    parents = {pid: int(facts[1]) for pid, facts in _processes()}
    found = {ancestor}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - {ancestor})


def _processes() -> Iterator[tuple[int, list[str]]]:
    """Yield the id of each process of the system, and the fields of its `/proc/ID/stat` from the third on."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The program's name, in parentheses, may contain spaces, so split after it.
            yield int(folder.name), (folder / "stat").read_text().rpartition(")")[2].split()
        except (OSError, UnicodeDecodeError):
            continue
