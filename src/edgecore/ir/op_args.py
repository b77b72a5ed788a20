"""The arguments of a call node by the names of its operator's schema."""

from __future__ import annotations

from typing import Any

from torch._ops import OpOverload
from torch.fx import Node


def argument(node: Node, name: str) -> Any:
    """Return the value of one schema argument of a call, or its default (None where the schema has none).

    The value is what the graph holds: a node, a number, a list of these, or None.

    Raises:
        KeyError: The operator has no argument of that name.
    """
    target = node.target
    assert isinstance(target, OpOverload)
    for index, spec in enumerate(target._schema.arguments):
        if spec.name == name:
            if index < len(node.args):
                return node.args[index]
            return node.kwargs.get(name, spec.default_value if spec.has_default_value() else None)
    raise KeyError(name)


def arguments_by_name(node: Node) -> dict[str, Any]:
    """Return all schema arguments of a call by name, defaults filled in, as `argument` gives them."""
    target = node.target
    assert isinstance(target, OpOverload)
    values = dict(node.kwargs)
    for index, spec in enumerate(target._schema.arguments):
        if index < len(node.args):
            values[spec.name] = node.args[index]
        elif spec.name not in values:
            values[spec.name] = spec.default_value if spec.has_default_value() else None
    return values
