"""An operation between dequantize and quantize computes with integers, where XNNPACK has it so.

Everything else stays in floating point between conversions, inside the delegate.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgecore_xnnpack.net import FIRST, TIED, Array, Dynamic, Net, Op, Quantization, RoundRows, Value
from edgecore_xnnpack.schema import graph as g

WEIGHTED = frozenset({g.Conv2d, g.DepthwiseConv2d, g.ConvTranspose2d, g.FullyConnected})
"""Operations of a value, an int8 weight and an int32 bias."""

RESCALING = frozenset({
    g.Add, g.Subtract, g.Multiply, g.GlobalAvgPooling2d, g.Sigmoid, g.Tanh, g.LeakyReLU, g.ELU, g.Hardswish,
})  # fmt: skip
"""Operations whose inputs and output each have parameters of their own."""

JOINS = frozenset({g.Concatenate2, g.Concatenate3, g.Concatenate4, g.Concatenate5})

MOVING = frozenset({
    g.MaxPooling2d, g.Clamp, g.Copy, g.StaticReshape, g.StaticTranspose, g.StaticSlice, g.StaticConstantPad,
    g.StaticResizeBilinear2D, *JOINS,
})  # fmt: skip
"""Operations whose output has the parameters of their inputs."""

ALONE = frozenset({g.Copy, g.StaticReshape, g.StaticTranspose, g.StaticSlice})
"""Those of one input that only move: conversions are exchanged with them."""

FIXED_OUTPUT = {g.Sigmoid: Quantization(1 / 256, -128), g.Tanh: Quantization(1 / 128, 0)}
"""XNNPACK computes these for one output scale only."""

LEAST_RATIO, GREATEST_RATIO = 2.0**-10, 2.0**8
"""Of scales of an input (of the product of two) to that of the output."""


def quantize(net: Net, resized: bool = False) -> None:
    """Rewrite in place; `resized` if sizes are symbolic."""
    _round_rows(net)
    _dequantize_later(net)
    _quantize_earlier(net)
    _fold_pairs(net)
    producers, uses = net.producers(), net.uses()
    readers: dict[Value, list[Op]] = {}
    for op in net.ops:
        for value in op.inputs:
            readers.setdefault(value, []).append(op)
    gone: set[Op] = set()
    for op in net.ops:
        if resized and op.kind is g.GlobalAvgPooling2d:
            continue  # the integer sums of executorch 1.5's keep the room of the first call: greater sizes overrun it
        following = readers.get(op.output, [])
        if len(following) != 1 or uses[op.output] != 1 or not _is_quantize(following[0]):
            continue
        sources = [_integers(value, producers) for value in op.inputs]
        if _rewrite(op, sources, following[0].output):
            gone.add(following[0])
            producers[op.output] = op
    net.ops = [op for op in net.ops if op not in gone]
    _add_integers(net)
    _keep_integers(net)
    _drop_unread(net)


def _round_rows(net: Net) -> None:
    """Products with int8 weights of what is rounded at run time; the result is in floating point."""
    producers = net.producers()
    rounded: dict[Value, Op] = {}
    ops: list[Op] = []
    for op in net.ops:
        source = producers.get(op.inputs[0])
        weight = op.inputs[1] if op.kind is g.FullyConnected else None
        if source is None or source.kind is not RoundRows or weight is None or weight.scales is None:
            ops.append(op)
            continue
        value = source.inputs[0]
        if value not in rounded:
            rounded[value] = Op(
                g.Convert, [value], Value(value.shape, quantization=Dynamic()), TIED, handles=source.handles
            )
            ops.append(rounded[value])
        op.inputs = [rounded[value].output, _integer_matrix(weight), *op.inputs[2:]]
        ops.append(op)
    net.ops = ops
    _forget_rounding(net)


def _add_integers(net: Net) -> None:
    """clamp(x + a) b, as a hard sigmoid is, in floating point between conversions becomes clamp(b x + a b) in integers.

    XNNPACK has no product with a constant that costs nothing, but the same integers with b times the scale are b times
    as much: so x must come from a layer, whose weights and bias get these scales too, and be read by nothing else.
    """
    producers, uses = net.producers(), net.uses()
    gone: set[Op] = set()
    for op in net.ops:
        chain = _sum_between_conversions(op, producers, uses)
        if chain is None:
            continue
        layer, convert, total, product = chain
        given, to = layer.output.quantization, op.output.quantization
        offset, factor = _number(total), _number(product)
        assert isinstance(given, Quantization) and isinstance(to, Quantization) and offset and factor
        scaled = Quantization(given.scale * factor, given.zero_point)
        added = Quantization(abs(offset) * factor / 127, 0)
        if not _is_supported(g.Add, [scaled, added], to):
            continue
        layer.inputs = [layer.inputs[0], *(replace(value, scales=_times(value, factor)) for value in layer.inputs[1:])]
        layer.output = Value(layer.output.shape, quantization=scaled)
        layer.clamp = _scaled(layer.clamp, factor)
        number = Value((1,), np.full(1, np.sign(offset) * 127, np.int8), quantization=added)
        total.inputs, total.output, total.clamp = [layer.output, number], op.output, _scaled(total.clamp, factor)
        total.handles = tuple(dict.fromkeys(handle for one in (*chain[1:], op) for handle in one.handles))
        gone |= {convert, product, op}
    net.ops = [op for op in net.ops if op not in gone]


def _sum_between_conversions(
    op: Op, producers: dict[Value, Op], uses: dict[Value, int]
) -> tuple[Op, Op, Op, Op] | None:
    """The layer of integers, conversion, sum and product before the conversion `op`; None if it is something else."""
    found: list[Op] = []
    last = op
    for kinds in ({g.Multiply}, {g.Add}, {g.Convert}, WEIGHTED):
        producer = producers.get(last.inputs[0])
        if producer is None or producer.kind not in kinds or uses[producer.output] != 1:
            return None
        found.append(producer)
        last = producer
    product, total, convert, layer = found
    factor, offset = _number(product), _number(total)
    if not _is_quantize(op) or not factor or not offset or factor < 0 or product.clamp is not None:
        return None
    is_whole = isinstance(layer.output.quantization, Quantization)
    return (layer, convert, total, product) if is_whole and convert.output.quantization is None else None


def _number(op: Op) -> float | None:
    """The constant number that `op` adds to a value or multiplies it with."""
    constant = op.inputs[1].constant if len(op.inputs) > 1 else None
    return float(constant.reshape(-1)[0]) if constant is not None and constant.size == 1 else None


def _times(value: Value, factor: float) -> Array:
    assert value.scales is not None
    return (value.scales * np.float32(factor)).astype(np.float32)


def _scaled(clamp: tuple[float, float] | None, factor: float) -> tuple[float, float] | None:
    return None if clamp is None else (clamp[0] * factor, clamp[1] * factor)


def _keep_integers(net: Net) -> None:
    """Linear layers of values in floating point still have integer weights, a quarter or an eighth of the bytes.

    The bias is added apart: XNNPACK's kernels of this kind scale it as if it were part of the sum of products.
    """
    ops: list[Op] = []
    for op in net.ops:
        ops.append(op)
        weight = op.inputs[1] if op.kind is g.FullyConnected else None
        if weight is None or weight.scales is None or op.inputs[0].quantization is not None:
            continue
        bias, result, clamp = op.inputs[2:], op.output, op.clamp
        op.inputs = [op.inputs[0], _integer_matrix(weight)]
        if bias:
            op.output, op.clamp = Value(result.shape), None
            ops.append(Op(g.Add, [op.output, *bias], result, FIRST, clamp=clamp, handles=op.handles))
    net.ops = ops


def _integer_matrix(weight: Value) -> Value:
    """A weight of a linear layer in the integers it was made of, with scales for each row or group.

    Rows of an odd number of entries have 8 bits: executorch 1.5 fills up those of 4 bits and then reads them wrongly.
    """
    assert weight.scales is not None
    whole = _whole_numbers(weight)
    scales = weight.scales if weight.scales.ndim == 2 else np.broadcast_to(weight.scales, weight.shape[:1]).copy()
    return Value(whole.shape, whole, scales=scales, bits=8 if whole.shape[1] % 2 else weight.bits)


def _forget_rounding(net: Net) -> None:
    """Where nothing needs the rounding, the value itself is read."""
    same = {op.output: op.inputs[0] for op in net.ops if op.kind is RoundRows}
    for op in net.ops:
        op.inputs = [same.get(value, value) for value in op.inputs]
    net.ops = [op for op in net.ops if op.kind is not RoundRows]


def _dequantize_later(net: Net) -> None:
    """Bytes are cheaper to move than floats, and the operation after the move may take them."""
    producers = net.producers()
    ops: list[Op] = []
    for op in net.ops:
        sources = _moved_integers(op, producers)
        if sources:
            floats, op.output = op.output, Value(op.output.shape, quantization=sources[0].quantization)
            op.inputs = sources
            convert = Op(g.Convert, [op.output], floats, handles=op.handles)
            producers[floats] = convert
            ops += [op, convert]
        else:
            ops.append(op)
    net.ops = ops


def _moved_integers(op: Op, producers: dict[Value, Op]) -> list[Value]:
    """The integers of one kind that a move could take in place of its inputs; none for anything else.

    A zero of padding is the zero point, exactly.
    """
    pads_zeros = op.kind is g.StaticConstantPad and op.attributes["padding_value"] == 0
    if op.kind not in ALONE and op.kind not in JOINS and not pads_zeros:
        return []
    sources = [source for source in (_integers(value, producers) for value in op.inputs) if source is not None]
    same = len(sources) == len(op.inputs) and len({source.quantization for source in sources}) == 1
    return sources if same else []


def _quantize_earlier(net: Net) -> None:
    """The same for what is quantized after a move."""
    producers, uses = net.producers(), net.uses()
    before: dict[Op, Op] = {}
    gone: set[Op] = set()
    for op in reversed(net.ops):
        last = op
        while _is_quantize(last):
            move = producers.get(last.inputs[0])
            if move is None or move.kind not in ALONE or uses[move.output] != 1:
                break
            moved = Value(move.inputs[0].shape, quantization=last.output.quantization)
            convert = Op(g.Convert, [move.inputs[0]], moved, handles=last.handles)
            move.inputs, move.output = [moved], last.output
            gone.add(last)
            before[move] = last = convert
    ops: list[Op] = []
    for op in net.ops:
        chain = [op]
        while chain[-1] in before:
            chain.append(before[chain[-1]])
        ops += [one for one in reversed(chain) if one not in gone]
    net.ops = ops


def _fold_pairs(net: Net) -> None:
    """Bytes that were converted to floats and back with the same parameters are the same bytes."""
    producers, outputs = net.producers(), {value for value, _ in net.outputs}
    same: dict[Value, Value] = {}
    for op in net.ops:
        op.inputs = [same.get(value, value) for value in op.inputs]
        source = _integers(op.inputs[0], producers) if _is_quantize(op) else None
        if source is not None and source.quantization == op.output.quantization and op.output not in outputs:
            same[op.output] = same.get(source, source)
    net.ops = [op for op in net.ops if op.output not in same]


def _is_quantize(op: Op) -> bool:
    return op.kind is g.Convert and isinstance(op.output.quantization, Quantization)


def _integers(value: Value, producers: dict[Value, Op]) -> Value | None:
    """The int8 value that `value` was converted from."""
    op = producers.get(value)
    if op is None or op.kind is not g.Convert or value.quantization is not None:
        return None
    return None if op.inputs[0].quantization is None else op.inputs[0]


def _rewrite(op: Op, sources: list[Value | None], result: Value) -> bool:
    """Make `op` read `sources` and compute `result`, if XNNPACK can."""
    first, to = sources[0], result.quantization
    if first is None or not isinstance(first.quantization, Quantization) or not isinstance(to, Quantization):
        return False
    if op.kind in WEIGHTED:
        weighted = _weights(op, first.quantization, to)
        if weighted is None:
            return False
        op.inputs = [first, *weighted]
    elif op.kind in RESCALING or op.kind in MOVING:
        values = [source for source in sources if source is not None]
        given = [one for one in (source.quantization for source in values) if isinstance(one, Quantization)]
        if len(given) != len(op.inputs) or not _is_supported(op.kind, given, to):
            return False
        op.inputs = values
    else:
        return False
    op.output = result
    return True


def _is_supported(kind: type, given: list[Quantization], to: Quantization) -> bool:
    if kind in MOVING:
        return all(one == to for one in given)
    if kind in FIXED_OUTPUT:
        return to == FIXED_OUTPUT[kind]
    if kind is g.Multiply:
        return LEAST_RATIO <= given[0].scale * given[1].scale / to.scale < GREATEST_RATIO
    return all(LEAST_RATIO <= one.scale / to.scale < GREATEST_RATIO for one in given)


def _weights(op: Op, given: Quantization, to: Quantization) -> list[Value] | None:
    """The integer weight and bias of `op`; None if the weight is not quantized."""
    weight, bias = op.inputs[1], op.inputs[2] if len(op.inputs) > 2 else None
    if weight.scales is None or weight.constant is None:
        return None
    sums = (weight.scales.astype(np.float64) * given.scale).astype(np.float32)
    if not (sums / to.scale < GREATEST_RATIO).all():
        return None
    whole = _whole_numbers(weight)
    values = [Value(whole.shape, whole, scales=weight.scales, channel_dim=weight.channel_dim)]
    if bias is not None:
        assert bias.constant is not None
        numbers = np.clip(np.round(bias.constant.astype(np.float64) / sums), -(2**31), 2**31 - 1)
        values.append(Value(bias.shape, numbers.astype(np.int32), scales=sums))
    return values


def _whole_numbers(weight: Value) -> NDArray[np.int8]:
    """The integers that a weight was made of."""
    assert weight.constant is not None and weight.scales is not None
    return np.round(weight.constant / _along(weight.scales, weight)).astype(np.int8)


def _along(scales: Array, weight: Value) -> Array:
    """The scales, shaped to divide the weight."""
    if scales.ndim == 2:
        return np.repeat(scales, weight.shape[1] // scales.shape[1], axis=1)
    shape = [1] * len(weight.shape)
    shape[weight.channel_dim] = -1
    return scales if scales.size == 1 else scales.reshape(shape)


def _drop_unread(net: Net) -> None:
    """Conversions that nothing reads any more."""
    uses = net.uses()
    net.ops = [op for op in net.ops if op.kind is not g.Convert or uses.get(op.output, 0) > 0]
