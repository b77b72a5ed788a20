"""Call the functions that the delegate's library has beside those of a backend, without torch."""

from __future__ import annotations

import ctypes

TRY_KERNELS, DESCRIBE_FORMS = 0, 1
"""Numbers of the functions, in the order in which their addresses follow the backend's table (native/src/delegate.cpp)."""


def call(library: str, function: int, *arguments: ctypes.Array[ctypes.c_uint64] | int) -> list[str]:
    """Call a function of the library that writes text, and return its lines.

    Args:
        library: Path of the delegate's shared library.
        function: Number of the function.
        arguments: What it takes before the memory for its text: arrays and numbers of 64 bits.

    Raises:
        OSError: The library does not load.
    """
    entry = ctypes.CDLL(library).edgecore_backend_v0
    entry.restype = ctypes.c_void_p
    table = entry()
    size = ctypes.c_uint32.from_address(table).value  # the table's size; the addresses of the functions follow it
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
