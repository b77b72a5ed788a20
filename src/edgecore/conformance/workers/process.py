"""Call a function of the suite in a child process, which may crash or hang.

The function gets `emit(kind, value)` and its arguments. The parent receives each emitted event at once. If the child does
not end normally, the last event has the kind `died`, and its value says how the process ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

from edgecore.conformance.workers.server import Worker, server
from edgecore.plugin.exit_status import exit_text
from edgecore.plugin.installed.entry_points import searched

Event = tuple[str, Any]


def call(
    target: str,
    arguments: Mapping[str, Any],
    *,
    seconds: float = 60,
    environment: Mapping[str, str] | None = None,
    prepared: bool = False,
) -> Iterator[Event]:
    """Call a function in a child process, and yield its events.

    Args:
        target: The function, as `module:function`.
        arguments: Keyword arguments of the function, which can be converted to JSON.
        seconds: The child is killed after this time without an event. The function can change the limit by emitting an
            event of the kind `seconds`.
        environment: Environment variables in addition to those of this process.
        prepared: Use a child that has imported the compiler already; see `server.py`.
    """
    read, write = os.pipe()
    with tempfile.TemporaryFile() as output:
        request = {"target": target, "arguments": dict(arguments)}
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(searched()), **(environment or {})}
        child: Worker | subprocess.Popen[bytes]
        if prepared:
            child = server().start({**request, "environment": variables}, (write, output.fileno()))
        else:
            child = _start(request, variables, write, output)
        os.close(write)
        try:
            ended = hung = False
            for event in _events(read, seconds):
                if event[0] == "hung":
                    hung, seconds = True, event[1]
                elif event[0] == "end":
                    ended = True
                else:
                    yield event
            if hung:
                child.kill()
            status = child.wait()
            if hung:
                yield "died", f"made no progress for {seconds:g} s and was stopped"
            elif not ended:
                output.seek(0)
                yield "died", _describe_end(status, output.read().decode(errors="replace"))
        finally:
            child.kill()
            child.wait()
            os.close(read)


def _start(
    request: Mapping[str, Any], environment: Mapping[str, str], events: int, output: IO[bytes]
) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-m", "edgecore.conformance.workers.child", str(events)],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        pass_fds=[events],
        env=environment,
    )
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        child.stdin.write(json.dumps(request).encode())
        child.stdin.close()
    return child


def results(events: Iterator[Event], trying: Callable[[str], None]) -> list[Any]:
    """Collect the values of all events of the kind `result`.

    Args:
        events: The events of `call`.
        trying: Called with the value of each event of the kind `input`.

    Raises:
        Failed: The process died. The message contains the last input.
    """
    from edgecore.conformance.check import Failed

    values, last = [], ""
    for kind, value in events:
        if kind == "input":
            last = value
            trying(value)
        elif kind == "died":
            raise Failed(f"{last or 'the process'}: {value}")
        elif kind == "result":
            values.append(value)
    return values


def _events(descriptor: int, seconds: float) -> Iterator[Event]:
    """Yield the events from a pipe until all writers have closed the pipe, or the event `end` arrives."""
    pending = b""
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                yield "hung", seconds
                return
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                return
            *lines, pending = (pending + piece).split(b"\n")
            for line in lines:
                kind, value = json.loads(line)
                if kind == "seconds":
                    seconds = value
                else:
                    yield kind, value
                if kind == "end":
                    return
            deadline = time.monotonic() + seconds


def _describe_end(status: int, output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if status < 0:
        # Ignore the report of faulthandler, which only repeats the signal.
        own = [line for line in lines if not line.startswith(("Fatal Python error", "File ", "Current thread"))]
        last = f"; its last output: {own[-1][:200]}" if own and "Extension modules" not in own[-1] else ""
        return f"died of {exit_text(status)}{last}"
    return f"ended with {exit_text(status)}: {lines[-1][:300] if lines else 'no output'}"
