"""Replace an operator between dequantize nodes and a quantize node by an operator that computes with integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.graph import Editor, calls, edit, fake_mode, replace
from edgecore.ir.op_args import argument
from edgecore.ir.operators.integer_operators import TABLE_LIMIT
from edgecore.ir.program.constants import Constants
from edgecore.ir.torch_compat import OpOverload
from edgecore.passes.integers.layers import MAX_DEPTH, fuse_layer
from edgecore.passes.integers.pools import fuse_average, fuse_windows
from edgecore.passes.integers.values import Integers, call_operator, input_value, limits_of, without_clamps
from edgecore.passes.library.make_contiguous import make_contiguous
from edgecore.passes.quantized import is_dequantize, is_quantize, propagate_quantize

aten = torch.ops.aten
TABLE_ERROR = 4
"""Largest error, in quantization steps of the result, of a function of an int16 value that a table interpolates."""

_ALL = (-math.inf, math.inf)


def fuse_integers(program: ExportedProgram) -> ExportedProgram:
    """Replace, in place, operators between int8 (or int16) dequantize and quantize nodes by integer operators.

    An operator that cannot be fused stays between them and computes in floating point. The integer kernels take values
    in row-major order, so a program with integers in another dim order is converted.
    """
    quantized = [node for node in calls(program.graph_module) if limits_of(node)]
    if not quantized:
        return program
    if not all(node.meta["val"].is_contiguous() for node in quantized):
        program = make_contiguous(program)
    program = propagate_quantize(program)
    constants = Constants(program)
    with edit(program) as graph_module:
        mode = fake_mode(graph_module)
        for node in calls(graph_module):
            result = limits_of(node) if is_quantize(node) else None
            if result is None or not node.meta["val"].is_contiguous():
                continue
            editor = Editor(graph_module, node, mode)
            for rule in _RULES:
                fused = rule(editor, node, result, constants)
                if fused is not None:
                    replace(node, fused)
                    break
    constants.drop_unused()
    return program


def _rescale(editor: Editor, node: Node, result: Integers, constants: Constants) -> Node | None:
    """Change the scale of an int16 value, and clamp the value. For int8 values, `_table` does this."""
    value, bounds = without_clamps(node.args[0])
    source = input_value(value, torch.int16)
    if source is None or result.arithmetic.dtype != torch.int16:
        return None
    return _rescaled(editor, source, result, bounds)


def _rescaled(editor: Editor, source: Integers, result: Integers, bounds: tuple[float, float] = _ALL) -> Node | None:
    factor = result.arithmetic.fixed_point(source.scale / result.scale)
    return None if factor is None else call_operator(editor, "rescale", (source.node,), (), factor, result, bounds)


def _table(editor: Editor, node: Node, result: Integers, constants: Constants) -> Node | None:
    """Replace an elementwise function by a table of its results for all int8 values, or for some int16 values.

    Between the int16 values of the table, the kernel interpolates.
    """
    sources = set[Node]()
    dtype = result.arithmetic.dtype
    value, bounds = (node, _ALL) if dtype == torch.int8 else without_clamps(node.args[0])
    is_elementwise = _is_elementwise(node.args[0], dtype, node.meta["val"].shape, constants, sources)
    if not is_elementwise or len(sources) != 1:
        return None
    (source,) = sources
    if dtype == torch.int8:
        table = constants.add(f"{node.name}_table", _results(value, source, torch.arange(-128, 128), constants))
        return editor.call(torch.ops.edgecore.int8_table.default, source, table)
    numbers = _results(value, source, torch.arange(-(2**15), 2**15 + 1), constants).double() / result.scale
    table = constants.add(f"{node.name}_table", _smallest_table(numbers, *result.limits(bounds)))
    return call_operator(editor, "table", (source, table), (), (), result, bounds)


def _results(node: Node, source: Node, integers: torch.Tensor, constants: Constants) -> torch.Tensor:
    """Evaluate `node`, an elementwise function of the quantized tensor `source`, as if `source` held `integers`.

    The integers may lie outside the range of the dtype of `source`.
    """
    values: dict[Node, Any] = {}

    def compute(operand: Node) -> Any:
        if operand not in values:
            value = limits_of(operand) if operand.all_input_nodes == [source] and is_dequantize(operand) else None
            if value is not None:
                values[operand] = value.dequantize(integers).to(operand.meta["val"].dtype)
            elif constants.has(operand):
                values[operand] = constants.get(operand).reshape(())
            else:
                args, kwargs = torch.fx.map_arg((operand.args, operand.kwargs), compute)
                assert callable(operand.target)
                values[operand] = operand.target(*args, **kwargs)
        return values[operand]

    results: torch.Tensor = compute(node)
    return results


def _smallest_table(numbers: torch.Tensor, low: int, high: int) -> torch.Tensor:
    """Return the smallest table of `int16_table` whose results have an error of at most TABLE_ERROR.

    Args:
        numbers: The function's values for all integers from -2^15 to 2^15, divided by the result's scale: float64
            [2^16 + 1].
        low: The lower limit of the result.
        high: The upper limit of the result.
    """
    entries = numbers.nan_to_num(0).clamp(-TABLE_LIMIT, TABLE_LIMIT).round().int()
    values = torch.arange(-(2**15), 2**15).to(torch.int16)
    right = entries[:-1].clamp(low, high)
    for bits in range(9, 16):
        table = entries[:: 2 ** (16 - bits)].contiguous()
        if (torch.ops.edgecore.int16_table(values, table, low, high).int() - right).abs().max() <= TABLE_ERROR:
            return table
    return entries


def _is_elementwise(node: Any, dtype: torch.dtype, shape: Any, constants: Constants, sources: set[Node]) -> bool:
    """Return True for an elementwise function of dequantized values of `dtype`; add these values to `sources`."""
    if not isinstance(node, Node):
        return False
    if constants.has(node):
        return bool(node.meta["val"].numel() == 1)
    val = node.meta.get("val")
    if not isinstance(val, torch.Tensor) or val.shape != shape:
        return False
    value = input_value(node, dtype)
    if value is not None:
        sources.add(value.node)
        return len(sources) == 1
    target = node.target
    is_pointwise = isinstance(target, OpOverload) and torch.Tag.pointwise in target.tags
    if not is_pointwise or not node.all_input_nodes:
        return False
    return all(_is_elementwise(source, dtype, shape, constants, sources) for source in node.all_input_nodes)


def _pair(value: Node, result: Integers, *targets: Any) -> tuple[Integers, Integers] | None:
    """Return the integer operands of a call of one of `targets`; None for other nodes."""
    if value.target not in targets:
        return None
    a, b = (input_value(arg, result.arithmetic.dtype) for arg in value.args[:2])
    return None if a is None or b is None else (a, b)


def _sum(editor: Editor, node: Node, result: Integers, constants: Constants) -> Node | None:
    value, bounds = without_clamps(node.args[0])
    pair = _pair(value, result, aten.add.Tensor, aten.sub.Tensor)
    if pair is None:
        return None
    a, b = pair
    sign = -1 if value.target is aten.sub.Tensor else 1
    ratios = a.scale / result.scale, sign * argument(value, "alpha") * b.scale / result.scale
    largest = max(abs(ratio) for ratio in ratios)
    if not 0 < largest < 2.0**20:
        return None
    shift = min(result.arithmetic.max_shift, result.arithmetic.add_bits - math.frexp(largest)[1])
    factors = [round(ratio * 2**shift) for ratio in ratios]
    return call_operator(editor, "add", (a.node, b.node), pair, (*factors, shift), result, bounds)


def _product(editor: Editor, node: Node, result: Integers, constants: Constants) -> Node | None:
    value, bounds = without_clamps(node.args[0])
    pair = _pair(value, result, aten.mul.Tensor)
    factor = None if pair is None else result.arithmetic.fixed_point(pair[0].scale * pair[1].scale / result.scale)
    if pair is None or factor is None:
        return None
    return call_operator(editor, "mul", [operand.node for operand in pair], pair, factor, result, bounds)


def _matmul(editor: Editor, node: Node, result: Integers, constants: Constants) -> Node | None:
    value, bounds = without_clamps(node.args[0])
    pair = _pair(value, result, aten.mm.default, aten.bmm.default)
    factor = None if pair is None else result.arithmetic.fixed_point(pair[0].scale * pair[1].scale / result.scale)
    if pair is None or factor is None:
        return None
    depth = pair[0].node.meta["val"].shape[-1]
    if not isinstance(depth, int) or not 0 < depth <= MAX_DEPTH:
        return None
    return call_operator(editor, "matmul", [operand.node for operand in pair], pair, factor, result, bounds)


def _mean(editor: Editor, node: Node, result: Integers, constants: Constants) -> Node | None:
    value, bounds = without_clamps(node.args[0])
    source = input_value(value.args[0], result.arithmetic.dtype) if value.target is aten.mean.dim else None
    if source is None:
        return None
    shape = source.node.meta["val"].shape
    dims = sorted(dim % len(shape) for dim in argument(value, "dim") or range(len(shape)))
    sizes = [shape[dim] for dim in dims]
    if dims != list(range(len(shape) - len(dims), len(shape))) or not all(isinstance(size, int) for size in sizes):
        return None
    count = math.prod(sizes)
    factor = result.arithmetic.fixed_point(source.scale / (result.scale * count)) if 0 < count < 2**23 else None
    if factor is None:
        return None
    arguments = (source.node, len(dims), argument(value, "keepdim"))
    return call_operator(editor, "mean", arguments, [source], factor, result, bounds)


def _softmax(editor: Editor, node: Node, result: Integers, constants: Constants) -> Node | None:
    """Compute a softmax over the last dim, with the exponentials from a table."""
    value: Any = node.args[0]
    dtype = result.arithmetic.dtype
    source = input_value(value.args[0], dtype) if value.target is aten._softmax.default else None
    if source is None or result.scale != (2**-8 if dtype == torch.int8 else 2**-15):
        return None
    shape = source.node.meta["val"].shape
    width = shape[-1] if len(shape) > 0 else None
    if argument(value, "dim") % max(len(shape), 1) != len(shape) - 1 or not isinstance(width, int):
        return None
    steps = torch.arange(256, dtype=torch.float64) * source.scale
    if dtype == torch.int8:
        most = 2**10  # a sum of 2^10 table entries, each with an error of up to 2^-17, has an error of up to 2^-7
    else:
        most, steps = 2**15 - 1, torch.cat([256 * steps, steps])
    if not 0 < width <= most:
        return None
    entries = (torch.exp(-steps) * 2**result.arithmetic.softmax_bits).round().to(torch.int32)
    table = constants.add(f"{node.name}_table", entries)
    return call_operator(editor, "softmax", (source.node, table), (), (), result)


def _max_pool(editor: Editor, node: Node, result: Integers, constants: Constants) -> Node | None:
    """Apply a max pool to the integers directly; the padding is the smallest integer."""
    part: Any = node.args[0]
    pool: Any = part.args[0] if part.op == "call_function" and part.args else None
    if not isinstance(pool, Node) or pool.target is not aten.max_pool2d_with_indices.default or part.args[1] != 0:
        return None
    source = input_value(pool.args[0], result.arithmetic.dtype)
    if source is None or not source.same_parameters(result) or len(pool.users) != 1:
        return None
    pooled = editor.call(aten.max_pool2d_with_indices.default, source.node, *pool.args[1:], **pool.kwargs)
    return editor.call(part.target, pooled, 0)


def _pad(editor: Editor, node: Node, result: Integers, constants: Constants) -> Node | None:
    value = node.args[0]
    if not isinstance(value, Node) or value.target is not aten.constant_pad_nd.default:
        return None
    source = input_value(value.args[0], result.arithmetic.dtype)
    if source is None or not source.same_parameters(result):
        return None
    number = float(argument(value, "value"))
    if math.isnan(number):
        return None
    filling = result.quantize(number)
    return editor.call(aten.constant_pad_nd.default, source.node, argument(value, "pad"), filling)


def _cat(editor: Editor, node: Node, result: Integers, constants: Constants) -> Node | None:
    """Concatenate integers; an operand with another scale than the result is mapped by a table, or rescaled."""
    value = node.args[0]
    if not isinstance(value, Node) or value.target is not aten.cat.default:
        return None
    dtype = result.arithmetic.dtype
    operands = [input_value(operand, dtype) for operand in argument(value, "tensors")]
    parts = [operand and _with_parameters(editor, operand, result, node, constants) for operand in operands]
    return None if None in parts else editor.call(aten.cat.default, parts, argument(value, "dim"))


def _with_parameters(
    editor: Editor, value: Integers, result: Integers, quantize: Node, constants: Constants
) -> Node | None:
    """Return `value` with the scale and zero point of `result`, the value that the node `quantize` makes."""
    if value.same_parameters(result):
        return value.node
    if result.arithmetic.dtype == torch.int16:
        return _rescaled(editor, value, result)
    assert callable(quantize.target)
    numbers = value.dequantize(torch.arange(-128, 128))
    table = constants.add(f"{value.node.name}_table", quantize.target(numbers, *quantize.args[1:], **quantize.kwargs))
    return editor.call(torch.ops.edgecore.int8_table.default, value.node, table)


_RULES: tuple[Callable[[Editor, Node, Integers, Constants], Node | None], ...] = (
    *(fuse_layer, fuse_average, fuse_windows, _rescale, _table, _sum, _product),
    *(_matmul, _mean, _softmax, _max_pool, _pad, _cat),
)
