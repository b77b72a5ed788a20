"""Remove transposes that are redundant for images with channels last, so that images can stay in that layout."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgecore_xnnpack.graph.subgraph import (
    CHANNELS_LAST,
    FIRST,
    Alias,
    FixedLayouts,
    Layout,
    Subgraph,
    SubgraphNode,
    SubgraphValue,
    comes_from_last,
)
from edgecore_xnnpack.schema import graph as g

_ROWS = (0, 2, 1)


def simplify_transposes(subgraph: Subgraph) -> None:
    """Remove redundant transposes from `subgraph`, whose layouts are not chosen yet.

    - A reshape [N, C, H, W] -> [N, C, HW] and a transpose -> [N, HW, C] become a single reshape, because the result has
      the bytes of the image with channels last. The reverse, a transpose and then a reshape, is simplified likewise.
    - Two transposes in a row become one. Attention has such a pair for its keys.
    - If a linear layer reads a flattened image, the image is flattened with channels last, without a transpose, and the
      columns of the layer's weight are permuted from the order C, H, W to H, W, C.
    """
    _merge_transposes(subgraph)
    _drop_unread(subgraph)
    _permute_flattened_weights(subgraph)


def _merge_transposes(subgraph: Subgraph) -> None:
    producers = subgraph.producers()
    ops: list[SubgraphNode] = []
    for op in subgraph.nodes:
        source = producers.get(op.inputs[0])
        if source is not None and _is_pixels_as_rows(source, op):
            ops += _image_to_rows(op, source.inputs[0])
        elif source is not None and _is_rows_as_pixels(source, op):
            ops += _rows_to_image(op, source.inputs[0])
        else:
            if source is not None and source.kind is op.kind is g.StaticTranspose:
                op.inputs = list(source.inputs)
                op.attributes["perm"] = tuple(source.attributes["perm"][i] for i in op.attributes["perm"])
                op.handles = tuple(dict.fromkeys(source.handles + op.handles))
            ops.append(op)
    subgraph.nodes = ops


def _swaps_rows_and_columns(op: SubgraphNode) -> bool:
    return op.kind is g.StaticTranspose and op.attributes["perm"] == _ROWS


def _is_pixels_as_rows(source: SubgraphNode, op: SubgraphNode) -> bool:
    """Return True if `source` reshapes [N, C, H, W] to [N, C, HW], and `op` transposes the result to [N, HW, C]."""
    image, rows = source.inputs[0].shape, source.output.shape
    return _swaps_rows_and_columns(op) and source.kind is g.StaticReshape and len(image) == 4 and image[:2] == rows[:2]


def _is_rows_as_pixels(source: SubgraphNode, op: SubgraphNode) -> bool:
    """Return True if `source` transposes [N, HW, C] to [N, C, HW], and `op` reshapes the result to [N, C, H, W]."""
    image, rows = op.output.shape, source.output.shape
    return _swaps_rows_and_columns(source) and op.kind is g.StaticReshape and len(image) == 4 and image[:2] == rows[:2]


def _image_to_rows(op: SubgraphNode, image: SubgraphValue) -> list[SubgraphNode]:
    """Return operations that reshape `image` with channels last to the output of `op`."""
    channels_last = replace(image, shape=tuple(image.shape[i] for i in CHANNELS_LAST), layout=Layout.FIRST)
    return [
        SubgraphNode(Alias, [image], channels_last, FixedLayouts(Layout.LAST, Layout.FIRST), handles=op.handles),
        SubgraphNode(
            g.StaticReshape, [channels_last], op.output, FIRST, {"new_shape": op.output.shape}, handles=op.handles
        ),
    ]


def _rows_to_image(op: SubgraphNode, rows: SubgraphValue) -> list[SubgraphNode]:
    """Return operations that reshape `rows` to the output of `op`, an image with channels last."""
    channels_last = replace(rows, shape=tuple(op.output.shape[i] for i in CHANNELS_LAST))
    return [
        SubgraphNode(
            g.StaticReshape, [rows], channels_last, FIRST, {"new_shape": channels_last.shape}, handles=op.handles
        ),
        SubgraphNode(Alias, [channels_last], op.output, FixedLayouts(Layout.FIRST, Layout.LAST), handles=op.handles),
    ]


def _drop_unread(subgraph: Subgraph) -> None:
    uses = subgraph.uses()
    for op in reversed(subgraph.nodes):
        if op.kind in (g.StaticReshape, g.StaticTranspose) and not uses.get(op.output):
            subgraph.nodes.remove(op)
            uses[op.inputs[0]] -= 1


def _permute_flattened_weights(subgraph: Subgraph) -> None:
    """Flatten images without a transpose to channels first, if only linear layers read the result.

    The flattened elements are then in the order H, W, C, so the columns of the weights are permuted to match.
    """
    producers = subgraph.producers()
    readers: dict[SubgraphValue, list[SubgraphNode]] = {}
    for op in subgraph.nodes:
        for value in op.inputs:
            readers.setdefault(value, []).append(op)
    results = {value for value, _ in subgraph.outputs}
    for op in subgraph.nodes:
        image = op.inputs[0]
        if op.kind is not g.StaticReshape or len(image.shape) != 4:
            continue
        if op.output.shape != (image.shape[0], image.size // image.shape[0]):
            continue
        if image.has_one_order or not comes_from_last(image, producers):
            continue
        layers = _layers(op.output, readers, results)
        if layers:
            channels_last = replace(image, shape=tuple(image.shape[i] for i in CHANNELS_LAST), layout=Layout.FIRST)
            subgraph.nodes.insert(
                subgraph.nodes.index(op),
                SubgraphNode(Alias, [image], channels_last, FixedLayouts(Layout.LAST, Layout.FIRST)),
            )
            op.inputs = [channels_last]
            for layer in layers:
                layer.inputs[1] = _permute_columns(layer.inputs[1], image.shape)


def _layers(
    value: SubgraphValue, readers: dict[SubgraphValue, list[SubgraphNode]], results: set[SubgraphValue]
) -> list[SubgraphNode]:
    """List the linear layers that read a value, directly or through conversions. Empty if other operations read it."""
    layers: list[SubgraphNode] = []
    for op in readers.get(value, []):
        if op.kind is g.Convert:
            more = _layers(op.output, readers, results)
            if not more:
                return []
            layers += more
        elif op.kind is g.FullyConnected and op.inputs[0] is value and _has_free_columns(op.inputs[1]):
            layers.append(op)
        else:
            return []
    return [] if value in results else layers


def _has_free_columns(weight: SubgraphValue) -> bool:
    """Return True for a constant weight whose columns may be permuted: it has no scales for groups of columns."""
    return weight.constant is not None and (weight.scales is None or weight.scales.ndim == 1)


def _permute_columns(weight: SubgraphValue, image: tuple[int, ...]) -> SubgraphValue:
    """Permute the columns of a weight from the order C, H, W of `image` to H, W, C."""
    assert weight.constant is not None
    columns = weight.constant.reshape(-1, *image[1:]).transpose(CHANNELS_LAST)
    return replace(weight, constant=np.ascontiguousarray(columns).reshape(weight.shape))
