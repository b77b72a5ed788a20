"""The conformance suite, which checks an installed backend. On the command line: `edgecore conformance NAME`.

    from edgecore.conformance import run

    report = run("acme")
    assert report.ok, str(report)

The checks run in child processes: a backend that crashes or hangs makes one check fail and does not end the suite.
"""

from __future__ import annotations

from edgecore.stability import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
    from edgecore.conformance.report import Report, Row
    from edgecore.conformance.workers.session import list_checks, run

__all__ = ["BackendUnderTest", "Check", "Failed", "Report", "Row", "Skipped", "list_checks", "run"]

# The pytest plugin imports this package in every run of pytest, so each name is imported only when it is first used.
__getattr__ = lazy_names(
    "edgecore.conformance",
    {
        **dict.fromkeys(("BackendUnderTest", "Check", "Failed", "Skipped"), "edgecore.conformance.check"),
        **dict.fromkeys(("Report", "Row"), "edgecore.conformance.report"),
        **dict.fromkeys(("list_checks", "run"), "edgecore.conformance.workers.session"),
    },
)
