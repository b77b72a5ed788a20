"""The int8 kernels of ours: the same integers as executorch's runtime gives, at the edges of their tiles.

Each file runs with the kernels for this processor, and with those for processors with AVX2 alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from lowered import Parallel, compiled
from torch import nn

import edgecore

LINEAR_SHAPES = [
    (1, 3, 1),
    (2, 31, 33),
    (6, 64, 16),
    (7, 65, 17),
    (9, 512, 32),
    (11, 513, 31),
    (13, 1030, 48),
    (25, 7, 65),
    (5, 4609, 33),  # more inputs than a kernel holds of a row
    (4, 9300, 16),
]
"""Rows, inputs and outputs."""


HAS_AVX2 = Path("/proc/cpuinfo").exists() and " avx2 " in Path("/proc/cpuinfo").read_text()
AVX2 = "avx2,uarch=other"
"""Value of EDGECORE_XNNPACK_HARDWARE, which each process reads once."""
RUN = """
import sys, numpy, edgecore
inputs = numpy.load(sys.argv[2])
outputs = edgecore.load(sys.argv[1], threads=int(sys.argv[3])).forward(*(inputs[name] for name in inputs.files))
numpy.savez(sys.argv[4], *outputs)
"""


def outputs_with_avx2(file: bytes, inputs: list[torch.Tensor], threads: int) -> list[torch.Tensor]:
    """Run a file in a process whose kernels are those of processors with AVX2 and without AVX512."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.pte").write_bytes(file)
        np.savez(folder / "inputs.npz", *(x.numpy() for x in inputs))
        command = [sys.executable, "-c", RUN, "model.pte", "inputs.npz", str(threads), "outputs.npz"]
        environment = {**os.environ, "EDGECORE_XNNPACK_HARDWARE": AVX2}
        subprocess.run(command, cwd=folder, env=environment, check=True)
        outputs = np.load(folder / "outputs.npz")
        return [torch.from_numpy(outputs[name]) for name in outputs.files]


def assert_equal_to_executorch(
    layers: list[nn.Module], inputs: list[torch.Tensor], recipe: str, steps: float, threads: int = 2
) -> None:
    """Compare both runtimes on one file: `steps` is the allowed difference, relative to the max value."""
    runtime = pytest.importorskip("executorch.runtime")
    samples = [tuple(inputs)] if recipe == "int8" else None
    program = compiled(Parallel(*layers).eval(), *inputs, quantize=recipe, calibration=samples)
    peer = runtime.Runtime.get().load_program(bytes(program.buffer))
    wanted = peer.load_method("forward").execute(inputs)
    runs = {"this processor": edgecore.load(program.buffer, threads=threads).forward(*inputs)}
    if HAS_AVX2:
        runs[AVX2] = outputs_with_avx2(bytes(program.buffer), inputs, threads)
    for hardware, got in runs.items():
        for layer, result, want in zip(layers, got, wanted, strict=True):
            error = float((result - want).abs().max() / want.abs().max())
            assert error <= steps, f"{layer}, {hardware}: {error:.1e}"


def test_linear_layers_of_all_rows_and_columns_give_the_integers_of_executorch() -> None:
    layers = [nn.Linear(k, n) for _, k, n in LINEAR_SHAPES]
    assert_equal_to_executorch(list(layers), [torch.randn(m, k) for m, k, _ in LINEAR_SHAPES], "int8", 0)


def test_linear_layers_rounded_at_run_time_give_the_integers_of_executorch() -> None:
    layers = [nn.Linear(k, n, bias=n != 17) for _, k, n in LINEAR_SHAPES]
    assert_equal_to_executorch(list(layers), [torch.randn(m, k) for m, k, _ in LINEAR_SHAPES], "int8-dynamic", 1e-6)


def test_convolutions_of_all_borders_strides_and_groups_give_the_integers_of_executorch() -> None:
    layers = [
        nn.Conv2d(3, 33, 3, 2, 1),
        nn.Conv2d(5, 31, 3, 1, 2, dilation=2),
        nn.Conv2d(5, 7, 3, 1, 9, dilation=9),  # of 3 x 3 the middle row is left
        nn.Conv2d(520, 17, 3, 1, 1),
        nn.Conv2d(31, 15, 3, 1, 1),
        nn.Conv2d(3, 16, 7, 2, 3),
        nn.Conv2d(512, 9, 3, 1, 1),  # all taps of a row fill the buffer of the kernel for AVX2
        nn.Conv2d(4620, 5, 2),  # one tap has more inputs than a kernel holds of a row
        nn.Conv2d(16, 40, 3, 1, 1),
        nn.Conv2d(17, 16, 3, 1, 1),
        nn.Conv2d(64, 65, 1),
        nn.Conv2d(12, 18, 3, 1, 1, groups=3),
        nn.ConvTranspose2d(6, 10, 3, 2, 1),
    ]
    sizes = [
        (3, 15),
        (5, 9),
        (5, 9),
        (520, 4),
        (31, 6),
        (3, 15),
        (512, 4),
        (4620, 2),
        (16, 6),
        (17, 5),
        (64, 7),
        (12, 6),
        (6, 5),
    ]
    assert_equal_to_executorch(list(layers), [torch.randn(1, c, s, s + 1) for c, s in sizes], "int8", 0)


class Sum(nn.Module):
    """A sum with the products of a convolution, which its kernel computes where it can: as in a residual network."""

    def __init__(self, channels: int, kind: str) -> None:
        super().__init__()
        self.kind = kind
        size = 3 if kind in ("branches", "relu6") else 1
        self.first = nn.Conv2d(channels, channels, 3, 1, 1)
        self.last = nn.Conv2d(channels, channels, size, 1, size // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = torch.relu(self.first(x))
        last = self.last(first)
        if self.kind == "relu6":
            return nn.functional.relu6(last + first)
        if self.kind == "reversed":
            return torch.relu(first + torch.relu(last))
        if self.kind == "branches":
            return self.first(x) + last
        if self.kind == "broadcast":
            return last + first.mean((2, 3), keepdim=True)
        if self.kind == "used twice":
            return (last + first) * last
        return last + first + first


SUMS = ("relu6", "reversed", "branches", "broadcast", "used twice", "chain")


@pytest.mark.parametrize("threads", [1, 2])
def test_sums_with_convolutions_give_the_integers_of_executorch(threads: int) -> None:
    layers = [Sum(channels, SUMS[i % len(SUMS)]) for i, channels in enumerate(range(1, 41, 3))]
    layers += [Sum(8 * (i + 1), kind) for i, kind in enumerate(SUMS)]
    inputs = [torch.randn(1 + i % 2, m.first.in_channels, 3 + i % 5, 4 + i % 4) for i, m in enumerate(layers)]
    assert_equal_to_executorch(list(layers), inputs, "int8", 0, threads)


def test_depthwise_convolutions_of_all_borders_and_channels_give_the_integers_of_executorch() -> None:
    layers, inputs = [], []
    for taps in (2, 3, 5, 7):
        # Kernels compute up to 64 pixels of a row with the same weights, and with more than 128 channels 16 pixels.
        for channels, width, stride in ((1, 1, 1), (31, 9, 2), (97, 6, 1), (8, 67, 1), (130, 35, 1), (24, 131, 2)):
            layers.append(nn.Conv2d(channels, channels, taps, stride, taps // 2, groups=channels))
            inputs.append(torch.randn(1, channels, 5, width))
    assert_equal_to_executorch(layers, inputs, "int8", 0)
