"""Nested arguments and results of methods: lists, tuples, dicts and dataclasses around the flat inputs and outputs.

A file names its inputs by their paths, such as `past[0].key`. Like ExecuTorch's files, it describes the containers of
its outputs in the format of `torch.utils._pytree.treespec_dumps` (JSON, protocol 1).
"""

from __future__ import annotations

import ast
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import accumulate
from typing import Any

from edgecore._runtime import Method, TensorInfo
from edgecore.errors import ErrorCode, ExecutionError

_ROOT = re.compile(r"[^.\[]+")
_STEP = re.compile(r"""\.(\w+)|\[('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\]]*)\]""")
_MISSING = object()


def set_nesting(method: Method) -> None:
    """Let a method take and return values that are nested as in the model."""
    names = [info.name for info in method.inputs]
    flatten = unflatten = None
    if any(not name.isidentifier() for name in names) and all(names):
        parameters = _parameters(method.inputs)
        if parameters is not None:
            positions = _positions(method.input_containers, names, list(parameters))
            flatten = _Arguments(method.name, parameters, positions).flatten
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
    """Build the parameters of `forward` from the inputs' names, such as `past[0].key`; None if a name is not a path."""
    parameters: dict[str, _Node] = {}
    for info in inputs:
        root = _root(info.name)
        if not root:
            return None
        node = parameters.setdefault(root, _Node(root))
        end = len(root)
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


def _root(name: str) -> str:
    """Return the parameter that an input's name begins with: `past[0].key` -> `past`; empty if the name is no path."""
    match = _ROOT.match(name)
    return match[0] if match else ""


def _positions(text: str, names: Sequence[str], parameters: list[str]) -> Sequence[str | None]:
    """Return the parameter of each argument of the export, positional ones first; None for an empty container.

    No input's name mentions an empty container, because it has no inputs. If the file does not describe the containers
    (`text` is missing), no container is assumed to be empty.
    """
    try:
        _, tree = json.loads(text)
        args, named = tree["children_spec"]
        counts = [_leaf_count(part) for part in (*args["children_spec"], *named["children_spec"])]
    except (ValueError, LookupError, TypeError, RecursionError):
        return parameters
    ends = list(accumulate(counts))
    if not ends or ends[-1] != len(names):
        return parameters
    firsts = [names[end - count] if count else None for end, count in zip(ends, counts, strict=True)]
    positions = [None if name is None else _root(name) for name in firsts]
    return positions if [name for name in positions if name is not None] == parameters else parameters


def _leaf_count(tree: Mapping[str, Any]) -> int:
    return 1 if tree["type"] is None else sum(map(_leaf_count, tree["children_spec"]))


@dataclass(frozen=True)
class _Arguments:
    """The parameters of a method that takes containers; `positions` is the result of `_positions`."""

    method: str
    parameters: dict[str, _Node]
    positions: Sequence[str | None]

    def flatten(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Return the inputs in order; None if the call passes flat inputs, without any container.

        Args:
            args: The positional arguments.
            named: The keyword arguments by name of the parameter, and possibly `out`.

        Raises:
            ExecutionError: An argument is missing, unknown or passed twice, or its containers differ from the ones that
                the model was exported with.
        """
        if not any(_is_container(value) for value in (*args, *(named[name] for name in named if name != "out"))):
            return None
        try:
            arguments = self._by_name(args, named)
            nodes = self.parameters.items()
            return tuple(value for name, node in nodes for value in self._inputs(node, arguments.get(name, _MISSING)))
        except RecursionError:
            raise _error(f"An argument of method '{self.method}' is nested too deeply, or contains itself") from None

    def _by_name(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Map the name of each parameter to the argument that a call passes for it."""
        if len(args) > len(self.positions):
            raise _error(f"Method '{self.method}' takes {self._names()}; got {len(args)} arguments")
        arguments: dict[str, Any] = {}
        for index, (position, value) in enumerate(zip(self.positions, args, strict=False)):
            if position is not None:
                arguments[position] = value
            elif not _is_empty(value):
                raise _error(f"Argument {index} of method '{self.method}' must be empty, as at export")
        for name, value in named.items():
            if name in arguments:
                raise _error(f"Argument '{name}' of method '{self.method}' was given by position and by keyword")
            if name in self.parameters:
                arguments[name] = value
            elif name != "out" and not _is_empty(value):
                raise _error(f"Method '{self.method}' has no argument '{name}'; it takes {self._names()}")
        return arguments

    def _names(self) -> str:
        return ", ".join(f"'{name}'" for name in self.parameters)

    def _inputs(self, node: _Node, value: Any) -> Iterator[Any]:
        """Yield the method's inputs that an argument contains, in the order of the file."""
        if value is _MISSING:
            if node.items or not node.may_miss:
                raise _error(f"Method '{self.method}' was not given '{node.path}'")
            value = None
        if not node.items:
            yield value
            return
        items = _items(value, node.items)
        missing = [key for key in node.items if key not in items]
        unknown = [key for key in items if key not in node.items and not _is_empty(items[key])]
        if missing or unknown:
            raise self._wrong(node, value, f"{missing[0]!r} is missing" if missing else f"got {unknown[0]!r} too")
        for key, item in node.items.items():
            yield from self._inputs(item, items[key])

    def _wrong(self, node: _Node, value: Any, got: str) -> ExecutionError:
        keys = list(node.items)
        names = ", ".join(map(repr, keys))
        is_list = isinstance(value, (list, tuple))
        if keys == list(range(len(keys))):
            expected = f"a list or tuple of {len(keys)}"
            got = f"got {len(value)}" if is_list else f"got {type(value).__name__}"
        elif all(isinstance(key, int) for key in keys):
            # A list's keys have gaps if items were empty containers at export: 0 and 2 without item 1.
            expected = f"a list, tuple or dict with {names}"
            got = got if _is_container(value) else f"got {type(value).__name__}"
        else:
            expected = f"a dict or dataclass with {names}"
            got = got if _is_container(value) and not is_list else f"got {type(value).__name__}"
        return _error(f"'{node.path}' of method '{self.method}' must be {expected}, as at export; {got}")


def _error(text: str) -> ExecutionError:
    return ExecutionError(f"{text}.", ErrorCode.INVALID_ARGUMENT)


def _is_container(value: Any) -> bool:
    return isinstance(value, (list, tuple, Mapping)) or _is_dataclass(value)


def _is_dataclass(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def _is_empty(value: Any) -> bool:
    """Return True for a container without values. Fields of a dataclass that are None do not count as values."""
    return _is_container(value) and all(_is_empty(item) for item in _items(value, ()).values())


def _items(value: Any, keys: Container[Any]) -> Mapping[Any, Any]:
    """Return the items of a container by index, key or field; nothing for other values.

    Like torch.export, this function leaves out the fields of a dataclass that are None, except those in `keys`.
    """
    if isinstance(value, Mapping):
        return value
    if isinstance(value, tuple) and (names := getattr(value, "_fields", None)):
        return dict(zip(names, value, strict=True))
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    if not _is_dataclass(value):
        return {}
    arguments = {field.name: getattr(value, field.name, None) for field in fields(value)}
    return {name: item for name, item in arguments.items() if item is not None or name in keys}


# Results --------------------------------------------------------------------------------------------------------------

_CONTAINERS: dict[str, Callable[[Sequence[Any], Sequence[Any]], Any]] = {
    "builtins.tuple": lambda keys, items: tuple(items),
    "builtins.list": lambda keys, items: list(items),
    "builtins.dict": lambda keys, items: dict(zip(keys, items, strict=True)),
    "collections.OrderedDict": lambda keys, items: OrderedDict(zip(keys, items, strict=True)),
}
"""Type of container -> function of keys and items that makes a container."""


@dataclass(frozen=True)
class _Container:
    """A container of a method's outputs; None among its `items` stands for an output."""

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
    """Parse the outputs' containers from JSON; None if they are one flat list or tuple, or have an unknown type."""
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
    """Convert a node of the JSON tree to a container; None for a leaf, which stands for an output.

    Raises:
        KeyError: The type of a container is unknown.
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
