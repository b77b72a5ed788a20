"""Check that the kernels that XNNPACK selects on this processor compute right results, without torch.

`edgecore doctor xnnpack` prints the results.
"""

from __future__ import annotations

import ctypes
import re


def try_kernels(library: str) -> list[tuple[str, bool, str]]:
    """Run the kernel trials in the delegate's library and return a row for each family of kernels.

    Families that differ only in their type share a row, such as `add` with the detail `right in f32, int8`. Families
    without kernels for this processor have no row.

    Args:
        library: Path of the delegate's shared library.

    Returns:
        A row for each family: its name, True if its results are right, and a detail.

    Raises:
        OSError: The library does not load.
    """
    entry = ctypes.CDLL(library).edgecore_backend_v0
    entry.restype = ctypes.c_void_p
    table = entry()
    size = ctypes.c_uint32.from_address(table).value  # the table's size; the address of the trial function follows it
    address = ctypes.c_void_p.from_address(table + size).value
    function = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_char_p, ctypes.c_uint64)(address or 0)
    text = ctypes.create_string_buffer(1 << 16)
    used = function(text, len(text))
    return _rows(text.raw[: min(used, len(text))].decode())


def _rows(lines: str) -> list[tuple[str, bool, str]]:
    groups: dict[str, list[str]] = {}  # family -> types with right results
    rows = []
    for line in lines.splitlines():
        name, state, detail = line.split("\t")
        kind, form = match.groups() if (match := re.fullmatch(r"(.+?)(?: ->)? (f32|f16|u?int8)", name)) else (name, "")
        if state == "wrong":
            rows.append((name, False, detail))
        elif state == "right":
            groups.setdefault(kind, []).append(form)
    right = [(kind, True, f"right in {', '.join(forms)}" if forms[0] else "right") for kind, forms in groups.items()]
    return rows + right
