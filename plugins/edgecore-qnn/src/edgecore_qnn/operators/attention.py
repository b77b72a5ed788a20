"""Attention, which the NPU lacks, composed of matrix products and a softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from edgecore.sdk import NodeQuery, arguments_by_name, rank, shape
from edgecore_qnn.operators.builder import Builder, Row

aten = torch.ops.aten

_HIDDEN = -30000.0
"""An fp16 number whose sum with a score stays finite, and whose exponential is 0."""


def _attention(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    count = rank(node)
    scale = args["scale"] or 1 / math.sqrt(shape(args["query"])[-1])
    order = [*range(count - 2), count - 1, count - 2]
    query = b.add("Mul", b.value(args["query"]), b.number(float(scale)))
    scores = b.add("MatMul", query, b.add("Transpose", b.value(args["key"]), perm=order))
    mask = _mask(b, args)
    if mask is not None:
        scores = b.add("Add", scores, mask)
    return b.add("MatMul", b.add("Softmax", scores, axis=-1), b.value(args["value"]))


def _mask(b: Builder, args: dict[str, Any]) -> str | None:
    """Return the mask that attention adds to the scores; None if the model's attention has no mask."""
    if args["is_causal"]:
        rows, columns = shape(args["query"])[-2], shape(args["key"])[-2]
        return b.array(np.triu(np.full((rows, columns), _HIDDEN, np.float32), 1))
    mask = args["attn_mask"]
    if mask is None or mask not in b.partition.constants:
        return None if mask is None else b.value(mask)
    numbers = b.partition.constants[mask].numpy()
    if numbers.dtype == np.bool_:
        numbers = np.where(numbers, 0.0, _HIDDEN)
    return b.array(np.maximum(numbers, _HIDDEN), np.float32)


def _check(query: NodeQuery) -> str | None:
    if query.argument("dropout_p") or query.argument("enable_gqa"):
        return "dropout_p or enable_gqa is not supported"
    mask = query.argument("attn_mask")
    if mask is None:
        return None
    is_bool = mask.meta["val"].dtype == torch.bool
    if not query.is_constant(mask):
        return "a boolean mask that is computed at run time" if is_bool else None
    numbers = query.constant(mask)
    hidden = ~numbers if is_bool else numbers <= _HIDDEN
    return "a mask that hides all keys of a query" if bool(hidden.all(-1).any()) else None


ROWS = [
    Row(aten.scaled_dot_product_attention.default, (torch.float32, torch.bool),
        "no dropout_p, no enable_gqa; a boolean mask must be constant", _check, True, lower=_attention),
]  # fmt: skip
