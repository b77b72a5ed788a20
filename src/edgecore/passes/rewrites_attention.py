"""Scaled dot product attention without a mask, as products and a softmax."""

from __future__ import annotations

import math

import torch
from torch.fx import Node

from edgecore.ir.graph import Editor
from edgecore.passes.rewrites import argument, rewrites

aten = torch.ops.aten


@rewrites(aten.scaled_dot_product_attention.default)
def _attention(edit: Editor, node: Node) -> Node | None:
    """softmax(q k^T scale) v over [batch, heads, length, channels]; torch's own decomposition handles the rest.

    That one also guards against rows that are masked altogether, which cannot occur without a mask.
    """
    query, key, value = (argument(node, name) for name in ("query", "key", "value"))
    shapes = [list(x.meta["val"].shape) for x in (query, key, value)]
    plain = argument(node, "attn_mask") is None and not argument(node, "is_causal") and not argument(node, "dropout_p")
    static = all(isinstance(size, int) for shape in shapes for size in shape)
    if not plain or not static or any(len(shape) != 4 or shape[:2] != shapes[0][:2] for shape in shapes):
        return None
    batch, heads, length, channels = shapes[0]
    scale = argument(node, "scale")
    scale = 1 / math.sqrt(channels) if scale is None else scale
    scaled = edit.call(aten.mul.Scalar, query, scale)
    flat = [
        edit.call(aten.view_copy.default, x, [batch * heads, *shape[2:]])
        for x, shape in zip((scaled, key, value), shapes, strict=True)
    ]
    scores = edit.call(aten.bmm.default, flat[0], edit.call(aten.permute_copy.default, flat[1], [0, 2, 1]))
    weights = edit.call(aten._softmax.default, scores, -1, False)
    mixed = edit.call(aten.bmm.default, weights, flat[2])
    return edit.call(aten.view_copy.default, mixed, [batch, heads, length, shapes[2][3]])
