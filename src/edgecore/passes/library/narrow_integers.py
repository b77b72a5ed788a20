"""Narrow int64 arithmetic on indices to int32, if the values provably fit and all readers accept int32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.dialect.op_sets import ELEMENTS_OF_FIRST
from edgecore.ir.graph import Editor, calls, edit, fake_mode, refresh_vals
from edgecore.ir.op_args import argument
from edgecore.ir.program.constants import Constants

aten = torch.ops.aten
Range = tuple[int, int]
"""Minimum and maximum of the elements of a tensor."""

_INDEX_ARGUMENT: dict[Any, int] = {
    aten.embedding.default: 1,
    aten.index_select.default: 2,
    aten.index.Tensor: 1,
}
"""Operators whose kernels accept int32 indices -> position of the indices. `gather` and `scatter` need int64."""

_ARITHMETIC: dict[Any, Callable[[Any, Any], Range]] = {
    aten.add.Tensor: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    aten.sub.Tensor: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    aten.mul.Tensor: lambda a, b: _hull(x * y for x in a for y in b),
    aten.minimum.default: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    aten.maximum.default: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
}
"""Operator -> function that computes the range of the result from the ranges of the operands."""

_SCALAR_FORMS: dict[Any, Any] = {
    aten.add.Scalar: aten.add.Tensor,
    aten.sub.Scalar: aten.sub.Tensor,
    aten.mul.Scalar: aten.mul.Tensor,
}

_INT32 = torch.iinfo(torch.int32)


def narrow_integers(program: ExportedProgram) -> ExportedProgram:
    """Compute int64 values in int32 if they have a known range that fits, and if all their readers accept int32.

    Ranges are known for constants, `arange`, `argmax`, `argmin`, `full` and `clamp`, and are propagated through
    addition, subtraction, multiplication, minimum, maximum and data movement. Two kinds of nodes accept int32: nodes
    that are computed in int32 themselves, and operators that accept indices of both dtypes. Inputs and results of the
    program keep their dtype. If an operator such as `argmax` can compute a value only in int64, the value is converted
    once. Random and data-dependent values stay int64.
    """
    constants = Constants(program)
    with edit(program) as graph_module:
        ranges: dict[Node, Range] = {}
        for node in graph_module.graph.nodes:
            values = _range(node, ranges, constants)
            if values is not None and values[0] >= _INT32.min and values[1] <= _INT32.max:
                ranges[node] = values
        candidates = {node for node in ranges if constants.has(node) or _can_compute(node)}
        narrow = _narrowable(candidates, set(ranges))
        _apply(program, constants, narrow, ranges)
    constants.drop_unused()
    return program


def _range(node: Node, ranges: dict[Node, Range], constants: Constants) -> Range | None:
    """Return the bounds of the elements of an int64 value; None if they are unknown."""
    val = node.meta.get("val")
    if not isinstance(val, torch.Tensor) or val.dtype != torch.int64 or not _is_static(val) or not val.numel():
        return None
    if constants.has(node):
        tensor = constants.get(node)
        return int(tensor.min()), int(tensor.max())
    if node.op != "call_function":
        return None
    if node.target in (aten.argmax.default, aten.argmin.default):
        source = node.args[0].meta["val"]  # type: ignore[union-attr]
        dim = argument(node, "dim")
        size = source.numel() if dim is None else source.shape[dim]
        return (0, max(int(size) - 1, 0)) if _is_static(source) else None
    if node.target is aten.arange.start_step:
        start, end, step = (argument(node, name) for name in ("start", "end", "step"))
        if all(type(value) is int for value in (start, end, step)):
            return _hull((start, start + (val.numel() - 1) * step))
        return None
    if node.target is aten.full.default:
        value = argument(node, "fill_value")
        return (value, value) if type(value) is int else None
    if node.target in ELEMENTS_OF_FIRST:
        return ranges.get(node.args[0])  # type: ignore[arg-type]
    if node.target is aten.cat.default:
        parts = [ranges.get(part) for part in node.args[0]]  # type: ignore[arg-type,union-attr]
        return _hull(edge for part in parts if part for edge in part) if all(parts) else None
    if node.target is aten.clamp.default:
        bounds = argument(node, "min"), argument(node, "max")
        if not all(type(bound) is int for bound in bounds) or bounds[0] > bounds[1]:
            return None
        return bounds
    return _arithmetic_range(node, ranges)


def _arithmetic_range(node: Node, ranges: dict[Node, Range]) -> Range | None:
    function = _ARITHMETIC.get(_SCALAR_FORMS.get(node.target, node.target))
    if function is None or node.kwargs or len(node.args) != 2:
        return None
    args: tuple[Any, ...] = node.args
    operands = [(value, value) if type(value) is int else ranges.get(value) for value in args]
    if None in operands:
        return None
    result: Range = function(*operands)
    return result


def _hull(values: Any) -> Range:
    items = list(values)
    return min(items), max(items)


def _is_static(val: torch.Tensor) -> bool:
    return all(isinstance(size, int) for size in val.shape)


def _can_compute(node: Node) -> bool:
    """Return True if a call returns int32 for int32 operands, or for the argument `dtype=torch.int32`."""
    arithmetic = node.target in _ARITHMETIC or node.target in _SCALAR_FORMS or node.target is aten.clamp.default
    return (
        arithmetic
        or node.target in ELEMENTS_OF_FIRST
        or node.target in (aten.cat.default, aten.arange.start_step, aten.full.default)
    )


def _narrowable(narrow: set[Node], bounded: set[Node]) -> set[Node]:
    """Return the largest subset of `narrow` that can be computed in int32.

    A node stays in the set if all its users accept it in int32, and if all its int64 operands fit into int32, as the
    operands in `bounded` do. Removing a node may make others fail this test, so the test is repeated until the set no
    longer changes.
    """
    while True:
        remaining = {node for node in narrow if all(_accepts_int32(user, node, narrow) for user in node.users)}
        remaining = {node for node in remaining if all(source in bounded for source in _wide_operands(node))}
        if remaining == narrow:
            return remaining
        narrow = remaining


def _wide_operands(node: Node) -> list[Node]:
    """List the int64 operands of a call, without index arguments, which may stay int64."""
    if node.op != "call_function":
        return []
    index = _INDEX_ARGUMENT.get(node.target)
    sources = node.all_input_nodes if index is None else [node.args[0]]
    return [source for source in sources if isinstance(source, Node) and _is_int64(source)]


def _is_int64(node: Node) -> bool:
    val = node.meta.get("val")
    return isinstance(val, torch.Tensor) and val.dtype == torch.int64


def _accepts_int32(user: Node, node: Node, narrow: set[Node]) -> bool:
    position = _INDEX_ARGUMENT.get(user.target)
    if position is not None and user.args[0] is not node and _all_indices_narrow(user.args[position], narrow):
        return True
    return user in narrow


def _all_indices_narrow(indices: Any, narrow: set[Node]) -> bool:
    items = indices if isinstance(indices, (list, tuple)) else [indices]
    return all(item is None or item in narrow for item in items)


def _apply(program: ExportedProgram, constants: Constants, narrow: set[Node], ranges: dict[Node, Range]) -> None:
    graph_module = program.graph_module
    mode = fake_mode(graph_module)
    changed: set[Node] = set()
    for node in [node for node in graph_module.graph.nodes if node in narrow and constants.has(node)]:
        if node.users:
            constants.set(node, constants.get(node).to(torch.int32))
            changed.add(node)
    casts: dict[Node, Node] = {}
    for node in calls(graph_module):
        if node not in narrow:
            continue
        if node.target in (aten.arange.start_step, aten.full.default):
            node.kwargs = {**node.kwargs, "dtype": torch.int32}
            node.meta["val"] = node.meta["val"].to(torch.int32)
            changed.add(node)
        for source in _wide_operands(node):
            if source not in narrow:
                if source not in casts:
                    casts[source] = Editor(graph_module, node, mode).call(
                        aten._to_copy.default, source, dtype=torch.int32
                    )
                node.replace_input_with(source, casts[source])
                changed.add(casts[source])
    if changed:
        refresh_vals(graph_module, changed, mode)
