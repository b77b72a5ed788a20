"""The conformance suite of edgecore: the table of all checks is in the failure's text, or `edgecore conformance openvino`."""

from __future__ import annotations

from edgecore.conformance import run


def test_conformance():
    report = run("openvino")
    assert report.ok, str(report)
