"""The quick conformance suite on this backend, with the stand-in for Core ML; recipes have tests here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edgecore.conformance import run

GROUPS = ["documentation", "partitioner", "networks", "methods", "state", "sessions"]


@pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is for Linux")
def test_the_quick_conformance_suite_passes(tmp_path: Path) -> None:
    only = [f"{group}/*" for group in GROUPS]
    standin = {"standin": sys.executable, "model_cache_folder": str(tmp_path)}
    report = run("coreml", only=[*only, "operators/aten.sq*"], quick=True, load_options=standin)
    assert report.ok, str(report)
