"""The fp16 kernels of ours for processors that only convert fp16: sums in fp32, rounded to fp16 once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from lowered import Parallel, compiled
from torch import nn

HARDWARE = ["avx2,uarch=other", "avx512vnnigfni,avx512vbmi,uarch=zen4"]
RUN = """
import sys, torch, edgecore
program = edgecore.load(sys.argv[1], threads=int(sys.argv[3]), options={"xnnpack": {"winograd": "off"}})
torch.save(program.forward(*torch.load(sys.argv[2])), sys.argv[2])
"""
NOT_SUPPORTED = "lacks"


def halves(*sizes: int) -> torch.Tensor:
    """Draw numbers that fp16 holds."""
    return torch.randn(sizes).half().float()


def on_hardware(hardware: str, path: Path, inputs: list[torch.Tensor], threads: int) -> list[torch.Tensor]:
    values = path.with_suffix(".pt")
    torch.save(inputs, values)
    environment = {**os.environ, "EDGECORE_XNNPACK_HARDWARE": hardware}
    command = [sys.executable, "-c", RUN, str(path), str(values), str(threads)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if NOT_SUPPORTED in done.stderr:
        pytest.skip(f"this processor lacks some of {hardware}")
    assert done.returncode == 0, done.stderr
    outputs: list[torch.Tensor] = torch.load(values)
    return outputs


def assert_rounded_once(
    hardware: str, layers: list[nn.Module], inputs: list[torch.Tensor], folder: Path, threads: int = 2
) -> None:
    """Compare with eager PyTorch in double precision, whose weights are those of the file."""
    model = Parallel(*layers).half().float().eval()
    path = folder / "half.pte"
    compiled(model, *inputs, quantize="fp16").save(path)
    outputs = on_hardware(hardware, path, inputs, threads)
    model.double()
    for layer, x, got in zip(model.layers, inputs, outputs, strict=True):
        want = layer(x.double()).detach()
        for parameter in layer.parameters():
            parameter.data.abs_()
        magnitude = layer(x.double().abs()).detach()  # the sum of the products' absolute values
        # fp16 rounds to 2^-11, or below its normal numbers to 2^-25. A sum of n products in fp32 is off by at most n
        # roundings of its largest partial sum; for random signs, errors of 16 roundings do not occur.
        error = (got.double() - want).abs()
        allowed = 2**-11 * want.abs() + 2**-25 + 16 * 2**-24 * magnitude
        assert bool((error <= allowed).all()), f"{layer}: {float((error / allowed).max()):.2f} of the allowed error"


@pytest.mark.parametrize("hardware", HARDWARE)
def test_linear_layers_of_all_rows_and_columns_are_rounded_once(hardware: str, tmp_path: Path) -> None:
    shapes = [
        (1, 3, 1), (1, 64, 8), (1, 65, 130), (2, 31, 33), (3, 16, 7), (4, 64, 24), (5, 129, 9), (6, 64, 16),
        (7, 65, 17), (11, 513, 31), (13, 1030, 48), (25, 7, 65),
        (9, 2624, 33), (7, 2625, 33), (4, 5300, 24), (1, 10496, 20), (1, 10497, 70),  # what a buffer holds, and more
    ]  # fmt: skip
    layers = [nn.Linear(k, n, bias=n != 17) for _, k, n in shapes]
    assert_rounded_once(hardware, list(layers), [halves(m, k) for m, k, _ in shapes], tmp_path)


@pytest.mark.parametrize("hardware", HARDWARE)
def test_convolutions_of_all_borders_strides_and_groups_are_rounded_once(hardware: str, tmp_path: Path) -> None:
    layers = [
        nn.Conv2d(3, 33, 3, 2, 1),
        nn.Conv2d(5, 31, 3, 1, 2, dilation=2),
        nn.Conv2d(291, 17, 3, 1, 1),  # just fits the buffer of a row, 292 inputs do not
        nn.Conv2d(292, 17, 3, 1, 1),
        nn.Conv2d(2700, 5, 2),
        nn.Conv2d(16, 40, 3, 1, 1),
        nn.Conv2d(17, 8, 3, 1, 1),
        nn.Conv2d(64, 65, 1),
        nn.Conv2d(12, 18, 3, 1, 1, groups=3),
        nn.Conv2d(20, 70, 3),  # one pixel
    ]
    sizes = [(3, 15), (5, 9), (291, 4), (292, 4), (2700, 2), (16, 6), (17, 5), (64, 7), (12, 6), (20, 3)]
    inputs = [halves(1, c, s, s + (c != 20)) for c, s in sizes]
    assert_rounded_once(hardware, list(layers), inputs, tmp_path)


@pytest.mark.parametrize("threads", [1, 2])
def test_depthwise_convolutions_of_all_windows_and_widths_are_rounded_once(threads: int, tmp_path: Path) -> None:
    layers, inputs = [], []
    for height, width, stride, dilation in (
        (1, 3, 1, 1), (2, 2, 1, 1), (2, 2, 2, 1), (3, 2, 1, 1), (3, 3, 1, 1), (3, 3, 2, 1), (3, 3, 3, 1), (3, 3, 1, 2),
        (5, 5, 1, 1), (5, 5, 2, 1), (4, 4, 1, 1), (7, 7, 1, 1), (7, 7, 2, 1),
    ):  # fmt: skip
        for channels, columns in ((1, 4), (8, 9), (31, 11), (97, 15)):
            padding = (height // 2 * dilation, width // 2 * dilation)
            layers.append(
                nn.Conv2d(channels, channels, (height, width), stride, padding, dilation=dilation, groups=channels)
            )
            inputs.append(halves(1, channels, 5, columns))
    assert_rounded_once(HARDWARE[0], list(layers), inputs, tmp_path, threads)
