"""XNNPACK on Arm, as emulated processors run it: ``make test-platforms``.

``EDGECORE_XNNPACK_PLATFORMS`` names a folder with a build of ``native/`` for each target, such as ``aarch64/xnnpack``,
and of edgecore-run, such as ``aarch64/core`` (see the Makefile). qemu runs them. With ``--full``, the kernels run more
shapes, and all C++ tests and the quick form of the conformance suite run.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import zoo
from torch import nn

import edgecore
import edgecore.conformance
from edgecore.conformance.checks.recipes import NETWORKS
from edgecore.numerics.bounds import Bounded, bounded_eager
from edgecore_xnnpack.recipes.table import RECIPES

ROWS = 17  # of the inputs of a model with a recipe: one more than a multiple of every kernel's tile
PLATFORMS = Path(os.environ.get("EDGECORE_XNNPACK_PLATFORMS", ""))
EMULATORS = {  # by target: the program, and the folder of the target's C library
    "aarch64": ("qemu-aarch64", "/usr/aarch64-linux-gnu"),
    "armv7": ("qemu-arm", "/usr/arm-linux-gnueabihf"),
}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "EDGECORE_XNNPACK_PLATFORMS" not in os.environ, reason="EDGECORE_XNNPACK_PLATFORMS names no builds for Arm"
    ),
]


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
        emulator, libraries = EMULATORS[self.target]
        return [emulator, "-cpu", self.cpu, *logged, "-L", libraries, *map(str, command)]

    def build(self, name: str) -> Path:
        folder = PLATFORMS / self.target / name
        emulator, _ = EMULATORS[self.target]
        if not folder.is_dir() or shutil.which(emulator) is None:
            pytest.skip(f"{folder} or {emulator} is missing")
        return folder


ARMV7_KERNELS = {
    "convolution f32": "f32_igemm_minmax_ukernel_4x8__asm_aarch32_neon",
    "depthwise convolution f32": "f32_dwconv_minmax_ukernel_9p8c__neon",
    "convolution int8, a scale per channel": "qs8_qc8w_igemm_minmax_fp32_ukernel_4x8__asm_aarch32_neon_mlal_lane_ld64",
    "linear dynamic int8 -> f32": "qd8_f32_qc8w_gemm_minmax_ukernel_2x8c2s4__neon_mlal",
    "linear dynamic int8 x int4 -> f32": "qd8_f32_qc4w_gemm_minmax_ukernel_6x16__neon_mlal_lane",
}
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
            "convolution int8, a scale per channel": "qs8_qc8w_igemm_minmax_fp32_ukernel_6x16c4__aarch64_neondot",
            "linear dynamic int8 -> f32": "qd8_f32_qc8w_gemm_minmax_ukernel_6x16c4__aarch64_neondot",
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
    Processor("armv7", "cortex-a9", "vfpv2,neon", ARMV7_KERNELS),
    Processor("armv7", "cortex-a7", "vfpv2,neon_fma", ARMV7_KERNELS),
    Processor(
        "armv7",
        "max",
        "vfpv2,neon_v8",
        {
            **ARMV7_KERNELS,
            "convolution int8, a scale per channel": "qs8_qc8w_igemm_minmax_fp32_ukernel_4x8__asm_aarch32_neonv8_mlal",
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
    quick = "Cpuinfo*:Hardware*:Hash*:Limits*:Profile*:*Build*:*Nan*"
    if processor.cpu == "cortex-a53":  # the kernel for NEON is that of all processors, and the test takes a minute
        quick += ":*SizesAroundATile*"
    chosen = "*" if request.config.getoption("--full", default=False) else quick
    run(processor.command(folder / "edgecore_xnnpack_tests", f"--gtest_filter={chosen}"))


# For Cortex-A72, XNNPACK chooses kernels as for Cortex-A53.
several = pytest.mark.parametrize("processor", [one for one in PROCESSORS if one.cpu != "cortex-a72"], ids=str)


@pytest.mark.full
@several
def test_the_conformance_suite_passes_on(processor: Processor) -> None:
    program = processor.build("core") / "runtime_cpp" / "tools" / "edgecore-run"
    runner = processor.command(program, "--backend", processor.build("xnnpack") / "libedgecore_xnnpack.so")
    report = edgecore.conformance.run("xnnpack", quick=True, runner=runner)
    assert report.ok, str(report)
    assert sum(row.outcome == "passed" for row in report.rows) >= 5, str(report)  # not skipped


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


@dataclass(frozen=True)
class Quantized:
    """A model of the conformance suite, compiled with a recipe, and its outputs in quantized eager PyTorch."""

    pte: Path
    inputs: list[Path]
    outputs: list[Bounded]


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Quantized]:
    """Return a function of a recipe and the name of a model."""
    folder = tmp_path_factory.mktemp("recipes")

    @cache
    def make(recipe: str, name: str) -> Quantized:
        torch.manual_seed(0)
        net = NETWORKS[name](True).eval().requires_grad_(False)
        example = [tensor[:ROWS].contiguous() for tensor in net.example()]
        arguments = (example[0],) if len(example) == 1 else (example,)
        samples = [arguments] if RECIPES[recipe].calibrates else None
        program = edgecore.compile(net, arguments, backends=["xnnpack"], quantize=recipe, calibration=samples)
        assert program.report().delegates  # embedding tables stay with the portable kernels
        path = folder / f"{recipe}-{name}.pte"
        program.save(path)
        paths = [folder / f"{recipe}-{name}-{i}.npy" for i in range(len(example))]
        for numbers, tensor in zip(paths, example, strict=True):
            np.save(numbers, tensor.numpy())
        eager = program.quantized["forward"]
        return Quantized(path, paths, bounded_eager(eager.program, arguments, eager.computes_in, by_row=True))

    return make


# The conformance suite runs on 64-bit Arm in whole.
each_armv7 = pytest.mark.parametrize(
    "processor", [processor for processor in PROCESSORS if processor.target == "armv7"], ids=str
)


@each_armv7
@pytest.mark.parametrize("name", ["linear", "convolution", "attention", "embedding"])
@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_a_recipe_agrees_with_eager(
    quantized: Callable[[str, str], Quantized], processor: Processor, recipe: str, name: str, tmp_path: Path
) -> None:
    program = processor.build("core") / "runtime_cpp" / "tools" / "edgecore-run"
    library = processor.build("xnnpack") / "libedgecore_xnnpack.so"
    case = quantized(recipe, name)
    inputs = [word for path in case.inputs for word in ("--input", path)]
    run(processor.command(program, case.pte, "--backend", library, *inputs, "--output-dir", tmp_path, "--threads", 2))
    for i, want in enumerate(case.outputs):
        got = torch.from_numpy(np.load(tmp_path / f"output_{i}.npy"))
        assert got.dtype == want.value.dtype and got.shape == want.value.shape
        error = (got.double() - want.value.double()).abs()
        assert (error <= want.error).all(), (i, float((error - want.error).max()))


@each_armv7
def test_a_network_agrees_with_eager(processor: Processor, tmp_path: Path) -> None:
    program = processor.build("core") / "runtime_cpp" / "tools" / "edgecore-run"
    library = processor.build("xnnpack") / "libedgecore_xnnpack.so"
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    torch.manual_seed(0)
    net, (x,) = zoo.make("mobilenet_v2")
    x = x[..., :96, :96].contiguous()
    edgecore.compile(net.eval(), (x,), backends=[edgecore.Backend("xnnpack", required=True)]).save(tmp_path / "net.pte")
    np.save(tmp_path / "input.npy", x.numpy())
    run(processor.command(
        program, tmp_path / "net.pte", "--backend", library, "--input", tmp_path / "input.npy",
        "--output-dir", tmp_path, "--threads", 2,
    ))  # fmt: skip
    with torch.no_grad():
        expected = net(x).numpy()
    got = np.load(tmp_path / "output_0.npy")
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4 * float(np.abs(expected).max()))
