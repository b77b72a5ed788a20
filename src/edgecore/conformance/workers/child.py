"""The child process of `process.py`: `python -m edgecore.conformance.workers.child FD` calls a function of the suite."""

from __future__ import annotations

import json
import os
import sys
import traceback
from importlib import import_module
from typing import Any, NoReturn


def serve(descriptor: int, request: dict[str, Any]) -> NoReturn:
    """Call `request["target"]` (`module:function`) with `emit` and `request["arguments"]`, and end the process.

    Args:
        descriptor: File descriptor to which each emitted event is written as a line of JSON.
        request: The target and its arguments.
    """

    def emit(kind: str, value: Any) -> None:
        os.write(descriptor, json.dumps([kind, value]).encode() + b"\n")

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
    # Skip the destructors of libraries: a crash there is not what the check tests, and would hide its result.
    os._exit(status)


if __name__ == "__main__":
    serve(int(sys.argv[1]), json.load(sys.stdin))
