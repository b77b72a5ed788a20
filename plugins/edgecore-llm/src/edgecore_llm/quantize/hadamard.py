"""Rotate values as SpinQuant does (Liu et al., 2024): by the orthonormal Walsh-Hadamard transform (self-inverse)."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor


def factors(size: int) -> tuple[Tensor, Tensor]:
    """Return two Hadamard matrices whose Kronecker product is the Hadamard matrix [size, size].

    Raises:
        ValueError: The size is not a power of two.
    """
    if size < 1 or size & (size - 1):
        raise ValueError(f"a Hadamard transform needs a power of two, not {size}")
    bits = size.bit_length() - 1
    return _matrix(bits // 2), _matrix(bits - bits // 2)


def transform(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Multiply rows x [..., a * b] by the Kronecker product of the symmetric matrices [a, a] and [b, b]."""
    pairs = x.unflatten(-1, (len(first), len(second)))  # type: ignore[no-untyped-call]
    out: Tensor = (first @ (pairs @ second)).flatten(-2)
    return out


@cache
def _matrix(bits: int) -> Tensor:
    matrix = torch.ones(1, 1)
    for _ in range(bits):
        matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), matrix)
    return matrix * float(2 ** (-bits / 2))
