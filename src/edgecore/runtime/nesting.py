"""Nested arguments and results of methods: lists, tuples, dicts and dataclasses around the flat inputs and outputs.

A file names its inputs by their paths, such as `past[0].key`, and describes the containers of its outputs as
`torch.utils._pytree.treespec_dumps` writes them (JSON, protocol 1), as ExecuTorch's files do.
"""

from __future__ import annotations

import ast
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any

from edgecore._runtime import Method, TensorInfo
from edgecore.errors import ErrorCode, ExecutionError

_ROOT = re.compile(r"[^.\[]+")
_STEP = re.compile(r"""\.(\w+)|\[('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\]]*)\]""")
_MISSING = object()


def set_nesting(method: Method) -> None:
    """Let a method take arguments and return results that are nested as those of the model."""
    names = [info.name for info in method.inputs]
    flatten = unflatten = None
    if any(not name.isidentifier() for name in names) and all(names):
        parameters = _parameters(method.inputs)
        flatten = None if parameters is None else _Arguments(method.name, parameters).flatten
    if structure := _structure(method.output_containers, len(method.outputs)):
        unflatten = structure.build
    if flatten or unflatten:
        method.set_nesting(flatten, unflatten)


def leaves(value: Any) -> list[Any]:
    """Return the tensors and numbers of a result in the order of the method's outputs."""
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, (list, tuple)) else [value]


# Arguments ------------------------------------------------------------------------------------------------------------


@dataclass
class _Node:
    """A parameter of the model's `forward`, or an item inside it.

    Attributes:
        path: Its name, such as `past[0].key`.
        items: The items of a container by index, key or field; empty for an input.
        may_miss: True for an input that was None when the model was exported.
    """

    path: str
    items: dict[Any, _Node] = field(default_factory=dict)
    may_miss: bool = False


def _parameters(inputs: Sequence[TensorInfo]) -> dict[str, _Node] | None:
    """Return the parameters by name in their order, or None if a name is no path."""
    parameters: dict[str, _Node] = {}
    for info in inputs:
        root = _ROOT.match(info.name)
        if root is None:
            return None
        node = parameters.setdefault(root[0], _Node(root[0]))
        end = root.end()
        while end < len(info.name):
            step = _STEP.match(info.name, end)
            if step is None:
                return None
            end = step.end()
            try:
                key = step[1] or ast.literal_eval(step[2])
            except (ValueError, SyntaxError):
                return None
            node = node.items.setdefault(key, _Node(info.name[:end]))
        node.may_miss = info.dtype == "none"
    return parameters


@dataclass(frozen=True)
class _Arguments:
    """The parameters of a method, some of which are containers."""

    method: str
    parameters: dict[str, _Node]

    def flatten(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Return the inputs in their order, or None if the call gives flat inputs: there is no container among them.

        Args:
            args: The first arguments.
            named: The others by the names of parameters, and perhaps `out`.

        Raises:
            ExecutionError: An argument is missing, unknown or given twice, or its containers differ from those with
                which the model was exported.
        """
        if not any(_is_container(value) for value in (*args, *(named[name] for name in named if name != "out"))):
            return None
        args = tuple(value for value in args if leaves(value))  # the file has no parameter for an empty container
        if len(args) > len(self.parameters):
            raise _error(f"Method '{self.method}' takes {self._names()}; got {len(args)} arguments")
        given = dict(zip(self.parameters, args, strict=False))
        for name, value in named.items():
            if name == "out" or not leaves(value):
                continue
            if name not in self.parameters:
                raise _error(f"Method '{self.method}' has no argument '{name}'; it takes {self._names()}")
            if name in given:
                raise _error(f"Argument '{name}' of method '{self.method}' was given by position and by keyword")
            given[name] = value
        flat: list[Any] = []
        for name, node in self.parameters.items():
            flat += self._inputs(node, given.get(name, _MISSING))
        return tuple(flat)

    def _names(self) -> str:
        return ", ".join(f"'{name}'" for name in self.parameters)

    def _inputs(self, node: _Node, value: Any) -> Iterator[Any]:
        """Yield the inputs inside an argument."""
        if value is _MISSING:
            if node.items or not node.may_miss:
                raise _error(f"Method '{self.method}' was not given '{node.path}'")
            value = None
        if not node.items:
            yield value
            return
        given = _items(value)
        if given is None or any(not isinstance(key, int) for key in node.items) != (not isinstance(given, list)):
            raise self._wrong(node, f"got {type(value).__name__}")
        items = dict(enumerate(given)) if isinstance(given, list) else given
        unknown = [key for key in items if key not in node.items and leaves(items[key])]
        missing = [key for key in node.items if key not in items]
        if unknown or missing:
            what = f"{missing[0]!r} is missing" if missing else f"got {unknown[0]!r} too"
            raise self._wrong(node, f"got {len(given)}" if isinstance(given, list) else what)
        for key, item in node.items.items():
            yield from self._inputs(item, items[key])

    def _wrong(self, node: _Node, got: str) -> ExecutionError:
        keys = list(node.items)
        if all(isinstance(key, int) for key in keys):
            expected = f"a list or tuple of {max(keys) + 1}"
        else:
            expected = f"a dict or dataclass with {', '.join(map(repr, keys))}"
        return _error(f"'{node.path}' of method '{self.method}' must be {expected}, as at export; {got}")


def _error(text: str) -> ExecutionError:
    return ExecutionError(f"{text}.", ErrorCode.INVALID_ARGUMENT)


def _is_container(value: Any) -> bool:
    return isinstance(value, (list, tuple, Mapping)) or is_dataclass(value)


def _items(value: Any) -> list[Any] | Mapping[Any, Any] | None:
    """Return the items of a container: of a dataclass and of a named tuple by field; None if it is none."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, tuple) and (fields := getattr(value, "_fields", None)):
        return dict(zip(fields, value, strict=True))
    if isinstance(value, (list, tuple)):
        return list(value)
    return vars(value) if is_dataclass(value) else None


# Results --------------------------------------------------------------------------------------------------------------

_CONTAINERS: dict[str, Callable[[Sequence[Any], Sequence[Any]], Any]] = {
    "builtins.tuple": lambda keys, items: tuple(items),
    "builtins.list": lambda keys, items: list(items),
    "builtins.dict": lambda keys, items: dict(zip(keys, items, strict=True)),
    "collections.OrderedDict": lambda keys, items: OrderedDict(zip(keys, items, strict=True)),
}
"""For each type of container, a function (keys, items) that makes one."""


@dataclass(frozen=True)
class _Container:
    """A container of outputs; an item that is None is an output."""

    kind: str
    keys: tuple[Any, ...]
    items: tuple[_Container | None, ...]

    def build(self, outputs: Sequence[Any]) -> Any:
        """Return the outputs inside their containers."""
        remaining = iter(outputs)
        return self._build(remaining)

    def _build(self, outputs: Iterator[Any]) -> Any:
        items = [next(outputs) if item is None else item._build(outputs) for item in self.items]
        return _CONTAINERS[self.kind](self.keys, items)


def _structure(text: str, output_count: int) -> _Container | None:
    """Return the containers of the outputs; None if they form one list or tuple, or have a type that is not known here."""
    if not text:
        return None
    try:
        protocol, tree = json.loads(text)
        structure = _container(tree) if protocol == 1 else None
        if structure is None or (not structure.keys and not any(structure.items)):
            return None
        return structure if len(leaves(structure.build(range(output_count)))) == output_count else None
    except (ValueError, LookupError, TypeError, RecursionError, StopIteration):
        return None


def _container(tree: Mapping[str, Any]) -> _Container | None:
    """Return a container of the JSON, or None for an output.

    Raises:
        KeyError: The type of a container is not known here.
    """
    kind = tree["type"]
    if kind is None:
        return None
    if kind not in _CONTAINERS:
        raise KeyError(kind)
    keys = json.loads(tree["context"]) or ()
    items = tuple(_container(item) for item in tree["children_spec"])
    if kind not in ("builtins.tuple", "builtins.list") and len(keys) != len(items):
        raise KeyError(kind)
    return _Container(kind, tuple(keys), items)
