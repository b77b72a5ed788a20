"""The quick conformance suite on this backend, with validation layers; `make test-all` runs the whole one."""

from __future__ import annotations

from edgecore.conformance import run

GROUPS = [
    "installation", "documentation", "options", "partitioner", "networks", "shapes", "priority", "methods", "lifetime",
    "state", "device", "declarations", "blobs",
]  # fmt: skip


def test_the_quick_conformance_suite_passes() -> None:
    only = [f"{group}/*" for group in GROUPS]
    report = run("vulkan", only=[*only, "operators/aten.m*"], quick=True, load_options={"validation": True})
    assert report.ok, str(report)
