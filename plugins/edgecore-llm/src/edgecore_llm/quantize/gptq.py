"""Round a weight matrix by samples of its inputs, with the method GPTQ (Frantar et al., 2022)."""

from __future__ import annotations

import torch
from torch import Tensor

from edgecore_llm.quantize.packed import GROUP, QuantizedMatrix
from edgecore_llm.quantize.rounding import quantize

DAMPING = 0.01
"""Fraction of the diagonal's mean that is added to the diagonal of `products`, so that few samples do not dominate."""


def quantize_by_inputs(weight: Tensor, products: Tensor, bits: int, group: int = GROUP) -> QuantizedMatrix:
    """Round a matrix so that its products with typical inputs change little.

    Columns are rounded one by one. After each, the remaining columns are changed to compensate for its error.
    The scales of a group are computed, as in `quantize`, from its columns as changed so far.

    Args:
        weight: [outputs, inputs].
        products: The sum of x x^T over sample inputs x: [inputs, inputs].
        bits: 4 or 8.
        group: See `quantize`.
    """
    outputs, inputs = weight.shape
    rest = weight.float().clone()
    damped = products.float().clone()
    diagonal = damped.diagonal()
    diagonal += DAMPING * diagonal.mean() + torch.finfo(torch.float32).tiny
    # Row i of `factor` tells how columns i + 1, i + 2, ... change to compensate the rounding error of column i.
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    factor = torch.linalg.cholesky(inverse, upper=True)
    values = torch.zeros(outputs, inputs, dtype=torch.int8)
    scales = torch.zeros(outputs, -(-inputs // GROUP), dtype=torch.float16)
    low, high = (-8, 7) if bits == 4 else (-127, 127)
    size = group or inputs
    for start in range(0, inputs, GROUP):
        if start % size == 0:
            current = quantize(rest[:, start : start + size], bits, group).scales
            scales[:, start // GROUP : start // GROUP + current.shape[1]] = current
        stop = min(start + GROUP, inputs)
        scale = scales[:, start // GROUP].float()
        divisor = scale.where(scale != 0, torch.ones(()))
        errors = torch.zeros(outputs, stop - start)
        for column in range(start, stop):
            integers = (rest[:, column] / divisor).round().clamp(low, high).where(scale != 0, torch.zeros(()))
            values[:, column] = integers.to(torch.int8)
            error = (rest[:, column] - integers * scale) / factor[column, column]
            rest[:, column + 1 : stop] -= torch.outer(error, factor[column, column + 1 : stop])
            errors[:, column - start] = error
        rest[:, stop:] -= errors @ factor[start:stop, stop:]
    return QuantizedMatrix(values, scales, bits)


def loss(weight: Tensor, rounded: Tensor, products: Tensor) -> float:
    """Return the squared error of products with rounded weights, relative to the squares of exact products."""
    change = rounded - weight
    return float(((change @ products) * change).sum() / ((weight @ products) * weight).sum().clamp_min(1e-30))
