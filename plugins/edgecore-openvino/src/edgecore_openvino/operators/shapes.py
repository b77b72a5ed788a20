"""Lower operators that move elements: views, transposes, slices, padding, gathers, resizing."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from openvino import opset15 as ops
from torch.fx import Node

from edgecore.sdk import (
    Constraint,
    NodeQuery,
    arguments_by_name,
    axes,
    pads_of_dims,
    rank,
    same_ranks,
    shape,
    swapped_axes,
)
from edgecore_openvino.operators.builder import FLOATS, Build, Builder, Row, ints, number

aten = torch.ops.aten
ANY = (*FLOATS, torch.bool, torch.int8, torch.uint8, torch.int32)
"""The dtypes that OpenVINO moves without change. int64 is missing, because OpenVINO keeps only its low 32 bits on the
CPU, which suffices for indices."""


def _view(b: Builder, node: Node) -> Any:
    return ops.reshape(b.value(node.args[0]), ints(_sizes(node)), special_zero=False)


def _sizes(node: Node) -> list[int]:
    return [size if isinstance(size, int) else -1 for size in shape(node)]


def _one_symbol(query: NodeQuery) -> str | None:
    return "more than one symbolic size" if _sizes(query.node).count(-1) > 1 else None


def _permute(b: Builder, node: Node) -> Any:
    source, dims = node.args
    return ops.transpose(b.value(source), ints(axes(dims, source)))  # type: ignore[arg-type]


def _transpose(b: Builder, node: Node) -> Any:
    source, first, second = node.args
    return ops.transpose(b.value(source), ints(swapped_axes(first, second, source)))  # type: ignore[arg-type]


def _unsqueeze(b: Builder, node: Node) -> Any:
    return ops.unsqueeze(b.value(node.args[0]), ints([arguments_by_name(node)["dim"] % rank(node)]))


def _squeeze(b: Builder, node: Node) -> Any:
    source, dims = node.args
    squeezable = axes([dims] if isinstance(dims, int) else dims, source)  # type: ignore[arg-type]
    squeezed = [dim for dim in squeezable if shape(source)[dim] == 1]
    return ops.squeeze(b.value(source), ints(squeezed)) if squeezed else b.value(source)


def _expand(b: Builder, node: Node) -> Any:
    """Lower `expand` to a broadcast.

    A symbolic size (-1) becomes 1, because OpenVINO's bidirectional broadcasting then keeps the input's size.
    """
    return ops.broadcast(
        b.value(node.args[0]), ints([abs(size) for size in _sizes(node)]), broadcast_spec="BIDIRECTIONAL"
    )


def _cat(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    return ops.concat([b.value(source) for source in args["tensors"]], args["dim"] % rank(node))


def _stack(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    axis = args["dim"] % rank(node)
    return ops.concat([ops.unsqueeze(b.value(source), ints([axis])) for source in args["tensors"]], axis)


def _slice(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    start, end = args["start"], args["end"]
    last = np.iinfo(np.int64).max
    begin, stop = ints([0 if start is None else start]), ints([last if end is None else end])
    axis = args["dim"] % rank(node)
    return ops.slice(b.value(node.args[0]), begin, stop, ints([args["step"]]), ints([axis]))


def _select(b: Builder, node: Node) -> Any:
    source, dim, index = node.args
    axis = dim % rank(source)  # type: ignore[operator]
    indices = ops.constant(np.int64(index))  # type: ignore[arg-type]
    return ops.gather(b.value(source), indices, ops.constant(np.int64(axis)))


def _split(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    axis = ops.constant(np.int64(args["dim"] % rank(node.args[0])))
    return ops.variadic_split(b.value(node.args[0]), axis, ints(args["split_sizes"])).outputs()


def _pad(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    before, after = pads_of_dims(args["pad"], rank(node))
    return ops.pad(b.value(node.args[0]), ints(before), ints(after), "constant", number(args["value"]))


def _repeat(b: Builder, node: Node) -> Any:
    return ops.tile(b.value(node.args[0]), ints(node.args[1]))  # type: ignore[arg-type]


def _flip(b: Builder, node: Node) -> Any:
    value, last = b.value(node.args[0]), -np.iinfo(np.int64).max
    for axis in axes(node.args[1], node):  # type: ignore[arg-type]
        value = ops.slice(value, ints([-1]), ints([last]), ints([-1]), ints([axis]))
    return value


def _embedding(b: Builder, node: Node) -> Any:
    return ops.gather(b.value(node.args[0]), b.value(node.args[1]), ops.constant(np.int64(0)))


def _check_embedding(query: NodeQuery) -> str | None:
    dtype = query.argument("weight").meta["val"].dtype
    return None if dtype in FLOATS else f"a table of {dtype}"


def _index_select(b: Builder, node: Node) -> Any:
    source, dim, index = node.args
    axis = dim % rank(source)  # type: ignore[operator]
    return ops.gather(b.value(source), b.value(index), ops.constant(np.int64(axis)))


def _pixel_shuffle(b: Builder, node: Node) -> Any:
    return ops.depth_to_space(b.value(node.args[0]), "depth_first", node.args[1])


def _image(query: NodeQuery) -> str | None:
    return None if rank(query.node) == 4 else f"{rank(query.node)} dims instead of 4"


def _static_image(query: NodeQuery) -> str | None:
    return None if all(isinstance(size, int) for size in shape(query.node)[2:]) else "symbolic height or width"


def _resize(mode: str) -> Build:
    def build(b: Builder, node: Node) -> Any:
        args, source = arguments_by_name(node), node.args[0]
        align = bool(args.get("align_corners", False))
        coordinates = "asymmetric" if mode == "nearest" else "align_corners" if align else "pytorch_half_pixel"
        output_sizes = shape(node)[2:]
        factors = args["scale_factors"]
        sizes = factors or [out / size for out, size in zip(output_sizes, shape(source)[2:], strict=True)]
        return ops.interpolate(
            b.value(source),
            ops.constant(np.asarray(sizes, dtype=np.float32)) if factors else ints(output_sizes),
            mode=mode, shape_calculation_mode="scales" if factors else "sizes",
            coordinate_transformation_mode=coordinates, nearest_mode="floor", axes=ints([2, 3]),
        )  # fmt: skip

    return build


def _check_index_select(query: NodeQuery) -> str | None:
    return "the dtype int64" if query.node.meta["val"].dtype == torch.int64 else None


def _row(
    target: Any,
    build: Build,
    constraints: str = "",
    check: Constraint | None = None,
    dtypes: tuple[torch.dtype, ...] = ANY,
) -> Row:
    return Row(target, dtypes, constraints, check, lower=build)


ROWS = [
    _row(aten.view_copy.default, _view, "at most one symbolic size", _one_symbol),
    _row(aten.permute_copy.default, _permute),
    _row(aten.transpose_copy.int, _transpose),
    _row(aten.unsqueeze_copy.default, _unsqueeze),
    _row(aten.squeeze_copy.dim, _squeeze),
    _row(aten.squeeze_copy.dims, _squeeze),
    _row(aten.expand_copy.default, _expand),
    _row(aten.cat.default, _cat, "all inputs of equal rank", same_ranks),
    _row(aten.stack.default, _stack),
    _row(aten.slice_copy.Tensor, _slice),
    _row(aten.select_copy.int, _select),
    _row(aten.split_with_sizes_copy.default, _split),
    _row(aten.repeat.default, _repeat),
    _row(aten.flip.default, _flip),
    _row(aten.constant_pad_nd.default, _pad, dtypes=FLOATS),
    _row(aten.pixel_shuffle.default, _pixel_shuffle, "4 dims", _image, FLOATS),
    _row(aten.embedding.default, _embedding, "floating-point table", _check_embedding,
         (*FLOATS, torch.int32, torch.int64)),
    _row(aten.index_select.default, _index_select, "no int64 but indices", _check_index_select, (*ANY, torch.int64)),
    _row(aten.upsample_bilinear2d.vec, _resize("linear_onnx"), "static height and width", _static_image, FLOATS),
    _row(aten.upsample_nearest2d.vec, _resize("nearest"), "static height and width", _static_image, FLOATS),
]  # fmt: skip
