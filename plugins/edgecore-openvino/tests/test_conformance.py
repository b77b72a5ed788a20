"""Run the conformance suite on this backend."""

from __future__ import annotations

import pytest

from edgecore.conformance import run


def test_the_quick_conformance_suite_passes() -> None:
    groups = ["documentation", "declarations"]
    report = run("openvino", only=[f"{group}/*" for group in groups], quick=True)
    assert report.ok, str(report)


@pytest.mark.full
def test_the_whole_conformance_suite_passes() -> None:
    report = run("openvino")
    assert report.ok, str(report)
