"""The table of backends that edgecore knows without their packages."""

from __future__ import annotations

from pathlib import Path

from edgecore.plugin.installed import known_backends


def test_each_known_backend_has_a_package_a_summary_and_a_name_of_its_own():
    rows = known_backends.known_backends()
    assert all(row.package == f"edgecore-{row.name}" and row.summary for row in rows)
    assert len({row.backend_id for row in rows}) == len({row.name for row in rows}) == len(rows)
    assert known_backends.lookup("xnnpack") is known_backends.lookup("XnnpackBackend")


def test_only_packages_of_this_repository_are_recommended():
    here = {path.name for path in (Path(__file__).parents[3] / "plugins").iterdir() if path.is_dir()}
    libraries = {"edgecore-tosa", "edgecore-llm", "edgecore-coreml-standin"}  # no file names one
    assert {row.package for row in known_backends.known_backends()} == here - libraries
