"""Lower operators that move elements to ONNX: views, transposes, slices, padding, gathers, resizing."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
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
from edgecore_qnn.operators.builder import Build, Builder, Row

aten = torch.ops.aten
NARROW = (torch.float32, torch.bool, torch.int32)
ANY = (*NARROW, torch.int64)
F32 = (torch.float32,)
_END = np.iinfo(np.int64).max


def _view(b: Builder, node: Node) -> Any:
    return b.add("Reshape", b.value(node.args[0]), b.ints(shape(node)))


def _permute(b: Builder, node: Node) -> Any:
    source, dims = node.args
    return b.add("Transpose", b.value(source), perm=axes(dims, source))  # type: ignore[arg-type]


def _transpose(b: Builder, node: Node) -> Any:
    source, first, second = node.args
    return b.add("Transpose", b.value(source), perm=swapped_axes(first, second, source))  # type: ignore[arg-type]


def _expand(b: Builder, node: Node) -> Any:
    return b.add("Expand", b.value(node.args[0]), b.ints(shape(node)))


def _cat(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    like = next((b.value(source) for source in args["tensors"] if source not in b.partition.constants), "")
    names = [b.value(source, like) for source in args["tensors"]]
    return b.add("Concat", *names, axis=args["dim"] % rank(node))


def _stack(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    axis = args["dim"] % rank(node)
    return b.add(
        "Concat", *(b.add("Unsqueeze", b.value(source), b.ints([axis])) for source in args["tensors"]), axis=axis
    )


def _slice(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    start = 0 if args["start"] is None else args["start"]
    end = _END if args["end"] is None else args["end"]
    ends = (b.ints([number]) for number in (start, end, args["dim"] % rank(node), args["step"]))
    return b.add("Slice", b.value(node.args[0]), *ends)


def _select(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    source = args["self"]
    axis = args["dim"] % rank(source)
    index = args["index"] % shape(source)[axis]
    ends = (b.ints([number]) for number in (index, index + 1, axis))
    return b.add("Reshape", b.add("Slice", b.value(source), *ends), b.ints(shape(node)))


def _split(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    axis, sizes = args["dim"] % rank(node.args[0]), args["split_sizes"]
    names = b.add("Split", b.value(node.args[0]), b.ints(sizes), outputs=len(sizes), axis=axis)
    return [names] if len(sizes) == 1 else names


def _unbind(b: Builder, node: Node) -> Any:
    args, source = arguments_by_name(node), node.args[0]
    axis, value = args["dim"] % rank(source), b.value(source)
    sizes = [size for index, size in enumerate(shape(source)) if index != axis]
    ends = [[b.ints([number]) for number in (index, index + 1, axis)] for index in range(shape(source)[axis])]
    return [b.add("Reshape", b.add("Slice", value, *end), b.ints(sizes)) for end in ends]


def _pad(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    before, after = pads_of_dims(args["pad"], rank(node))
    return b.add("Pad", b.value(node.args[0]), b.ints([*before, *after]), b.array(args["value"], np.float32))


def _no_crop(query: NodeQuery) -> str | None:
    return "negative padding" if min(query.argument("pad"), default=0) < 0 else None


def _repeat(b: Builder, node: Node) -> Any:
    source, repeats = node.args
    value = b.value(source)
    if len(repeats) > rank(source):  # type: ignore[arg-type]
        padded = [1] * (len(repeats) - rank(source)) + list(shape(source))  # type: ignore[arg-type]
        value = b.add("Reshape", value, b.ints(padded))
    return b.add("Tile", value, b.ints(repeats))  # type: ignore[arg-type]


def _flip(b: Builder, node: Node) -> Any:
    value = b.value(node.args[0])
    for axis in axes(node.args[1], node):  # type: ignore[arg-type]
        value = b.add("Slice", value, b.ints([-1]), b.ints([-_END]), b.ints([axis]), b.ints([-1]))
    return value


def _embedding(b: Builder, node: Node) -> Any:
    return b.add("Gather", b.value(node.args[0]), b.value(node.args[1]), axis=0)


def _check_embedding(query: NodeQuery) -> str | None:
    weight = query.argument("weight")
    return None if weight.meta["val"].dtype == torch.float32 else "a table that is not float32"


def _index_select(b: Builder, node: Node) -> Any:
    source, dim, index = node.args
    return b.add("Gather", b.value(source), b.value(index), axis=dim % rank(source))  # type: ignore[operator]


def _pixel_shuffle(b: Builder, node: Node) -> Any:
    return b.add("DepthToSpace", b.value(node.args[0]), blocksize=node.args[1], mode="CRD")


def _image(query: NodeQuery) -> str | None:
    return None if rank(query.node) == 4 else f"{rank(query.node)} dims instead of 4"


def _resize(mode: str) -> Build:
    def build(b: Builder, node: Node) -> Any:
        args = arguments_by_name(node)
        align = bool(args.get("align_corners", False))
        coordinates = "asymmetric" if mode == "nearest" else "align_corners" if align else "half_pixel"
        return b.add(
            "Resize", b.value(node.args[0]), "", "", b.ints(shape(node)), mode=mode,
            coordinate_transformation_mode=coordinates, nearest_mode="floor",
        )  # fmt: skip

    return build


def _natural_scale(query: NodeQuery) -> str | None:
    """Refuse a resize whose scale factor is not the ratio of the sizes, because the provider uses the ratio."""
    factors = query.argument("scale_factors")
    source: Any = query.node.args[0]
    if factors is None or rank(query.node) != 4:
        return _image(query)
    pairs = zip(factors, shape(source)[2:], shape(query.node)[2:], strict=True)
    return "a scale that is no quotient of the sizes" if any(f * n != size for f, n, size in pairs) else None


def _row(
    target: Any,
    build: Build,
    constraints: str = "",
    check: Constraint | None = None,
    dtypes: tuple[torch.dtype, ...] = ANY,
    do_not_decompose: bool = False,
) -> Row:
    return Row(target, dtypes, constraints, check, do_not_decompose, lower=build)


ROWS = [
    *(_row(target, _view) for target in (
        aten.view_copy.default, aten.unsqueeze_copy.default, aten.squeeze_copy.dim, aten.squeeze_copy.dims)),
    _row(aten.permute_copy.default, _permute, dtypes=NARROW),
    _row(aten.transpose_copy.int, _transpose, dtypes=NARROW),
    _row(aten.expand_copy.default, _expand),
    _row(aten.cat.default, _cat, "all inputs of equal rank", same_ranks),
    _row(aten.stack.default, _stack),
    _row(aten.slice_copy.Tensor, _slice),
    _row(aten.select_copy.int, _select),
    _row(aten.split_with_sizes_copy.default, _split),
    _row(aten.unbind_copy.int, _unbind),
    _row(aten.repeat.default, _repeat),
    _row(aten.flip.default, _flip),
    _row(aten.constant_pad_nd.default, _pad, "no negative padding", _no_crop, F32),
    _row(aten.pixel_shuffle.default, _pixel_shuffle, "4 dims", _image, F32, do_not_decompose=True),
    _row(aten.embedding.default, _embedding, "float32 table", _check_embedding,
         (torch.float32, torch.int32, torch.int64)),
    _row(aten.index_select.default, _index_select),
    _row(aten.upsample_bilinear2d.vec, _resize("linear"), "4 dims; the scale is the quotient of the sizes",
         _natural_scale, F32, do_not_decompose=True),
    _row(aten.upsample_nearest2d.vec, _resize("nearest"), "4 dims; the scale is the quotient of the sizes",
         _natural_scale, F32, do_not_decompose=True),
]  # fmt: skip
