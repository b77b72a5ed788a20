"""The quick conformance suite on this backend; `make test-all` runs the whole suite. Operators have tests here."""

from __future__ import annotations

import pytest

from edgecore.conformance import run

OTHERS = ["installation", "documentation", "options", "partitioner", "networks", "shapes", "priority", "methods"]


@pytest.mark.slow
def test_the_quick_conformance_suite_passes() -> None:
    groups = [f"{group}/*" for group in (*OTHERS, "lifetime", "declarations", "blobs")]
    report = run("xnnpack", only=[*groups, "operators/aten.m*"], quick=True)
    assert report.ok, str(report)


def test_results_in_fp16_are_allowed_the_error_of_fp16() -> None:
    report = run("xnnpack", options={"force_fp16": True}, only=["values/*", "networks/*"], quick=True)
    assert report.ok and {row.outcome for row in report.rows} == {"passed"}, str(report)
