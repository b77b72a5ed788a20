"""Option winograd: which 3x3 convolutions the delegate computes by Winograd's algorithm, and how exact they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import edgecore


class Padded(nn.Module):
    """A convolution whose image has other padding on each side, with a limited output."""

    def __init__(self, inputs: int, outputs: int, padding: tuple[int, ...]) -> None:
        super().__init__()
        self.padding = padding
        self.convolution = nn.Conv2d(inputs, outputs, 3)

    def forward(self, x: torch.Tensor) -> Any:
        return self.convolution(nn.functional.pad(x, self.padding)).clamp(-0.5, 1)


def load(program: Any, winograd: str, threads: int = 1, **options: Any) -> Any:
    return edgecore.load(bytes(program.buffer), threads=threads, options={"xnnpack": {"winograd": winograd, **options}})


def error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return float((actual.double() - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("size", [(3, 40), (5, 5), (9, 9), (11, 16), (40, 37)])
@pytest.mark.parametrize("channels", [(16, 16), (17, 40), (48, 80)])
@pytest.mark.parametrize("padding", [(1, 1, 1, 1), (0, 0, 0, 0), (0, 2, 1, 0)])
def test_results_are_those_of_double_precision(
    size: tuple[int, int], channels: tuple[int, int], padding: tuple[int, ...]
) -> None:
    net = Padded(*channels, padding).eval()
    x = torch.randn(2, channels[0], *size)
    program = edgecore.compile(net, (x,), backends=["xnnpack"])
    expected = net.double()(x.double()).detach()
    for winograd in ("off", "accurate", "on"):
        one, two = (load(program, winograd, threads).forward(x) for threads in (1, 2))
        assert torch.equal(one, two)
        # Sums of at most 9 * 48 products. The worst seen beside XNNPACK's own sum is 2.7 times its error, of 1e-6.
        assert error(one, expected) < 5e-6


@pytest.mark.parametrize(("size", "channels"), [(56, 64), (28, 128), (14, 256), (7, 288)])
def test_results_do_not_depend_on_how_threads_share_a_layer(size: int, channels: int) -> None:
    """Layers of residual networks: of large images, whose tiles are shared, and of large filters, whose outputs are."""
    net = nn.Conv2d(channels, channels, 3, padding=1).eval()
    x = torch.randn(1, channels, size, size)
    program = edgecore.compile(net, (x,), backends=["xnnpack"])
    expected = net.double()(x.double()).detach()
    for winograd in ("accurate", "on"):
        one, *more = (load(program, winograd, threads).forward(x) for threads in (1, 2, 3))
        assert all(torch.equal(one, other) for other in more)
        assert error(one, expected) < 5e-6


@pytest.mark.parametrize("winograd", ["accurate", "on"])
@pytest.mark.parametrize("threads", [1, 2])
def test_images_of_changing_sizes(winograd: str, threads: int) -> None:
    layers = [nn.Conv2d(16, 160, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(160, 48, 3)]
    net = nn.Sequential(*layers).eval()
    rows, columns = (torch.export.Dim(name, min=8, max=64) for name in ("rows", "columns"))
    example = torch.randn(1, 16, 64, 64)
    program = edgecore.compile(net, (example,), dynamic_shapes=({2: rows, 3: columns},), backends=["xnnpack"])
    model = load(program, winograd, threads)
    exact = nn.Sequential(*layers).double()
    # From few tiles, which each worker gets as one block, to many, and back.
    for size in ((8, 8), (64, 64), (9, 35), (33, 8), (64, 63), (8, 8)):
        x = torch.randn(1, 16, *size)
        expected = exact(x.double()).detach()
        actual = model.forward(x)
        assert actual.shape == expected.shape
        assert error(actual, expected) < 5e-6


# Loads the file and prints the results' bytes.
RUN = """
import sys
import numpy as np
import edgecore
options = {"winograd": sys.argv[2], "winograd_memory": int(sys.argv[3]), "weight_cache_folder": sys.argv[4]}
model = edgecore.load(sys.argv[1], options={"xnnpack": options})
x = np.random.default_rng(0).normal(size=(1, 64, 32, 32)).astype(np.float32)
print(model.forward(x).tobytes().hex())
"""


def logged(path: Path, winograd: str, memory: int, folder: Path) -> tuple[str, str]:
    """The result of a new process, and its log."""
    command = [sys.executable, "-c", RUN, str(path), winograd, str(memory), str(folder)]
    environment = {**os.environ, "EDGECORE_LOG": "info"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def test_the_log_says_what_was_chosen_and_weights_are_kept_in_the_folder(tmp_path: Path) -> None:
    layers = [nn.Conv2d(64, 64, 3, padding=1), nn.MaxPool2d(3), nn.Conv2d(64, 256, 3, padding=1)]
    path, folder = tmp_path / "net.pte", tmp_path / "packed"
    edgecore.compile(nn.Sequential(*layers).eval(), (torch.randn(1, 64, 32, 32),), backends=["xnnpack"]).save(path)
    assert "Winograd" not in logged(path, "off", 128, folder)[1]
    seen = len(list(folder.glob("*.packed")))
    for winograd, memory, forms in (
        ("accurate", 128, "0 use F(4x4), 2 F(2x2); their packed weights grow by 561 KiB"),
        ("on", 128, "1 use F(4x4), 1 F(2x2)"),
        ("on", 1, "1 use F(4x4), 1 F(2x2)"),
        ("on", 0, "0 use F(4x4), 0 F(2x2); their packed weights grow by 0 KiB"),
    ):
        first, log = logged(path, winograd, memory, folder)
        if has_kernels():
            assert f"2 convolutions fit Winograd's algorithm: {forms}" in log
        files = list(folder.glob("*.packed"))
        assert logged(path, winograd, memory, folder)[0] == first
        assert list(folder.glob("*.packed")) == files  # the second load packed nothing
    assert len(files) > seen or not has_kernels()


def has_kernels() -> bool:
    """Return True if this processor has Winograd kernels."""
    return "avx2" in Path("/proc/cpuinfo").read_text()
