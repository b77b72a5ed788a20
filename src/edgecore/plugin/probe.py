"""Loads a delegate's library and prints what its table declares, as JSON: `python -m edgecore.plugin.probe PATH`.

A program of its own, because a library that dies while loading must not take `edgecore doctor` with it.
"""

from __future__ import annotations

import ctypes
import json
import sys


class _Str(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_uint64))

    def text(self) -> str:
        return ctypes.string_at(self.data, self.size).decode(errors="replace") if self.data else ""


class _Table(ctypes.Structure):
    """The head of `edgecore_backend` (edgecore/backend.h), up to the version."""

    _fields_ = (
        ("struct_size", ctypes.c_uint32),
        ("major", ctypes.c_uint16),
        ("minor", ctypes.c_uint16),
        ("least_host_major", ctypes.c_uint16),
        ("least_host_minor", ctypes.c_uint16),
        ("flags", ctypes.c_uint32),
        ("features", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("backend_id", _Str),
        ("distribution", _Str),
        ("version", _Str),
    )


def main(path: str) -> int:
    """Print the table, or one sentence on stderr and 1."""
    try:
        entry = ctypes.CDLL(path).edgecore_backend_v0
    except (OSError, AttributeError) as error:
        print(error, file=sys.stderr)
        return 1
    entry.restype = ctypes.POINTER(_Table)
    table = entry()
    if not table:
        print("edgecore_backend_v0 returned NULL", file=sys.stderr)
        return 1
    head = table.contents
    answer: dict[str, object] = {"abi": [head.major, head.minor]}
    if head.struct_size >= ctypes.sizeof(_Table):
        answer |= {"backend_id": head.backend_id.text(), "version": head.version.text()}
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
