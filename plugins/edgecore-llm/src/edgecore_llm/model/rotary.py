"""Compute the tables of cosines and sines for rotary embeddings (RoPE)."""

from __future__ import annotations

import torch

from edgecore_llm.model.config import Rope


def rope_table(rope: Rope, context: int) -> torch.Tensor:
    """Return a rotary embedding's table, float32 [context, dims]: per position all cosines, then all sines.

    Angles are computed in float32, like in the training of the models.
    """
    exponents = torch.arange(0, rope.dims, 2, dtype=torch.float32) / rope.dims
    divisors = torch.tensor(rope.divisors_for(context), dtype=torch.float32)
    frequencies = 1.0 / (divisors * rope.theta**exponents)
    angles = torch.arange(context, dtype=torch.float32)[:, None] * frequencies
    return torch.cat([angles.cos(), angles.sin()], 1) * rope.amplitude
