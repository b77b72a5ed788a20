"""Linear layers and embedding tables, written with PyTorch operators that ExecuTorch and its backends support."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgecore.sdk.torch_compat import quantized_operators
from edgecore_llm.model.layers import Adapter, Bits
from edgecore_llm.quantize.packed import GROUP, QuantizedMatrix

library = quantized_operators()
DIVISORS = (7.0, 7.25, 7.5, 7.75, 8.0, 8.5, 9.0)
"""A group's largest magnitude divided by each number is a candidate for the scale of 4-bit weights."""


class PortableMatrix(nn.Module):
    """A weight matrix [rows, columns]: float32, int4 with a scale per group of columns, or int8 with a scale per row.

    Scales are positive and rounded to bfloat16, because XNNPACK stores the scales of groups as bfloat16.
    """

    def __init__(self, rows: int, columns: int, bits: Bits, group: int) -> None:
        super().__init__()
        self.rows, self.columns, self.bits = rows, columns, bits
        # XNNPACK needs whole groups: if `group` does not divide a row, use 8 bits with one scale per row instead of 4.
        has_groups = bits == 4 and group > 0 and columns % group == 0
        self.group = group if has_groups else columns
        self.has_more_bits = bits == 4 and group > 0 and not has_groups
        if self.has_more_bits:
            self.bits = 8
        self.low, self.high = (-8, 7) if self.bits == 4 else (-128, 127)
        self.register_buffer("value", torch.zeros(rows, columns, dtype=torch.float32 if bits is None else torch.int8))
        self.value: Tensor
        if self.bits is not None:
            shape = (rows, columns // self.group) if self.group < columns else (rows,)
            self.register_buffer("scales", torch.ones(shape))
            self.register_buffer("zeros", torch.zeros(shape, dtype=torch.int64))
            self.scales: Tensor
            self.zeros: Tensor

    def put(self, start: int, part: Tensor | QuantizedMatrix) -> None:
        """Write rows of the weight, from row `start` on. Round float rows; keep quantized rows if their groups fit."""
        stop = start + len(part)
        if isinstance(part, QuantizedMatrix):
            scales = self._kept_scales(part)
            if scales is not None:
                self.value[start:stop] = part.values
                self.scales[start:stop] = _positive(scales).reshape(self.scales[start:stop].shape)
                return
            part = part.dequantize()
        if self.bits is None:
            self.value[start:stop] = part
            return
        groups = part.float().reshape(len(part), -1, self.group)
        scales = _scales(groups, self.bits)
        integers = (groups / scales[..., None]).round().clamp(self.low, self.high)
        self.value[start:stop] = integers.flatten(1).to(torch.int8)
        self.scales[start:stop] = scales.reshape(self.scales[start:stop].shape)

    def _kept_scales(self, part: QuantizedMatrix) -> Tensor | None:
        """Return a scale of `part` per group of this matrix; None if `part` has smaller groups or negative scales."""
        size = -(-self.group // GROUP)
        if self.group % GROUP and self.group != self.columns:
            return None
        scales = part.scales.float().unflatten(1, (-1, size))  # type: ignore[no-untyped-call]
        first: Tensor = scales[..., 0]
        return first if (scales == first[..., None]).all() and (first >= 0).all() else None

    def weight(self) -> Tensor:
        """Return the dequantized weight, float32."""
        if self.bits is None:
            return self.value
        limits = (self.low, self.high, torch.int8)
        if self.group < self.columns:
            groups: Tensor = library.dequantize_per_channel_group(
                self.value, self.scales, self.zeros, *limits, self.group, torch.float32
            )
            return groups
        rows: Tensor = library.dequantize_per_channel(
            self.value, self.scales, self.zeros, 0, *limits, out_dtype=torch.float32
        )
        return rows


class PortableTable(PortableMatrix):
    """An embedding table."""

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.weight())


class PortableLinear(PortableMatrix):
    """A linear layer; if its weights are quantized, it also quantizes each input row to 8 bits at run time.

    `rank` is the rank of its LoRA adapter; 0 for no adapter.
    """

    def __init__(self, outputs: int, inputs: int, has_bias: bool, bits: Bits, group: int, rank: int = 0) -> None:
        super().__init__(outputs, inputs, bits, group)
        self.bias = nn.Parameter(torch.zeros(outputs), requires_grad=False) if has_bias else None
        self.adapter = Adapter(outputs, inputs, rank) if rank else None

    def forward(self, x: Tensor) -> Tensor:
        product = self._product(x)
        return product if self.adapter is None else product + self.adapter(x)

    def _product(self, x: Tensor) -> Tensor:
        if self.bits is not None:
            scale, zero_point = library.choose_qparams_per_token_asymmetric(x, torch.int8)
            limits = (-128, 127, torch.int8)
            x = library.quantize_per_token(x, scale, zero_point, *limits)
            x = library.dequantize_per_token(x, scale, zero_point, *limits, torch.float32)
        return F.linear(x, self.weight(), self.bias)


def _scales(groups: Tensor, bits: int) -> Tensor:
    """Return scales for weights [rows, groups, size]; for 4 bits, the candidates with the least squared error."""
    largest = groups.abs().amax(-1)
    if bits == 8:
        return _positive(largest / 127)
    best, minimum = torch.empty_like(largest), torch.full_like(largest, float("inf"))
    for divisor in DIVISORS:
        scales = _positive(largest / divisor)
        integers = (groups / scales[..., None]).round().clamp(-8, 7)
        error = (integers * scales[..., None] - groups).square().sum(-1)
        best, minimum = scales.where(error < minimum, best), error.where(error < minimum, minimum)
    return best


def _positive(scales: Tensor) -> Tensor:
    return scales.clamp_min(2.0**-24).to(torch.bfloat16).float()
