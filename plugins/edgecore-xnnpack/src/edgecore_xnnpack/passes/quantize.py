"""Replace float operations between dequantize and quantize nodes by XNNPACK's integer operations, if they exist.

All other operations stay in floating point, with conversions before and after. Quantize and dequantize nodes are
`Convert` operations here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgecore_xnnpack.graph.subgraph import (
    FIRST,
    LAST,
    SAME_LAYOUT,
    Array,
    DynamicQuantization,
    Quantization,
    QuantizePerToken,
    Subgraph,
    SubgraphNode,
    SubgraphValue,
)
from edgecore_xnnpack.schema import graph as g

WEIGHTED = frozenset({g.Conv2d, g.DepthwiseConv2d, g.ConvTranspose2d, g.FullyConnected})
"""Kinds of operations with a weight. In integers, they read an int8 input, an int8 weight and an int32 bias."""

QUANTIZED_DIMS = {g.FullyConnected: 1, g.Conv2d: 3, g.ConvTranspose2d: 3}
"""Maps the kinds of operations that can read an input quantized at run time to the number of trailing dimensions of the
input that share a scale and zero point."""

RESCALING = frozenset({
    g.Add, g.Subtract, g.Multiply, g.GlobalAvgPooling2d, g.Sigmoid, g.Tanh, g.LeakyReLU, g.ELU, g.Hardswish,
})  # fmt: skip
"""Kinds of operations that, in integers, allow different quantization parameters for each input and the output."""

CONCATENATES = frozenset({g.Concatenate2, g.Concatenate3, g.Concatenate4, g.Concatenate5})

MOVING = frozenset({
    g.MaxPooling2d, g.Clamp, g.Copy, g.StaticReshape, g.StaticTranspose, g.StaticSlice, g.StaticConstantPad,
    g.StaticResizeBilinear2D, *CONCATENATES,
})  # fmt: skip
"""Kinds of operations that, in integers, require equal quantization parameters of inputs and output."""

MOVES_ONE_INPUT = frozenset({g.Copy, g.StaticReshape, g.StaticTranspose, g.StaticSlice})
"""Kinds of operations that only move the elements of one input. Quantizing or dequantizing before or after such an
operation gives equal results."""

FIXED_OUTPUT = {g.Sigmoid: Quantization(1 / 256, -128), g.Tanh: Quantization(1 / 128, 0)}
"""Kinds of operations that, in integers, have a fixed output scale and zero point in XNNPACK."""

MIN_RATIO, MAX_RATIO = 2.0**-10, 2.0**8
"""XNNPACK requires MIN_RATIO <= input scale / output scale < MAX_RATIO. For a multiplication, the product of both input
scales takes the place of the input scale."""


def quantize(subgraph: Subgraph, has_symbolic_sizes: bool = False) -> None:
    """Replace operations of `subgraph` by integer operations; `has_symbolic_sizes` means that sizes vary."""
    _quantize_at_run_time(subgraph)
    _dequantize_later(subgraph)
    _quantize_earlier(subgraph)
    _fold_conversion_pairs(subgraph)
    producers, uses = subgraph.producers(), subgraph.uses()
    readers: dict[SubgraphValue, list[SubgraphNode]] = {}
    for op in subgraph.nodes:
        for value in op.inputs:
            readers.setdefault(value, []).append(op)
    elided: set[SubgraphNode] = set()
    for op in subgraph.nodes:
        if has_symbolic_sizes and op.kind is g.GlobalAvgPooling2d:
            # Keep floating point: executorch 1.5 allocates integer sums for the sizes of the first call, and writes
            # beyond the allocated memory if a later call has larger sizes.
            continue
        following = readers.get(op.output, [])
        if len(following) != 1 or uses[op.output] != 1 or not _is_quantize(following[0]):
            continue
        sources = [_integers(value, producers) for value in op.inputs]
        if _rewrite(op, sources, following[0].output):
            elided.add(following[0])
            producers[op.output] = op
    subgraph.nodes = [op for op in subgraph.nodes if op not in elided]
    _add_in_integers(subgraph)
    _keep_integer_weights(subgraph)
    _drop_unread(subgraph)


def _quantize_at_run_time(subgraph: Subgraph) -> None:
    """Give integer weights to layers that read `QuantizePerToken`, so that XNNPACK quantizes inputs at run time."""
    _mark_after_moves(subgraph)
    producers = subgraph.producers()
    quantized: dict[tuple[SubgraphValue, int], SubgraphNode] = {}
    ops: list[SubgraphNode] = []
    for op in subgraph.nodes:
        source = producers.get(op.inputs[0])
        weight = op.inputs[1] if op.kind in QUANTIZED_DIMS else None
        if source is None or source.kind is not QuantizePerToken or weight is None or weight.scales is None:
            ops.append(op)
            continue
        key = value, dims = source.inputs[0], QUANTIZED_DIMS[op.kind]
        if key not in quantized:
            result = SubgraphValue(value.shape, quantization=DynamicQuantization(dims))
            # No operation between the conversion and the layer moves elements, so the two have the same layout.
            layout = SAME_LAYOUT if op.kind is g.FullyConnected else LAST
            quantized[key] = SubgraphNode(g.Convert, [value], result, layout, handles=source.handles)
            ops.append(quantized[key])
        op.inputs = [quantized[key].output, _integer_matrix(weight), *op.inputs[2:]]
        ops.append(op)
    subgraph.nodes = ops
    _drop_unused_quantization(subgraph)


def _mark_after_moves(subgraph: Subgraph) -> None:
    """Move `QuantizePerToken` marks past reshapes and zero paddings, to right before a layer.

    At run time, each row (or image) of a marked tensor gets its own scale. Reshapes and paddings neither split nor
    merge these rows, so quantization after them gives the same scales. Layers that read the same tensor share the mark.
    """
    producers = subgraph.producers()
    moved: dict[Any, SubgraphValue] = {}
    replaced: dict[SubgraphValue, SubgraphValue] = {}
    ops: list[SubgraphNode] = []
    for op in subgraph.nodes:
        op.inputs = [replaced.get(value, value) for value in op.inputs]
        mark = producers.get(op.inputs[0])
        ops.append(op)
        if mark is None or mark.kind is not QuantizePerToken or op.kind not in (g.StaticReshape, g.StaticConstantPad):
            continue
        key = (op.kind, mark.inputs[0], *op.attributes.items())
        if key in moved:
            replaced[op.output] = moved[key]
            ops.pop()
            continue
        marked, op.inputs, op.output = op.output, mark.inputs, SubgraphValue(op.output.shape)
        moved[key] = marked
        producers[marked] = SubgraphNode(QuantizePerToken, [op.output], marked, handles=mark.handles)
        ops.append(producers[marked])
    subgraph.nodes = ops


def _add_in_integers(subgraph: Subgraph) -> None:
    """Compute clamp(x + a) * b with constants a and b > 0 in integers, as in a hard sigmoid.

    Identity: clamp(x + a) * b = clamp'(b * x + a * b), where the limits of clamp' are b times the limits of clamp.
    Integers q with scale s represent q * s, so b * x has the integers of x with scale b * s: no operation is needed.
    This requires that x is the result of an integer convolution or linear layer with no other reader. The layer's clamp
    limits, and its scales of weight, bias and output, are multiplied by b. a * b becomes the int8 constant 127 or -127
    with scale |a * b| / 127.
    """
    producers, uses = subgraph.producers(), subgraph.uses()
    elided: set[SubgraphNode] = set()
    for op in subgraph.nodes:
        chain = _sum_between_conversions(op, producers, uses)
        if chain is None:
            continue
        layer, convert, total, product = chain
        source, target = layer.output.quantization, op.output.quantization
        offset, factor = _number(total), _number(product)
        assert isinstance(source, Quantization) and isinstance(target, Quantization) and offset and factor
        scaled = Quantization(source.scale * factor, source.zero_point)
        summand = Quantization(abs(offset) * factor / 127, 0)
        if not _is_supported(g.Add, [scaled, summand], target):
            continue
        layer.inputs = [layer.inputs[0], *(replace(value, scales=_times(value, factor)) for value in layer.inputs[1:])]
        layer.output = SubgraphValue(layer.output.shape, quantization=scaled)
        layer.clamp = _scaled(layer.clamp, factor)
        number = SubgraphValue((1,), np.full(1, np.sign(offset) * 127, np.int8), quantization=summand)
        total.inputs, total.output, total.clamp = [layer.output, number], op.output, _scaled(total.clamp, factor)
        total.handles = tuple(dict.fromkeys(handle for member in (*chain[1:], op) for handle in member.handles))
        elided |= {convert, product, op}
    subgraph.nodes = [op for op in subgraph.nodes if op not in elided]


def _sum_between_conversions(
    op: SubgraphNode, producers: dict[SubgraphValue, SubgraphNode], uses: dict[SubgraphValue, int]
) -> tuple[SubgraphNode, SubgraphNode, SubgraphNode, SubgraphNode] | None:
    """Return the integer layer, dequantize, addition and multiplication that precede the quantize operation `op`.

    Return None if `op` has other predecessors, or if the result of one of the four has another reader.
    """
    chain: list[SubgraphNode] = []
    last = op
    for kinds in ({g.Multiply}, {g.Add}, {g.Convert}, WEIGHTED):
        producer = producers.get(last.inputs[0])
        if producer is None or producer.kind not in kinds or uses[producer.output] != 1:
            return None
        chain.append(producer)
        last = producer
    product, total, convert, layer = chain
    factor, offset = _number(product), _number(total)
    if not _is_quantize(op) or not factor or not offset or factor < 0 or product.clamp is not None:
        return None
    is_integer_layer = isinstance(layer.output.quantization, Quantization)
    return (layer, convert, total, product) if is_integer_layer and convert.output.quantization is None else None


def _number(op: SubgraphNode) -> float | None:
    """Return the second operand of `op` if it is a constant of one element, else None."""
    constant = op.inputs[1].constant if len(op.inputs) > 1 else None
    return float(constant.reshape(-1)[0]) if constant is not None and constant.size == 1 else None


def _times(value: SubgraphValue, factor: float) -> Array:
    assert value.scales is not None
    return (value.scales * np.float32(factor)).astype(np.float32)


def _scaled(clamp: tuple[float, float] | None, factor: float) -> tuple[float, float] | None:
    return None if clamp is None else (clamp[0] * factor, clamp[1] * factor)


def _keep_integer_weights(subgraph: Subgraph) -> None:
    """Store dequantized weights of linear layers with float32 inputs as integers of 8 or 4 bits, to save memory.

    The bias becomes a separate addition, because XNNPACK's kernels for integer weights and float32 inputs would
    multiply the bias by the scale of the weight.
    """
    ops: list[SubgraphNode] = []
    for op in subgraph.nodes:
        ops.append(op)
        weight = op.inputs[1] if op.kind is g.FullyConnected else None
        if weight is None or weight.scales is None or op.inputs[0].quantization is not None:
            continue
        bias, result, clamp = op.inputs[2:], op.output, op.clamp
        op.inputs = [op.inputs[0], _integer_matrix(weight)]
        if bias:
            op.output, op.clamp = SubgraphValue(result.shape), None
            ops.append(SubgraphNode(g.Add, [op.output, *bias], result, FIRST, clamp=clamp, handles=op.handles))
    subgraph.nodes = ops


def _integer_matrix(weight: SubgraphValue) -> SubgraphValue:
    """Return the integers that a layer's weight was dequantized from, with a scale for each row or group.

    4-bit rows with an odd number of elements become 8-bit rows: executorch 1.5 pads such rows and then reads them
    wrongly.
    """
    assert weight.scales is not None
    integers = _integer_weight(weight)
    scales = weight.scales if weight.scales.ndim == 2 else np.broadcast_to(weight.scales, weight.shape[:1]).copy()
    return SubgraphValue(integers.shape, integers, scales=scales, bits=8 if integers.shape[1] % 2 else weight.bits)


def _drop_unused_quantization(subgraph: Subgraph) -> None:
    """Remove the remaining `QuantizePerToken` marks: operations other than layers with integer weights read float32."""
    unquantized = {op.output: op.inputs[0] for op in subgraph.nodes if op.kind is QuantizePerToken}
    for op in subgraph.nodes:
        op.inputs = [unquantized.get(value, value) for value in op.inputs]
    subgraph.nodes = [op for op in subgraph.nodes if op.kind is not QuantizePerToken]


def _dequantize_later(subgraph: Subgraph) -> None:
    """Move dequantize operations after operations that only move elements.

    int8 elements are cheaper to move, and the next operation may compute with them.
    """
    producers = subgraph.producers()
    ops: list[SubgraphNode] = []
    for op in subgraph.nodes:
        sources = _moved_integers(op, producers)
        if sources:
            floats, op.output = op.output, SubgraphValue(op.output.shape, quantization=sources[0].quantization)
            op.inputs = sources
            convert = SubgraphNode(g.Convert, [op.output], floats, handles=op.handles)
            producers[floats] = convert
            ops += [op, convert]
        else:
            ops.append(op)
    subgraph.nodes = ops


def _moved_integers(op: SubgraphNode, producers: dict[SubgraphValue, SubgraphNode]) -> list[SubgraphValue]:
    """Return the int8 values from which the inputs of `op` were dequantized, if `op` can read these values instead.

    The list is empty if the operation does more than move elements, or if its inputs have different quantization
    parameters. Padding with 0 counts as moving, because the zero point represents 0 exactly.
    """
    pads_zeros = op.kind is g.StaticConstantPad and op.attributes["padding_value"] == 0
    if op.kind not in MOVES_ONE_INPUT and op.kind not in CONCATENATES and not pads_zeros:
        return []
    sources = [source for source in (_integers(value, producers) for value in op.inputs) if source is not None]
    same = len(sources) == len(op.inputs) and len({source.quantization for source in sources}) == 1
    return sources if same else []


def _quantize_earlier(subgraph: Subgraph) -> None:
    """Move quantize operations before operations that only move elements, because int8 elements are cheaper to move."""
    producers, uses = subgraph.producers(), subgraph.uses()
    before: dict[SubgraphNode, SubgraphNode] = {}
    elided: set[SubgraphNode] = set()
    for op in reversed(subgraph.nodes):
        last = op
        while _is_quantize(last):
            move = producers.get(last.inputs[0])
            if move is None or move.kind not in MOVES_ONE_INPUT or uses[move.output] != 1:
                break
            moved = SubgraphValue(move.inputs[0].shape, quantization=last.output.quantization)
            convert = SubgraphNode(g.Convert, [move.inputs[0]], moved, handles=last.handles)
            move.inputs, move.output = [moved], last.output
            elided.add(last)
            before[move] = last = convert
    ops: list[SubgraphNode] = []
    for op in subgraph.nodes:
        chain = [op]
        while chain[-1] in before:
            chain.append(before[chain[-1]])
        ops += [member for member in reversed(chain) if member not in elided]
    subgraph.nodes = ops


def _fold_conversion_pairs(subgraph: Subgraph) -> None:
    """Remove adjacent dequantize and quantize operations with equal parameters: together they change no integer."""
    producers, outputs = subgraph.producers(), {value for value, _ in subgraph.outputs}
    replaced: dict[SubgraphValue, SubgraphValue] = {}
    for op in subgraph.nodes:
        op.inputs = [replaced.get(value, value) for value in op.inputs]
        source = _integers(op.inputs[0], producers) if _is_quantize(op) else None
        if source is not None and source.quantization == op.output.quantization and op.output not in outputs:
            replaced[op.output] = replaced.get(source, source)
    subgraph.nodes = [op for op in subgraph.nodes if op.output not in replaced]


def _is_quantize(op: SubgraphNode) -> bool:
    return op.kind is g.Convert and isinstance(op.output.quantization, Quantization)


def _integers(value: SubgraphValue, producers: dict[SubgraphValue, SubgraphNode]) -> SubgraphValue | None:
    """Return the int8 value that `value` was dequantized from; None if `value` is not the result of dequantization."""
    op = producers.get(value)
    if op is None or op.kind is not g.Convert or value.quantization is not None:
        return None
    return None if op.inputs[0].quantization is None else op.inputs[0]


def _rewrite(op: SubgraphNode, sources: list[SubgraphValue | None], result: SubgraphValue) -> bool:
    """Make `op` compute the int8 `result` from the int8 `sources`; return False if XNNPACK does not support this."""
    first, target = sources[0], result.quantization
    if first is None or not isinstance(first.quantization, Quantization) or not isinstance(target, Quantization):
        return False
    if op.kind in WEIGHTED:
        weighted = _weights(op, first.quantization, target)
        if weighted is None:
            return False
        op.inputs = [first, *weighted]
    elif op.kind in RESCALING or op.kind in MOVING:
        values = [source for source in sources if source is not None]
        parameters = [value.quantization for value in values if isinstance(value.quantization, Quantization)]
        if len(parameters) != len(op.inputs) or not _is_supported(op.kind, parameters, target):
            return False
        if op.kind is g.LeakyReLU and not _supports_slope(op.attributes["negative_slope"], parameters[0], target):
            return False
        op.inputs = values
    else:
        return False
    op.output = result
    return True


def _is_supported(kind: type, inputs: list[Quantization], output: Quantization) -> bool:
    """Return True if XNNPACK can compute `kind` in integers with these quantization parameters."""
    if kind in MOVING:
        return all(parameters == output for parameters in inputs)
    if kind in FIXED_OUTPUT:
        return output == FIXED_OUTPUT[kind]
    if kind is g.Multiply:
        return MIN_RATIO <= inputs[0].scale * inputs[1].scale / output.scale < MAX_RATIO
    return all(MIN_RATIO <= parameters.scale / output.scale < MAX_RATIO for parameters in inputs)


def _supports_slope(slope: float, source: Quantization, target: Quantization) -> bool:
    """Return True if the fixed-point kernel of LeakyReLU can represent its two factors.

    The first factor is input scale / output scale, from 2^-8 to 2^7. The second is the first times the slope; its
    magnitude is from 2^-8 to 2^7 - 2^-8, the largest number of 15 bits with 8 fractional bits.
    `native/src/nodes_unary.cpp` checks the same limits in float32.
    """
    ratio = np.float32(source.scale) / np.float32(target.scale)
    negative = abs(ratio * np.float32(slope))
    return bool(2.0**-8 <= ratio <= 2.0**7 and 2.0**-8 <= negative <= float.fromhex("0x1.FFFC00p+6"))


def _weights(op: SubgraphNode, source: Quantization, output: Quantization) -> list[SubgraphValue] | None:
    """Return the integer weight and bias of `op`; None if the weight is not quantized or its scale is out of range.

    Kernels add the bias to sums of integer products of inputs and weights. So the scale of the bias is the product of
    the input scale and the weight scale.
    """
    weight, bias = op.inputs[1], op.inputs[2] if len(op.inputs) > 2 else None
    if weight.scales is None or weight.constant is None:
        return None
    sums = (weight.scales.astype(np.float64) * source.scale).astype(np.float32)
    if not (sums / output.scale < MAX_RATIO).all():
        return None
    integers = _integer_weight(weight)
    values = [SubgraphValue(integers.shape, integers, scales=weight.scales, channel_dim=weight.channel_dim)]
    if bias is not None:
        assert bias.constant is not None
        numbers = np.clip(np.round(bias.constant.astype(np.float64) / sums), -(2**31), 2**31 - 1)
        values.append(SubgraphValue(bias.shape, numbers.astype(np.int32), scales=sums))
    return values


def _integer_weight(weight: SubgraphValue) -> NDArray[np.int8]:
    assert weight.constant is not None and weight.scales is not None
    return np.round(weight.constant / _along(weight.scales, weight)).astype(np.int8)


def _along(scales: Array, weight: SubgraphValue) -> Array:
    if scales.ndim == 2:
        return np.repeat(scales, weight.shape[1] // scales.shape[1], axis=1)
    shape = [1] * len(weight.shape)
    shape[weight.channel_dim] = -1
    return scales if scales.size == 1 else scales.reshape(shape)


def _drop_unread(subgraph: Subgraph) -> None:
    uses = subgraph.uses()
    subgraph.nodes = [op for op in subgraph.nodes if op.kind is not g.Convert or uses.get(op.output, 0) > 0]
