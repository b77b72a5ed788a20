"""Attention as one operator, for which the target runtime `edgecore` has a kernel."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from edgecore.ir.dialect.op_sets import DATA_MOVEMENT
from edgecore.ir.graph import same_sizes
from edgecore.ir.op_args import argument
from edgecore.ir.torch_compat import OpOverload

aten = torch.ops.aten

SOFTMAX = frozenset({aten.softmax.int, aten._softmax.default, aten.log_softmax.int, aten._log_softmax.default})
"""Softmax operators: input elements far below the largest of their row have no effect on the result."""

# Keep this library object: torch unregisters the operator when the object is destroyed.
_library: Any = torch.library.Library("edgecore", "FRAGMENT")  # type: ignore[no-untyped-call]
_library.define(
    "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal, "
    "float scale) -> Tensor"
)


@torch.library.impl(_library, "scaled_dot_product_attention", "CompositeExplicitAutograd")
def _scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    is_causal: bool,
    scale: float,
) -> torch.Tensor:
    """Compute softmax(scale * query @ key^T + attn_mask) @ value.

    `query` is [..., heads, tokens, width], `key` [..., key heads, keys, width] and `value` [..., key heads, keys, value
    width]. Each group of (heads / key heads) consecutive heads shares keys and values. `attn_mask` broadcasts to
    [..., heads, tokens, keys]; a row without visible keys gives 0.
    """
    is_grouped = query.dim() > 2 and query.shape[-3] != key.shape[-3]
    result: torch.Tensor = aten.scaled_dot_product_attention.default(
        query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=is_grouped
    )
    return result.contiguous()


ATTENTION = frozenset(
    {aten.scaled_dot_product_attention.default, torch.ops.edgecore.scaled_dot_product_attention.default}
)
"""Attention as one operator."""


def scale_of(node: Node) -> Any:
    """Return the scale of an attention node: its argument, or 1 / sqrt(channels); None if `channels` is symbolic.

    With 0 channels the scores are empty sums, so any finite scale gives the same result: 1 is returned.
    """
    scale, channels = argument(node, "scale"), argument(node, "query").meta["val"].shape[-1]
    if scale is None and isinstance(channels, int):
        return 1 / math.sqrt(channels or 1)
    return scale


def without_repeated_heads(node: Node) -> Node:
    """Return the keys [..., key heads, keys, width] whose heads `node` repeats; `node` itself if it repeats none.

    For grouped-query attention, models repeat the heads of keys and values: `unsqueeze` before the dim of keys, then
    `expand` and `reshape`. `repeat_interleave` is decomposed into the same nodes and a `clone`, which is removed later.
    """
    chain = [node]
    for target in (aten.view_copy.default, aten.expand_copy.default, aten.unsqueeze_copy.default):
        if chain[-1].target is aten.clone.default:
            chain[-1] = chain[-1].args[0]  # type: ignore[assignment]
        if chain[-1].target is not target:
            return node
        chain.append(chain[-1].args[0])  # type: ignore[arg-type]
    source = chain[-1]
    *batch, heads, keys, width = source.meta["val"].shape
    repeated, expanded, separated = (each.meta["val"].shape for each in chain[:3])
    if len(expanded) != len(batch) + 4 or not same_sizes(separated, (*batch, heads, 1, keys, width)):
        return node
    times = expanded[-3]
    fits = same_sizes(repeated, (*batch, heads * times, keys, width))
    return source if fits and same_sizes(expanded, (*batch, heads, times, keys, width)) else node


def has_hidden_rows(mask: torch.Tensor) -> bool:
    """Return True if a constant attention mask has a row without a visible key, for which PyTorch returns zeros.

    Args:
        mask: [..., queries, keys]; booleans, or floating point with -infinity for hidden keys.
    """
    visible = mask if mask.dtype == torch.bool else mask != -torch.inf
    return not bool(visible.any(-1).all())


LARGEST_SCORE = 61440.0
"""A large float16 number that leaves room for scores: up to 4,000 can be added before it overflows (above 65,504)."""


def holds_scores(value: Node) -> bool:
    """Return True for a float32 tensor that a softmax reads, which must not overflow if a backend uses float16."""
    val = value.meta["val"]
    return isinstance(val, torch.Tensor) and val.dtype == torch.float32 and reaches_softmax(value)


def reaches_softmax(value: Node) -> bool:
    """Return True if a softmax reads `value`, either directly or after elementwise operators and moves such as masking.

    The mask of an attention operator counts, because the softmax inside reads it.
    """
    open_nodes, seen = [value], set[Node]()
    while open_nodes:
        node = open_nodes.pop()
        for user in node.users:
            if user.target in SOFTMAX or (user.target in ATTENTION and argument(user, "attn_mask") is node):
                return True
            if user not in seen and _keeps_elements(user.target):
                open_nodes.append(user)
            seen.add(user)
    return False


def _keeps_elements(target: Any) -> bool:
    is_pointwise = isinstance(target, OpOverload) and torch.Tag.pointwise in target.tags
    return is_pointwise or target in DATA_MOVEMENT
