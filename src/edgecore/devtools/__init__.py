"""Developer tools: compare a model on a device with PyTorch, profile it, and inspect and compare its files.

Importing this package imports neither torch, numpy nor pandas. A name's module is imported at its first use; modules
that compile models or hold torch graphs need torch.
"""

from __future__ import annotations

from edgecore.stability import public_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore.devtools.budget import check_budget as check_budget
    from edgecore.devtools.comparison import CompareReport as CompareReport
    from edgecore.devtools.comparison import CompareRow as CompareRow
    from edgecore.devtools.comparison import Culprit as Culprit
    from edgecore.devtools.comparison import compare as compare
    from edgecore.devtools.file_diff import Diff as Diff
    from edgecore.devtools.file_diff import diff as diff
    from edgecore.devtools.graph import Graph as Graph
    from edgecore.devtools.graph import graph_of as graph_of
    from edgecore.devtools.memory import Allocation as Allocation
    from edgecore.devtools.memory import allocations as allocations
    from edgecore.devtools.memory import generate_memory_trace as generate_memory_trace
    from edgecore.devtools.mixed_precision import Step as Step
    from edgecore.devtools.mixed_precision import Suggestion as Suggestion
    from edgecore.devtools.mixed_precision import suggest as suggest
    from edgecore.devtools.profiling import Profile as Profile
    from edgecore.devtools.profiling import Row as Row
    from edgecore.devtools.profiling import Run as Run
    from edgecore.devtools.profiling import Summary as Summary
    from edgecore.devtools.profiling import Trace as Trace
    from edgecore.devtools.profiling import TraceEvent as TraceEvent
    from edgecore.devtools.profiling import chrome_trace as chrome_trace
    from edgecore.devtools.profiling import profile as profile
    from edgecore.devtools.profiling import speedscope as speedscope
    from edgecore.devtools.profiling import summarize as summarize
    from edgecore.devtools.remote import Device as Device
    from edgecore.devtools.remote import connect as connect
    from edgecore.devtools.remote import profile_on as profile_on
    from edgecore.executorch.devtools.comparators import L1Comparator as L1Comparator
    from edgecore.executorch.devtools.comparators import MSEComparator as MSEComparator
    from edgecore.executorch.devtools.comparators import NumericalComparatorBase as NumericalComparatorBase
    from edgecore.executorch.devtools.comparators import SNRComparator as SNRComparator
    from edgecore.executorch.devtools.comparators import compare_results as compare_results
    from edgecore.executorch.devtools.etrecord.parse import parse_etrecord as parse_etrecord
    from edgecore.executorch.devtools.etrecord.record import ETRecord as ETRecord
    from edgecore.executorch.devtools.etrecord.record import generate_etrecord as generate_etrecord
    from edgecore.executorch.devtools.events import Event as Event
    from edgecore.executorch.devtools.events import EventBlock as EventBlock
    from edgecore.executorch.devtools.events import PerfData as PerfData
    from edgecore.executorch.devtools.events import TimeScale as TimeScale
    from edgecore.executorch.devtools.inspector import Inspector as Inspector
    from edgecore.executorch.exir.delegation import DelegateMappingBuilder as DelegateMappingBuilder
    from edgecore.executorch.exir.delegation import DelegationBreakdown as DelegationBreakdown
    from edgecore.executorch.exir.delegation import DelegationInfo as DelegationInfo
    from edgecore.executorch.exir.delegation import format_delegated_graph as format_delegated_graph
    from edgecore.executorch.exir.delegation import get_delegation_info as get_delegation_info
    from edgecore.executorch.exir.delegation import inspect_node as inspect_node
    from edgecore.executorch.exir.delegation import print_delegated_graph as print_delegated_graph
    from edgecore.executorch.exir.delegation import print_delegation_info as print_delegation_info

__all__, __getattr__ = public_names(
    "edgecore.devtools",
    {
        "edgecore.devtools.budget": "check_budget",
        "edgecore.devtools.comparison": "CompareReport CompareRow Culprit compare",
        "edgecore.devtools.file_diff": "Diff diff",
        "edgecore.devtools.graph": "Graph graph_of",
        "edgecore.devtools.memory": "Allocation allocations generate_memory_trace",
        "edgecore.devtools.mixed_precision": "Step Suggestion suggest",
        "edgecore.devtools.profiling": (
            "Profile Row Run Summary Trace TraceEvent chrome_trace profile speedscope summarize"
        ),
        "edgecore.devtools.remote": "Device connect profile_on",
        "edgecore.executorch.devtools.comparators": (
            "L1Comparator MSEComparator NumericalComparatorBase SNRComparator compare_results"
        ),
        "edgecore.executorch.devtools.etrecord.parse": "parse_etrecord",
        "edgecore.executorch.devtools.etrecord.record": "ETRecord generate_etrecord",
        "edgecore.executorch.devtools.events": "Event EventBlock PerfData TimeScale",
        "edgecore.executorch.devtools.inspector": "Inspector",
        "edgecore.executorch.exir.delegation": (
            "DelegateMappingBuilder DelegationBreakdown DelegationInfo format_delegated_graph get_delegation_info "
            "inspect_node print_delegated_graph print_delegation_info"
        ),
    },
)
