"""Converters for coremltools' registry: LSTM layers, `index_put`, stored weights, and attention masks."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import numpy as np

from edgecore.sdk import LARGEST_SCORE
from edgecore_coreml.conversion.masks import IN_FLOAT32, finite_mask, finite_scores, without_hidden_rows
from edgecore_coreml.conversion.quantized import block_weight, channel_weight, table_weight

SUFFIX = "_dequantized"
"""Suffix of a stored weight's name, after the name of the placeholder of its integers or indices."""


@cache
def register() -> None:
    """Add the converters to the registry of coremltools, which this function imports."""
    _register_replacements()
    _register_weights()
    _register_masks()


def _register_replacements() -> None:
    """Register converters of the PyTorch operators that coremltools lacks or converts wrongly."""
    from coremltools.converters.mil import Builder, register_torch_op
    from coremltools.converters.mil.frontend.torch.ops import index_put, lstm
    from coremltools.converters.mil.mil import types

    # coremltools converts `lstm.input` only in scripted models, so give its converter a scripted node.
    @register_torch_op(torch_alias=["lstm.input"])  # type: ignore[untyped-decorator]
    def _lstm(context: Any, node: Any) -> None:
        scripted = copy.copy(node)  # coremltools' converter of scripted models needs a name for each result
        scripted.outputs = [f"{node.name}_{part}" for part in ("sequence", "hidden", "cell")]
        lstm(context, scripted)
        context.add(tuple(context[name] for name in scripted.outputs), node.name)

    # coremltools requires that tensor and values of index_put have one dtype, but takes a float16 state for float32.
    @register_torch_op(torch_alias=["index_put"], override=True)  # type: ignore[untyped-decorator]
    def _index_put(context: Any, node: Any) -> None:
        x, values = (context[node.inputs[place]] for place in (0, 2))
        if values.dtype != x.dtype:
            node = copy.copy(node)
            node.inputs = [*node.inputs]
            node.inputs[2] = f"{node.name}_values"
            dtype = types.builtin_to_string(x.dtype)
            context.add(Builder.cast(x=values, dtype=dtype, name=node.inputs[2]), node.inputs[2])
        index_put(context, node)


def _register_weights() -> None:
    from coremltools.converters.mil import Builder, register_torch_op
    from coremltools.converters.mil.frontend._utils import _construct_constexpr_dequant_op, _construct_constexpr_lut_op
    from coremltools.converters.mil.frontend.torch.ops import _get_inputs
    from coremltools.converters.mil.mil import types

    def integers(values: Any, kind: Any, bits: Any) -> Any:
        """Convert an array to integers of `bits` bits, signed if the dtype of `kind` is signed."""
        name = f"{'int' if kind.dtype.kind == 'i' else 'uint'}{int(bits)}"
        return values.astype(types.nptype_from_builtin(types.string_to_builtin(name)))

    def named(node: Any) -> str:
        """Name a node's stored weight: the name of the constant that has its integers or indices, then SUFFIX."""
        return f"{node.inputs[0]}{SUFFIX}"

    @register_torch_op(torch_alias=[channel_weight.__name__])  # type: ignore[untyped-decorator]
    def _channel_weight(context: Any, node: Any) -> None:
        data, scales, zeros, axis, bits = (value.val for value in _get_inputs(context, node, expected=5))
        numbers, zeros = (integers(values, data, bits) for values in (data, np.broadcast_to(zeros, scales.shape)))
        dim = int(axis) if scales.ndim else None
        weight = _construct_constexpr_dequant_op(numbers, zeros, scales.astype(np.float32), dim, name=named(node))
        context.add(weight, node.name)

    @register_torch_op(torch_alias=[block_weight.__name__])  # type: ignore[untyped-decorator]
    def _block_weight(context: Any, node: Any) -> None:
        data, scales, zeros, shape, bits = (value.val for value in _get_inputs(context, node, expected=5))
        blocks = [*scales.shape, *[1] * (len(shape) - 2)]
        stored = {"data": integers(data.reshape(shape), data, bits), "scale": scales.reshape(blocks)}
        if zeros.any():
            stored["offset"] = integers(zeros.reshape(blocks), data, bits)
        context.add(Builder.constexpr_blockwise_shift_scale(**stored, name=named(node)), node.name)

    @register_torch_op(torch_alias=[table_weight.__name__])  # type: ignore[untyped-decorator]
    def _table_weight(context: Any, node: Any) -> None:
        indices, tables = (value.val for value in _get_inputs(context, node, expected=2))
        context.add(
            _construct_constexpr_lut_op(indices.astype(np.uint8), tables.astype(np.float32), name=named(node)),
            node.name,
        )


def _register_masks() -> None:
    from coremltools.converters.mil import Builder, register_torch_op
    from coremltools.converters.mil.frontend._utils import pymil_broadcast_tensors
    from coremltools.converters.mil.frontend.torch.ops import _get_inputs
    from coremltools.converters.mil.mil import types
    from coremltools.converters.mil.mil.types.symbolic import any_symbolic

    @register_torch_op(torch_alias=[finite_mask.__name__])  # type: ignore[untyped-decorator]
    def _finite_mask(context: Any, node: Any) -> None:
        (mask,) = _get_inputs(context, node, expected=1)
        lowest = types.nptype_from_builtin(mask.dtype)(-LARGEST_SCORE)
        context.add(Builder.maximum(x=mask, y=lowest, name=f"{IN_FLOAT32}{node.name}"), node.name)

    @register_torch_op(torch_alias=[finite_scores.__name__])  # type: ignore[untyped-decorator]
    def _finite_scores(context: Any, node: Any) -> None:
        (scores,) = _get_inputs(context, node, expected=1)
        name = f"{IN_FLOAT32}{node.name}"
        is_hidden = Builder.equal(x=scores, y=np.float32(-np.inf), name=f"{name}_hidden")
        reduced = Builder.maximum(x=scores, y=np.float32(-LARGEST_SCORE), name=f"{name}_reduced")
        context.add(Builder.select(cond=is_hidden, a=scores, b=reduced, name=name), node.name)

    @register_torch_op(torch_alias=[without_hidden_rows.__name__])  # type: ignore[untyped-decorator]
    def _without_hidden_rows(context: Any, node: Any) -> None:
        attention, mask = _get_inputs(context, node, expected=2)
        name = f"{IN_FLOAT32}{node.name}"
        if mask.dtype == types.bool:
            visible = Builder.cast(x=mask, dtype="int32")
        else:
            infinity = types.nptype_from_builtin(mask.dtype)(-np.inf)
            is_visible = Builder.not_equal(x=mask, y=infinity, name=f"{name}_visible")
            visible = Builder.cast(x=is_visible, dtype="int32")
        count = Builder.reduce_max(x=visible, axes=[-1], keep_dims=True)
        zero = types.nptype_from_builtin(attention.dtype)(0)
        parts = [Builder.cast(x=count, dtype="bool"), attention, zero]
        if not any(any_symbolic(part.shape) for part in parts[:2]):  # as in coremltools' converter of `where`
            parts = pymil_broadcast_tensors([parts[0], attention, Builder.const(val=zero)])
        context.add(Builder.select(cond=parts[0], a=parts[1], b=parts[2], name=node.name))
