"""The backend is right on processors with less than this one has: OpenVINO chooses other kernels there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ROWS_OF_4_BITS = """
import edgecore, torch

for options, width in (({}, 33), ({"symmetric": False}, 31), ({"group": 5, "symmetric": False}, 30)):
    recipe = edgecore.Recipe("int4-weights", **options)
    model, x = torch.nn.Linear(width, 17).eval(), torch.randn(7, width)
    comparison = edgecore.compile(model, (x,), backends=["openvino"], quantize=recipe).compare(model, [(x,)])
    assert comparison.ok, f"{recipe}, {width} inputs: {comparison}"
"""


def run(instruction_set: str, *arguments: str) -> None:
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": instruction_set}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, errors="replace", check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_rows_of_4_bits_that_end_inside_a_byte_are_right_without_avx512():
    run("AVX2", "-c", ROWS_OF_4_BITS)


@pytest.mark.full
@pytest.mark.parametrize("instruction_set", ["AVX2", "AVX512_CORE"])
def test_recipes_and_networks_conform_with_other_instructions(instruction_set):
    """Operators are left out: so limited, OpenVINO 2026.4 crashes on a processor with AVX-512 in MVN of short rows."""
    run(instruction_set, "-m", "edgecore", "conformance", "openvino", "-k", "recipes/*", "-k", "networks/*")
