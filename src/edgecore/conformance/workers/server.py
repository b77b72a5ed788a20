"""A server process that has imported torch and the compiler, and forks a worker for each request.

Importing torch takes seconds. Without the server, each worker that replaces a crashed one would import torch again. The
server itself computes nothing, so it has no threads when it forks, and it never imports the backend's package.

A request is a JSON message `{target, arguments, environment}` over a socket, with two file descriptors (events, output).
The server answers with the process id of the worker and, after the worker has ended, with its return code as `subprocess`
defines it.
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

from edgecore.plugin.installed.entry_points import searched

_running: dict[tuple[str, ...], Server] = {}


class Server:
    """The server process as the suite sees it: starts the process, and sends requests to it."""

    def __init__(self) -> None:
        own_end, other_end = socket.socketpair()
        self._socket = own_end
        self._answers = own_end.makefile("r")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "edgecore.conformance.workers.server", str(other_end.fileno())],
            pass_fds=[other_end.fileno()],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(searched())},
        )
        other_end.close()
        atexit.register(self.close)

    def start(self, request: Mapping[str, Any], descriptors: tuple[int, int]) -> Worker:
        """Fork a worker that calls `request["target"]`. The server runs one worker at a time: wait for it first."""
        socket.send_fds(self._socket, [json.dumps(dict(request)).encode() + b"\n"], list(descriptors))
        return Worker(int(self._answers.readline()), self._answers)

    @property
    def alive(self) -> bool:
        """True if the server process runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """Kill the server process."""
        self._answers.close()
        self._socket.close()
        self._process.kill()
        self._process.wait()


class Worker:
    """A forked worker, with those methods of `subprocess.Popen` that the suite uses."""

    def __init__(self, pid: int, answers: Any) -> None:
        self.pid = pid
        self._answers = answers
        self._status: int | None = None

    def wait(self) -> int:
        """Wait for the end of the worker. Return its exit status, or minus the number of the signal that killed it."""
        if self._status is None:
            self._status = int(self._answers.readline())
        return self._status

    def kill(self) -> None:
        """Kill the worker if it still runs."""
        if self._status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, 9)


def server() -> Server:
    """Return the server for the present `sys.path`, and start it on first use."""
    key = tuple(sys.path)
    if key not in _running or not _running[key].alive:
        _running[key] = Server()
    return _running[key]


def main(descriptor: int) -> None:
    """Serve requests on the socket until the client closes it."""
    from edgecore.conformance.workers.child import serve

    faulthandler.enable()
    with contextlib.suppress(ImportError):
        import torch.export._trace  # noqa: F401

        import edgecore.conformance.checks.operators
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
        for received in descriptors:
            os.close(received)
        connection.sendall(b"%d\n" % child)
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
