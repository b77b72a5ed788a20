"""The conformance suite against this backend."""

from __future__ import annotations

from edgecore.conformance import run


def test_conformance() -> None:
    report = run("xnnpack", quick=True)
    assert report.ok, str(report)
