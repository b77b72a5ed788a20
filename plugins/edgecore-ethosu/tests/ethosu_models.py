"""Models whose inputs and results are int8, and their TOSA graphs, for the tests of edgecore-ethosu.

Importing torchao declares the operators that quantize and dequantize.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import torch
from torchao.quantization.pt2e import quantize_pt2e  # noqa: F401

import edgecore

Q = torch.ops.quantized_decomposed


def dequantize(x: torch.Tensor, scale: float, zero_point: int) -> torch.Tensor:
    return Q.dequantize_per_tensor(x, scale, zero_point, -128, 127, torch.int8)


def quantize(x: torch.Tensor, scale: float, zero_point: int) -> torch.Tensor:
    return Q.quantize_per_tensor(x, scale, zero_point, -128, 127, torch.int8)


class Sub(torch.nn.Module):
    """A difference: the order of its inputs matters, and their shapes differ."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return quantize(dequantize(a, 0.0625, 3) - dequantize(b, 0.125, -7), 0.25, 5)


class Conv(torch.nn.Module):
    """A convolution with a bias and a ReLU."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight: torch.Tensor
        self.bias: torch.Tensor
        self.register_buffer("weight", torch.randint(-127, 127, (4, 2, 3, 3), dtype=torch.int8, generator=generator))
        self.register_buffer("bias", torch.randint(-999, 999, (4,), dtype=torch.int32, generator=generator))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bias = Q.dequantize_per_tensor(self.bias, 0.0625 * 0.03125, 0, -(2**31), 2**31 - 1, torch.int32)
        result = torch.conv2d(dequantize(x, 0.0625, 3), dequantize(self.weight, 0.03125, 0), bias)
        return quantize(torch.relu(result), 0.125, -128)


def int8(*shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, dtype=torch.int8)


SUB_INPUTS = (int8(1, 4, 4, 8), int8(1, 1, 1, 8))
CONV_INPUTS = (int8(1, 2, 6, 6),)


def compiled(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], **options: object) -> edgecore.CompiledProgram:
    backend = edgecore.Backend("ethosu", required=True, **options)
    return edgecore.compile(model.eval(), inputs, backends=[backend])


@lru_cache(maxsize=1)
def conv_file() -> bytes:
    """Return the file of `Conv` for the default target."""
    return bytes(compiled(Conv(), CONV_INPUTS).buffer)


def blob_of(content: bytes) -> bytes:
    """Return the only blob in a file."""
    start = content.index(b"vela_bin_stream")
    return content[start : content.index(b"vela_end_stream") + 32]


def conv_tosa(folder: Path, target: str = "ethos-u55-128") -> bytes:
    """Return the TOSA graph of `Conv`."""
    compiled(Conv(), CONV_INPUTS, target=target, dump_intermediate_artifacts_to=str(folder))
    (graph,) = folder.glob("*/graph.tosa")
    return graph.read_bytes()
