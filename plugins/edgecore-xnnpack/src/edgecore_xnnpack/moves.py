"""Moves of elements in other words, so that images need not leave the order of channels last."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgecore_xnnpack.net import CHANNELS_LAST, FIRST, Alias, Fixed, Layout, Net, Op, Value, comes_from_last
from edgecore_xnnpack.schema import graph as g

_ROWS = (0, 2, 1)


def simplify_moves(net: Net) -> None:
    """Rewrite in place, before layouts are chosen.

    The pixels of an image as rows, [N, C, H, W] -> [N, C, HW] -> [N, HW, C], are what channels last is, and so are rows
    as pixels. Two transpositions, as of the keys of attention, are one. The columns of a layer's weight are as well in the order of a flattened image with channels last.
    """
    _turn(net)
    _drop_unread(net)
    _flatten(net)


def _turn(net: Net) -> None:
    producers = net.producers()
    ops: list[Op] = []
    for op in net.ops:
        source = producers.get(op.inputs[0])
        if source is not None and _is_pixels_as_rows(source, op):
            ops += _through_last(op, source.inputs[0])
        elif source is not None and _is_rows_as_pixels(source, op):
            ops += _from_last(op, source.inputs[0])
        else:
            if source is not None and source.kind is op.kind is g.StaticTranspose:
                op.inputs = list(source.inputs)
                op.attributes["perm"] = tuple(source.attributes["perm"][i] for i in op.attributes["perm"])
                op.handles = tuple(dict.fromkeys(source.handles + op.handles))
            ops.append(op)
    net.ops = ops


def _is_rows(op: Op) -> bool:
    return op.kind is g.StaticTranspose and op.attributes["perm"] == _ROWS


def _is_pixels_as_rows(source: Op, op: Op) -> bool:
    image, rows = source.inputs[0].shape, source.output.shape
    return _is_rows(op) and source.kind is g.StaticReshape and len(image) == 4 and image[:2] == rows[:2]


def _is_rows_as_pixels(source: Op, op: Op) -> bool:
    image, rows = op.output.shape, source.output.shape
    return _is_rows(source) and op.kind is g.StaticReshape and len(image) == 4 and image[:2] == rows[:2]


def _through_last(op: Op, image: Value) -> list[Op]:
    turned = replace(image, shape=tuple(image.shape[i] for i in CHANNELS_LAST), layout=Layout.FIRST)
    return [
        Op(Alias, [image], turned, Fixed(Layout.LAST, Layout.FIRST), handles=op.handles),
        Op(g.StaticReshape, [turned], op.output, FIRST, {"new_shape": op.output.shape}, handles=op.handles),
    ]


def _from_last(op: Op, rows: Value) -> list[Op]:
    turned = replace(rows, shape=tuple(op.output.shape[i] for i in CHANNELS_LAST))
    return [
        Op(g.StaticReshape, [rows], turned, FIRST, {"new_shape": turned.shape}, handles=op.handles),
        Op(Alias, [turned], op.output, Fixed(Layout.FIRST, Layout.LAST), handles=op.handles),
    ]


def _drop_unread(net: Net) -> None:
    """What only moved for what now reads something else."""
    uses = net.uses()
    for op in reversed(net.ops):
        if op.kind in (g.StaticReshape, g.StaticTranspose) and not uses.get(op.output):
            net.ops.remove(op)
            uses[op.inputs[0]] -= 1


def _flatten(net: Net) -> None:
    producers = net.producers()
    readers: dict[Value, list[Op]] = {}
    for op in net.ops:
        for value in op.inputs:
            readers.setdefault(value, []).append(op)
    results = {value for value, _ in net.outputs}
    for op in net.ops:
        image = op.inputs[0]
        if op.kind is not g.StaticReshape or len(image.shape) != 4:
            continue
        if op.output.shape != (image.shape[0], image.size // image.shape[0]):
            continue
        if image.has_one_order or not comes_from_last(image, producers):
            continue
        layers = _layers(op.output, readers, results)
        if layers:
            turned = replace(image, shape=tuple(image.shape[i] for i in CHANNELS_LAST), layout=Layout.FIRST)
            net.ops.insert(net.ops.index(op), Op(Alias, [image], turned, Fixed(Layout.LAST, Layout.FIRST)))
            op.inputs = [turned]
            for layer in layers:
                layer.inputs[1] = _columns_turned(layer.inputs[1], image.shape)


def _layers(value: Value, readers: dict[Value, list[Op]], results: set[Value]) -> list[Op]:
    """The layers that read a value, conversions between them; none if anything else does."""
    found: list[Op] = []
    for op in readers.get(value, []):
        if op.kind is g.Convert:
            more = _layers(op.output, readers, results)
            if not more:
                return []
            found += more
        elif op.kind is g.FullyConnected and op.inputs[0] is value and _has_free_columns(op.inputs[1]):
            found.append(op)
        else:
            return []
    return [] if value in results else found


def _has_free_columns(weight: Value) -> bool:
    return weight.constant is not None and (weight.scales is None or weight.scales.ndim == 1)


def _columns_turned(weight: Value, image: tuple[int, ...]) -> Value:
    assert weight.constant is not None
    columns = weight.constant.reshape(-1, *image[1:]).transpose(CHANNELS_LAST)
    return replace(weight, constant=np.ascontiguousarray(columns).reshape(weight.shape))
