"""Rounding of weights to integers with one scale for each group of 32."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from edgecore_llm.quantize.packed import GROUP, QuantizedMatrix

CANDIDATES = 15
"""Scales that are tried for a group of 4 bits."""
SMALLEST_SCALE = 2.0**-24
"""The smallest float16 above zero."""


def quantize(weight: Tensor, bits: int, group: int = GROUP) -> QuantizedMatrix:
    """Round a matrix symmetrically to 4 or 8 bits.

    With 8 bits the largest magnitude of a group becomes 127. With 4 bits the integers are [-8, 7]; of several scales, with
    either sign, the one with the least squared error is taken, so that the value of largest magnitude may become -8.

    Args:
        weight: [outputs, inputs].
        bits: 4 or 8.
        group: The number of inputs that share a scale: 32, 64, 128, 256; 0 for a whole row. The layout stores a scale for
            each 32 anyway, so larger groups take as many bytes and are less precise; they are for results equal to those
            of other tools.

    Raises:
        ValueError: Other bits or another group.
    """
    if bits not in (4, 8):
        raise ValueError(f"bits must be 4 or 8, not {bits}")
    if group < 0 or group % GROUP:
        raise ValueError(f"group must be 0 or a multiple of {GROUP}, not {group}")
    outputs, inputs = weight.shape
    padded_inputs = -(-inputs // GROUP) * GROUP
    size = group or padded_inputs
    groups = F.pad(weight.float(), (0, -inputs % size)).unflatten(1, (-1, size))
    scales = _scales_of_8_bits(groups) if bits == 8 else _scales_of_4_bits(groups)
    values = _round(groups, scales, bits).to(torch.int8).flatten(1)[:, :inputs]
    repeated = scales.repeat_interleave(size // GROUP, 1)[:, : padded_inputs // GROUP]
    return QuantizedMatrix(values, repeated, bits)


def _round(groups: Tensor, scales: Tensor, bits: int) -> Tensor:
    """Return integers as floats; a scale of 0 gives zeros."""
    divisors = scales.float().where(scales != 0, torch.ones(()))[..., None]
    low, high = (-8, 7) if bits == 4 else (-127, 127)
    return (groups / divisors).round().clamp(low, high).where(scales[..., None] != 0, torch.zeros(()))


def _scales_of_8_bits(groups: Tensor) -> Tensor:
    return _to_half(groups.abs().amax(-1) / 127.0)


def _scales_of_4_bits(groups: Tensor) -> Tensor:
    positions = groups.abs().argmax(-1, keepdim=True)
    largest = groups.gather(-1, positions)[..., 0]
    best = torch.zeros_like(largest, dtype=torch.float16)
    least = torch.full_like(largest, torch.inf)
    for candidate in range(CANDIDATES):
        # From one at which the value of largest magnitude becomes -9, clamped, to one at which it becomes -5.6.
        scales = _to_half(largest / (-9.0 + candidate * 3.4 / (CANDIDATES - 1)))
        errors = (_round(groups, scales, 4) * scales.float()[..., None] - groups).square().sum(-1)
        better = errors < least
        best, least = scales.where(better, best), errors.where(better, least)
    return best


def _to_half(scales: Tensor) -> Tensor:
    """Return float16 scales. A scale below the smallest float16 becomes that, so that no group vanishes silently."""
    tiny = (scales != 0) & (scales.abs() < SMALLEST_SCALE)
    return scales.where(~tiny, scales.sign() * SMALLEST_SCALE).clamp(-65504.0, 65504.0).to(torch.float16)
