"""Functional forms of custom operators that write arguments, such as `append(Tensor row, Tensor(a!) cache) -> ()`.

The functional form returns the operator's own results, then the new content of the written arguments. So the order of
calls is visible as data flow, as for any other operator of the edge dialect. Memory planning gives the new content the
memory of the written argument, and the emitted instruction calls the kernel of the operator itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.fx import Node

from edgecore.ir.torch_compat import OpOverload, overload_name, schema_of

_NAMESPACE = "edgecore_functional"
_ANNOTATION = re.compile(r"\([a-z]+!?( -> [^)]*)?\)")
"""Matches an annotation in a schema, such as `(a!)` in `Tensor(a!)`."""

_library = torch.library.Library(_NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Writer:
    """The custom operator that a functional form represents, and the arguments that the operator writes.

    Attributes:
        operator: The operator.
        written: The names of the arguments that this form treats as written, in the order of the schema.
        fresh: The number of the operator's results that are not written arguments. In the functional form they come
            before the new content of the written arguments.
    """

    operator: OpOverload
    written: tuple[str, ...]
    fresh: int

    def operands(self, node: Node) -> list[Node]:
        """Return the written arguments of a call of the functional form."""
        indices = [index for index, spec in enumerate(schema_of(self.operator).arguments) if spec.name in self.written]
        operands = [node.args[index] for index in indices]
        assert all(isinstance(operand, Node) for operand in operands)
        return operands  # type: ignore[return-value]


_WRITERS: dict[Any, Writer] = {}


def writer_of(target: Any) -> Writer | None:
    """Return the custom operator whose functional form is `target`, or None for any other target."""
    return _WRITERS.get(target)


def writes_argument(spec: Any) -> bool:
    """Return True if a schema marks an argument as written."""
    return spec.alias_info is not None and bool(spec.alias_info.is_write)


@cache
def functional_form_of_writer(target: OpOverload, written: tuple[str, ...]) -> OpOverload:
    """Define and return the functional form of an operator. Its arguments are positional, in the operator's order.

    Args:
        target: An operator whose results are tensors.
        written: The arguments that the operator writes in the call. In other calls, an optional one may be None.
    """
    schema = schema_of(target)
    fresh = [index for index, value in enumerate(schema.returns) if value.alias_info is None]
    name = "__".join((schema.name.replace("::", "__"), overload_name(target), *written))
    text = str(schema)
    arguments = _ANNOTATION.sub("", text[text.index("(") + 1 : text.rindex(") -> ")]).replace("*, ", "")
    results = ", ".join(["Tensor"] * (len(fresh) + len(written)))
    _library.define(f"{name}({arguments}) -> ({results})")  # type: ignore[no-untyped-call]

    def run(*values: Any) -> Any:
        # Fill in defaults: torch does not pass trailing arguments that have their default value.
        named: dict[str, Any] = {spec.name: spec.default_value for spec in schema.arguments}
        named |= {spec.name: value for spec, value in zip(schema.arguments, values, strict=False)}
        named |= {name: named[name].clone() for name in written}
        keywords = {spec.name: named[spec.name] for spec in schema.arguments if spec.kwarg_only}
        result = target(*(named[spec.name] for spec in schema.arguments if not spec.kwarg_only), **keywords)
        own = result if isinstance(result, (tuple, list)) else (result,)
        values = (*(own[index] for index in fresh), *(named[name] for name in written))
        return values if len(values) > 1 else values[0]

    _library.impl(name, run, "CPU")  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"{_NAMESPACE}::{name}", run, lib=_library)
    form = getattr(torch.ops, _NAMESPACE).__getattr__(name).default
    _WRITERS[form] = Writer(target, written, len(fresh))
    return form  # type: ignore[no-any-return]
