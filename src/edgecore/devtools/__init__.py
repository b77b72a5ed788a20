"""Developer tools: what a model does on the device, and where its time goes.

Importing this package imports neither torch, numpy nor pandas. Using a name imports its module: those that compile models
or hold graphs of torch need torch.
"""

from __future__ import annotations

from edgecore.stability import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore.devtools.budget import check_budget
    from edgecore.devtools.comparators import (
        L1Comparator,
        MSEComparator,
        NumericalComparatorBase,
        SNRComparator,
        compare_results,
    )
    from edgecore.devtools.compare_report import CompareReport, CompareRow
    from edgecore.devtools.comparison import compare
    from edgecore.devtools.delegation import (
        DelegateMappingBuilder,
        DelegationBreakdown,
        DelegationInfo,
        format_delegated_graph,
        get_delegation_info,
        inspect_node,
        print_delegated_graph,
        print_delegation_info,
    )
    from edgecore.devtools.diff_files import Diff, diff
    from edgecore.devtools.events import Event, EventBlock, PerfData, TimeScale
    from edgecore.devtools.exports import chrome_trace, speedscope
    from edgecore.devtools.graph import Graph
    from edgecore.devtools.graph_builder import graph_of
    from edgecore.devtools.inspector import Inspector
    from edgecore.devtools.memory import Allocation, allocations, generate_memory_trace
    from edgecore.devtools.mixed_precision import Step, Suggestion, suggest
    from edgecore.devtools.profiler import Profile, profile
    from edgecore.devtools.records import parse_etrecord
    from edgecore.devtools.remote import Device, connect
    from edgecore.devtools.remote_profile import profile_on
    from edgecore.devtools.summary import Row, Summary, summarize
    from edgecore.devtools.trace import Run, Trace, TraceEvent
    from edgecore.pipeline.etrecord import ETRecord, generate_etrecord

__all__ = [
    "Allocation",
    "CompareReport",
    "CompareRow",
    "DelegateMappingBuilder",
    "DelegationBreakdown",
    "DelegationInfo",
    "Device",
    "Diff",
    "ETRecord",
    "Event",
    "EventBlock",
    "Graph",
    "Inspector",
    "L1Comparator",
    "MSEComparator",
    "NumericalComparatorBase",
    "PerfData",
    "Profile",
    "Row",
    "Run",
    "SNRComparator",
    "Step",
    "Suggestion",
    "Summary",
    "TimeScale",
    "Trace",
    "TraceEvent",
    "allocations",
    "check_budget",
    "chrome_trace",
    "compare",
    "compare_results",
    "connect",
    "diff",
    "format_delegated_graph",
    "generate_etrecord",
    "generate_memory_trace",
    "get_delegation_info",
    "graph_of",
    "inspect_node",
    "parse_etrecord",
    "print_delegated_graph",
    "print_delegation_info",
    "profile",
    "profile_on",
    "speedscope",
    "suggest",
    "summarize",
]

_MODULE_OF = {
    "Allocation": "memory",
    "allocations": "memory",
    "generate_memory_trace": "memory",
    "CompareReport": "compare_report",
    "CompareRow": "compare_report",
    "DelegateMappingBuilder": "delegation",
    "DelegationBreakdown": "delegation",
    "DelegationInfo": "delegation",
    "Device": "remote",
    "Diff": "diff_files",
    "Event": "events",
    "EventBlock": "events",
    "Graph": "graph",
    "Inspector": "inspector",
    "L1Comparator": "comparators",
    "MSEComparator": "comparators",
    "NumericalComparatorBase": "comparators",
    "PerfData": "events",
    "Profile": "profiler",
    "Row": "summary",
    "Run": "trace",
    "SNRComparator": "comparators",
    "Step": "mixed_precision",
    "Suggestion": "mixed_precision",
    "Summary": "summary",
    "TimeScale": "events",
    "Trace": "trace",
    "TraceEvent": "trace",
    "check_budget": "budget",
    "chrome_trace": "exports",
    "compare": "comparison",
    "compare_results": "comparators",
    "connect": "remote",
    "diff": "diff_files",
    "format_delegated_graph": "delegation",
    "get_delegation_info": "delegation",
    "graph_of": "graph_builder",
    "inspect_node": "delegation",
    "parse_etrecord": "records",
    "print_delegated_graph": "delegation",
    "print_delegation_info": "delegation",
    "profile": "profiler",
    "profile_on": "remote_profile",
    "speedscope": "exports",
    "suggest": "mixed_precision",
    "summarize": "summary",
}

_RECORD = "edgecore.pipeline.etrecord"
"""Its classes belong to the compiler, which needs torch."""

__getattr__ = lazy_names(
    "edgecore.devtools",
    {name: f"edgecore.devtools.{place}" for name, place in _MODULE_OF.items()}
    | {"ETRecord": _RECORD, "generate_etrecord": _RECORD},
)
