"""Traces and profiles: events with the operators, modules and source lines they stand for, and their times."""

from edgecore.devtools.profiling.estimated_cycles import NOTE, estimates
from edgecore.devtools.profiling.exports import chrome_trace, speedscope
from edgecore.devtools.profiling.profiler import Profile, profile, profile_of_trace
from edgecore.devtools.profiling.recorded_values import Values
from edgecore.devtools.profiling.summary import (
    KERNELS,
    Row,
    Summary,
    label,
    label_of_origins,
    middle,
    module,
    operators,
    parts,
    short_operator,
    summarize,
)
from edgecore.devtools.profiling.symbols import (
    DELEGATE,
    FRAMEWORK,
    REPEATED,
    Origin,
    ProgramSymbols,
    RecordSymbols,
    Symbols,
    identifier,
    method_of,
    operation_number,
)
from edgecore.devtools.profiling.trace import Run, Trace, TraceEvent

__all__ = [
    "DELEGATE",
    "FRAMEWORK",
    "KERNELS",
    "NOTE",
    "REPEATED",
    "Origin",
    "Profile",
    "ProgramSymbols",
    "RecordSymbols",
    "Row",
    "Run",
    "Summary",
    "Symbols",
    "Trace",
    "TraceEvent",
    "Values",
    "chrome_trace",
    "estimates",
    "identifier",
    "label",
    "label_of_origins",
    "method_of",
    "middle",
    "module",
    "operation_number",
    "operators",
    "parts",
    "profile",
    "profile_of_trace",
    "short_operator",
    "speedscope",
    "summarize",
]
