"""The quick conformance suite on this backend; `make test-all` runs the whole one."""

from __future__ import annotations

from edgecore.conformance import run


def test_the_quick_conformance_suite_passes() -> None:
    groups = ["documentation", "declarations"]
    only = [*(f"{group}/*" for group in groups), "operators/aten.*_pool2d*"]
    report = run("openvino", only=only, quick=True)
    assert report.ok, str(report)
