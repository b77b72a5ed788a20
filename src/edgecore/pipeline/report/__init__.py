"""The delegation report: the backend that runs each operator, the reason for others, and the memory plan."""

from edgecore.pipeline.report.delegation import BufferRow, DelegationReport, ReportRow
from edgecore.pipeline.report.memory import arena_reports

__all__ = ["BufferRow", "DelegationReport", "ReportRow", "arena_reports"]
