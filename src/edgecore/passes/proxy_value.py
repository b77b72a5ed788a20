"""The arguments of `ExportPass` methods: values with the nodes that compute them, and the visited node's `meta`."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node, Proxy
from torch.fx.node import map_aggregate

from edgecore.errors import CompileError
from edgecore.ir.torch_compat import OpOverload, schema_of

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
"""The types of numbers that are known only at run time."""

_OF_THE_VALUE = frozenset({"val", "tensor_meta"})
_PROTECTED = _OF_THE_VALUE | {"stack_trace", "nn_module_stack", "debug_handle"}


@dataclass(eq=False)
class ProxyValue:
    """A value of a graph.

    If the value is a number that is known when the pass runs, `int(value)` and `bool(value)` convert it. For a symbolic
    number, they raise an error.

    Attributes:
        data: The value: a fake tensor, a number, or a tuple of these.
        node: The node that computes the value.
    """

    data: Any
    node: Node

    @property
    def proxy(self) -> Proxy:
        """The node as a proxy of torch.fx: Python operators on it add calls to the graph."""
        return Proxy(self.node)

    @property
    def proxy_or_node(self) -> Node:
        """The node."""
        return self.node

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the node, such as `target` and `meta`."""
        if name.startswith("__") or name == "node":
            raise AttributeError(name)
        return getattr(self.node, name)

    def is_tensor(self) -> bool:
        """Return True if the value is a tensor."""
        return isinstance(self.data, torch.Tensor)

    def to_tensor(self) -> torch.Tensor:
        """Return the tensor.

        Raises:
            CompileError: The value is not a tensor.
        """
        if not isinstance(self.data, torch.Tensor):
            raise CompileError(f"the value of node {self.node.name} is a {type(self.data).__name__}, not a tensor")
        return self.data

    def __iter__(self) -> Iterator[Any]:
        yield from self.data

    def __bool__(self) -> bool:
        return bool(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __float__(self) -> float:
        return float(self._number())

    def __index__(self) -> int:
        return int(self._number())

    def _number(self) -> Any:
        if isinstance(self.data, SYMBOLIC):
            raise CompileError(
                f"the value {self.data} of node {self.node.name} is known at run time only, so a pass cannot read it"
            )
        return self.data


class NodeMetadata(UserDict[str, Any]):
    """The `meta` of a visited node. New nodes of the pass inherit all entries that do not describe the value.

    An attempt to set an entry that describes the value or the origin of a node raises a `CompileError`.
    """

    def __init__(self, data: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.data = dict(data or {})

    def __setitem__(self, key: str, value: Any) -> None:
        if key in _PROTECTED:
            raise CompileError(f"a pass cannot set the entry {key!r} of a node's meta")
        self.data[key] = value

    def copy(self) -> NodeMetadata:
        return NodeMetadata(self.data)


def inherited(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of `meta` for another node: all entries that do not describe the value."""
    return {key: value for key, value in meta.items() if key not in _OF_THE_VALUE}


def data_of(values: Any) -> Any:
    """Return nested arguments with each `ProxyValue` replaced by its data."""
    return map_aggregate(values, lambda value: value.data if isinstance(value, ProxyValue) else value)


def nodes_of(values: Any) -> Any:
    """Return nested arguments with each `ProxyValue` replaced by its node."""
    return map_aggregate(values, lambda value: value.node if isinstance(value, ProxyValue) else value)


def map_args(
    op: OpOverload, function: Callable[[Any, torch.Argument], Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Replace each argument of a call by the result of `function(argument, schema entry of the argument)`."""
    changed, named = list(args), dict(kwargs)
    for index, spec in enumerate(schema_of(op).arguments):
        if spec.name in named:
            named[spec.name] = function(named[spec.name], spec)
        elif index < len(changed) and not spec.kwarg_only:
            changed[index] = function(changed[index], spec)
    return tuple(changed), named
