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


def test_half_precision_needs_avx2(tmp_path: Path) -> None:
    path = save(tmp_path / "half.pte", quantize="fp16")
    done = run(path, "sse4_1")
    assert done.returncode != 0
    assert "not supported by this processor" in done.stderr


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
