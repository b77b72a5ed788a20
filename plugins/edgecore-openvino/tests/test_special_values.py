"""The page of special values lists every difference from PyTorch; with EDGECORE_WRITE_PAGES=1 this test writes it."""

from __future__ import annotations

from pathlib import Path

import openvino
import pytest
import torch

from edgecore.conformance.special_values import measure as special_values

PAGE = Path(__file__).parents[1] / "docs" / "special-values.md"
AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2"}
AVX512 = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}


def test_the_page_lists_every_difference_from_pytorch():
    capability = torch.backends.cpu.get_cpu_capability()
    if not capability.startswith("AVX"):
        pytest.skip(f"the page is about processors with AVX2 or AVX512, not {capability}")
    configurations = {"AVX2": AVX2}
    if capability == "AVX512":
        has_float16 = "FP16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        configurations["AVX512" if has_float16 else "AVX512 without FP16"] = AVX512
    special_values.check_page(PAGE, special_values.measure("openvino", configurations=configurations))
