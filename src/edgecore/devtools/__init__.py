"""Developer tools: what a model does on the device, and where its time goes.

Importing this package imports neither torch, numpy nor pandas.
"""

from __future__ import annotations

from edgecore.stability import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore.devtools.exports import chrome_trace, speedscope
    from edgecore.devtools.profiler import Profile, profile
    from edgecore.devtools.summary import Row, Summary, summarize
    from edgecore.devtools.trace import Run, Trace, TraceEvent

__all__ = [
    "Profile",
    "Row",
    "Run",
    "Summary",
    "Trace",
    "TraceEvent",
    "chrome_trace",
    "profile",
    "speedscope",
    "summarize",
]

_MODULE_OF = {
    "Profile": "profiler",
    "Row": "summary",
    "Run": "trace",
    "Summary": "summary",
    "Trace": "trace",
    "TraceEvent": "trace",
    "chrome_trace": "exports",
    "profile": "profiler",
    "speedscope": "exports",
    "summarize": "summary",
}

__getattr__ = lazy_names(
    "edgecore.devtools", {name: f"edgecore.devtools.{place}" for name, place in _MODULE_OF.items()}
)
