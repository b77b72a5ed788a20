"""Backend operators: operators outside of ATen, each equivalent to a pattern of edge operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from edgecore.errors import CompileError
from edgecore.ir.torch_compat import OpOverload

Pattern = Callable[..., Any]

PATTERNS: dict[OpOverload, Pattern] = {}
"""Backend operator -> its pattern, the function that computes the same with edge operators."""


def bind_pattern_to_op(library: torch.library.Library, name_or_schema: str) -> Callable[[Pattern], Pattern]:
    """Make the decorated pattern the composite kernel of a backend operator.

    The pattern is a function of tensors that calls overloads such as `torch.ops.aten.add.Tensor`. It runs when the
    operator is called in eager mode or traced.

    Args:
        library: The library that defines the operator.
        name_or_schema: A schema, `add_relu(Tensor self, Tensor other) -> Tensor`, or the name of an operator that
            `library` already defines; either may begin with `namespace::`.

    Returns:
        The decorator, which returns the pattern unchanged.

    Raises:
        CompileError: The namespace differs from the namespace of `library`, or torch rejects the schema.
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
        PATTERNS[getattr(getattr(getattr(torch.ops, library.ns), base), overload or "default")] = pattern
        return pattern

    return bind
