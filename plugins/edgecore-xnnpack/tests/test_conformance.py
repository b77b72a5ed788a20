"""The conformance suite against this backend. Its operators one by one have tests of their own here."""

from __future__ import annotations

import pytest

from edgecore.conformance import run

OTHERS = ["installation", "documentation", "options", "partitioner", "networks", "shapes", "priority", "methods"]


def test_the_quick_conformance_suite_passes() -> None:
    groups = [f"{group}/*" for group in (*OTHERS, "lifetime", "declarations", "blobs")]
    report = run("xnnpack", only=[*groups, "operators/aten.m*"], quick=True)
    assert report.ok, str(report)


@pytest.mark.full
def test_the_conformance_suite_passes_for_every_operator() -> None:
    report = run("xnnpack", only="operators/*")
    assert report.ok, str(report)
