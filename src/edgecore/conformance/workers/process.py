"""Call a function of the suite in a child process, which may crash or hang.

The function receives `emit(kind, value)` and its arguments, and the parent receives each emitted event at once. If the
child does not end normally, the last event has the kind `died` and a value that says how the child ended.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from edgecore.plugin.installed.entry_points import searched
from edgecore.processes.command import exit_text
from edgecore.processes.worker import Worker, WorkerEnded, WorkerHangs

Event = tuple[str, Any]
_CHILD = "edgecore.conformance.workers.child"
_servers: dict[tuple[str, ...], Worker] = {}
"""Server processes, which import the compiler once and fork a child for each call, by their `sys.path`."""


def call(
    target: str,
    arguments: Mapping[str, Any],
    *,
    seconds: float = 60,
    environment: Mapping[str, str] | None = None,
    folders: Sequence[str] = (),
    prepared: bool = False,
) -> Iterator[Event]:
    """Call a function in a child process, and yield its events.

    Args:
        target: The function, as `module:function`.
        arguments: Keyword arguments of the function, which can be converted to JSON.
        seconds: The child is killed after this time without an event. The function can change the limit by emitting an
            event of the kind `seconds`.
        environment: Environment variables of the child, in addition to the variables of this process.
        folders: Folders in front of the child's `sys.path`.
        prepared: Use a fork of a server process that has imported the compiler already. The server makes one call at a
            time: if the caller does not read all events, the server ends, and the next call starts another.
    """
    paths = [*folders, *searched()]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(environment or {})}
    worker = _server() if prepared else Worker(f"{_CHILD}:call_once", paths, variables)
    complete, status = False, None
    try:
        worker.forget_printed()
        worker.send({"target": target, "arguments": dict(arguments), "environment": variables})
        while status is None:
            try:
                kind, value = worker.receive(seconds)
            except WorkerHangs:
                worker.close()
                yield "died", f"made no progress for {seconds:g} s and was stopped"
                return
            except WorkerEnded as end:
                kind, value = "ended", end.status
            if kind == "seconds":
                seconds = value
            elif kind == "end":
                complete = True
            elif kind == "ended":
                status = value
            else:
                yield kind, value
        if not complete:
            yield "died", _describe_end(status, worker.printed())
    finally:
        if status is None or not prepared:
            worker.close()


def _server() -> Worker:
    """Return the server process (see `_servers`) for the current `sys.path`; start it if it is not running."""
    key = tuple(sys.path)
    if key not in _servers or not _servers[key].alive:
        worker = _servers[key] = Worker(f"{_CHILD}:call_in_forks", searched())
        atexit.register(worker.close)
    return _servers[key]


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


def _describe_end(status: int, output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if status < 0:
        # Skip the lines that faulthandler prints: they only repeat the signal, which `exit_text` names.
        own = [line for line in lines if not line.startswith(("Fatal Python error", "File ", "Current thread"))]
        last = f"; its last output: {own[-1][:200]}" if own and "Extension modules" not in own[-1] else ""
        return f"died of {exit_text(status)}{last}"
    return f"ended with {exit_text(status)}: {lines[-1][:300] if lines else 'no output'}"
