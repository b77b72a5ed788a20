"""Calls a function of the suite in a process of its own, which may die or hang.

The function is called with `emit(kind, value)` and its arguments; what it emits comes back as it happens. Unless it
ends well, an event of kind `died` follows: how.
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

from edgecore.conformance.server import Worker, server
from edgecore.plugin.entry_points import searched
from edgecore.plugin.exit_status import exit_text

Event = tuple[str, Any]


def call(
    target: str,
    arguments: Mapping[str, Any],
    *,
    seconds: float = 60,
    environment: Mapping[str, str] | None = None,
    prepared: bool = False,
) -> Iterator[Event]:
    """Events of `module:function`, which is killed after `seconds` of silence.

    It may change its time itself: the number of an event of kind `seconds` counts from then on. `environment` is added
    to that of this process. `prepared`: in a process that has imported the compiler already (see `server.py`). The last
    line on stderr of a process that died is part of how.
    """
    read, write = os.pipe()
    with tempfile.TemporaryFile() as output:
        request = {"target": target, "arguments": dict(arguments)}
        everything = {**os.environ, "PYTHONPATH": os.pathsep.join(searched()), **(environment or {})}
        child: Worker | subprocess.Popen[bytes]
        if prepared:
            child = server().start({**request, "environment": everything}, (write, output.fileno()))
        else:
            child = _start(request, everything, write, output)
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
                yield "died", f"gave no sign for {seconds:g} s and was stopped"
            elif not ended:
                output.seek(0)
                yield "died", _how(status, output.read().decode(errors="replace"))
        finally:
            child.kill()
            child.wait()
            os.close(read)


def _start(
    request: Mapping[str, Any], environment: Mapping[str, str], events: int, output: IO[bytes]
) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-m", "edgecore.conformance.child", str(events)],
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
    """The values of kind `result`; each `input` is handed to `trying`.

    Raises:
        Failed: The process died; the last input is named.
    """
    from edgecore.conformance.check import Failed

    found, last = [], ""
    for kind, value in events:
        if kind == "input":
            last = value
            trying(value)
        elif kind == "died":
            raise Failed(f"{last or 'the process'}: {value}")
        elif kind == "result":
            found.append(value)
    return found


def _events(descriptor: int, seconds: float) -> Iterator[Event]:
    """Parsed lines until the pipe is closed by all who hold it, or the child says that it ends."""
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


def _how(status: int, output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if status < 0:
        # Of faulthandler's report the first line says nothing that the signal does not.
        told = [line for line in lines if not line.startswith(("Fatal Python error", "File ", "Current thread"))]
        said = f"; its last words: {told[-1][:200]}" if told and "Extension modules" not in told[-1] else ""
        return f"died of {exit_text(status)}{said}"
    return f"ended with {exit_text(status)}: {lines[-1][:300] if lines else 'without a word'}"
