"""EDGECORE_XNNPACK_HARDWARE: kernels of other processors, in processes of their own, as it is read once."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import edgecore
import edgecore_xnnpack

PROCESSORS = list(csv.DictReader((Path(edgecore_xnnpack.__file__).parent / "processors.csv").read_text().splitlines()))
LOAD = "import sys, numpy, edgecore; m = edgecore.load(sys.argv[1]); print(m.forward(numpy.full((3, 65), 0.1, numpy.float32)).tobytes().hex())"


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("hardware") / "linear.pte")


def save(path: Path, **options: str) -> Path:
    net = nn.Linear(65, 33).eval()
    edgecore.compile(net, (torch.randn(3, 65),), backends=["xnnpack"], **options).save(path)
    return path


def run(path: Path, hardware: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "EDGECORE_XNNPACK_HARDWARE": hardware}
    return subprocess.run([sys.executable, "-c", LOAD, str(path)], env=environment, capture_output=True, text=True)


@pytest.mark.skipif("fma" not in Path("/proc/cpuinfo").read_text(), reason="this processor has no FMA3")
def test_without_fma_sums_are_rounded_as_on_a_processor_that_lacks_it(linear: Path) -> None:
    fused, plain = run(linear, "fma3"), run(linear, "avx")
    assert fused.returncode == plain.returncode == 0, fused.stderr + plain.stderr
    assert fused.stdout != plain.stdout


def test_half_precision_is_computed_in_fp32_without_kernels_for_it(tmp_path: Path) -> None:
    path = save(tmp_path / "half.pte", quantize="fp16")
    done = [run(path, hardware) for hardware in ("sse4_1", "avx2")]
    assert [one.returncode for one in done] == [0, 0], done
    wide, half = (np.frombuffer(bytes.fromhex(one.stdout), np.float32) for one in done)
    assert not np.array_equal(wide, half)
    np.testing.assert_allclose(wide, half, rtol=0, atol=4e-3 * np.abs(half).max())


class HalfIO(nn.Module):
    """Inputs and outputs in fp16, a conversion to fp32 and back, and an output that another operator reads."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = torch.relu(x + y) * 0.5
        return total, (total.float() * 1.5 + 0.25).half() * y


def test_inputs_and_outputs_stay_fp16_without_kernels_for_it(tmp_path: Path) -> None:
    given = torch.linspace(-3, 3, 24).half().reshape(2, 12), torch.linspace(2, -1, 24).half().reshape(2, 12)
    program = edgecore.compile(HalfIO().eval(), given, backends=[edgecore.Backend("xnnpack", required=True)])
    assert program.report().left_outside == []
    program.save(tmp_path / "half.pte")
    code = (
        "import sys, numpy as np, edgecore; x, y = np.load(sys.argv[1]); "
        "print(np.stack(edgecore.load(sys.argv[2]).forward(x, y)).tobytes().hex())"
    )
    np.save(tmp_path / "given.npy", np.stack([tensor.numpy() for tensor in given]))
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "given.npy", tmp_path / "half.pte"],
        env={**os.environ, "EDGECORE_XNNPACK_HARDWARE": "sse4_1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    got = np.frombuffer(bytes.fromhex(done.stdout), np.float16).reshape(2, 2, 12).astype(np.float32)
    want = np.stack([tensor.float().numpy() for tensor in HalfIO()(*given)])
    np.testing.assert_allclose(got, want, rtol=2e-3, atol=1e-3)


def test_an_unknown_name_is_an_error_when_a_file_is_loaded(linear: Path) -> None:
    done = run(linear, "avx2,altivec")
    assert done.returncode != 0
    assert "EDGECORE_XNNPACK_HARDWARE: 'altivec' is none of ssse3, " in done.stderr


@pytest.mark.skipif("amx_int8" in Path("/proc/cpuinfo").read_text(), reason="this processor has AMX")
def test_a_feature_that_this_processor_lacks_is_an_error_when_a_file_is_loaded(linear: Path) -> None:
    done = run(linear, "avx512amx")
    assert done.returncode != 0
    assert "EDGECORE_XNNPACK_HARDWARE: this processor lacks avx512amx; it has " in done.stderr


def test_the_documentation_lists_the_sets_of_processors() -> None:
    page = (Path(__file__).parents[2] / "docs" / "processors.md").read_text()
    for row in PROCESSORS:
        assert f"| {row['name']} | `{row['hardware']}` | {row['processors']} |" in page


@pytest.mark.parametrize("hardware", ["", "ssse3", "sse4_1", "avx", "fma3"])
def test_int4_weights_with_an_odd_number_of_blocks_run_without_avx2(tmp_path: Path, hardware: str) -> None:
    path = tmp_path / "int4.pte"
    net = nn.Sequential(nn.Linear(65, 32), nn.Linear(32, 33)).eval()
    edgecore.compile(net, (torch.randn(3, 65),), backends=["xnnpack"], quantize="int4-weights").save(path)
    done = run(path, hardware)
    assert done.returncode == 0, done.stderr
    expected = edgecore.load(path).forward(torch.full((3, 65), 0.1)).numpy()
    got = np.frombuffer(bytes.fromhex(done.stdout), np.float32).reshape(3, 33)
    np.testing.assert_allclose(got, expected, atol=1e-4)
