"""Models and their files, for the tests of edgecore-vgf."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

import edgecore
from edgecore.errors import ExecutionError
from edgecore_tosa.simulator import Simulator


class Sub(torch.nn.Module):
    """A difference: the order of its inputs matters, and their shapes differ."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a - b


class Network(torch.nn.Module):
    """Layers of an image classifier."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(8, 8, 3, groups=8),
            torch.nn.Flatten(),
            torch.nn.Linear(72, 10),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class TwoParts(torch.nn.Module):
    """Two delegates with two inputs and outputs, since the backend has no cumulative sum."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = torch.cumsum(a + b, 1)
        return total * b, a - b


SUB_INPUTS = (torch.arange(12.0).reshape(3, 4), torch.tensor([[1.0, -2.0, 0.5, 8.0]]))
NETWORK_INPUTS = (torch.randn(1, 3, 10, 10, generator=torch.Generator().manual_seed(2)),)


def compiled(
    model: torch.nn.Module,
    inputs: tuple[torch.Tensor, ...],
    quantize: str | None = None,
    required: bool = True,
    **options: object,
) -> edgecore.CompiledProgram:
    backend = edgecore.Backend("vgf", required=required, **options)
    if quantize is None:
        return edgecore.compile(model.eval(), inputs, backends=[backend])
    generator = torch.Generator().manual_seed(3)
    samples = [tuple(torch.randn(x.shape, generator=generator) for x in inputs) for _ in range(8)]
    return edgecore.compile(model.eval(), inputs, backends=[backend], quantize=quantize, calibration=samples)


@lru_cache(maxsize=1)
def sub_file() -> bytes:
    return bytes(compiled(Sub(), SUB_INPUTS).buffer)


def blob_of(content: bytes) -> bytes:
    """Return the only blob in a file; it ends with the section that its header names last."""
    start = content.index(b"VGF1")
    ends = [sum(np.frombuffer(content, "<u8", 2, start + at)) for at in range(16, 80, 16)]
    return content[start : start + int(max(ends))]


def run(content: bytes, *inputs: torch.Tensor, **options: str) -> torch.Tensor:
    loaded = edgecore.load(content, options={"vgf": options} if options else None)
    return torch.as_tensor(loaded.forward(*inputs))


def simulate(folder: Path, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """Run the only TOSA graph that a compilation left in a folder, with Arm's reference model."""
    (graph,) = folder.glob("*/graph.tosa")
    return [torch.from_numpy(array) for array in Simulator(graph.read_bytes()).run(*[x.numpy() for x in inputs])]


@lru_cache(maxsize=1)
def why_no_device() -> str:
    """Return why this machine runs no VGF file, or an empty text."""
    try:
        run(sub_file(), *SUB_INPUTS)
    except ExecutionError as error:
        if any(
            part in str(error) for part in ("no Vulkan library", "no Vulkan driver", "no device", "no Vulkan device")
        ):
            return str(error)
        raise
    return ""
