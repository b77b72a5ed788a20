"""Queries on nodes of the syntax tree, which the parser represents as tuples."""

from __future__ import annotations

import re
from typing import Any

from footprint.source import Expression, Type


def dimensions(count: Expression | None) -> int:
    """Return the number of dims of a declaration whose array length is `count` (None: not an array)."""
    return 0 if count is None else 2 if count[0] == "rows" else 1


def is_address_or_count(kind: Type) -> bool:
    """Return True if a parameter of this type is a pointer or an integer, and not an element or a vector."""
    return kind[1] > 0 or not (is_vector(kind[0]) or kind[0] == "float")


def is_vector(name: str) -> bool:
    return re.match(r"__m(64|128|256|512)|(?:u?int|float|poly)\d+x|xnn_simd_", name) is not None


def variables(node: Any) -> set[str]:
    """Return the names of the variables in an expression."""
    return {variable[1] for variable in find(node, {"variable"})}


def find(node: Any, kinds: set[str]) -> list[Expression]:
    """Return all nodes of these kinds, each before the nodes inside it."""
    result: list[Expression] = []

    def visit(parts: Any) -> None:
        for part in parts:
            if type(part) is tuple:
                if part and type(part[0]) is str and part[0] in kinds:
                    result.append(part)
                visit(part)
            elif type(part) is list:
                visit(part)

    visit((node,))
    return result
