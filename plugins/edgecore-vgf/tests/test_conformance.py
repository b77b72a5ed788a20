"""The quick conformance suite on this backend; `make test-all` runs the whole one."""

from __future__ import annotations

import pytest

from edgecore.conformance import run


@pytest.mark.full
@pytest.mark.usefixtures("device")
def test_the_quick_conformance_suite_passes() -> None:
    groups = ["documentation", "options", "partitioner", "declarations"]
    only = [*(f"{group}/*" for group in groups), "operators/aten.index.Tensor"]
    report = run("vgf", only=only, quick=True)
    assert report.ok, str(report)
