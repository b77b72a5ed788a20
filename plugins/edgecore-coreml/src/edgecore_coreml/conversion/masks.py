"""Attention with a mask, as coremltools gets it: rows without a visible key have the zeros that PyTorch gives them.

Core ML computes 0 / 0 there, or attention as if there were no mask, as coremltools adds -30,000 where booleans hide keys.
These functions are converted by `converters.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import LARGEST_SCORE

aten = torch.ops.aten

IN_FLOAT32 = "in_float32_"
"""Start of the names of operators that compute in float32 also in a model that computes in float16."""


def finite_mask(mask: torch.Tensor) -> torch.Tensor:
    """Return a mask whose numbers, and their sums with scores, stay finite in float16.

    Args:
        mask: Floating point, any shape.
    """
    return mask.clamp(min=-LARGEST_SCORE)


def finite_scores(scores: torch.Tensor) -> torch.Tensor:
    """Return scores, or a mask to add to them, whose finite numbers, and their sums, stay finite in float16.

    Args:
        scores: float32, any shape.
    """
    return torch.where(scores == -torch.inf, scores, scores.clamp(min=-LARGEST_SCORE))


def without_hidden_rows(attention: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the result of attention with zeros in the rows without a visible key.

    Args:
        attention: Floating point [..., queries, channels].
        mask: Booleans, or floating point with -infinity for hidden keys; its shape broadcasts to [..., queries, keys].
    """
    visible = mask if mask.dtype == torch.bool else mask != -torch.inf
    return torch.where(visible.any(-1, keepdim=True), attention, 0.0)


def masked(
    add: Callable[..., Node], attention: tuple[Any, ...], options: dict[str, Any], mask: Node, *, in_half: bool
) -> tuple[Any, tuple[Any, ...]]:
    """Return the target and arguments in place of attention with a mask.

    Args:
        add: A function (target, arguments, keywords) -> node that it adds before the call.
        attention: The arguments of the call: query, key, value, and maybe others.
        options: Its keywords.
        mask: Its mask.
        in_half: The model computes in float16.
    """
    val, keys = mask.meta["val"], attention[1].meta["val"].shape[-2]
    if val.shape[-1] == 1 and isinstance(keys, int):  # Core ML's own attention does not broadcast it
        mask = add(aten.expand.default, (mask, [*val.shape[:-1], keys]))
    options = {**options, "attn_mask": mask}
    if val.dtype == torch.float16 or (in_half and val.dtype == torch.float32):
        options["attn_mask"] = add(finite_mask, (mask,))
    if len(attention) > 3:
        attention = (*attention[:3], options.pop("attn_mask"), *attention[4:])
    return without_hidden_rows, (add(aten.scaled_dot_product_attention.default, attention, **options), mask)
