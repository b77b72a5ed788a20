"""Developer tools: what a model does on the device, and where its time goes.

Importing this package imports neither torch, numpy nor pandas.
"""

from __future__ import annotations

from edgecore.stability import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
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
        print_delegated_graph,
    )
    from edgecore.devtools.events import Event, EventBlock, PerfData, TimeScale
    from edgecore.devtools.exports import chrome_trace, speedscope
    from edgecore.devtools.inspector import Inspector
    from edgecore.devtools.memory import Allocation, allocations, generate_memory_trace
    from edgecore.devtools.profiler import Profile, profile
    from edgecore.devtools.summary import Row, Summary, summarize
    from edgecore.devtools.trace import Run, Trace, TraceEvent

__all__ = [
    "Allocation",
    "CompareReport",
    "CompareRow",
    "DelegateMappingBuilder",
    "DelegationBreakdown",
    "DelegationInfo",
    "Event",
    "EventBlock",
    "Inspector",
    "L1Comparator",
    "MSEComparator",
    "NumericalComparatorBase",
    "PerfData",
    "Profile",
    "Row",
    "Run",
    "SNRComparator",
    "Summary",
    "TimeScale",
    "Trace",
    "TraceEvent",
    "allocations",
    "chrome_trace",
    "compare",
    "compare_results",
    "format_delegated_graph",
    "generate_memory_trace",
    "get_delegation_info",
    "print_delegated_graph",
    "profile",
    "speedscope",
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
    "Event": "events",
    "EventBlock": "events",
    "Inspector": "inspector",
    "L1Comparator": "comparators",
    "MSEComparator": "comparators",
    "NumericalComparatorBase": "comparators",
    "PerfData": "events",
    "Profile": "profiler",
    "Row": "summary",
    "Run": "trace",
    "SNRComparator": "comparators",
    "Summary": "summary",
    "TimeScale": "events",
    "Trace": "trace",
    "TraceEvent": "trace",
    "chrome_trace": "exports",
    "compare": "comparison",
    "compare_results": "comparators",
    "format_delegated_graph": "delegation",
    "get_delegation_info": "delegation",
    "print_delegated_graph": "delegation",
    "profile": "profiler",
    "speedscope": "exports",
    "summarize": "summary",
}

__getattr__ = lazy_names(
    "edgecore.devtools", {name: f"edgecore.devtools.{place}" for name, place in _MODULE_OF.items()}
)
