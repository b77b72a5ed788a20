"""The other end of `process.py`: `python -m edgecore.conformance.child FD` calls a function of the suite."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any


def main(descriptor: int) -> int:
    """Read `{"target": "module:function", "arguments": {...}}` from stdin; each thing that it emits is a line of JSON."""
    request = json.load(sys.stdin)
    module, _, function = request["target"].partition(":")

    def emit(kind: str, value: Any) -> None:
        os.write(descriptor, json.dumps([kind, value]).encode() + b"\n")

    getattr(import_module(module), function)(emit, **request["arguments"])
    emit("end", None)
    sys.stdout.flush()
    sys.stderr.flush()
    # What a library does when the process ends is not what is tested, and must not hide what was found.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
