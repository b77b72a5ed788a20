"""Code that runs in the child processes of `process.py`: call the function that the parent process requests."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import traceback
from importlib import import_module
from typing import Any, NoReturn

from edgecore.processes.worker import Parent


def call_once(parent: Parent) -> None:
    """Receive one request from the parent process, and call the function that the request names in this process."""
    faulthandler.enable()
    _call(parent, next(parent.requests()))


def call_in_forks(parent: Parent) -> None:
    """Serve each request in a fork of this process, and send `ended` with the fork's exit status.

    Importing torch and the compiler takes seconds. This process has imported them, so a new fork after a crash is ready
    at once. This process computes nothing, so it has no threads when it forks, and it never imports the backend's
    package.
    """
    faulthandler.enable()
    with contextlib.suppress(ImportError):
        import edgecore.conformance.checks.operators
        import edgecore.pipeline  # noqa: F401
        from edgecore.ir.torch_compat import import_tracing

        import_tracing()
    for request in parent.requests():
        child = os.fork()
        if child == 0:
            os.environ.clear()
            os.environ.update(request["environment"])
            _call(parent, request)
        parent.send(["ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])])


def _call(parent: Parent, request: dict[str, Any]) -> NoReturn:
    """Call `request["target"]` (`module:function`) with `emit` and `request["arguments"]`, and end the process."""

    def emit(kind: str, value: Any) -> None:
        parent.send([kind, value])

    status = 0
    try:
        module, _, function = request["target"].partition(":")
        getattr(import_module(module), function)(emit, **request["arguments"])
        emit("end", None)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # End without the destructors of libraries: a crash in one of them would hide the result of the check.
    os._exit(status)
