"""Traces: the runs of an ETDump, with the origins of their events and nested times that add up."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgecore.devtools.file_arguments import dump_file, program_file, record_file
from edgecore.devtools.profiling.symbols import (
    DELEGATE,
    KERNEL,
    REPEATED,
    NoSymbols,
    Origin,
    ProgramSymbols,
    RecordSymbols,
    Symbols,
    identifier,
    method_of,
    operation_number,
)
from edgecore.files import write_file
from edgecore.format.etdump import ETDump, ProfileEvent, RunData, garbage_kept, write_etdump

EXECUTE = "Method::execute"
_THREAD = re.compile(r"thread (\d+) of instruction \d+$")
_OPERATOR_CALL = "OPERATOR_CALL"
_ORDER = {"run": 0, "call": 1, "delegate": 1, "kernel": 2, "other": 2}


@dataclass(slots=True, eq=False)
class TraceEvent:
    """An event of a run.

    Attributes:
        kind: "run" (a whole run), "kernel", "call" (ExecuTorch's frame around a kernel), "delegate" (a call of a
            delegate), "operation" (inside a delegate), "thread" (one thread's share of an operator, whose time the
            operator already counts) or "other" (loading, preparing, copying).
        name: Readable name of the event: "Conv2d", "linear", "prepare XnnpackBackend".
        kernel: Name that the runtime or backend gives the code that ran: "Convolution (NHWC, F32) IGEMM".
        instruction: Index of the instruction in the method; -1 if the event belongs to no instruction.
        start: Begin of the event, in the unit of the runtime's clock: usually nanoseconds.
        end: End of the event, in the same unit.
        origins: The graph nodes that the event computed; empty if unknown.
        backend: Id of the backend, such as "XnnpackBackend"; empty for kernels of the runtime.
        parent: The event that contains this one.
        placed: False if the times come from a device's clock, so that they do not lie within the delegate's call.
        own: Duration without the nested events.
        operation: Key of the delegate's operation in `PreprocessResult.debug_handle_map`, a number or a name; None for
            other events.
    """

    kind: str
    name: str
    kernel: str
    instruction: int
    start: int
    end: int
    origins: tuple[Origin, ...]
    backend: str
    parent: TraceEvent | None = None
    placed: bool = True
    own: int = 0
    operation: int | str | None = None

    @property
    def duration(self) -> int:
        """Duration of the event, in the unit of the runtime's clock."""
        return self.end - self.start


@dataclass(slots=True, eq=False)
class Run:
    """The events of one run of a method, or of another block, such as loading. `events` are in chronological order,
    with each event before the events nested in it.
    """

    name: str
    method: str
    events: list[TraceEvent]
    data: RunData

    @property
    def execution(self) -> TraceEvent | None:
        """The event of the whole run; None for blocks such as loading."""
        return next((event for event in self.events if event.kind == "run"), None)

    @property
    def duration(self) -> int:
        """Duration of the run; for other blocks, the time from the first start of an event to the last end."""
        whole = self.execution
        if whole is not None:
            return whole.duration
        return max((e.end for e in self.events), default=0) - min((e.start for e in self.events), default=0)


class Trace:
    """The blocks (runs of methods, loading) of an ETDump that edgecore or ExecuTorch wrote.

    Attributes:
        runs: The runs of methods, in chronological order.
        others: The other blocks, such as loading.

    Example:
        >>> trace = edgecore.devtools.Trace.read("runs.etdp", program="model.pte")
        >>> for event in trace.runs[-1].events:
        ...     print(event.name, event.duration, [origin.module for origin in event.origins])
    """

    def __init__(self, etdump: ETDump, symbols: Symbols | None = None) -> None:
        self._symbols: Symbols = symbols or NoSymbols()
        # (name, keys of the events) of a block -> (method of the block, meaning of each event)
        self._shapes: dict[Any, tuple[str, list[tuple[Any, ...]]]] = {}
        # method -> key of an event -> its meaning
        self._meanings: dict[str, dict[tuple[Any, ...], tuple[Any, ...]]] = {}
        with garbage_kept():
            blocks = [self._block(run) for run in etdump.run_data]
        self.runs = [block for block in blocks if block.execution is not None]
        self.others = [block for block in blocks if block.execution is None and block.events]

    @classmethod
    def read(cls, etdump: Any, program: Any = None, etrecord: Any = None) -> Trace:
        """Read a trace.

        Args:
            etdump: Path or bytes of the ETDump, or of trace records of firmware (`edgecore/trace_buffer.h`); records
                need `program` for their names.
            program: Path or bytes of the `.pte` or `.bpte` that ran, whose metadata map events to operators.
            etrecord: Path or bytes of an ETRecord, or the result of `get_etrecord`: maps events to operators for a file
                of ExecuTorch, which has no such metadata. Replaces the metadata of `program`.

        Returns:
            The trace.

        Raises:
            FormatError: A file is of another kind, or damaged.
        """
        symbols: Symbols | None = None
        if etrecord is not None:
            symbols = RecordSymbols(record_file(etrecord))
        elif program is not None:
            symbols = ProgramSymbols(program_file(program))
        with garbage_kept():
            return cls(dump_file(etdump, program), symbols)

    def select(self, method: str | None = None, skip: int = 0) -> Trace:
        """Return a trace with the runs of one method (None: of all methods), without the first `skip` runs."""
        selected = copy.copy(self)
        selected.runs = [run for run in self.runs if method is None or run.method in (method, "")][skip:]
        return selected

    def save(self, path: Any) -> None:
        """Write this trace as an ETDump."""
        blocks = [*self.others, *self.runs]
        write_file(path, write_etdump(ETDump(0, [block.data for block in blocks])))

    def _block(self, run: RunData) -> Run:
        """Convert a block (a run, or loading). Look up the origins only once for blocks with equal names and events."""
        events = [event.profile_event for event in run.events if event.profile_event]
        keys = [
            (e.name, e.instruction_id, e.delegate_debug_id_int, e.delegate_debug_id_str, e.delegate_debug_metadata)
            for e in events
        ]
        shape = run.name, tuple(keys)
        known = self._shapes.get(shape)
        if known is None:
            method = method_of(self._symbols, run.name, events)
            by_key = self._meanings.setdefault(method, {})
            for key, event in zip(keys, events, strict=True):
                if key not in by_key:
                    by_key[key] = self._meaning(method, event)
            known = self._shapes[shape] = method, [by_key[key] for key in keys]
        method, meanings = known
        nested = []
        for event, (kind, name, kernel, origins, backend, operation) in zip(events, meanings, strict=True):
            start, end = event.start_time, max(event.start_time, event.end_time)
            row = TraceEvent(kind, name, kernel, event.instruction_id, start, end, origins, backend)
            row.own, row.operation = end - start, operation
            nested.append(row)
        nested.sort(key=_place)
        _nest(nested)
        return Run(run.name or "", method, nested, run)

    def _meaning(self, method: str, event: ProfileEvent) -> tuple[Any, ...]:
        """Return the kind, name, kernel, origins, backend and operation of an event."""
        kind, name, kernel = _described(event)
        unknown = method == "" and not isinstance(self._symbols, NoSymbols)
        meaning = NoSymbols().find(method, event) if unknown else self._symbols.find(method, event)
        number = operation_number(event)
        return kind, name, kernel, meaning.origins, meaning.backend, identifier(event) if number is None else number


def _place(event: TraceEvent) -> tuple[int, int]:
    """Return a sort key: events are sorted by start time, and an outer event precedes a nested one with equal start."""
    return event.start, _ORDER.get(event.kind, 3)


def _described(event: ProfileEvent) -> tuple[str, str, str]:
    """Return the kind, name and kernel of an event."""
    name = REPEATED.sub("", event.name or "")
    key = identifier(event)
    if key is not None:
        text = REPEATED.sub("", str(key))
        short = text.rpartition(" ")[0] if text.endswith("]") or " #" in text[-8:] else text
        return "operation", short, _kernel(event.delegate_debug_metadata) or text
    if name == EXECUTE:
        return "run", name, name
    if name.startswith(KERNEL):
        return "kernel", name.removeprefix(KERNEL), name.removeprefix(KERNEL)
    if name == DELEGATE:
        return "delegate", name, name
    kind = "call" if name == _OPERATOR_CALL else "thread" if _THREAD.match(name) else "other"
    return kind, name, name


def _kernel(metadata: Any) -> str:
    """Return the kernel's name from the event's metadata, which edgecore's backends write as JSON; else ""."""
    if not metadata:
        return ""
    try:
        value = json.loads(bytes(metadata))
    except (ValueError, RecursionError):
        return ""
    return str(value.get("kernel", "")) if isinstance(value, dict) else ""


def _nest(events: Sequence[TraceEvent]) -> None:
    """Set the parent of each event, and subtract the event's duration from the parent's own time."""
    stack: list[TraceEvent] = []
    for event in events:
        kind = event.kind
        if kind == "thread":
            continue
        while stack and not _contains(stack[-1], event):
            stack.pop()
        parent = stack[-1] if stack else None
        if kind == "operation" and (parent is None or parent.kind not in ("delegate", "operation")):
            event.placed = False
            continue
        event.parent = parent
        if parent is not None:
            parent.own -= event.end - event.start
        if kind != "kernel":
            stack.append(event)


def _contains(outer: TraceEvent, event: TraceEvent) -> bool:
    if outer.kind == "operation" and event.start == outer.end:
        return False  # `event` begins as `outer` ends: it is the next operation, shorter than a clock tick
    return outer.start <= event.start and event.end <= outer.end
