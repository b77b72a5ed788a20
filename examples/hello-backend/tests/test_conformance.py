"""The conformance suite of edgecore: the table of all checks is in the failure's text, or `edgecore conformance hello`."""

from __future__ import annotations

from edgecore.conformance import run


def test_conformance():
    report = run("hello")
    assert report.ok, str(report)
