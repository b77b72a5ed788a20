"""The operators that the Core ML backend delegates, if the installed coremltools has a converter for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.sdk import (
    Constants,
    Constraint,
    NodeQuery,
    OperatorRow,
    OperatorTable,
    at_most_dims,
    contiguous_only,
    for_each,
    integers_of_32_bits,
    reaches_past_padding,
)
from edgecore_coreml.conversion.aten import VIEWS
from edgecore_coreml.conversion.quantized import (
    BLOCKS,
    CHANNELS,
    CODEBOOK,
    QUANTIZE,
    STORED,
    TENSOR,
    is_stored,
    quantizes,
    stores_channels,
    stores_table,
)
from edgecore_coreml.conversion.registry import converters, has_converter
from edgecore_coreml.conversion.updates import copies_to_known_shape, has_fixed_slice, indexed_dim, overwrites

FLOAT = (torch.float32, torch.float16)
NUMBER = (*FLOAT, torch.int32, torch.int64)
ANY = (*NUMBER, torch.bool)
QUANTIZED = (torch.float32, torch.int8, torch.uint8)
BORDER = NUMBER
"""Dtypes of inputs and outputs of a Core ML model, which stores 64-bit integers as 32-bit ones."""
_MAX_DIMS = 5


def inside_only(node: Node) -> str | None:
    """Return why a value cannot be an input or output of a Core ML model, or None if it can."""
    val = node.meta.get("val")
    if not isinstance(val, torch.Tensor):
        return None
    if val.dtype not in BORDER:
        return "booleans" if val.dtype == torch.bool else "integers of 8 bits"
    return None if val.dim() else "tensors without dims"


def _with_elements(query: NodeQuery) -> str | None:
    vals = [node.meta.get("val") for node in (query.node, *query.node.all_input_nodes)]
    shapes = [val.shape for val in vals if isinstance(val, torch.Tensor)]
    is_empty = any(isinstance(size, int) and size == 0 for shape in shapes for size in shape)
    return "a tensor has no elements" if is_empty else None


def _alpha(query: NodeQuery) -> str | None:
    alpha = query.argument("alpha")
    return None if alpha == 1 else f"alpha is {alpha}"


def _plain_product(query: NodeQuery) -> str | None:
    return _alpha(query) or (None if query.argument("beta") == 1 else f"beta is {query.argument('beta')}")


def _plain_elu(query: NodeQuery) -> str | None:
    scales = {name: query.argument(name) for name in ("scale", "input_scale")}
    return next((f"{name} is {scale}" for name, scale in scales.items() if scale != 1), None)


def _max_pool(query: NodeQuery) -> str | None:
    return (
        "it has a dilation" if any(size != 1 for size in for_each(query.argument("dilation"), 2)) else _windows(query)
    )


def _windows(query: NodeQuery) -> str | None:
    """Refuse a pooling with ceil_mode if PyTorch drops a last window that begins in the padding after the input.

    coremltools also drops such a window if there is padding, but Core ML's specification does not say whether its
    runtime does.
    """
    if not query.argument("ceil_mode"):
        return None
    sizes, windows = (node.meta["val"].shape[-2:] for node in (query.argument("self"), query.node))
    kernel, padding = for_each(query.argument("kernel_size"), 2), for_each(query.argument("padding"), 2)
    stride = for_each(query.argument("stride") or kernel, 2)
    rounded_up = [-(-(sizes[d] + 2 * padding[d] - kernel[d]) // stride[d]) + 1 for d in (0, 1)]
    return None if rounded_up == [*windows] else "ceil_mode, and a window that begins behind the input"


def _without_crop(query: NodeQuery) -> str | None:
    return "negative padding" if any(isinstance(n, int) and n < 0 for n in query.argument("pad")) else None


def _average_pool(query: NodeQuery) -> str | None:
    if query.argument("divisor_override"):
        return "it has a divisor_override"
    if query.argument("count_include_pad") and reaches_past_padding(query.node):
        return "ceil_mode, and windows that reach past padding that counts"
    return _windows(query)


def _with_dim(query: NodeQuery) -> str | None:
    return "it has no dim" if query.argument("dim") is None else None


def _rounding(query: NodeQuery) -> str | None:
    mode = query.argument("rounding_mode")
    return None if mode in (None, "floor", "trunc") else f"rounding_mode is {mode}"


def _constant(*names: str) -> Constraint:
    def check(query: NodeQuery) -> str | None:
        for name in names:
            value = query.argument(name)
            if isinstance(value, Node) and not is_stored(query, value):
                return f"coremltools takes {name} as a constant only"
        return None

    return check


def _convolution(query: NodeQuery) -> str | None:
    if any(step != 1 for step in query.argument("dilation")) and not is_stored(query, query.argument("weight")):
        return "coremltools takes a dilation with constant weights only"
    if query.argument("transposed") and any(query.argument("output_padding")):
        return "it is transposed with output_padding"
    return None


def _is_half(query: NodeQuery) -> bool:
    return bool(query.node.meta["val"].dtype == torch.float16)


def _plain_softplus(query: NodeQuery) -> str | None:
    beta = query.argument("beta")
    return f"beta is {beta} and the input float16" if beta != 1 and _is_half(query) else None


def _attention(query: NodeQuery) -> str | None:
    if query.argument("dropout_p"):
        return "dropout_p is not 0"
    mask = query.argument("attn_mask")
    has_booleans = isinstance(mask, Node) and mask.meta["val"].dtype == torch.bool
    if _is_half(query) and (query.argument("scale") is not None or query.argument("is_causal") or has_booleans):
        return "the input is float16, and it has a scale, is causal, or has a mask of booleans"
    return "enable_gqa is True" if query.argument("enable_gqa") else None


def _recurrent(query: NodeQuery) -> str | None:
    weights = query.argument("params")
    if not all(is_stored(query, weight) for weight in weights):
        return "coremltools takes its weights as constants only"
    if query.argument("train") and query.argument("dropout"):
        return "it drops values out"
    directions = 2 if query.argument("bidirectional") else 1
    for_each = 4 if query.argument("has_biases") else 2
    return "it has a projection" if len(weights) != query.argument("num_layers") * directions * for_each else None


def _exact(query: NodeQuery) -> str | None:
    approximate = query.argument("approximate")
    return None if approximate == "none" else f"approximate is {approximate}, which coremltools ignores"


def _without_dtype(query: NodeQuery) -> str | None:
    return "it has a dtype, which coremltools ignores" if query.argument("dtype") is not None else None


def _factors(query: NodeQuery) -> list[Any]:
    """Return the scale factors of an upsampling's last two dims; None for a dim of dynamic size."""
    if (factors := query.argument("scale_factors")) is not None:
        return list(factors)
    before, after = (val.shape[-2:] for val in (query.argument("input").meta["val"], query.node.meta["val"]))
    sizes = zip(before, after, strict=True)
    return [new / old if isinstance(old, int) and isinstance(new, int) else None for old, new in sizes]


def _whole_factors(query: NodeQuery) -> str | None:
    factor = next((factor for factor in _factors(query) if factor is None or factor != int(factor)), 1)
    if factor is None:
        return "its factors are dynamic"
    return None if factor == 1 else f"its factor {factor:g} is not whole, and Core ML repeats rows and columns"


def _known_size(query: NodeQuery) -> str | None:
    """Return a reason if Core ML would derive from the scale factors another output size or positions than PyTorch."""
    before, after = (val.shape[-2:] for val in (query.argument("input").meta["val"], query.node.meta["val"]))
    if query.argument("scale_factors") is None:
        return None  # the node has an output size, from which coremltools derives the factors
    for factor, old, new in zip(_factors(query), before, after, strict=True):
        if not isinstance(old, int):
            is_exact = factor == int(factor)
        else:
            size = old * float(np.float32(factor))
            is_exact = int(size) == new and (query.argument("align_corners") or size - new <= _ROUNDING)
        if not is_exact:
            return f"its factor {factor:g} gives no whole size"
    return None


_ROUNDING = 1e-3
"""coremltools rounds a size down if it exceeds a whole number by less than this."""
_MOVEMENT = (
    "alias_copy cat expand_copy flip permute_copy repeat select_copy.int slice_copy.Tensor split_copy.Tensor "
    "split_with_sizes_copy squeeze_copy.dim squeeze_copy.dims stack transpose_copy.int unbind_copy.int unsqueeze_copy "
    "view_copy _to_copy"
)
_REAL = (
    "abs acos asin atan atanh ceil cos cosh erf exp floor log neg reciprocal relu round rsqrt sigmoid sign sin sinh "
    "sqrt tan tanh _softmax _log_softmax pixel_shuffle pixel_unshuffle "
    "_native_batch_norm_legit_no_training mm bmm _adaptive_avg_pool2d pow.Tensor_Scalar pow.Tensor_Tensor"
)
_WHOLE = "softmax.int log_softmax.int linear matmul silu mish adaptive_avg_pool2d glu"
"""Operators that Core ML supports directly, so edgecore must not decompose them."""
_SINGLE = (torch.float32,)
"""Dtypes of operators whose converters create float32 constants even for float16 inputs."""
_SINGLE_REAL = "native_group_norm hardtanh leaky_relu var.correction var.dim"
_SINGLE_WHOLE = "group_norm hardswish hardsigmoid"
_ARITHMETIC = "mul.Tensor mul.Scalar maximum minimum clamp amax amin"
_COMPARISON = "eq ne lt le gt ge"
_LOGICAL = "logical_and logical_or logical_not logical_xor bitwise_not"


class _WithoutConstants(NodeQuery):
    """A node query that treats no value as constant, because weights are inputs of the delegate."""

    def is_constant(self, node: Any) -> bool:
        """Return False."""
        return False


class CoreMLTable(OperatorTable[None]):
    """The table of supported operators, which refuses an operator that the installed coremltools does not convert.

    Args:
        rows: The rows.
        constants_as_inputs: Weights and other constants are inputs of the delegates, not parts of the model.
    """

    def __init__(self, rows: Iterable[OperatorRow[None]], *, constants_as_inputs: bool = False) -> None:
        super().__init__(rows, common=(contiguous_only, _with_elements, integers_of_32_bits, at_most_dims(_MAX_DIMS)))
        self.constants_as_inputs = constants_as_inputs

    def make_query(self, program: ExportedProgram, *, is_decomposed: bool = True) -> Callable[[Node], NodeQuery]:
        """Return a function that creates, for a node, the query object that constraints of the table inspect."""
        if not self.constants_as_inputs:
            return super().make_query(program, is_decomposed=is_decomposed)
        constants = Constants(program)
        return lambda node: _WithoutConstants(node, constants, is_decomposed)

    def row_reason(self, query: NodeQuery) -> str | None:
        """Return why an fx node is not supported, or None: coremltools lacks its converter, or a constraint fails."""
        target = query.node.target
        if (
            target in self.rows
            and target not in STORED
            and not has_converter(self._converters, str(VIEWS.get(target, target)))
        ):
            return "the installed coremltools has no converter for it"
        reason = super().row_reason(query)
        if not self.constants_as_inputs:
            return reason
        constants = list(filter(query.constants.has, query.node.all_input_nodes))
        refused = next(filter(None, map(inside_only, constants)), None)
        reason = f"constants that are {refused} cannot be inputs" if refused else reason
        return f"{reason}, with take_over_constant_data=False" if reason and constants else reason

    @cached_property
    def _converters(self) -> frozenset[str]:
        return converters()


def _rows() -> list[OperatorRow[None]]:
    aten, rows = torch.ops.aten, list[OperatorRow[None]]()

    def add(
        names: str,
        dtypes: tuple[torch.dtype, ...],
        text: str = "",
        check: Constraint | None = None,
        *,
        whole: bool = False,
        any_dtype: tuple[str, ...] = (),
    ) -> None:
        for name in names.split():
            packet, _, overload = name.partition(".")
            target = getattr(getattr(aten, packet), overload or "default")
            rows.append(OperatorRow(target, dtypes, text, check, whole, None, any_dtype))

    add(_MOVEMENT, ANY)
    add(_REAL, FLOAT)
    add(_WHOLE, FLOAT, whole=True)
    add("constant_pad_nd", FLOAT, "no negative padding", _without_crop)
    add("upsample_nearest2d.vec", FLOAT, "whole factors", _whole_factors, whole=True)
    add("upsample_bilinear2d.vec", FLOAT, "factors that give whole sizes", _known_size, whole=True)
    add("softplus", FLOAT, "in float16: beta must be 1", _plain_softplus, whole=True)
    add(_SINGLE_REAL, _SINGLE)
    add(_SINGLE_WHOLE, _SINGLE, whole=True)
    add("native_layer_norm", _SINGLE, "constant weight and bias", _constant("weight", "bias"))
    add("layer_norm", _SINGLE, "constant weight and bias", _constant("weight", "bias"), whole=True)
    add("prelu", _SINGLE, "constant weight", _constant("weight"), whole=True)
    add("max_pool2d", FLOAT, "no dilation; no window behind the input", _max_pool, whole=True)
    add("addmm", FLOAT, "alpha and beta must be 1", _plain_product)
    add("elu", _SINGLE, "scale and input_scale must be 1", _plain_elu)
    add("cumsum", FLOAT, "no dtype", _without_dtype)
    add(_ARITHMETIC, NUMBER)
    add("add.Tensor sub.Tensor add.Scalar sub.Scalar", NUMBER, "alpha must be 1", _alpha)
    add("div.Tensor div.Scalar", FLOAT)
    add("div.Tensor_mode", FLOAT, "rounding floor or trunc", _rounding)
    add(" ".join(f"{name}.{kind}" for name in _COMPARISON.split() for kind in ("Tensor", "Scalar")), ANY)
    add(_LOGICAL, (torch.bool,))
    add("where.self", ANY)
    add("gelu", FLOAT, "not approximate", _exact, whole=True)
    add("mean.dim", FLOAT, "no dtype", _without_dtype)
    add("sum.dim_IntList", NUMBER, "no dtype", _without_dtype)
    add(
        "avg_pool2d",
        FLOAT,
        "no divisor_override; windows end within padding that counts, and none begins behind the input",
        _average_pool,
    )
    add("argmax argmin", NUMBER, "along one dim", _with_dim)
    add("convolution", FLOAT, "dilation: constant weight; transposed: no output_padding", _convolution)
    add("lstm.input", _SINGLE, "constant weights, no projection, no dropout", _recurrent, whole=True)
    add(
        "scaled_dot_product_attention",
        (*FLOAT, torch.bool),
        "no dropout, equal heads; in float16: no scale, not causal, no mask of booleans",
        _attention,
        whole=True,
    )
    add("embedding", NUMBER, any_dtype=("indices",))
    add("index_select gather", NUMBER, any_dtype=("index",))
    add("index.Tensor", NUMBER, "one index of one dim", indexed_dim, any_dtype=("indices",))
    add("index_put", NUMBER, "one index of one dim; no accumulate", overwrites, any_dtype=("indices",))
    add("slice_scatter select_scatter", NUMBER, "a slice that is known", has_fixed_slice)
    add("copy", ANY, "no broadcasting to dynamic shapes", copies_to_known_shape)
    rows += [
        OperatorRow(QUANTIZE, QUANTIZED, "all integers of int8 or uint8", quantizes),
        OperatorRow(TENSOR, QUANTIZED, "int8 or uint8", quantizes),
        OperatorRow(
            CHANNELS, QUANTIZED, "constant, int8 or uint8", stores_channels, any_dtype=("scales", "zero_points")
        ),
        OperatorRow(BLOCKS, QUANTIZED, "constant, int8 or uint8", stores_channels, any_dtype=("scales", "zero_points")),
        OperatorRow(
            CODEBOOK, _SINGLE, "constant", stores_table, do_not_decompose=True, any_dtype=("codes", "codebook")
        ),
    ]
    return rows


TABLE = CoreMLTable(_rows())
TABLE_WITHOUT_WEIGHTS = CoreMLTable(_rows(), constants_as_inputs=True)
"""The operators of models whose weights are inputs of the delegate."""
