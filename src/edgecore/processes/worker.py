"""A Python process that answers requests. Its parent survives if it crashes or hangs.

Requests and answers are lines of JSON on the stdin and stdout with which the worker starts. The worker then redirects
stdin to /dev/null and stdout to stderr, so that output of a library cannot be taken for an answer.
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
from edgecore.processes.interrupts import uninterrupted

# The worker takes over its parent's sys.path before it imports anything, so that both import the same packages.
_CHILD = "import sys; sys.path[:] = sys.argv[2:]; from edgecore.processes.worker import main; main(sys.argv[1])"


class WorkerHangs(Exception):
    """The worker did not answer in time."""


class WorkerEnded(Exception):
    """The worker has ended.

    Attributes:
        status: The exit status; negative for a signal, as in `subprocess`.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def worker_command(target: str, paths: Sequence[str]) -> list[str]:
    """Return the command that starts a worker.

    Args:
        target: The function to call with a `Parent`, as `module:function`.
        paths: The worker's `sys.path`.
    """
    return [sys.executable, "-c", _CHILD, target, *paths]


def request_line(message: object) -> bytes:
    """Encode a request to a worker as a line of JSON."""
    return json.dumps(message).encode() + b"\n"


class Worker:
    """A worker process in its own session: Ctrl-C reaches only its parent, and `close` also kills its children.

    Args:
        target: As for `worker_command`.
        paths: As for `worker_command`.
        environment: All its environment variables; by default the variables of this process.
    """

    def __init__(self, target: str, paths: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._printed = tempfile.TemporaryFile(buffering=0)
        with uninterrupted():
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
        """Send a request. If the worker has ended, the next `receive` raises the error."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(request_line(message))
            self._process.stdin.flush()

    def receive(self, seconds: float | None = None) -> Any:
        """Wait for the next answer, and return it.

        Args:
            seconds: Time limit; None to wait without limit.

        Raises:
            WorkerHangs: The worker did not answer in time.
            WorkerEnded: The worker has ended, and all its answers were received.
        """
        while True:
            try:
                line = self._lines.get(timeout=seconds)
            except queue.Empty:
                raise WorkerHangs from None
            if not line:
                self._lines.put(b"")
                raise WorkerEnded(self._process.wait())
            with contextlib.suppress(ValueError):  # skip an incomplete line, which a killed fork may have left
                return json.loads(line)

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self._process.poll() is None

    def printed(self) -> str:
        """Return everything that the worker has printed since its start or the last `forget_printed`.

        Call it only between requests, when the worker prints nothing: both processes share the file's position.
        """
        self._printed.seek(0)
        return self._printed.read().decode(errors="replace")

    def forget_printed(self) -> None:
        """Discard all output that the worker has printed. Call it only between requests, like `printed`."""
        self._printed.seek(0)  # the worker shares the file position, so it also prints from the start
        self._printed.truncate()

    def close(self, seconds: float = 0) -> None:
        """End the worker, and all processes that it started.

        Args:
            seconds: Time that the worker has to end by itself after the connection is closed.
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
        """Put each line of the worker into the queue, then an empty line at the end."""
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self._lines.put(line)
        self._lines.put(b"")


class Parent:
    """The connection from inside a worker to the process that started it."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        self._requests, self._answers = requests, answers
        self._lock = threading.Lock()

    def requests(self) -> Iterator[Any]:
        """Yield the requests until the parent closes the connection."""
        for line in self._requests:
            yield json.loads(line)

    def send(self, message: object) -> None:
        """Send an answer, from any thread. A value that JSON cannot represent is sent as its `str`."""
        sys.stdout.flush()
        sys.stderr.flush()
        with self._lock:
            # Begin a new line, in case a killed fork of this process has left half a line.
            self._answers.write(b"\n" + json.dumps(message, default=str).encode() + b"\n")
            self._answers.flush()


def main(target: str) -> None:
    """Call the function `target` of `worker_command`, inside the worker process."""
    parent = Parent(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    module, _, function = target.partition(":")
    getattr(import_module(module), function)(parent)
