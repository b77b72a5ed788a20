"""Call the delegate library's functions that test kernels and describe convolutions; needs no torch."""

from __future__ import annotations

import ctypes
import re

TRY_KERNELS, DESCRIBE_FORMS = 0, 1
"""Numbers of the library's own functions: their order in memory after the table of backend functions
(native/src/delegate.cpp)."""


def call(library: str, function: int, *arguments: ctypes.Array[ctypes.c_uint64] | int) -> list[str]:
    """Call a function of the library that writes text, and return its lines.

    Args:
        library: Path of the delegate's shared library.
        function: Number of the function, counted from 0 after the table of backend functions.
        arguments: The arguments that precede the output buffer: arrays and numbers of 64 bits.

    Raises:
        OSError: The library does not load.
    """
    entry = ctypes.CDLL(library).edgecore_backend_v0
    entry.restype = ctypes.c_void_p
    table = entry()
    # size in bytes of the table of backend functions; the addresses of the library's own functions follow this table
    size = ctypes.c_uint32.from_address(table).value
    address = ctypes.c_void_p.from_address(table + size + function * ctypes.sizeof(ctypes.c_void_p)).value
    kinds = [ctypes.c_uint64 if isinstance(argument, int) else ctypes.c_void_p for argument in arguments]
    prototype = ctypes.CFUNCTYPE(ctypes.c_uint64, *kinds, ctypes.c_char_p, ctypes.c_uint64)
    run = prototype(address or 0)
    text = ctypes.create_string_buffer(1 << 16)
    used = run(*arguments, text, len(text))
    if used > len(text):
        text = ctypes.create_string_buffer(used)
        run(*arguments, text, used)
    return text.raw[:used].decode().splitlines()


def try_kernels(library: str) -> list[tuple[str, bool, str]]:
    """Check that the kernels that XNNPACK selects on this processor compute correct results.

    Families of kernels for the same operation in different dtypes share a row, such as `add` with the detail `right in
    f32, int8`. A family without kernels for this processor has no row.

    Args:
        library: Path of the delegate's shared library.

    Returns:
        A row per family: its name, True if its results are correct, and a detail.

    Raises:
        OSError: The library does not load.
    """
    return _rows(call(library, TRY_KERNELS))


def _rows(lines: list[str]) -> list[tuple[str, bool, str]]:
    groups: dict[str, list[str]] = {}  # maps a kernel family to dtypes with correct results
    rows = []
    for line in lines:
        name, state, detail = line.split("\t")
        kind, form = match.groups() if (match := re.fullmatch(r"(.+?)(?: ->)? (f32|f16|u?int8)", name)) else (name, "")
        if state == "wrong":
            rows.append((name, False, detail))
        elif state == "right":
            groups.setdefault(kind, []).append(form)
    right = [(kind, True, f"right in {', '.join(forms)}" if forms[0] else "right") for kind, forms in groups.items()]
    return rows + right
