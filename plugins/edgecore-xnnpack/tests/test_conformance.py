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
