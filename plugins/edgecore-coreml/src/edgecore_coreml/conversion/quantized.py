"""Convert calls that dequantize constants to weights that Core ML stores in 1 to 8 bits.

coremltools' converters require that zero points have the dtype of the integers, and support scales per block only for
matrices. So a call that dequantizes a constant becomes a call of a function of this module, which `converters.py`
converts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import NodeQuery, argument, arguments_by_name
from edgecore.sdk.torch_compat import quantized_operators, register_codebook_operators

aten = torch.ops.aten
library = quantized_operators()

QUANTIZE = library.quantize_per_tensor.default
TENSOR = library.dequantize_per_tensor.default
CHANNELS = library.dequantize_per_channel.default
BLOCKS = library.dequantize_per_channel_group.default
register_codebook_operators()
CODEBOOK = torch.ops.quant.dequantize_codebook.default
STORED = frozenset({TENSOR, CHANNELS, BLOCKS, CODEBOOK})
"""Operators that become a stored weight if their input is constant."""

_LIMITS = {torch.int8: (-128, 127), torch.uint8: (0, 255)}
VIEWS = (aten.view_copy.default, aten.view.default, aten.reshape.default)
_WORDS = "int8 or uint8"
_PLAIN_TABLES = (2, 4, 16, 64, 256)
"""Sizes of tables that iOS 16 supports."""


def channel_weight(
    data: torch.Tensor, scales: torch.Tensor | float, zeros: torch.Tensor | int, axis: int, bits: int
) -> torch.Tensor:
    """Compute a weight, scale * (data - zero), with one scale for all elements, or one for each index of a dim.

    Args:
        data: int8 or uint8, integers of 4 or 8 bits.
        scales: Floating point [size of the dim], or a number.
        zeros: Integers [size of the dim], or a number.
        axis: The dim, if scales are a tensor.
        bits: 4 or 8.
    """
    shape = [-1 if dim == axis else 1 for dim in range(data.dim())]
    factors, offsets = (item.reshape(shape) if isinstance(item, torch.Tensor) else item for item in (scales, zeros))
    return (data.float() - offsets) * factors


def block_weight(
    data: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | int, shape: Sequence[int], bits: int
) -> torch.Tensor:
    """Compute a weight with a scale per block: scale * (data - zero).

    Args:
        data: int8 or uint8 [rows, width], integers of 4 or 8 bits.
        scales: Floating point [rows, blocks].
        zeros: Zero points [rows, blocks]; 0 if the weight has none.
        shape: Shape of the weight. A block spans adjacent indices of the second dim and all indices of later dims.
        bits: 4 or 8.
    """
    size = data.shape[1] // scales.shape[1]
    offsets = zeros.repeat_interleave(size, 1) if isinstance(zeros, torch.Tensor) else zeros
    return ((data.to(scales.dtype) - offsets) * scales.repeat_interleave(size, 1)).reshape(list(shape))


def table_weight(indices: torch.Tensor, tables: torch.Tensor) -> torch.Tensor:
    """Compute a weight from indices into tables of values.

    Args:
        indices: Integers [d0, d1, ...].
        tables: Floating point [t0, t1, ..., 2**bits, 1]; t0 divides d0, and d0 / t0 adjacent indices of dim 0 share a
            table; likewise for other dims.
    """
    groups = [torch.arange(size) // (size // count) for size, count in zip(indices.shape, tables.shape, strict=False)]
    return tables[(*torch.meshgrid(*groups, indexing="ij"), indices.long())].squeeze(-1).float()


WEIGHTS = (channel_weight, block_weight, table_weight)
"""The functions that represent stored weights."""


def stored(
    target: Any, args: tuple[Any, ...], is_constant: Callable[[Any], bool]
) -> tuple[Any, tuple[Any, ...]] | None:
    """Return the function of this module, and its arguments, that replace an fx node; None if the node stays unchanged.

    Args:
        target: Operator of the call.
        args: Arguments of the call; tensors are nodes.
        is_constant: Returns True for the node of a constant.
    """
    if target is TENSOR and is_constant(args[0]):
        data, scale, zero, low, high = args[:5]
        return channel_weight, (data, scale, zero, 0, _bits(low, high))
    if target is CHANNELS:
        data, scales, zeros, axis, low, high = args[:6]
        return channel_weight, (data, scales, 0 if zeros is None else zeros, axis, _bits(low, high))
    if target is BLOCKS:
        data, scales, zeros, low, high = args[:5]
        shape = list(data.meta["val"].shape)
        return block_weight, (data, scales, 0 if zeros is None else zeros, shape, _bits(low, high))
    if target is CODEBOOK:
        return table_weight, args[:2]
    if target in VIEWS and isinstance(args[0], Node) and args[0].target is block_weight:
        matrix: tuple[Any, ...] = args[0].args
        data, scales, zeros, _, bits = matrix
        if _fits(data.meta["val"].shape, scales.meta["val"].shape[1], shape := list(args[1])):
            return block_weight, (data, scales, zeros, shape, bits)
    return None


def is_stored(query: NodeQuery, value: Any) -> bool:
    """Return True if the model stores a value: a constant, a quantized weight, or a reshaped weight."""
    if not isinstance(value, Node) or query.is_constant(value):
        return isinstance(value, Node)
    source = value.args[0] if value.target in VIEWS else value
    if not isinstance(source, Node) or source.target not in STORED or not _is_weight(query.about(source)):
        return False
    if source is value:
        return True
    if source.target is not BLOCKS:
        return False
    data, scales = (argument(source, name).meta["val"].shape for name in ("input", "scales"))
    return _fits(data, scales[1], value.meta["val"].shape)


def quantizes(query: NodeQuery) -> str | None:
    """Return why Core ML does not support a `quantize_per_tensor` or `dequantize_per_tensor`, or None if it does."""
    dtype, low, high = (query.argument(name) for name in ("dtype", "quant_min", "quant_max"))
    if dtype not in _LIMITS:
        return f"its integers are {str(dtype).removeprefix('torch.')}, not {_WORDS}"
    low_limit, high_limit = _LIMITS[dtype]
    if not low_limit <= query.argument("zero_point") <= high_limit:
        return f"its zero point is beyond {low_limit} to {high_limit}"
    if query.node.target is QUANTIZE and (low, high) != (low_limit, high_limit):
        return f"its integers are {low} to {high}, not {low_limit} to {high_limit}"
    # This comparison also rejects NaN.
    return None if query.argument("scale") > 0 else "its scale is not positive"


def stores_channels(query: NodeQuery) -> str | None:
    """Return why Core ML does not support a dequantize node with a scale per channel or block, or None if it does."""
    if not _is_weight(query):
        return "its integers, scales or zero points are computed at run time"
    args = arguments_by_name(query.node)
    if args["input"].meta["val"].dtype not in _LIMITS:
        return f"its integers are not {_WORDS}"
    zeros = args.get("zero_points")
    low_limit, high_limit = args["quant_min"], args["quant_max"]
    if zeros is None:
        return None
    values = query.constant(zeros)
    if not torch.equal(values, values.round()) or values.min() < low_limit or values.max() > high_limit:
        return f"a zero point is no integer from {low_limit} to {high_limit}"
    return None


def stores_table(query: NodeQuery) -> str | None:
    """Return why Core ML does not support a `dequantize_codebook`, or None if it does."""
    if not _is_weight(query):
        return "its indices or tables are computed at run time"
    table = query.argument("codebook").meta["val"]
    return None if table.shape[-1] == 1 else "its tables have vectors"


def needed_system(node: Node, is_constant: Callable[[Any], bool]) -> tuple[str, str] | None:
    """Return (oldest system that supports a quantize or dequantize node, the feature); None for other nodes."""
    if node.target not in (QUANTIZE, *STORED):
        return None
    if node.target is CODEBOOK:
        *groups, values, _ = argument(node, "codebook").meta["val"].shape
        is_plain = set(groups) == {1} and values in _PLAIN_TABLES
        return (
            ("iOS16", "tables of weights") if is_plain else ("iOS18", "tables of weights for groups or of other sizes")
        )
    if node.target is BLOCKS:
        return "iOS18", "weights with a scale for each block"
    if node.target is QUANTIZE or not is_constant(node.args[0]):
        return "iOS17", "activations of 8 bits"
    bits = _bits(argument(node, "quant_min"), argument(node, "quant_max"))
    return ("iOS18", "weights of 4 bits") if bits == 4 else ("iOS16", "weights of 8 bits")


def _bits(low: int, high: int) -> int:
    return 4 if high - low < 16 else 8


def _fits(matrix: Sequence[int], blocks: int, shape: Sequence[int]) -> bool:
    """Return True if reshaping a matrix to `shape` turns each block of a row into a block of the second dim."""
    rows, width = matrix
    is_same = len(shape) > 1 and shape[0] == rows and math.prod(shape[1:]) == width
    return is_same and (width // blocks) % math.prod(shape[2:]) == 0


def _is_weight(query: NodeQuery) -> bool:
    """Return True if the integers, scales and zero points of a dequantize node are constant."""
    return all(query.is_constant(_before_cast(source)) for source in query.node.all_input_nodes)


def _before_cast(node: Node) -> Node:
    """Return the argument of a dtype cast, such as a cast of table indices to int32; return other nodes unchanged."""
    source = node.args[0] if node.target in (aten.to.dtype, aten._to_copy.default) else node
    return source if isinstance(source, Node) else node
