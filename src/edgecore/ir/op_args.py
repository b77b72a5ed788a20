"""The arguments of a call node by the names of its operator's schema."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from edgecore.ir.torch_compat import OpOverload, schema_of


def argument(node: Node, name: str) -> Any:
    """Return the value of one argument of a call: a node, a number, a list of these, or None.

    If the call does not pass the argument, returns its default, or None if it has no default.

    Raises:
        KeyError: The operator has no argument of this name.
    """
    target = node.target
    assert isinstance(target, OpOverload)
    for index, spec in enumerate(schema_of(target).arguments):
        if spec.name == name:
            if index < len(node.args):
                return node.args[index]
            return node.kwargs.get(name, spec.default_value if spec.has_default_value() else None)
    raise KeyError(name)


def arguments_by_name(node: Node) -> dict[str, Any]:
    """Return name -> value of all arguments of a call, with defaults for arguments that the call does not pass."""
    target = node.target
    assert isinstance(target, OpOverload)
    values = dict(node.kwargs)
    for index, spec in enumerate(schema_of(target).arguments):
        if index < len(node.args):
            values[spec.name] = node.args[index]
        elif spec.name not in values:
            values[spec.name] = spec.default_value if spec.has_default_value() else None
    return values
