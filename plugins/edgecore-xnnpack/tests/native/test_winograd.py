"""Option winograd: which 3x3 convolutions the delegate computes by Winograd's algorithm, and how exact they are."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import edgecore
from edgecore.cli.blobs import describe_blobs
from edgecore.format import read_pte


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
    sizes = {}
    for winograd, memory, summary, first_form, second_form in (
        ("off", 128, "0 Winograd F(4x4), 0 F(2x2), 2 direct; packed weights grow by 0 KiB of", "direct (", "direct ("),
        ("accurate", 128, "0 Winograd F(4x4), 2 F(2x2), 0 direct; packed weights grow by 561", "F(2x2)", "F(2x2)"),
        ("on", 128, "1 Winograd F(4x4), 1 F(2x2), 0 direct", "Winograd F(4x4), weights + 432 KiB", "F(2x2)"),
        ("on", 0, "0 Winograd F(4x4), 0 F(2x2), 2 direct", "direct (F(2x2) takes 112 KiB more", "direct (F(2x2) takes"),
    ):
        before = folder_bytes(folder)
        result, log = logged(path, winograd, memory, folder)
        sizes[winograd, memory] = folder_bytes(folder) - before
        if has_kernels():
            lines = [line for line in log.splitlines() if "Conv2d" in line]
            assert f"2 convolutions: {summary}" in log
            assert first_form in lines[0] and second_form in lines[1]
        files = sorted(folder.glob("*.packed"))
        assert logged(path, winograd, memory, folder)[0] == result
        assert sorted(folder.glob("*.packed")) == files  # the second load packed nothing
    if has_kernels():
        # One packing of each layer: the form that it has, and no other. Without memory: that of "off", kept before.
        filters = 4 * 9 * 64 * (64 + 256)
        assert filters <= sizes["off", 128] < 1.1 * filters
        assert 16 / 9 * filters <= sizes["accurate", 128] < 1.1 * 16 / 9 * filters
        assert 4 * 9 * 64 * 64 * 4 <= sizes["on", 128] < 1.1 * 4 * 9 * 64 * 64 * 4  # the other form is kept already
        assert sizes["on", 0] == 0


def folder_bytes(folder: Path) -> int:
    """The size of all packed weights in a folder."""
    return sum(file.stat().st_size for file in folder.glob("*.packed"))


def test_inspect_says_what_the_log_says(tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(
                [
                    nn.Conv2d(16, 64, 3, padding=1),
                    nn.Conv2d(64, 64, 3, padding=1, stride=2),
                    nn.Conv2d(64, 64, 3, padding=1, groups=2),
                    nn.Conv2d(64, 24, (3, 5)),
                    nn.Conv2d(24, 32, 3),
                    nn.Conv2d(32, 8, 3),
                ]
            )

        def forward(self, x: torch.Tensor) -> Any:
            for layer in self.layers:
                x = layer(x).relu()
            return x

    path = tmp_path / "net.pte"
    edgecore.compile(Net().eval(), (torch.randn(1, 16, 32, 32),), backends=["xnnpack"]).save(path)
    command = [sys.executable, "-c", "import sys, edgecore; edgecore.load(sys.argv[1])['forward']", str(path)]
    environment = {**os.environ, "EDGECORE_LOG": "info"}
    log = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr.splitlines()
    (row,) = describe_blobs(read_pte(path.read_bytes()), None)
    logs = dict(line.split(" (Conv2d): ") for line in log if " (Conv2d): " in line)
    assert len(logs) == 6
    for node, form in logs.items():
        (line,) = [line for line in row["lines"] if line.startswith(node.removeprefix("edgecore info: ") + ":")]
        assert line.endswith(f"; here {form}")
    (summary,) = [line for line in log if " convolutions: " in line]
    assert f"on this processor: {summary.removeprefix('edgecore info: ')}" in row["lines"]
    assert "6 convolutions: " in summary


# Runs a network on the processor that the environment names, and prints the results' bytes.
RESTRICTED = """
import sys
import torch
import edgecore
torch.manual_seed(0)
x = torch.randn(1, 32, 24, 21)
for winograd in ("accurate", "on"):
    for threads in (1, 2):
        options = {"xnnpack": {"winograd": winograd}}
        print(edgecore.load(sys.argv[1], threads=threads, options=options).forward(x).numpy().tobytes().hex())
"""


@pytest.mark.parametrize("hardware", ["", "avx2,fma3", "avx512f"])
def test_each_instruction_set_computes_each_form(hardware: str, tmp_path: Path) -> None:
    if not set(hardware.replace("fma3", "fma").split(",")) - {""} <= set(Path("/proc/cpuinfo").read_text().split()):
        pytest.skip("this processor lacks it")
    path = tmp_path / "net.pte"
    torch.manual_seed(0)
    x, net = torch.randn(1, 32, 24, 21), nn.Conv2d(32, 40, 3, padding=1).eval()
    edgecore.compile(net, (x,), backends=["xnnpack"]).save(path)
    expected = net.double()(x.double()).detach()
    command = [sys.executable, "-c", RESTRICTED, str(path)]
    environment = {**os.environ, "EDGECORE_XNNPACK_HARDWARE": hardware, "EDGECORE_LOG": "info"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "1 Winograd F(4x4), 0 F(2x2)" in done.stderr and "0 Winograd F(4x4), 1 F(2x2)" in done.stderr
    results = [torch.frombuffer(bytearray.fromhex(line), dtype=torch.float32) for line in done.stdout.splitlines()]
    assert torch.equal(results[0], results[1]) and torch.equal(results[2], results[3])
    for result in results:
        assert error(result.reshape(expected.shape), expected) < 5e-6


class Int8Layers(nn.Module):
    """Convolutions of several sizes side by side, and the two kinds of blocks whose nodes are fused beside them."""

    SIZES = ((16, 16, 7, 9), (17, 40, 8, 9), (64, 33, 13, 8), (130, 48, 8, 7), (24, 64, 24, 21))

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(c, k, 3, padding=i % 3) for i, (c, k, *_) in enumerate(self.SIZES))
        self.first, self.second, self.third = (nn.Conv2d(24, 24, size, padding=size // 2) for size in (3, 3, 1))

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        results = [layer(x) for layer, x in zip(self.layers, inputs, strict=True)]
        x = nn.functional.silu(self.first(inputs[-1]))  # a table
        y = nn.functional.relu6(self.second(x) + x)
        z = torch.relu(self.third(y) + y)
        return [*results[:2], torch.relu(results[2]), results[3].clamp(-0.5, 0.7), results[4], self.first(z) + y, z]


# Runs a file with each form and number of threads, on the processor that the environment names; saves all results.
RUN_INT8 = """
import sys
import numpy as np
import edgecore
inputs = list(np.load(sys.argv[2]).values())
results = {}
for winograd in ("off", "accurate", "on"):
    for threads in (1, 2, 3):
        model = edgecore.load(sys.argv[1], threads=threads, options={"xnnpack": {"winograd": winograd}})
        for i, result in enumerate(model.forward(*inputs)):
            results[f"{winograd} {threads} {i}"] = np.array(result)
np.savez(sys.argv[3], **results)
"""


@pytest.mark.parametrize("hardware", ["avx2", "avx512skx", "avxvnni"])
def test_winograd_convolutions_give_the_integers_of_executorch(hardware: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("executorch.runtime")
    flag = {"avx512skx": "avx512bw", "avxvnni": "avx_vnni"}.get(hardware, hardware)
    if flag not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip("this processor lacks it")
    torch.manual_seed(0)
    inputs = [torch.randn(1 + i % 2, c, rows, columns) for i, (c, _, rows, columns) in enumerate(Int8Layers.SIZES)]
    options: dict[str, Any] = {"quantize": "int8", "calibration": [tuple(inputs)]}
    program = edgecore.compile(Int8Layers().eval(), tuple(inputs), backends=["xnnpack"], **options)
    path, arrays, results = tmp_path / "net.pte", tmp_path / "inputs.npz", tmp_path / "results.npz"
    program.save(path)
    np.savez(arrays, *(x.numpy() for x in inputs))
    peer = runtime.Runtime.get().load_program(bytes(program.buffer))
    wanted = peer.load_method("forward").execute(inputs)
    command = [sys.executable, "-c", RUN_INT8, str(path), str(arrays), str(results)]
    environment = {**os.environ, "EDGECORE_XNNPACK_HARDWARE": hardware, "EDGECORE_LOG": "info"}
    log = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr
    summary = "9 convolutions: 0 Winograd F(4x4), 0 F(2x2), 4 F(4x4) int8, 3 F(2x2) int8, 2 direct"
    if hardware == "avxvnni":
        assert ") int8" not in log and "direct (int8 kernels of this processor are faster directly)" in log
    else:
        assert log.count(summary) == 6  # accurate and on, with three numbers of threads
        assert "(Conv2d): direct (12 tiles of 2x2, fewer than 16)" in log
        assert "(Conv2d): Winograd F(2x2) int8, weights + " in log
        assert "(Conv2d): Winograd F(4x4) int8, weights + " in log
    got = np.load(results)
    for name, result in got.items():
        want = wanted[int(name.split()[-1])].numpy()
        assert np.array_equal(result, want), f"{name}: {np.abs(result - want).max()}"


def test_an_infinity_makes_its_tile_nan_and_changes_no_other() -> None:
    net = nn.Conv2d(16, 16, 3, padding=1).eval()
    x = torch.randn(1, 16, 24, 24)
    program = edgecore.compile(net, (x,), backends=["xnnpack"])
    broken = x.clone()
    broken[0, 3, 9, 9] = torch.inf  # read by the outputs from (8, 8) to (10, 10)
    for winograd in ("off", "accurate", "on"):
        model = load(program, winograd)
        before, after = model.forward(x)[0], model.forward(broken)[0]
        is_tiled = winograd == "on" and has_kernels()
        end = 12 if is_tiled else 11
        assert not (before == after)[:, 8:end, 8:end].any()
        assert not is_tiled or after[:, 8:end, 8:end].isnan().all()
        before[:, 8:end, 8:end] = after[:, 8:end, 8:end] = 0
        assert torch.equal(before, after)


def has_kernels() -> bool:
    """Return True if there are Winograd kernels for this processor."""
    return platform.machine() == "x86_64"
