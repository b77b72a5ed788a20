"""Lower reductions to calls with keepdim and at most two dims, as ExecuTorch's delegate requires."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import NodeQuery, arguments_by_name, rank, shape
from edgecore.sdk.torch_compat import schema_of
from edgecore_vulkan.graph.calls import TensorValue
from edgecore_vulkan.operators.builder import BOOL, FLOAT, Builder, Lower, Row, is_static

aten = torch.ops.aten


def _reduce(name: str, has_dtype: bool) -> Lower:
    """Return a function that lowers a reduction to calls with keepdim=True; without keepdim, a view follows."""

    def lower(b: Builder, node: Node) -> TensorValue:
        args = arguments_by_name(node)
        x, output = b.value(node.args[0]), b.result(node)
        chosen = args["dim"]
        dims = sorted(
            dim % len(x.shape) for dim in ([chosen] if isinstance(chosen, int) else chosen or range(len(x.shape)))
        )
        tail: list[Any] = [None] if has_dtype else []
        steps = [dims] if dims == _image_dims(x) else [[dim] for dim in dims]
        for step in steps:
            sizes = tuple(1 if dim in step else size for dim, size in enumerate(x.shape))
            is_last = step is steps[-1] and args["keepdim"]
            target = output if is_last else TensorValue(sizes, x.dtype)
            x = b.call(name, [x, step, True, *tail], target)
        return x if args["keepdim"] else _without_dims(b, node, x, output)

    return lower


def _image_dims(x: TensorValue) -> list[int]:
    """Return the dims H and W of an image [N, C, H, W]. One call can reduce both if channels are packed."""
    return [2, 3] if len(x.shape) == 4 else []


def _without_dims(b: Builder, node: Node, value: TensorValue, output: TensorValue) -> TensorValue:
    sizes = [size if isinstance(size, int) else -1 for size in shape(node)]
    b.call("aten.view_copy.default", [value, sizes], output)
    return output


def _index(name: str) -> Lower:
    """Return a function that lowers argmax or argmin to a call (input, dim, keepdim=True) and, if needed, a view."""

    def lower(b: Builder, node: Node) -> TensorValue:
        args = arguments_by_name(node)
        x, output = b.value(node.args[0]), b.result(node)
        dim = args["dim"]
        if dim is None:
            x, dim = b.view(x, (x.elements,)), 0
        dim %= len(x.shape)
        sizes = tuple(1 if index == dim else size for index, size in enumerate(x.shape))
        keeps = args["keepdim"] and output.shape == sizes
        result = b.call(name, [x, dim, True], output if keeps else TensorValue(sizes, output.dtype))
        return result if keeps else _without_dims(b, node, result, output)

    return lower


def _any(b: Builder, node: Node) -> TensorValue:
    """Emit any(x) as max(x) != 0, with the booleans x converted to zeros and ones."""
    args = arguments_by_name(node)
    x, output = b.value(node.args[0]), b.result(node)
    dim = args["dim"] % len(x.shape)
    sizes = tuple(1 if index == dim else size for index, size in enumerate(x.shape))
    # Arguments of `_to_copy`: self, dtype, layout, device, pin_memory, non_blocking, memory_format.
    ones = b.call("aten._to_copy.default", [x, *[None] * 4, False, None], TensorValue(x.shape, torch.float32))
    largest = b.call("aten.amax.default", [ones, [dim], True], TensorValue(sizes, torch.float32))
    result = b.call("aten.ne.Scalar", [largest, 0], output if args["keepdim"] else TensorValue(sizes, torch.bool))
    return output if args["keepdim"] else _without_dims(b, node, result, output)


def _check(query: NodeQuery) -> str | None:
    source: Any = query.node.args[0]
    if not rank(source):
        return "a tensor without dims"
    if not query.argument("keepdim") and sum(not isinstance(size, int) for size in shape(query.node)) > 1:
        return "several symbolic sizes"
    schema = schema_of(query.node.target)
    has_dtype = any(argument.name == "dtype" for argument in schema.arguments)
    if has_dtype and query.node.meta["val"].dtype != source.meta["val"].dtype:
        return "it changes the dtype"
    return None


def _check_index(query: NodeQuery) -> str | None:
    source: Any = query.node.args[0]
    if query.argument("dim") is None and not is_static(source):
        return "symbolic sizes without a dim"
    return _check(query)


ROWS = [
    *(Row(target, FLOAT, "", _check, lower=_reduce(str(target), has_dtype=True))
      for target in (aten.mean.dim, aten.sum.dim_IntList)),
    *(Row(target, FLOAT, "", _check, lower=_reduce(str(target), has_dtype=False))
      for target in (aten.amax.default, aten.amin.default)),
    *(Row(target, FLOAT, "", _check_index, lower=_index(str(target)))
      for target in (aten.argmax.default, aten.argmin.default)),
    Row(aten.any.dim, BOOL, "", _check, lower=_any),
]  # fmt: skip
