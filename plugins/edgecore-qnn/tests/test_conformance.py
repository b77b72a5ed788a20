"""The quick conformance suite on this backend; `make test-all` runs the whole one."""

from __future__ import annotations

import pytest

from edgecore.conformance import run

GROUPS = ["documentation", "partitioner", "networks", "methods"]


@pytest.mark.full
def test_the_quick_conformance_suite_passes() -> None:
    only = [f"{group}/*" for group in GROUPS]
    report = run("qnn", only=[*only, "operators/aten.m*", "operators/aten.avg_pool*"], quick=True)
    assert report.ok, str(report)
