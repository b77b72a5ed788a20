"""The conformance suite: does an installed backend do what it says? `edgecore conformance NAME` from Python.

    from edgecore.conformance import run

    report = run("acme")
    assert report.ok, str(report)

Every check runs in a process of its own kind: a backend that dies or hangs costs a failed row, not the report.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore.conformance.check import Check, Failed, Skipped, Subject
    from edgecore.conformance.report import Report, Row
    from edgecore.conformance.session import list_checks, run

__all__ = ["Check", "Failed", "Report", "Row", "Skipped", "Subject", "list_checks", "run"]

_HOMES = {
    "Check": "check",
    "Failed": "check",
    "Report": "report",
    "Row": "report",
    "Skipped": "check",
    "Subject": "check",
    "list_checks": "session",
    "run": "session",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use: the pytest plugin imports this package in every run of pytest."""
    if name not in _HOMES:
        raise AttributeError(f"module 'edgecore.conformance' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"edgecore.conformance.{_HOMES[name]}"), name)
