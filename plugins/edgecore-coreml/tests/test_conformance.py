"""Groups of the quick conformance suite on this backend, with the stand-in for Core ML.

The suite as a whole does not pass yet: the recipes int8-weights and palette4 are compressed by coremltools after edgecore's
own quantization, so quantized eager is no reference for them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edgecore.conformance import run

GROUPS = ["documentation", "partitioner", "networks", "methods", "state", "sessions"]


@pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is for Linux")
def test_groups_of_the_quick_conformance_suite_pass(tmp_path: Path) -> None:
    only = [f"{group}/*" for group in GROUPS]
    standin = {"standin": sys.executable, "model_cache_folder": str(tmp_path)}
    report = run("coreml", only=[*only, "operators/aten.sq*"], quick=True, load_options=standin)
    assert report.ok, str(report)
