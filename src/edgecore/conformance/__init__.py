"""The conformance suite: does an installed backend do what it says? `edgecore conformance NAME` from Python.

    from edgecore.conformance import run

    report = run("acme")
    assert report.ok, str(report)

Every check runs in a process of its own kind: a backend that dies or hangs costs a failed row, not the report.
"""

from __future__ import annotations

from edgecore.stability import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
    from edgecore.conformance.report import Report, Row
    from edgecore.conformance.session import list_checks, run

__all__ = ["BackendUnderTest", "Check", "Failed", "Report", "Row", "Skipped", "list_checks", "run"]

# The pytest plugin imports this package in every run of pytest: so names are imported when they are first used.
__getattr__ = lazy_names(
    "edgecore.conformance",
    {
        **dict.fromkeys(("BackendUnderTest", "Check", "Failed", "Skipped"), "edgecore.conformance.check"),
        **dict.fromkeys(("Report", "Row"), "edgecore.conformance.report"),
        **dict.fromkeys(("list_checks", "run"), "edgecore.conformance.session"),
    },
    deprecated={"Subject": ("BackendUnderTest", "0.2")},
)
