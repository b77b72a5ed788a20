"""Developer tools: what a model does on the device, and where its time goes.

Importing this package imports neither torch, numpy nor pandas. Using a name imports its module: those that compile models
or hold graphs of torch need torch.
"""

from __future__ import annotations

from edgecore.stability import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore.devtools.budget import check_budget
    from edgecore.devtools.comparison import CompareReport, CompareRow, Culprit, compare
    from edgecore.devtools.file_diff import Diff, diff
    from edgecore.devtools.graph import Graph, graph_of
    from edgecore.devtools.memory import Allocation, allocations, generate_memory_trace
    from edgecore.devtools.mixed_precision import Step, Suggestion, suggest
    from edgecore.devtools.profiling import (
        Profile,
        Row,
        Run,
        Summary,
        Trace,
        TraceEvent,
        chrome_trace,
        profile,
        speedscope,
        summarize,
    )
    from edgecore.devtools.remote import Device, connect, profile_on
    from edgecore.executorch.devtools.comparators import (
        L1Comparator,
        MSEComparator,
        NumericalComparatorBase,
        SNRComparator,
        compare_results,
    )
    from edgecore.executorch.devtools.etrecord.parse import parse_etrecord
    from edgecore.executorch.devtools.etrecord.record import ETRecord, generate_etrecord
    from edgecore.executorch.devtools.events import Event, EventBlock, PerfData, TimeScale
    from edgecore.executorch.devtools.inspector import Inspector
    from edgecore.executorch.exir.delegation import (
        DelegateMappingBuilder,
        DelegationBreakdown,
        DelegationInfo,
        format_delegated_graph,
        get_delegation_info,
        inspect_node,
        print_delegated_graph,
        print_delegation_info,
    )

__all__ = [
    "Allocation",
    "CompareReport",
    "CompareRow",
    "Culprit",
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
    "Allocation": "edgecore.devtools.memory",
    "CompareReport": "edgecore.devtools.comparison",
    "CompareRow": "edgecore.devtools.comparison",
    "Culprit": "edgecore.devtools.comparison",
    "DelegateMappingBuilder": "edgecore.executorch.exir.delegation",
    "DelegationBreakdown": "edgecore.executorch.exir.delegation",
    "DelegationInfo": "edgecore.executorch.exir.delegation",
    "Device": "edgecore.devtools.remote",
    "Diff": "edgecore.devtools.file_diff",
    "ETRecord": "edgecore.executorch.devtools.etrecord.record",
    "Event": "edgecore.executorch.devtools.events",
    "EventBlock": "edgecore.executorch.devtools.events",
    "Graph": "edgecore.devtools.graph",
    "Inspector": "edgecore.executorch.devtools.inspector",
    "L1Comparator": "edgecore.executorch.devtools.comparators",
    "MSEComparator": "edgecore.executorch.devtools.comparators",
    "NumericalComparatorBase": "edgecore.executorch.devtools.comparators",
    "PerfData": "edgecore.executorch.devtools.events",
    "Profile": "edgecore.devtools.profiling",
    "Row": "edgecore.devtools.profiling",
    "Run": "edgecore.devtools.profiling",
    "SNRComparator": "edgecore.executorch.devtools.comparators",
    "Step": "edgecore.devtools.mixed_precision",
    "Suggestion": "edgecore.devtools.mixed_precision",
    "Summary": "edgecore.devtools.profiling",
    "TimeScale": "edgecore.executorch.devtools.events",
    "Trace": "edgecore.devtools.profiling",
    "TraceEvent": "edgecore.devtools.profiling",
    "allocations": "edgecore.devtools.memory",
    "check_budget": "edgecore.devtools.budget",
    "chrome_trace": "edgecore.devtools.profiling",
    "compare": "edgecore.devtools.comparison",
    "compare_results": "edgecore.executorch.devtools.comparators",
    "connect": "edgecore.devtools.remote",
    "diff": "edgecore.devtools.file_diff",
    "format_delegated_graph": "edgecore.executorch.exir.delegation",
    "generate_etrecord": "edgecore.executorch.devtools.etrecord.record",
    "generate_memory_trace": "edgecore.devtools.memory",
    "get_delegation_info": "edgecore.executorch.exir.delegation",
    "graph_of": "edgecore.devtools.graph",
    "inspect_node": "edgecore.executorch.exir.delegation",
    "parse_etrecord": "edgecore.executorch.devtools.etrecord.parse",
    "print_delegated_graph": "edgecore.executorch.exir.delegation",
    "print_delegation_info": "edgecore.executorch.exir.delegation",
    "profile": "edgecore.devtools.profiling",
    "profile_on": "edgecore.devtools.remote",
    "speedscope": "edgecore.devtools.profiling",
    "suggest": "edgecore.devtools.mixed_precision",
    "summarize": "edgecore.devtools.profiling",
}

__getattr__ = lazy_names("edgecore.devtools", _MODULE_OF)
