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


def test_checks_that_run_a_delegate_are_skipped_with_a_reason_where_core_ml_is_missing() -> None:
    report = run("coreml", only=["values/*", "networks/mlp"])
    assert {(row.outcome, row.detail) for row in report.rows} == {
        ("skipped", "only a Mac, an iPhone or an iPad runs the models")
    }


@pytest.mark.full
def test_the_whole_suite_passes(tmp_path: Path) -> None:
    report = run_with_standin(tmp_path, [])
    assert report.ok, str(report)


@pytest.mark.full
def test_states_pass_in_float16(tmp_path: Path) -> None:
    options = {"compute_precision": "FLOAT16"}  # Core ML's states are float16
    report = run_with_standin(tmp_path, ["state/*"], options=options)
    assert report.ok and not [row for row in report.rows if row.outcome == "skipped"], str(report)
