"""Load the library of a backend or of kernels and print its table as JSON.

Usage: `python -m edgecore.plugin.diagnosis.inspect_library PATH`

The table is the struct `edgecore_backend` or `edgecore_kernel_library` that the library exports. This is a separate
program, because a library that crashes while it loads must not crash `edgecore doctor`.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from pathlib import Path

# The structs of edgecore/abi.h, backend.h and kernel.h, with the same member names, up to the last member that this
# program reads. tests/plugin/diagnosis/test_inspect_library.py compares them with the headers.


class _Header(ctypes.Structure):
    """The struct `edgecore_header`, with which each table begins: its size, and the version of the native interface."""

    _fields_ = (("struct_size", ctypes.c_uint32), ("major", ctypes.c_uint16), ("minor", ctypes.c_uint16))


class _Str(ctypes.Structure):
    """The struct `edgecore_str`: address and number of the bytes of a string."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_uint64))

    def text(self) -> str:
        return ctypes.string_at(self.data, self.size).decode(errors="replace") if self.data else ""


FUNCTIONS = (
    *("probe", "driver_create", "driver_destroy", "check_compatibility", "program_open", "program_close"),
    *("delegate_load", "delegate_destroy", "argument_count", "buffer_requirement", "instance_create"),
    *("instance_destroy", "prepare", "execute", "state_set_create", "state_set_destroy", "state_count"),
    *("state_describe", "reset", "export_state", "import_state", "set_option", "buffer_create", "buffer_destroy"),
    *("buffer_map", "buffer_unmap", "buffer_flush", "buffer_invalidate", "buffer_export", "buffer_import"),
)
"""The functions of the struct `edgecore_backend`, in order."""


class Backend(ctypes.Structure):
    """The struct `edgecore_backend` (edgecore/backend.h)."""

    _fields_ = (
        ("header", _Header),
        ("min_host_major", ctypes.c_uint16),
        ("min_host_minor", ctypes.c_uint16),
        ("flags", ctypes.c_uint32),
        ("features", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("backend_id", _Str),
        ("distribution", _Str),
        ("version", _Str),
        ("options", ctypes.c_void_p),
        ("option_count", ctypes.c_uint64),
        ("option_stride", ctypes.c_uint32),
        ("reserved2", ctypes.c_uint32),
        *((name, ctypes.c_void_p) for name in FUNCTIONS),
    )


class _Option(ctypes.Structure):
    """The struct `edgecore_option_spec`: an option for loading or running."""

    _fields_ = (
        ("header", _Header),
        ("name", _Str),
        ("type", ctypes.c_uint32),
        ("when", ctypes.c_uint32),
        ("help", _Str),
    )


_FLAGS = (
    "HOST_THREADS",
    "OWN_THREADS",
    "NO_THREADS",
    "VALIDATES_BLOBS",
    "NEEDS_TRUSTED_BLOBS",
    "MAY_ALIAS_INPUT",
    "OWN_HEAP",
    "VENDOR_THREADS",
)
"""Names of the bits of `flags`, from the lowest bit."""

_OPTION_TYPES = ("bool", "int", "float", "string", "bytes", "list")


class _Kernel(ctypes.Structure):
    """The first members of the struct `edgecore_kernel` (edgecore/kernel.h), up to the name of the operator."""

    _fields_ = (("header", _Header), ("name", _Str), ("overload", _Str))

    def operator(self) -> str:
        return ".".join(filter(None, (self.name.text(), self.overload.text())))


class _KernelLibrary(ctypes.Structure):
    """The first members of the struct `edgecore_kernel_library` (edgecore/kernel.h), up to the size of a kernel."""

    _fields_ = (
        ("header", _Header),
        ("package", _Str),
        ("version", _Str),
        ("kernels", ctypes.c_void_p),
        ("kernel_count", ctypes.c_uint64),
        ("kernel_stride", ctypes.c_uint32),
    )


def _describe_option(head: Backend, index: int) -> dict[str, object]:
    option = _Option.from_address(head.options + index * head.option_stride)
    kind = _OPTION_TYPES[option.type] if option.type < len(_OPTION_TYPES) else f"unknown type {option.type}"
    when = [name for bit, name in enumerate(("load", "run")) if option.when >> bit & 1]
    return {"name": option.name.text(), "type": kind, "when": when, "help": option.help.text()}


def host_abi() -> str:
    """Return the version of this edgecore's native interface, such as "0.11".

    The version comes from the header in the wheel. In a source tree, which has no such header, it is empty.
    """
    header = Path(__file__).absolute().parents[2] / "native" / "include" / "edgecore" / "abi.h"
    if not header.is_file():
        return ""
    numbers = dict(re.findall(r"#define EDGECORE_ABI_(MAJOR|MINOR) (\d+)", header.read_text(encoding="utf-8")))
    return f"{numbers['MAJOR']}.{numbers['MINOR']}"


def main(path: str) -> int:
    """Print the table of the library at `path` as JSON, and return 0; on an error, print it to stderr and return 1."""
    try:
        library = ctypes.CDLL(path)
        name = "edgecore_kernels_v0" if hasattr(library, "edgecore_kernels_v0") else "edgecore_backend_v0"
        entry = library[name]
    except (OSError, AttributeError) as error:
        print(error, file=sys.stderr)
        return 1
    entry.restype = ctypes.POINTER(_KernelLibrary if name == "edgecore_kernels_v0" else Backend)
    table = entry()
    if not table:
        print(f"{name} returned NULL", file=sys.stderr)
        return 1
    head = table.contents
    abi = f"{head.header.major}.{head.header.minor}"
    if abi != (host_abi() or abi):  # print only the version: the rest of the struct may have another layout
        print(json.dumps({"abi": [head.header.major, head.header.minor]}))
        return 0
    if isinstance(head, _KernelLibrary):
        rows = range(head.kernel_count)
        kernels = [_Kernel.from_address(head.kernels + row * head.kernel_stride).operator() for row in rows]
        print(json.dumps({"abi": [head.header.major, head.header.minor], "kernels": kernels}))
        return 0
    answer: dict[str, object] = {"abi": [head.header.major, head.header.minor]}
    if head.header.struct_size >= Backend.options.offset:
        answer |= {"backend_id": head.backend_id.text(), "version": head.version.text()}
        answer["flags"] = [name for bit, name in enumerate(_FLAGS) if head.flags >> bit & 1]
    if head.header.struct_size >= Backend.probe.offset:
        answer["options"] = [_describe_option(head, index) for index in range(head.option_count)]
        present = [name for name in FUNCTIONS if getattr(Backend, name).offset < head.header.struct_size]
        answer["functions"] = [name for name in present if getattr(head, name)]
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
