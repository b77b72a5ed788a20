"""Files of both compilers on 64-bit Arm, which qemu emulates: edgecore-run computes there what the runtime computes here.

`make test-platforms` runs these tests: 16 networks in fp32 and three in int8, each in a file of ours and in one of
executorch's. `EDGECORE_XNNPACK_PLATFORMS` names the builds for Arm (see the Makefile).
"""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from peer import lower_with_executorch, quantized_by_executorch
from zoo import ALL, make, other_inputs

import edgecore

pytest.importorskip("executorch.exir", reason="executorch, the peer, is not installed")

BUILDS = Path(os.environ.get("EDGECORE_XNNPACK_PLATFORMS", "")) / "aarch64"
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        "EDGECORE_XNNPACK_PLATFORMS" not in os.environ or not BUILDS.is_dir() or not shutil.which("qemu-aarch64"),
        reason="EDGECORE_XNNPACK_PLATFORMS names no build for 64-bit Arm, or qemu is missing",
    ),
]

PROCESSORS = ("cortex-a53", "max")
FP32 = [name for name in ALL if name not in ("ds_cnn", "encoder")]
INT8 = ("mobilenet_v2", "mobilenet_v3_small", "resnet18")
TOLERANCE = 1e-4
"""Largest difference from the results here, relative to the largest output."""


def write_file(path: Path, name: str, recipe: str, compiler: str) -> tuple[torch.Tensor, ...]:
    """Write the file of a network, and return inputs of it."""
    model, inputs = make(name)
    samples = [inputs, other_inputs(inputs)]
    if compiler == "edgecore":
        options = {"quantize": recipe, "calibration": samples} if recipe == "int8" else {}
        edgecore.compile(model, inputs, backends=["xnnpack"], **options).save(path)
    elif recipe == "int8":
        lower_with_executorch(quantized_by_executorch(model, samples), "xnnpack", path)
    else:
        lower_with_executorch(torch.export.export(model, inputs), "xnnpack", path)
    return inputs


def run_on(processor: str, path: Path, inputs: tuple[torch.Tensor, ...], folder: Path) -> np.ndarray:
    """Run a file on an emulated processor, and return its output."""
    arguments: list[object] = ["--backend", BUILDS / "xnnpack" / "libedgecore_xnnpack.so", "--threads", 2]
    for index, tensor in enumerate(inputs):
        np.save(folder / f"{index}.npy", tensor.numpy())
        arguments += ["--input", folder / f"{index}.npy"]
    program = ["qemu-aarch64", "-cpu", processor, "-L", "/usr/aarch64-linux-gnu"]
    program += [str(BUILDS / "core" / "runtime_cpp" / "tools" / "edgecore-run"), str(path)]
    done = subprocess.run([*program, *map(str, arguments), "--output-dir", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return np.load(folder / "output_0.npy")


def check(got: np.ndarray, expected: np.ndarray, recipe: str) -> None:
    assert got.shape == expected.shape and got.dtype == expected.dtype
    assert np.ptp(expected) > 0
    off = np.abs(got - expected)
    print(
        f"largest difference: {off.max() / np.abs(expected).max():.1e}, in {np.count_nonzero(off)} of {off.size} values"
    )
    if recipe == "fp32":
        assert off.max() <= TOLERANCE * np.abs(expected).max()
    else:  # at most one step of the output's scale, in one of a thousand values
        step = np.diff(np.unique(expected)).min()
        assert off.max() <= 1.001 * step
        assert np.count_nonzero(off > 0.5 * step) <= off.size / 1000


@pytest.mark.parametrize("compiler", ["edgecore", "executorch"])
@pytest.mark.parametrize(("name", "recipe"), [*((name, "fp32") for name in FP32), *((name, "int8") for name in INT8)])
def test_a_file_computes_on_arm_what_it_computes_here(name: str, recipe: str, compiler: str, tmp_path: Path) -> None:
    inputs = write_file(tmp_path / "file.pte", name, recipe, compiler)
    expected = edgecore.load(tmp_path / "file.pte").forward(*inputs).numpy()
    for processor in PROCESSORS:
        print(processor, end=": ")
        check(run_on(processor, tmp_path / "file.pte", inputs, tmp_path), expected, recipe)
