"""Masked attention for coremltools: rows without a visible key become zeros, as in PyTorch.

Without the functions of this module, Core ML computes 0 / 0 in a row without a visible key, or ignores the row's mask.
The latter happens because coremltools adds -30,000 to hidden scores, and adding the same number to all scores does not
change their softmax.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import LARGEST_SCORE

aten = torch.ops.aten

IN_FLOAT32 = "in_float32_"
"""Prefix of operators that compute in float32 even in a float16 model."""


def finite_mask(mask: torch.Tensor) -> torch.Tensor:
    """Clamp an additive attention mask so that its elements, and their sums with scores, stay finite in float16.

    Args:
        mask: Floating point, any shape.
    """
    return mask.clamp(min=-LARGEST_SCORE)


def finite_scores(scores: torch.Tensor) -> torch.Tensor:
    """Clamp finite attention scores, or elements of an additive mask, so that their sums stay finite in float16.

    Args:
        scores: float32, any shape.
    """
    return torch.where(scores == -torch.inf, scores, scores.clamp(min=-LARGEST_SCORE))


def without_hidden_rows(attention: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Zero the rows of an attention result whose mask hides all keys.

    Args:
        attention: Floating point [..., queries, channels].
        mask: Boolean, or floating point with -infinity for hidden keys; broadcasts to [..., queries, keys].
    """
    visible = mask if mask.dtype == torch.bool else mask != -torch.inf
    return torch.where(visible.any(-1, keepdim=True), attention, 0.0)


def masked(
    add: Callable[..., Node], attention: tuple[Any, ...], options: dict[str, Any], mask: Node, *, in_half: bool
) -> tuple[Any, tuple[Any, ...]]:
    """Return the target and arguments that replace a masked attention; rows without visible keys then become 0.

    Args:
        add: Function (target, arguments, keywords) that adds a node before the call and returns it.
        attention: Positional arguments of the call: query, key, value, and optionally more, for example the mask.
        options: Keyword arguments of the call.
        mask: The mask of the call.
        in_half: The model computes in float16.
    """
    val, keys = mask.meta["val"], attention[1].meta["val"].shape[-2]
    # Core ML's attention does not broadcast a mask of width 1 over the keys.
    if val.shape[-1] == 1 and isinstance(keys, int):
        mask = add(aten.expand.default, (mask, [*val.shape[:-1], keys]))
    options = {**options, "attn_mask": mask}
    if val.dtype == torch.float16 or (in_half and val.dtype == torch.float32):
        options["attn_mask"] = add(finite_mask, (mask,))
    if len(attention) > 3:
        attention = (*attention[:3], options.pop("attn_mask"), *attention[4:])
    return without_hidden_rows, (add(aten.scaled_dot_product_attention.default, attention, **options), mask)
