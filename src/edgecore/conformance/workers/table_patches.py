"""Replace functions in the table that a native library exports, in a child process of the suite.

The runtime in this process then loads the same library, and so receives the changed table.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Any

from edgecore.plugin.diagnosis.inspect_library import Backend

FAILED = 1
"""The code EDGECORE_INTERNAL."""

_POINTER = ctypes.c_void_p
_EXECUTE = ctypes.CFUNCTYPE(ctypes.c_int32, _POINTER, _POINTER, _POINTER, ctypes.c_uint64, ctypes.c_uint32, _POINTER)
_BUFFER_MAP = ctypes.CFUNCTYPE(ctypes.c_int32, _POINTER, ctypes.c_uint64, ctypes.c_uint64, _POINTER, _POINTER)
_keep: list[Any] = []
"""Python callbacks that the library calls, kept here so that Python does not free them."""


def writable_table(library: str) -> Any:
    """Return the table of a library in writable memory.

    The table may be constant data, so its pages are made writable. The library stays loaded.
    """
    entry = getattr(ctypes.CDLL(library), "edgecore_backend_v0")
    entry.restype = ctypes.c_void_p
    address = entry()
    page = address & ~(mmap.PAGESIZE - 1)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    size = ctypes.c_size_t(2 * mmap.PAGESIZE)
    if protect(ctypes.c_void_p(page), size, mmap.PROT_READ | mmap.PROT_WRITE) != 0:
        size = ctypes.c_size_t(mmap.PAGESIZE)  # the mapping ends after the table's page: unprotect this page alone
        protect(ctypes.c_void_p(page), size, mmap.PROT_READ | mmap.PROT_WRITE)
    return Backend.from_address(address)


def fail_executions(library: str) -> Callable[[bool], None]:
    """Make executions fail after the backend has done its work. Return a function that switches failures on and off."""
    failing = False

    def execute(original: Any, *arguments: Any) -> int:
        code: int = original(*arguments)
        return FAILED if failing and code == 0 else code

    def switch(on: bool) -> None:
        nonlocal failing
        failing = on

    _replace(writable_table(library), "execute", _EXECUTE, execute)
    return switch


def count_maps(library: str) -> Callable[[], int]:
    """Count calls of the library's function `buffer_map`; return a function that returns the number of calls so far."""
    count = 0

    def buffer_map(original: Any, *arguments: Any) -> int:
        nonlocal count
        count += 1
        return int(original(*arguments))

    _replace(writable_table(library), "buffer_map", _BUFFER_MAP, buffer_map)
    return lambda: count


def _replace(table: Any, name: str, prototype: Any, function: Callable[..., int]) -> None:
    """Replace the C function `name` in a library's table by a call of `function(original, *arguments)`."""
    original = prototype(getattr(table, name))
    callback = prototype(lambda *arguments: function(original, *arguments))
    _keep.extend((original, callback))
    setattr(table, name, ctypes.cast(callback, _POINTER).value)
