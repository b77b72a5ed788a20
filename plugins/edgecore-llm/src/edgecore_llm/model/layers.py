"""Modules of a decoder: linear layers, embedding tables and norms, with float32 or packed weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgecore_llm import operators
from edgecore_llm.quantize.packed import BLOCK_OUTPUTS, GROUP, QuantizedMatrix, join, pack, packed_shape
from edgecore_llm.quantize.rounding import quantize

CacheBits = Literal[8, 16, 32]
"""Bits per element of a key-value cache."""
Bits = Literal[4, 8] | None
"""Bits per weight; None for float32."""


@dataclass(frozen=True)
class Precision:
    """Number of bits of a decoder's weights and key-value caches.

    Attributes:
        linear: Bits of all linear layers except the output layer.
        embedding: Bits of the embedding table, and of an output layer that is tied to the table.
        output: Bits of an output layer that is not tied to the embedding table.
        group: Number of inputs per scale, see `edgecore_llm.quantize.rounding.quantize`.
        embedding_group: Number of columns per scale of the embedding table; None: equal to `group`.
        cache: Bits of the caches: 32 (float32), 16 (float16), or 8 (int8 with one scale per row and head).
    """

    linear: Bits = None
    embedding: Bits = None
    output: Bits = None
    group: int = GROUP
    embedding_group: int | None = None
    cache: CacheBits = 32


class Norm(nn.Module):
    """RMS normalization of the last dimension. The weight already contains the family's offset (1 for Gemma)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size), requires_grad=False)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class Matrix(nn.Module):
    """A weight matrix [rows, columns], stored as float32, or packed in 4 or 8 bits."""

    def __init__(self, rows: int, columns: int, bits: Bits, group: int) -> None:
        super().__init__()
        self.rows, self.columns, self.bits, self.group = rows, columns, bits, group
        if bits is None:
            self.register_buffer("value", torch.zeros(rows, columns))
        else:
            self.register_buffer("value", torch.zeros(packed_shape(rows, columns, bits), dtype=torch.uint8))
        self.value: Tensor

    def stored(self, rows: Iterable[Tensor | QuantizedMatrix]) -> Iterator[Tensor]:
        """Yield the content of the buffer `value` in parts.

        Args:
            rows: The weight, in parts of several rows. If a part is already quantized, it must have as many bits as
                this matrix.
        """
        waiting: list[QuantizedMatrix] = []
        for part in rows:
            if self.bits is None:
                dense = part.dequantize() if isinstance(part, QuantizedMatrix) else part
                yield dense.float().contiguous()
                continue
            # `pack` packs whole tiles of BLOCK_OUTPUTS rows, so the remaining rows wait for the next part.
            waiting.append(part if isinstance(part, QuantizedMatrix) else quantize(part, self.bits, self.group))
            joined = join(waiting)
            whole = len(joined) // BLOCK_OUTPUTS * BLOCK_OUTPUTS
            waiting = [joined[whole:]]
            if whole:
                yield pack(joined[:whole])
        if waiting and len(waiting[0]):
            yield pack(waiting[0])


class Table(Matrix):
    """An embedding table."""

    def forward(self, ids: Tensor) -> Tensor:
        """Return the rows [T, columns] of the table for ids [T]."""
        if self.bits is None:
            return F.embedding(ids, self.value)
        rows: Tensor = torch.ops.edgecore_llm.embedding(self.value, ids, self.rows, self.columns)
        return rows


class Adapter(nn.Module):
    """A LoRA adapter: its result, B A x for two small matrices, is added to the result of a linear layer."""

    def __init__(self, outputs: int, inputs: int, rank: int) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.zeros(rank, inputs), requires_grad=False)
        self.b = nn.Parameter(torch.zeros(outputs, rank), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.linear(x, self.a), self.b)


class Projection(Matrix):
    """A linear layer that calls `edgecore_llm::linear`. `rank` is the rank of its LoRA adapter; 0 for no adapter."""

    def __init__(self, outputs: int, inputs: int, has_bias: bool, bits: Bits, group: int, rank: int = 0) -> None:
        super().__init__(outputs, inputs, bits, group)
        self.bias = nn.Parameter(torch.zeros(outputs), requires_grad=False) if has_bias else None
        self.adapter = Adapter(outputs, inputs, rank) if rank else None

    def forward(
        self, x: Tensor, *, norm: Norm | None = None, residual: Tensor | None = None, activation: str = "none"
    ) -> Tensor:
        if self.bits is None or self.adapter is not None:
            x = x if norm is None else norm(x)
            if self.bits is None:
                product = F.linear(x, self.value)
            else:
                product = torch.ops.edgecore_llm.linear(x, self.value, self.rows)
            if self.adapter is not None:
                product = product + self.adapter(x)
            return operators.finish_product(product, self.bias, residual, activation)
        weight, eps = (None, 0.0) if norm is None else (norm.weight, norm.eps)
        out: Tensor = torch.ops.edgecore_llm.linear(
            x, self.value, self.rows, self.bias, weight, eps, residual, activation
        )
        return out
