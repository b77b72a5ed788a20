"""Questions about the tuples that the parser makes."""

from __future__ import annotations

import re
from typing import Any

from footprint.source import Expression, Type


def dimensions(count: Expression | None) -> int:
    """Of an array's declaration."""
    return 0 if count is None else 2 if count[0] == "rows" else 1


def is_place(kind: Type) -> bool:
    """An address or a count, of a parameter."""
    return kind[1] > 0 or not (is_vector(kind[0]) or kind[0] == "float")


def is_vector(name: str) -> bool:
    return re.match(r"__m(64|128|256|512)|(?:u?int|float|poly)\d+x|xnn_simd_", name) is not None


def variables(node: Any) -> set[str]:
    """Names of the variables in an expression."""
    return {found[1] for found in find(node, {"variable"})}


def find(node: Any, kinds: set[str]) -> list[Expression]:
    """All nodes of these kinds, from the outermost on."""
    found: list[Expression] = []

    def visit(parts: Any) -> None:
        for part in parts:
            if type(part) is tuple:
                if part and type(part[0]) is str and part[0] in kinds:
                    found.append(part)
                visit(part)
            elif type(part) is list:
                visit(part)

    visit((node,))
    return found
