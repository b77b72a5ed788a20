"""Rewrites for the target runtime `edgecore`, which has kernels for operators that other runtimes decompose."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.fx import Node

from edgecore.ir.graph import Editor, dense, same_sizes
from edgecore.ir.op_args import argument
from edgecore.ir.operators import attention
from edgecore.ir.torch_compat import OpOverload, statically_known_true
from edgecore.passes.decompose.rewrites.direct import REWRITES, Rewrite

aten = torch.ops.aten


def _attention(editor: Editor, node: Node) -> Node | None:
    """Rewrite attention into a call of edgecore's kernel, or as for other runtimes if the kernel lacks the case.

    The kernel reads keys and values without copying them, even from a KV cache whose heads the model repeats.
    """
    query, mask = argument(node, "query"), argument(node, "attn_mask")
    key, value = (attention.without_repeated_heads(argument(node, name)) for name in ("key", "value"))
    scale = attention.scale_of(node)
    mask_fits = mask is None or mask.meta["val"].dtype in (torch.bool, query.meta["val"].dtype)
    is_supported = not argument(node, "dropout_p") and isinstance(scale, (int, float)) and _fit(query, key, value)
    if not (is_supported and mask_fits):
        return REWRITES[aten.scaled_dot_product_attention.default](editor, node)
    with editor.mode:
        val = dense(node.meta["val"])
    target = torch.ops.edgecore.scaled_dot_product_attention.default
    return editor.call(target, query, key, value, mask, argument(node, "is_causal"), scale, val=val)


def _fit(*tensors: Node) -> bool:
    """Return True if query, key and value have equal float dtypes and batch sizes, and query heads % key heads is 0."""
    query, key, value = (node.meta["val"] for node in tensors)
    if not query.dim() == key.dim() == value.dim() or not query.dtype == key.dtype == value.dtype:
        return False
    if not query.dtype.is_floating_point:
        return False
    *batch, heads = query.shape[:-2] or (1,)
    *key_batch, key_heads = key.shape[:-2] or (1,)
    same = same_sizes(batch, key_batch) and same_sizes(key.shape[:-2], value.shape[:-2])
    return same and not statically_known_true(key_heads == 0) and statically_known_true(heads % key_heads == 0)


def _keep(editor: Editor, node: Node) -> Node:
    return node


def _keep_checked(editor: Editor, node: Node) -> Node:
    """Keep a node to which the rewrite for other runtimes has no objection."""
    assert isinstance(node.target, OpOverload)
    REWRITES[node.target](editor, node)
    return node


KERNEL_REWRITES: Mapping[OpOverload, Rewrite] = REWRITES | {
    aten.scaled_dot_product_attention.default: _attention,
    aten.scatter_reduce.two: _keep,
    aten.nonzero_static.default: _keep,
    aten.grid_sampler_3d.default: _keep,
    aten.unique_consecutive.default: _keep_checked,
    aten.linear.default: _keep,
}
"""All rewrites for the target runtime `edgecore`."""


def before_backends(rewrites: Mapping[OpOverload, Rewrite]) -> Mapping[OpOverload, Rewrite]:
    """Return `rewrites` without those that insert edgecore's operators, for use before partitioning.

    Backends may support the ATen operators of a decomposition, but they do not support edgecore's operators.
    """
    keeping = (_keep, _keep_checked)
    return REWRITES | {target: rewrite for target, rewrite in rewrites.items() if rewrite in keeping}
