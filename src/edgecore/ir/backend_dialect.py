"""Backend operators: operators outside ATen that stand for a pattern of edge operators, and compute what it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from edgecore.errors import CompileError

Pattern = Callable[..., Any]

BOUND: dict[OpOverload, Pattern] = {}
"""Backend operators and their patterns."""


def bind_pattern_to_op(library: torch.library.Library, name_or_schema: str) -> Callable[[Pattern], Pattern]:
    """Make a pattern the composite kernel of a backend operator.

    `name_or_schema` is `add_relu(Tensor self, Tensor other) -> Tensor`, with or without `namespace::` in front, or a bare name
    that `library` has defined. The operator then runs in eager mode and under tracing by way of the pattern, which is a
    function of tensors written with `torch.ops.aten` overloads. Raises `CompileError` for another namespace or a bad schema.
    """
    namespace, separator, rest = name_or_schema.rpartition("::") if "::" in name_or_schema else ("", "", name_or_schema)
    if separator and namespace != library.ns:
        raise CompileError(f"{name_or_schema} is not in the library's namespace {library.ns}")
    name = rest.partition("(")[0].strip()

    def bind(pattern: Pattern) -> Pattern:
        try:
            if "(" in rest:
                library.define(rest)  # type: ignore[no-untyped-call]
            library.impl(name, pattern, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise CompileError(f"{library.ns}::{rest} cannot be bound: {str(error).splitlines()[0]}") from error
        base, _, overload = name.partition(".")
        BOUND[getattr(getattr(getattr(torch.ops, library.ns), base), overload or "default")] = pattern
        return pattern

    return bind
