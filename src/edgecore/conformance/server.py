"""Starts workers quickly: a process that has imported torch and the compiler, and forks for each worker.

Importing them takes seconds, which every worker that follows one that died would pay again. The server itself computes
nothing, so that it has no threads when it forks, and never imports the backend's package.

Over the socket: a message of JSON `{target, arguments, environment}` with two descriptors (events, output), answered by
the child's process id and, when it has ended, its status as `subprocess` has it.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from edgecore.plugin.entry_points import searched

_running: dict[tuple[str, ...], Server] = {}


class Server:
    """The other end, in the process that runs the suite."""

    def __init__(self) -> None:
        mine, its = socket.socketpair()
        self._socket = mine
        self._answers = mine.makefile("r")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "edgecore.conformance.server", str(its.fileno())],
            pass_fds=[its.fileno()],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(searched())},
        )
        its.close()
        atexit.register(self.close)

    def start(self, request: Mapping[str, Any], descriptors: tuple[int, int]) -> Worker:
        """Fork a worker that calls `request["target"]`. One at a time."""
        socket.send_fds(self._socket, [json.dumps(dict(request)).encode() + b"\n"], list(descriptors))
        return Worker(int(self._answers.readline()), self._answers)

    @property
    def alive(self) -> bool:
        """Whether it can start workers."""
        return self._process.poll() is None

    def close(self) -> None:
        """End it."""
        self._answers.close()
        self._socket.close()
        self._process.kill()
        self._process.wait()


class Worker:
    """A forked worker: what `subprocess.Popen` has, as far as it is used."""

    def __init__(self, pid: int, answers: Any) -> None:
        self.pid = pid
        self._answers = answers
        self._status: int | None = None

    def wait(self) -> int:
        """Its exit status, negative if a signal ended it."""
        if self._status is None:
            self._status = int(self._answers.readline())
        return self._status

    def kill(self) -> None:
        """End it at once."""
        if self._status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, 9)


def server() -> Server:
    """The server for this process and its module path, started when it is needed first."""
    key = tuple(sys.path)
    if key not in _running or not _running[key].alive:
        _running[key] = Server()
    return _running[key]


def main(descriptor: int) -> None:
    """Serve until the other end closes."""
    from edgecore.conformance.child import serve

    faulthandler.enable()
    with contextlib.suppress(ImportError):
        import torch.export._trace  # noqa: F401

        import edgecore.conformance.operators
        import edgecore.pipeline  # noqa: F401
    connection = socket.socket(fileno=descriptor)
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 2)
        while message and not message.endswith(b"\n"):
            message += connection.recv(1 << 16)
        if not message:
            return
        request = json.loads(message)
        child = os.fork()
        if child == 0:
            connection.close()
            events, output = descriptors
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.environ.clear()
            os.environ.update(request.pop("environment"))
            serve(events, request)
        for one in descriptors:
            os.close(one)
        connection.sendall(b"%d\n" % child)
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
