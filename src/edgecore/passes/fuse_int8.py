"""Replace dequantize nodes, an operator and a quantize node by an operator that computes with integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.constants import Constants
from edgecore.ir.graph import Editor, calls, edit, fake_mode, replace
from edgecore.ir.int8_operators import ADD_BITS, SOFTMAX_BITS, fixed_point
from edgecore.ir.op_args import argument
from edgecore.passes.int8_layers import MAX_DEPTH, fuse_layer
from edgecore.passes.int8_pools import fuse_average, fuse_windows
from edgecore.passes.int8_values import Int8, input_value, limits_of, result_range, without_clamps
from edgecore.passes.quantized import is_quantize, propagate_quantize

aten = torch.ops.aten
edgecore = torch.ops.edgecore


def fuse_int8(program: ExportedProgram) -> ExportedProgram:
    """Fuse the operators between dequantize and quantize nodes of int8, in place.

    What cannot be fused stays: it is dequantized, computed in floating point, and quantized.
    """
    if not any(limits_of(node) for node in calls(program.graph_module)):
        return program
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


def _table(editor: Editor, node: Node, result: Int8, constants: Constants) -> Node | None:
    """Compute an elementwise function of one value for all 256 integers."""
    sources = set[Node]()
    if not _is_elementwise(node.args[0], node.meta["val"].shape, constants, sources) or len(sources) != 1:
        return None
    (source,) = sources
    values: dict[Node, Any] = {source: torch.arange(-128, 128).to(torch.int8)}

    def compute(one: Node) -> Any:
        if one not in values:
            if constants.has(one):
                values[one] = constants.get(one).reshape(())
            else:
                args, kwargs = torch.fx.map_arg((one.args, one.kwargs), compute)
                assert callable(one.target)
                values[one] = one.target(*args, **kwargs)
        return values[one]

    return editor.call(edgecore.int8_table.default, source, constants.add(f"{node.name}_table", compute(node)))


def _is_elementwise(node: Any, shape: Any, constants: Constants, sources: set[Node]) -> bool:
    """Return True for an elementwise function of dequantized int8 values, which are added to `sources`."""
    if not isinstance(node, Node):
        return False
    if constants.has(node):
        return bool(node.meta["val"].numel() == 1)
    val = node.meta.get("val")
    if not isinstance(val, torch.Tensor) or val.shape != shape:
        return False
    value = input_value(node)
    if value is not None:
        sources.add(value.node)
        return len(sources) == 1
    target = node.target
    is_pointwise = isinstance(target, torch._ops.OpOverload) and torch.Tag.pointwise in target.tags
    if not is_pointwise or not node.all_input_nodes:
        return False
    return all(_is_elementwise(source, shape, constants, sources) for source in node.all_input_nodes)


def _sum(editor: Editor, node: Node, result: Int8, constants: Constants) -> Node | None:
    value, bounds = without_clamps(node.args[0])
    if value.target not in (aten.add.Tensor, aten.sub.Tensor):
        return None
    a, b = input_value(value.args[0]), input_value(value.args[1])
    if a is None or b is None:
        return None
    sign = -1 if value.target is aten.sub.Tensor else 1
    ratios = a.scale / result.scale, sign * argument(value, "alpha") * b.scale / result.scale
    largest = max(abs(ratio) for ratio in ratios)
    if not 0 < largest < 2.0**20:
        return None
    shift = min(31, ADD_BITS - max(math.frexp(largest)[1], -10))
    factors = [round(ratio * 2**shift) for ratio in ratios]
    arguments = (a.node, b.node, a.zero_point, b.zero_point, *factors, shift)
    return editor.call(edgecore.int8_add.default, *arguments, *result_range(result, bounds))


def _product(editor: Editor, node: Node, result: Int8, constants: Constants) -> Node | None:
    value, bounds = without_clamps(node.args[0])
    a, b = (input_value(arg) for arg in value.args[:2]) if value.target is aten.mul.Tensor else (None, None)
    if a is None or b is None:
        return None
    factor = fixed_point(a.scale * b.scale / result.scale)
    if factor is None:
        return None
    arguments = (a.node, b.node, a.zero_point, b.zero_point, *factor)
    return editor.call(edgecore.int8_mul.default, *arguments, *result_range(result, bounds))


def _matmul(editor: Editor, node: Node, result: Int8, constants: Constants) -> Node | None:
    value, bounds = without_clamps(node.args[0])
    is_product = value.target in (aten.mm.default, aten.bmm.default)
    a, b = (input_value(arg) for arg in value.args[:2]) if is_product else (None, None)
    if a is None or b is None:
        return None
    depth = a.node.meta["val"].shape[-1]
    factor = fixed_point(a.scale * b.scale / result.scale)
    if factor is None or not isinstance(depth, int) or not 0 < depth <= MAX_DEPTH:
        return None
    arguments = (a.node, b.node, a.zero_point, b.zero_point, *factor)
    return editor.call(edgecore.int8_matmul.default, *arguments, *result_range(result, bounds))


def _mean(editor: Editor, node: Node, result: Int8, constants: Constants) -> Node | None:
    value, bounds = without_clamps(node.args[0])
    source = input_value(value.args[0]) if value.target is aten.mean.dim else None
    if source is None:
        return None
    shape = source.node.meta["val"].shape
    dims = sorted(dim % len(shape) for dim in argument(value, "dim") or range(len(shape)))
    sizes = [shape[dim] for dim in dims]
    if dims != list(range(len(shape) - len(dims), len(shape))) or not all(isinstance(size, int) for size in sizes):
        return None
    count = math.prod(sizes)
    factor = fixed_point(source.scale / (result.scale * count)) if 0 < count < 2**23 else None
    if factor is None:
        return None
    arguments = (source.node, len(dims), argument(value, "keepdim"), source.zero_point, *factor)
    return editor.call(edgecore.int8_mean.default, *arguments, *result_range(result, bounds))


def _softmax(editor: Editor, node: Node, result: Int8, constants: Constants) -> Node | None:
    """Compute the exponentials of a softmax over the last dim by a table."""
    value: Any = node.args[0]
    source = input_value(value.args[0]) if value.target is aten._softmax.default else None
    if source is None or result.scale != 1 / 256:
        return None
    shape = source.node.meta["val"].shape
    width = shape[-1] if len(shape) > 0 else None
    if argument(value, "dim") % max(len(shape), 1) != len(shape) - 1 or not isinstance(width, int):
        return None
    if not 0 < width <= 2**10:  # each entry of the table errs by up to 2^-17, so the sum by up to 2^-7
        return None
    exponentials = torch.exp(-torch.arange(256, dtype=torch.float64) * source.scale)
    table = (exponentials * 2**SOFTMAX_BITS).round().to(torch.int32)
    arguments = (source.node, constants.add(f"{node.name}_table", table))
    return editor.call(edgecore.int8_softmax.default, *arguments, result.zero_point, result.low, result.high)


def _max_pool(editor: Editor, node: Node, result: Int8, constants: Constants) -> Node | None:
    """Run the kernel of max pooling on integers: the padding is the least of them."""
    part: Any = node.args[0]
    pool: Any = part.args[0] if part.op == "call_function" and part.args else None
    if not isinstance(pool, Node) or pool.target is not aten.max_pool2d_with_indices.default or part.args[1] != 0:
        return None
    source = input_value(pool.args[0])
    if source is None or not source.same_parameters(result) or len(pool.users) != 1:
        return None
    pooled = editor.call(aten.max_pool2d_with_indices.default, source.node, *pool.args[1:], **pool.kwargs)
    return editor.call(part.target, pooled, 0)


def _pad(editor: Editor, node: Node, result: Int8, constants: Constants) -> Node | None:
    value = node.args[0]
    if not isinstance(value, Node) or value.target is not aten.constant_pad_nd.default:
        return None
    source = input_value(value.args[0])
    if source is None or not source.same_parameters(result):
        return None
    filling = result.quantize(float(argument(value, "value")))
    return editor.call(aten.constant_pad_nd.default, source.node, argument(value, "pad"), filling)


def _cat(editor: Editor, node: Node, result: Int8, constants: Constants) -> Node | None:
    """Concatenate integers; an operand with other parameters than the result gets a table."""
    value = node.args[0]
    if not isinstance(value, Node) or value.target is not aten.cat.default:
        return None
    operands = [(operand, input_value(operand)) for operand in argument(value, "tensors")]
    if any(part is None for _, part in operands):
        return None
    parts = []
    for operand, part in operands:
        assert part is not None and callable(operand.target) and callable(node.target)
        if part.same_parameters(result):
            parts.append(part.node)
            continue
        all_values = torch.arange(-128, 128).to(torch.int8)
        real = operand.target(all_values, *operand.args[1:], **operand.kwargs)
        table = constants.add(f"{operand.name}_table", node.target(real, *node.args[1:], **node.kwargs))
        parts.append(editor.call(edgecore.int8_table.default, part.node, table))
    return editor.call(aten.cat.default, parts, argument(value, "dim"))


_RULES: tuple[Callable[[Editor, Node, Int8, Constants], Node | None], ...] = (
    fuse_layer, fuse_average, fuse_windows, _table, _sum, _product, _matmul, _mean, _softmax, _max_pool, _pad, _cat,
)  # fmt: skip
