"""Lower operators that move elements to calls: views, transposes, slices, padding, gathers, resizing."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import NodeQuery, arguments_by_name, rank, shape
from edgecore_vulkan.graph.calls import TensorValue
from edgecore_vulkan.operators.builder import (
    ALL,
    FLOAT,
    INT,
    NUMBER,
    Builder,
    Lower,
    Row,
    is_static,
    plain,
)

aten = torch.ops.aten

_END = 2**63 - 1


def _view(b: Builder, node: Node) -> TensorValue:
    """Emit a view (input, sizes); sizes are numbers, or with symbolic sizes a list of numbers and `SizeValue`s."""
    output = b.result(node)
    sizes = list(output.shape) if is_static(node) else b.sizes(node.args[1])  # type: ignore[arg-type]
    b.call("aten.view_copy.default", [b.value(node.args[0]), sizes], output)
    return output


def _reshaped(b: Builder, node: Node) -> TensorValue:
    """Emit a squeeze or an unsqueeze as a view; a symbolic size becomes -1."""
    output = b.result(node)
    sizes = [size if isinstance(size, int) else -1 for size in shape(node)]
    b.call("aten.view_copy.default", [b.value(node.args[0]), sizes], output)
    return output


def _squeeze(b: Builder, node: Node) -> TensorValue:
    """Emit a squeeze as a view; with several symbolic sizes, as the call squeeze (input, dims)."""
    if sum(not isinstance(size, int) for size in shape(node)) < 2:
        return _reshaped(b, node)
    source: Any = node.args[0]
    chosen: Any = node.args[1]
    dims = [dim % rank(source) for dim in ([chosen] if isinstance(chosen, int) else chosen)]
    squeezed = [dim for dim in dims if shape(source)[dim] == 1]
    output: TensorValue = b.call("aten.squeeze_copy.dims", [b.value(source), squeezed], b.result(node))
    return output


def _unsqueeze(b: Builder, node: Node) -> TensorValue:
    """Emit an unsqueeze as a view; with several symbolic sizes, as the call unsqueeze (input, dim)."""
    if sum(not isinstance(size, int) for size in shape(node)) < 2:
        return _reshaped(b, node)
    dim = node.args[1] % rank(node)  # type: ignore[operator]
    output: TensorValue = b.call("aten.unsqueeze_copy.default", [b.value(node.args[0]), dim], b.result(node))
    return output


def _along_dims(b: Builder, node: Node) -> TensorValue:
    """Emit a permute or flip as a call (input, dims); negative dims are replaced."""
    dims = [dim % rank(node) for dim in node.args[1]]  # type: ignore[union-attr,operator]
    output: TensorValue = b.call(str(node.target), [b.value(node.args[0]), dims], b.result(node))
    return output


def _transpose(b: Builder, node: Node) -> TensorValue:
    dims = list(range(rank(node)))
    first, second = node.args[1:3] if len(node.args) == 3 else (0, -1)
    if dims:
        dims[first], dims[second] = dims[second], dims[first]  # type: ignore[index]
    output: TensorValue = b.call("aten.permute_copy.default", [b.value(node.args[0]), dims], b.result(node))
    return output


def _expand(b: Builder, node: Node) -> TensorValue:
    """Emit an expand as a call (input, sizes, implicit=False), where the size -1 means unchanged."""
    output = b.result(node)
    source, requested = node.args[:2]
    x = b.value(source)
    if is_static(node) and x.shape == output.shape:
        return x
    before = shape(source)
    offset = rank(node) - len(before)
    sizes: list[Any] = []
    for index, size in enumerate(requested):  # type: ignore[arg-type]
        kept = index >= offset and not isinstance(size, int) and not isinstance(before[index - offset], int)
        sizes.append(-1 if kept else b.size(size))
    b.call("aten.expand_copy.default", [x, sizes, False], output)
    return output


def _cat(b: Builder, node: Node) -> TensorValue:
    args = arguments_by_name(node)
    sources = [source for source in args["tensors"] if shape(source) != (0,)]
    values = [b.value(source) for source in sources]
    if len(values) == 1:
        return values[0]
    output: TensorValue = b.call("aten.cat.default", [values, args["dim"] % rank(node)], b.result(node))
    return output


def _stack(b: Builder, node: Node) -> TensorValue:
    args = arguments_by_name(node)
    dim = args["dim"] % rank(node)
    output = b.result(node)
    sizes = [size if isinstance(size, int) else -1 for size in shape(node)]
    sizes[dim] = 1
    values = [b.value(source) for source in args["tensors"]]
    slice_shape = (*output.shape[:dim], 1, *output.shape[dim + 1 :])
    b.call("aten.cat.default", [[b.view(value, slice_shape, sizes) for value in values], dim], output)
    return output


def _check_stack(query: NodeQuery) -> str | None:
    if sum(not isinstance(size, int) for size in shape(query.node)) > 1:
        return "several symbolic sizes"
    return _check_cat(query)


def _slice(b: Builder, node: Node) -> TensorValue:
    """Emit a slice (input, dim, start, end, step); if the size is known, resolve negative limits and clamp."""
    args = arguments_by_name(node)
    source: Any = node.args[0]
    dim = args["dim"] % rank(source)
    size = shape(source)[dim]
    start, end = args["start"], args["end"]
    start = 0 if start is None else start
    if isinstance(size, int):
        end = size if end is None else end
        if isinstance(start, int):
            start = min(max(start + size if start < 0 else start, 0), size)
        if isinstance(end, int):
            end = min(max(end + size if end < 0 else end, 0), size)
    elif end is None:
        end = _END
    output: TensorValue = b.call(
        "aten.slice_copy.Tensor", [b.value(source), dim, b.size(start), b.size(end), args["step"]], b.result(node)
    )
    return output


def _select(b: Builder, node: Node) -> TensorValue:
    """Emit a select as a call (input, dim, index); a negative index is replaced if the size is known."""
    source: Any = node.args[0]
    dim: int = node.args[1] % rank(source)  # type: ignore[operator, assignment]
    index: Any = node.args[2]
    size = shape(source)[dim]
    if isinstance(index, int) and index < 0 and isinstance(size, int):
        index += size
    output: TensorValue = b.call("aten.select_copy.int", [b.value(source), dim, b.size(index)], b.result(node))
    return output


def _split(b: Builder, node: Node) -> list[TensorValue]:
    args = arguments_by_name(node)
    source = node.args[0]
    outputs = [b.result(node, index) for index in range(len(node.meta["val"]))]
    sizes = b.sizes(args["split_sizes"])
    b.call("aten.split_with_sizes_copy.default", [b.value(source), sizes, args["dim"] % rank(source)], outputs)
    return outputs


def _unbind(b: Builder, node: Node) -> list[TensorValue]:
    source: Any = node.args[0]
    dim = arguments_by_name(node)["dim"] % rank(source)
    x = b.value(source)
    outputs = [b.result(node, index) for index in range(len(node.meta["val"]))]
    for index, output in enumerate(outputs):
        b.call("aten.select_copy.int", [x, dim, index], output)
    return outputs


def _even_split(b: Builder, node: Node) -> list[TensorValue]:
    """Emit a split into parts of equal size as a split with sizes; the last part may be smaller."""
    args = arguments_by_name(node)
    source: Any = node.args[0]
    dim = args["dim"] % rank(source)
    outputs = [b.result(node, index) for index in range(len(node.meta["val"]))]
    sizes: list[Any] = [output.shape[dim] for output in outputs]
    b.call("aten.split_with_sizes_copy.default", [b.value(source), sizes, dim], outputs)
    return outputs


def _check_even_split(query: NodeQuery) -> str | None:
    source: Any = query.node.args[0]
    size = shape(source)[query.argument("dim") % rank(source)]
    return None if isinstance(size, int) else f"bakes {size}"


def _glu(b: Builder, node: Node) -> TensorValue:
    source: Any = node.args[0]
    dim = arguments_by_name(node)["dim"] % rank(source)
    output = b.result(node)
    halves = [output.like(), output.like()]
    b.call("aten.split_with_sizes_copy.default", [b.value(source), [output.shape[dim]] * 2, dim], halves)
    gate = b.call("aten.sigmoid.default", [halves[1]], output.like())
    b.call("aten.mul.Tensor", [halves[0], gate], output)
    return output


def _pad(b: Builder, node: Node) -> TensorValue:
    args = arguments_by_name(node)
    output: TensorValue = b.call(
        "aten.constant_pad_nd.default", [b.value(node.args[0]), b.sizes(args["pad"]), args["value"]], b.result(node)
    )
    return output


def _along_dim(b: Builder, node: Node) -> TensorValue:
    """Emit an operator such as gather with its argument `dim`; a negative `dim` is replaced."""
    source: Any = node.args[0]
    dim = node.args[1] % max(rank(source), 1)  # type: ignore[operator]
    output: TensorValue = b.call(str(node.target), b.arguments(node, dim=dim), b.result(node))
    return output


def _index(b: Builder, node: Node) -> TensorValue:
    """Emit indexing along one dim as index_select by flattened indices, then a view that restores their shape."""
    x, output = b.value(node.args[0]), b.result(node)
    dim, source = _only_index(node)
    indices = b.value(source)
    row = indices if len(indices.shape) == 1 else b.view(indices, (indices.elements,))
    sizes = (*x.shape[:dim], row.elements, *x.shape[dim + 1 :])
    is_done = len(indices.shape) == 1
    chosen = b.call("aten.index_select.default", [x, dim, row], output if is_done else TensorValue(sizes, x.dtype))
    if not is_done:
        b.call("aten.view_copy.default", [chosen, list(output.shape)], output)
    return output


def _only_index(node: Node) -> tuple[int, Node]:
    indices: Any = node.args[1]
    ((dim, source),) = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    return dim, source


def _check_index(query: Any) -> str | None:
    if query.profile.is_stock:
        return "executorch 1.5's delegate has no such operator"
    indices = [index for index in query.argument("indices") if index is not None]
    if len(indices) != 1:
        return "several index tensors"
    if indices[0].meta["val"].dtype not in INT:
        return "a mask"
    is_row = rank(indices[0]) == 1
    return None if is_row or is_static(query.node) else "symbolic sizes"


def _filled(b: Builder, node: Node) -> TensorValue:
    """Return a tensor filled with a number as a constant; with symbolic sizes, emit a call that fills it."""
    val = node.meta["val"]
    name = str(node.target)
    args = arguments_by_name(node)
    number = args["fill_value"] if "fill_value" in args else args.get("s", 1 if "ones" in name else 0)
    if is_static(node):
        return b.constant(torch.full(tuple(val.shape), number, dtype=val.dtype))
    output = b.result(node)
    # `full_like` has the arguments (input, value, dtype, layout, device, pin_memory, memory_format).
    if "self" in args:
        b.call("aten.full_like.default", [b.value(args["self"]), number, *[None] * 5], output)
    # `full` has the arguments (sizes, value, dtype, layout, device, pin_memory).
    else:
        b.call("aten.full.default", [b.sizes(args["size"]), number, *[None] * 4], output)
    return output


def _check_filled(query: NodeQuery) -> str | None:
    args = arguments_by_name(query.node)
    number = args.get("fill_value", args.get("s", 0))
    return None if isinstance(number, (bool, int, float)) else "a value that is computed"


def _range(b: Builder, node: Node) -> TensorValue:
    """Return the result of an `arange` as a constant; with symbolic sizes, emit a call with its arguments."""
    args = arguments_by_name(node)
    start, step = args.get("start", 0), args.get("step", 1)
    val = node.meta["val"]
    if is_static(node) and all(isinstance(number, (int, float)) for number in (start, args["end"], step)):
        return b.constant(torch.arange(start, args["end"], step, dtype=val.dtype))
    numbers = [number if isinstance(number, float) else b.size(number) for number in (start, args["end"], step)]
    output: TensorValue = b.call("aten.arange.start_step", [*numbers, *[None] * 4], b.result(node))
    return output


def _resize(b: Builder, node: Node) -> TensorValue:
    """Emit an upsampling with its arguments: either output sizes or scale factors are None."""
    args = arguments_by_name(node)
    factors = None if args["scale_factors"] is None else [float(factor) for factor in args["scale_factors"]]
    sizes = None if args["output_size"] is None else list(args["output_size"])
    changed = {"output_size": sizes, "scale_factors": factors}
    output: TensorValue = b.call(str(node.target), b.arguments(node, **changed), b.result(node))
    return output


def _static_image(query: NodeQuery) -> str | None:
    if rank(query.node) != 4:
        return f"{rank(query.node)} dims instead of 4"
    return None if is_static(query.node) else "symbolic sizes"


def _static(query: NodeQuery) -> str | None:
    return None if is_static(query.node) else "symbolic sizes"


def _has_dims(query: NodeQuery) -> str | None:
    return None if rank(query.node.args[0]) else "a tensor without dims"


def _check_cat(query: NodeQuery) -> str | None:
    ranks = {rank(source) for source in query.argument("tensors") if shape(source) != (0,)}
    dtypes = {source.meta["val"].dtype for source in query.node.all_input_nodes}
    return "tensors of different ranks or dtypes" if len(ranks) != 1 or len(dtypes) > 1 else None


def _check_embedding(query: NodeQuery) -> str | None:
    weight = query.argument("weight")
    if weight.meta["val"].dtype not in FLOAT:
        return "a table that is not floating-point"
    return None if query.is_constant(weight) else "a table that is computed"


def _check_squeeze(query: NodeQuery) -> str | None:
    if sum(not isinstance(size, int) for size in shape(query.node)) < 2:
        return None
    dims = query.argument("dim")
    source: Any = query.node.args[0]
    sizes = [shape(source)[dim] for dim in ([dims] if isinstance(dims, int) else dims)]
    return None if all(isinstance(size, int) for size in sizes) else "symbolic sizes that it may drop"


def _row(
    target: Any, lower: Lower, constraints: str = "", check: Any = None, dtypes: tuple[torch.dtype, ...] = ALL,
    keep: bool = False,
) -> Row:  # fmt: skip
    return Row(target, dtypes, constraints, check, keep, lower)


ROWS = [
    _row(aten.view_copy.default, _view),
    _row(aten.permute_copy.default, _along_dims),
    _row(aten.transpose_copy.int, _transpose),
    _row(aten.t_copy.default, _transpose),
    _row(aten.squeeze_copy.dims, _squeeze, check=_check_squeeze),
    _row(aten.squeeze_copy.dim, _squeeze, check=_check_squeeze),
    _row(aten.unsqueeze_copy.default, _unsqueeze),
    _row(aten.expand_copy.default, _expand),
    _row(aten.cat.default, _cat, "equal ranks and dtypes", _check_cat),
    _row(aten.stack.default, _stack, "equal dtypes, one symbolic size", _check_stack),
    _row(aten.slice_copy.Tensor, _slice),
    _row(aten.select_copy.int, _select),
    _row(aten.split_with_sizes_copy.default, _split),
    _row(aten.split_copy.Tensor, _even_split, "a dim of static size", _check_even_split),
    _row(aten.unbind_copy.int, _unbind),
    _row(aten.glu.default, _glu, "a dim of static size", _check_even_split, FLOAT),
    _row(aten.constant_pad_nd.default, _pad),
    _row(aten.repeat.default, plain(), "static sizes", _static),
    _row(aten.flip.default, _along_dims, "static sizes", _static),
    _row(aten.pixel_shuffle.default, plain(), "4 static dims", _static_image, FLOAT, keep=True),
    _row(aten.gather.default, _along_dim, check=_has_dims),
    _row(aten.index_select.default, _along_dim, "static sizes", _static),
    _row(aten.index.Tensor, _index, "one index tensor; runtime edgecore only", _check_index),
    _row(aten.embedding.default, plain(), "a constant floating-point table", _check_embedding, FLOAT + INT),
    _row(aten.upsample_nearest2d.vec, _resize, "static sizes", _static_image, FLOAT, keep=True),
    _row(aten.upsample_bilinear2d.vec, _resize, "static sizes", _static_image, FLOAT, keep=True),
    *(_row(target, _filled, "a constant value", _check_filled) for target in (
        aten.full.default, aten.full_like.default, aten.zeros.default, aten.ones.default, aten.scalar_tensor.default)),
    *(
        _row(target, _range, dtypes=NUMBER)
        for target in (aten.arange.start_step, aten.arange.start, aten.arange.default)
    ),
]  # fmt: skip
