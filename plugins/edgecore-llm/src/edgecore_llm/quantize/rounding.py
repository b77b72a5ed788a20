"""Round weights to integers with a scale per group; a group has 32 inputs, or a multiple of 32."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from edgecore_llm.quantize.packed import GROUP, QuantizedMatrix

EXTREMES = (-9.0, -8.5, -8.0, -7.5, -7.0, -6.5)
"""A candidate scale for 4 bits is a group's value of largest magnitude, divided by one of these numbers. -8 reproduces
weights of GGUF's Q4_0 exactly."""
SMALLEST_SCALE = 2.0**-24
"""The smallest positive float16."""


def quantize(weight: Tensor, bits: int, group: int = GROUP) -> QuantizedMatrix:
    """Round a matrix symmetrically to 4 or 8 bits.

    8 bits: the largest magnitude of a group becomes 127. 4 bits: the integers lie in [-8, 7]. For each candidate scale,
        the weights are rounded, and a least-squares fit to the integers gives the final scale. The scale with the
        smallest squared error is chosen.
    Scales may be negative, so that the value of largest magnitude can become -8.

    Args:
        weight: [outputs, inputs].
        bits: 4 or 8.
        group: Number of inputs per scale: a multiple of 32; 0 for a whole row. The packed layout always stores a scale
            per 32 inputs, so larger groups save no bytes and lose precision; they only reproduce other tools' results.

    Raises:
        ValueError: `bits` or `group` has another value.
    """
    if bits not in (4, 8):
        raise ValueError(f"bits must be 4 or 8, not {bits}")
    if group < 0 or group % GROUP:
        raise ValueError(f"group must be 0 or a multiple of {GROUP}, not {group}")
    outputs, inputs = weight.shape
    padded_inputs = -(-inputs // GROUP) * GROUP
    size = group or padded_inputs
    groups = F.pad(weight.float(), (0, -inputs % size)).reshape(outputs, -1, size)
    scales = _scales_of_8_bits(groups) if bits == 8 else _scales_of_4_bits(groups)
    values = _round(groups, scales, bits).to(torch.int8).flatten(1)[:, :inputs]
    repeated = scales.repeat_interleave(size // GROUP, 1)[:, : padded_inputs // GROUP]
    return QuantizedMatrix(values, repeated, bits)


def _round(groups: Tensor, scales: Tensor, bits: int) -> Tensor:
    """Divide groups by their scales, and round to integers (as floats); a scale of 0 gives zeros."""
    divisors = scales.float().where(scales != 0, torch.ones(()))[..., None]
    low, high = (-8, 7) if bits == 4 else (-127, 127)
    return (groups / divisors).round().clamp(low, high).where(scales[..., None] != 0, torch.zeros(()))


def _scales_of_8_bits(groups: Tensor) -> Tensor:
    return to_half(groups.abs().amax(-1) / 127.0)


def _scales_of_4_bits(groups: Tensor) -> Tensor:
    """Return a 4-bit scale for each group w of weights, the best of several candidates: one per number in `EXTREMES`.

    A candidate rounds the weights to integers q. Their best scale is <w, q> / <q, q>, and their squared error is <w, w>
    minus <w, q>^2 / <q, q>.
    """
    largest = groups.gather(-1, groups.abs().argmax(-1, keepdim=True))
    inverse = torch.where(largest == 0, torch.zeros(()), 1 / largest)
    best = torch.zeros_like(largest[..., 0])
    most = torch.full_like(best, -1.0)
    for extreme in EXTREMES:
        integers = (groups * (inverse * extreme)).round_().clamp_(-8, 7)
        product = torch.linalg.vecdot(groups, integers)
        square = torch.linalg.vecdot(integers, integers).clamp_min_(1)
        reduction = product * product / square
        is_better = reduction > most
        best, most = (product / square).where(is_better, best), reduction.where(is_better, most)
    return to_half(best)


def to_half(scales: Tensor) -> Tensor:
    """Convert scales to float16; raise tiny magnitudes to the smallest float16, since 0 would zero the weights."""
    tiny = (scales != 0) & (scales.abs() < SMALLEST_SCALE)
    return scales.where(~tiny, scales.sign() * SMALLEST_SCALE).clamp(-65504.0, 65504.0).to(torch.float16)
