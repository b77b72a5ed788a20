"""Run the conformance suite of edgecore. The error message of a failure contains the results of all checks."""

from __future__ import annotations

from edgecore.conformance import run


def test_conformance():
    report = run("ethosu")
    assert report.ok, str(report)
