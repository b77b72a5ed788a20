"""A Python process that answers requests, and may crash or hang.

Requests and answers are lines of JSON, over the stdin and stdout that the process starts with. Inside it, stdin is empty,
and stdout is stderr, so that nothing that a library prints is taken for an answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import IO, Any

from edgecore.processes.command import kill_family

# The process gets the sys.path of its parent before it imports anything, so that both find the same packages.
_CHILD = "import sys; sys.path[:] = sys.argv[2:]; from edgecore.processes.worker import main; main(sys.argv[1])"


class WorkerHangs(Exception):
    """The worker has not answered in time."""


class WorkerEnded(Exception):
    """The worker has ended.

    Attributes:
        status: Its exit status; negative for a signal, as in `subprocess`.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def worker_command(target: str, paths: Sequence[str]) -> list[str]:
    """Return the command of a worker.

    Args:
        target: Function that gets a `Parent`, as `module:function`.
        paths: The worker's `sys.path`.
    """
    return [sys.executable, "-c", _CHILD, target, *paths]


def request_line(message: object) -> bytes:
    """Return the line of a request to a worker."""
    return json.dumps(message).encode() + b"\n"


class Worker:
    """A worker in a session of its own, which is killed as a whole: Ctrl-C is for this process.

    Args:
        target: As for `worker_command`.
        paths: As for `worker_command`.
        environment: All its environment variables; by default those of this process.
    """

    def __init__(self, target: str, paths: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._printed = tempfile.TemporaryFile(buffering=0)
        self._process = subprocess.Popen(
            worker_command(target, paths),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            start_new_session=True,
            env=environment,
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._forward, daemon=True).start()

    def send(self, message: object) -> None:
        """Send a request. If the worker has ended, `receive` says so."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(request_line(message))
            self._process.stdin.flush()

    def receive(self, seconds: float | None = None) -> Any:
        """Wait for the next answer, and return it.

        Args:
            seconds: Time limit; None to wait for ever.

        Raises:
            WorkerHangs: There is no answer in time.
            WorkerEnded: There is no further answer.
        """
        while True:
            try:
                line = self._lines.get(timeout=seconds)
            except queue.Empty:
                raise WorkerHangs from None
            if not line:
                self._lines.put(b"")
                raise WorkerEnded(self._process.wait())
            with contextlib.suppress(ValueError):  # see `Parent.send`
                return json.loads(line)

    @property
    def alive(self) -> bool:
        """True if the process runs."""
        return self._process.poll() is None

    def printed(self) -> str:
        """Return all that the worker has printed since its start or since `forget_printed`; it must not print now."""
        self._printed.seek(0)
        return self._printed.read().decode(errors="replace")

    def forget_printed(self) -> None:
        """Drop all that the worker has printed; it must not print now."""
        self._printed.seek(0)  # also for the worker, which shares the position
        self._printed.truncate()

    def close(self, seconds: float = 0) -> None:
        """End the worker.

        Args:
            seconds: Time that it has to end by itself, as its requests end here.
        """
        if self._printed.closed:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            if seconds:
                self._process.wait(seconds)
        kill_family(self._process)
        self._printed.close()

    def _forward(self) -> None:
        """Put each line of the worker into the queue, then an empty one."""
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self._lines.put(line)
        self._lines.put(b"")


class Parent:
    """The process that waits for the answers of this worker."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        self._requests, self._answers = requests, answers
        self._lock = threading.Lock()

    def requests(self) -> Iterator[Any]:
        """Yield the requests until the parent has no more."""
        for line in self._requests:
            yield json.loads(line)

    def send(self, message: object) -> None:
        """Send an answer; any thread may do so. A value that JSON lacks is sent as text."""
        sys.stdout.flush()
        sys.stderr.flush()
        with self._lock:
            # The line break ends the half line of a fork of this process that was killed.
            self._answers.write(b"\n" + json.dumps(message, default=str).encode() + b"\n")
            self._answers.flush()


def main(target: str) -> None:
    """Call the target of `worker_command` in the worker."""
    parent = Parent(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    module, _, function = target.partition(":")
    getattr(import_module(module), function)(parent)
