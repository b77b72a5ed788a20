"""The delegation report: the backend that runs each operator, why others are not delegated, and the memory plan."""

from edgecore.pipeline.report.delegation import BufferRow, DelegationReport, ReportRow
from edgecore.pipeline.report.memory import arena_reports

__all__ = ["BufferRow", "DelegationReport", "ReportRow", "arena_reports"]
