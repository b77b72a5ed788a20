"""XNNPACK on Arm, as emulated processors run it: ``make test-platforms``.

``EDGECORE_XNNPACK_PLATFORMS`` names a folder with a build of ``native/`` for each target, such as ``aarch64/xnnpack``,
and of edgecore-run, such as ``aarch64/core`` (see the Makefile). qemu runs them. With ``--full``, the kernels run more
shapes, and all C++ tests run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import edgecore

PLATFORMS = Path(os.environ.get("EDGECORE_XNNPACK_PLATFORMS", ""))
SYSROOTS = {"aarch64": "/usr/aarch64-linux-gnu"}
pytestmark = pytest.mark.skipif(
    "EDGECORE_XNNPACK_PLATFORMS" not in os.environ, reason="EDGECORE_XNNPACK_PLATFORMS names no builds for Arm"
)


@dataclass(frozen=True)
class Processor:
    target: str
    cpu: str  # qemu's name
    features: str  # by which XNNPACK selects kernels
    kernels: dict[str, str]  # by a family of the kernel tests: a regular expression of a kernel that must run

    def __str__(self) -> str:
        return f"{self.target} {self.cpu}"

    def command(self, *command: object, log: Path | None = None) -> list[str]:
        """Return the command line of qemu; ``log`` gets the names of the functions that are translated."""
        logged = ["-d", "in_asm", "-D", str(log)] if log else []
        return [f"qemu-{self.target}", "-cpu", self.cpu, *logged, "-L", SYSROOTS[self.target], *map(str, command)]

    def build(self, name: str) -> Path:
        folder = PLATFORMS / self.target / name
        if not folder.is_dir() or shutil.which(f"qemu-{self.target}") is None:
            pytest.skip(f"{folder} or qemu-{self.target} is missing")
        return folder


PROCESSORS = (
    Processor(
        "aarch64",
        "cortex-a53",
        "neon_v8",
        {
            "convolution f32": "f32_igemm_minmax_ukernel_6x8__asm_aarch64_neonfma_cortex_a53",
            "depthwise convolution f32": r"f32_dwconv_minmax_ukernel_9p[48]c__(asm_aarch64_)?neonfma",
            "convolution int8, a scale per channel": "qs8_qc8w_igemm_minmax_fp32_ukernel_4x16__asm_aarch64_neon_mlal_lane",
            "linear dynamic int8 -> f32": "qd8_f32_qc8w_gemm_minmax_ukernel_2x8c2s4__neon_mlal",
        },
    ),
    Processor(
        "aarch64",
        "cortex-a72",
        "neon_v8",
        {
            "convolution int8, a scale per channel": "qs8_qc8w_igemm_minmax_fp32_ukernel_4x16__asm_aarch64_neon_mlal_lane"
        },
    ),
    Processor(
        "aarch64",
        "neoverse-n1",
        "neon_fp16_arith,neon_dot",
        {
            "convolution f32": "f32_igemm_minmax_ukernel_7x12__aarch64_neonfma",
            "depthwise convolution int8, a scale per channel": "qs8_qc8w_dwconv_minmax_fp32_ukernel_9p16c__neondot",
            "convolution f16": "f16_igemm_minmax_ukernel_6x16__asm_aarch64_neonfp16arith",
            "convolution int8, a scale per channel": "qs8_qc8w_igemm_minmax_fp32_ukernel_4x16c4__asm_aarch64_neondot",
            "linear dynamic int8 -> f32": "qd8_f32_qc8w_gemm_minmax_ukernel_4x16c4__asm_aarch64_neondot",
            "linear dynamic int8 x int4 -> f32": "qd8_f32_qc4w_gemm_minmax_ukernel_4x16c4__(asm_aarch64_)?neondot",
        },
    ),
    Processor(
        "aarch64",
        "max",
        "neon_dot,neon_i8mm,sve2,sme",
        {
            "convolution f16": "f16_igemm_minmax_ukernel_6x16__asm_aarch64_neonfp16arith",
            "convolution int8, a scale per channel": "qs8_qc8w_igemm_minmax_fp32_ukernel_4x16c8__neoni8mm",
            "linear dynamic int8 -> f32": "qd8_f32_qc8w_gemm_minmax_ukernel_4x16c8__neoni8mm",
            "linear dynamic int8 x int4 -> f32": "qd8_f32_qc4w_gemm_minmax_ukernel_4x16c8__neoni8mm",
        },
    ),
)
each = pytest.mark.parametrize("processor", PROCESSORS, ids=str)


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@each
def test_the_features_are_those_of(processor: Processor) -> None:
    program = processor.build("xnnpack") / "tests" / "edgecore_xnnpack_kernels"
    assert run(processor.command(program, "--hardware")).strip() == processor.features


@each
def test_the_fast_kernels_run_on(processor: Processor, tmp_path: Path) -> None:
    program = processor.build("xnnpack") / "tests" / "edgecore_xnnpack_kernels"
    for family, kernel in processor.kernels.items():
        run(processor.command(program, "--short", family, log=tmp_path / "log"))
        names = set(re.findall(r"^IN: xnn_(\w+)$", (tmp_path / "log").read_text(), re.M))
        assert any(re.match(kernel, name) for name in names), (family, sorted(n for n in names if "ukernel" in n))
        scalar = [name for name in names if re.search(r"gemm_\w*ukernel\w*__scalar", name)]
        assert not scalar, (family, scalar)


@each
def test_the_kernels_are_right_on(processor: Processor, request: pytest.FixtureRequest) -> None:
    program = processor.build("xnnpack") / "tests" / "edgecore_xnnpack_kernels"
    extent = [] if request.config.getoption("--full", default=False) else ["--short"]
    done = subprocess.run(processor.command(program, *extent), capture_output=True, text=True, check=False)
    assert not re.findall(r"^(\w.*\n  WRONG.*)$", done.stdout, re.M)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" right") > 140


@each
def test_the_cpp_tests_pass_on(processor: Processor, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = processor.build("xnnpack") / "tests"
    quick = "Cpuinfo*:Hardware*:Hash*:Profile*:*Build*:*Nan*"
    if processor.cpu == "cortex-a53":  # the kernel for NEON is that of all processors, and the test takes a minute
        quick += ":*SizesAroundATile*"
    chosen = "*" if request.config.getoption("--full", default=False) else quick
    run(processor.command(folder / "edgecore_xnnpack_tests", f"--gtest_filter={chosen}"))


class Net(nn.Module):
    """Convolutions of each kind and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.Hardswish(),
            nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.ReLU6(), nn.Conv2d(16, 40, 1),
            nn.Conv2d(40, 40, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(40, 10),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Path, np.ndarray]]:
    """Return a function of a recipe: the file of a model, its input, and its output on this machine."""
    folder = tmp_path_factory.mktemp("models")

    def make(recipe: str) -> tuple[Path, Path, np.ndarray]:
        torch.manual_seed(0)
        net, x = Net().eval(), torch.randn(1, 3, 33, 35)
        options = {} if recipe == "fp32" else {"quantize": recipe, "calibration": [(x,), (torch.randn_like(x),)]}
        path, numbers = folder / f"{recipe}.pte", folder / "input.npy"
        backend = edgecore.Backend("xnnpack", required=True)
        edgecore.compile(net, (x,), backends=[backend], **options).save(path)
        np.save(numbers, x.numpy())
        return path, numbers, edgecore.load(path).forward(x).numpy()

    return make


@each
@pytest.mark.parametrize("recipe", ["fp32", "int8"])
def test_a_model_computes_what_it_computes_here(
    model: Callable[[str], tuple[Path, Path, np.ndarray]], processor: Processor, recipe: str, tmp_path: Path
) -> None:
    program = processor.build("core") / "runtime_cpp" / "tools" / "edgecore-run"
    library = processor.build("xnnpack") / "libedgecore_xnnpack.so"
    path, numbers, expected = model(recipe)
    run(processor.command(
        program, path, "--backend", library, "--input", numbers, "--output-dir", tmp_path, "--threads", 2
    ))  # fmt: skip
    got = np.load(tmp_path / "output_0.npy")
    if recipe == "fp32":
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    else:  # at most one step of the output's scale, which is a 255th of its range or more
        step = np.diff(np.unique(expected)).min()
        assert np.abs(got - expected).max() <= step * 1.001
        assert len(np.unique(got)) > 2
