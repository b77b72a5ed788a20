"""The quick conformance suite on this backend, with the stand-in for Core ML; `make test-all` runs it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edgecore.conformance import Report, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is for Linux")


def run_with_standin(folder: Path, only: list[str], **settings: object) -> Report:
    standin = {"standin": sys.executable, "model_cache_folder": str(folder)}
    return run("coreml", only=only, quick=True, load_options=standin, **settings)  # type: ignore[arg-type]


@pytest.mark.full
def test_the_whole_suite_passes(tmp_path: Path) -> None:
    report = run_with_standin(tmp_path, [])
    assert report.ok, str(report)


STATE_ERROR = 0.01
"""Largest error of models in float16, relative to the largest result: the suite's buffers are float32, Core ML's states
float16, so that these checks need a model in float16."""


@pytest.mark.full
def test_states_pass_in_float16(tmp_path: Path) -> None:
    options = {"compute_precision": "FLOAT16"}
    report = run_with_standin(tmp_path, ["state/*"], options=options, tolerance=STATE_ERROR)
    assert report.ok and not [row for row in report.rows if row.outcome == "skipped"], str(report)
