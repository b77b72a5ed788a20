"""Sum up the times of a trace by operator, module, backend, source line or kernel."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from edgecore.devtools.profiling.symbols import Origin
from edgecore.devtools.profiling.trace import Run, Trace, TraceEvent

GROUPS = ("operator", "module", "backend", "line", "kernel")
KERNELS = "kernels"
"""Backend name of the runtime's own kernels."""


@dataclass(slots=True)
class Row:
    """The times of the events with one label.

    Attributes:
        label: Operator, module, backend, line or kernel; a description in parentheses for events without one.
        backend: The backends that ran these events.
        calls: Mean number of these events per run.
        times: Nanoseconds in each run of the summary.
        rest: True for time that the runtime or a delegate spends outside of operators.
    """

    label: str
    backend: str
    calls: float
    times: list[int] = field(default_factory=list)
    rest: bool = False

    @property
    def mean(self) -> float:
        """Mean of `times`, in nanoseconds."""
        return statistics.fmean(self.times)


@dataclass(slots=True)
class Summary:
    """The times of the runs of a trace, summed up by label.

    Attributes:
        rows: The rows by time, longest first, followed by the `rest` rows.
        durations: Nanoseconds of the counted runs: the middle half of all runs, which excludes runs that the system
            interrupted.
        every: Nanoseconds of all runs, in chronological order.
        unplaced: Number of events in the counted runs whose times come from another clock; no row includes
            these events.
    """

    rows: list[Row]
    durations: list[int]
    every: list[int]
    unplaced: int = 0

    @property
    def mean(self) -> float:
        """Mean nanoseconds of the counted runs; equals the sum of the means of all rows."""
        return statistics.fmean(self.durations) if self.durations else 0.0

    @property
    def covered(self) -> float:
        """Share of a run's time that is spent in operators, from 0 to 1."""
        return sum(row.mean for row in self.rows if not row.rest) / self.mean if self.mean else 0.0


def summarize(trace: Trace, by: str = "operator") -> Summary:
    """Add up the times of a trace.

    Args:
        trace: The trace; its runs should be of one method.
        by: The groups to sum up: "operator", "module", "backend", "line" or "kernel".

    Returns:
        The sums.

    Raises:
        ValueError: `by` has another value.
    """
    if by not in GROUPS:
        raise ValueError(f"by must be one of {', '.join(GROUPS)}; got {by!r}")
    runs = middle(trace.runs)
    rows: dict[tuple[str, bool], Row] = {}
    backends: dict[tuple[str, bool], dict[str, None]] = {}
    unplaced = 0
    for index, run in enumerate(runs):
        unplaced += sum(event.parent is None and not event.placed for event in run.events)
        for event, rest_label in parts(run):
            rest = rest_label != ""
            key = (rest_label or label(event, by), rest)
            row = rows.get(key)
            if row is None:
                row = rows[key] = Row(key[0], "", 0, [0] * len(runs), rest)
                backends[key] = {}
            row.times[index] += event.own
            row.calls += 1
            if not rest:
                backends[key][event.backend or KERNELS] = None
    for key, row in rows.items():
        row.backend = ", ".join(backends[key])
        row.calls = row.calls / len(runs)
    ordered = sorted(rows.values(), key=lambda row: (row.rest, -row.mean))
    every = [run.duration for run in trace.runs]
    return Summary(ordered, [run.duration for run in runs], every, unplaced)


def middle(runs: Sequence[Run]) -> list[Run]:
    """Leave out the fastest and the slowest quarter of the runs; return the others in chronological order."""
    cut = len(runs) // 4
    kept = sorted(range(len(runs)), key=lambda index: runs[index].duration)[cut : len(runs) - cut]
    return [runs[index] for index in sorted(kept)]


def parts(run: Run) -> Iterator[tuple[TraceEvent, str]]:
    """Yield each event of a run with a text. The `own` times (without nested events) add up to the run's time.

    The text is empty for an event of an operator; otherwise it says that the runtime or a delegate used this time,
    between operators or operations.
    """
    calls_inside = {id(event.parent) for event in run.events if event.kind == "operation" and event.parent}
    for event in run.events:
        if event.parent is not None or event.kind == "run":
            rest = event.kind in ("run", "call", "other") or (event.kind == "delegate" and id(event) in calls_inside)
            yield event, _rest(event) if rest else ""


def _rest(event: TraceEvent) -> str:
    if event.kind == "other":
        return f"({event.name})"
    if event.kind == "delegate":
        return f"({event.backend or 'delegate'}, between operations)"
    return "(runtime, between operators)"


def label(event: TraceEvent, by: str) -> str:
    """Return the operator, module, backend, line or kernel (as `by` says) by which an event is summed up."""
    if by == "backend":
        return event.backend or KERNELS
    if by == "kernel":
        return event.kernel
    if not event.origins:
        return f"({event.name})" if by == "operator" else "(no module)" if by == "module" else "(no line)"
    return label_of_origins(event.origins, by)


def label_of_origins(origins: Sequence[Origin], by: str) -> str:
    """Return the operator, module or source line by which graph nodes that run together are summed up."""
    if by == "operator":
        return operators(origins)
    if by == "module":
        return module(origins)
    return next((origin.source for origin in origins if origin.source), "(no line)")


def operators(origins: Sequence[Origin]) -> str:
    """Join the short names of the operators: "convolution + hardtanh"; more than 4 are abbreviated."""
    names = [short_operator(origin.operator) for origin in origins]
    names = [name for index, name in enumerate(names) if index == 0 or name != names[index - 1]]
    return " + ".join(names) if len(names) <= 4 else f"{names[0]} + {len(origins) - 1} more"


def short_operator(name: str) -> str:
    """Return "linear" for "aten.linear.default"."""
    parts = name.replace("::", ".").split(".")
    return parts[-2] if len(parts) >= 2 else name


def module(origins: Sequence[Origin]) -> str:
    """Return the innermost module that contains all nodes; if there is none, the first node's module."""
    shared = []
    for names in zip(*(origin.module.split(".") for origin in origins), strict=False):
        if len(set(names)) > 1 or not names[0]:
            break
        shared.append(names[0])
    if shared:
        return ".".join(shared)
    return next((origin.module for origin in origins if origin.module), "(the model itself)")
