"""The quick conformance suite on this backend, with validation layers; `make test-all` runs it."""

from __future__ import annotations

import pytest

from edgecore.conformance import run

QUICK = [
    "installation/*", "documentation/*", "options/*", "partitioner/*", "networks/*", "shapes/*", "methods/*", "device/*",
    "declarations/*", "blobs/*", "state/[rst]*", "state/initial values", "state/damaged*", "lifetime/run",
    "operators/aten.m*",
]  # fmt: skip
# These start many processes or load other backends.
SLOW = ["priority/*", "state/*", "lifetime/*"]


@pytest.mark.full
@pytest.mark.parametrize("only", [QUICK, SLOW], ids=["quick", "slow"])
def test_the_quick_conformance_suite_passes(only: list[str]) -> None:
    report = run("vulkan", only=only, quick=True, load_options={"validation": True})
    assert report.ok, str(report)
