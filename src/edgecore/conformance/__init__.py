"""The conformance suite, which checks an installed backend. On the command line: `edgecore conformance NAME`.

    from edgecore.conformance import run

    report = run("acme")
    assert report.ok, str(report)

The checks run in child processes: a backend that crashes or hangs makes one check fail and does not end the suite.
"""

from __future__ import annotations

from edgecore.stability import public_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore.conformance.check import BackendUnderTest as BackendUnderTest
    from edgecore.conformance.check import Check as Check
    from edgecore.conformance.check import Failed as Failed
    from edgecore.conformance.check import Skipped as Skipped
    from edgecore.conformance.report import Report as Report
    from edgecore.conformance.report import Row as Row
    from edgecore.conformance.workers.session import list_checks as list_checks
    from edgecore.conformance.workers.session import run as run

# Import each public name only when it is first used, because each run of pytest imports this package (pytest plugin).
__all__, __getattr__ = public_names(
    "edgecore.conformance",
    {
        "edgecore.conformance.check": "BackendUnderTest Check Failed Skipped",
        "edgecore.conformance.report": "Report Row",
        "edgecore.conformance.workers.session": "list_checks run",
    },
)
