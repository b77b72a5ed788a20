"""Check that the kernels that XNNPACK selects on this processor compute right results, without torch.

`edgecore doctor xnnpack` prints the results.
"""

from __future__ import annotations

import re

from edgecore_xnnpack.library import TRY_KERNELS, call


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
    return _rows(call(library, TRY_KERNELS))


def _rows(lines: list[str]) -> list[tuple[str, bool, str]]:
    groups: dict[str, list[str]] = {}  # family -> types with right results
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
