"""Group an ETDump's runs into blocks of runs with equal events, as ExecuTorch's Inspector does."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from edgecore.devtools.profiling import Values, identifier
from edgecore.format.etdump import DebugEvent, ETDump, ProfileEvent, RunData

Converter = Callable[[str, float], float]
MetadataParser = Callable[[list[Any]], list[str] | dict[str, Any]]


class TimeScale(Enum):
    """A unit of time, or cycles of a device, whose length is unknown."""

    NS = "ns"
    US = "us"
    MS = "ms"
    S = "s"
    CYCLES = "cycles"

    @property
    def per_second(self) -> int:
        """Number of units of this time scale in one second; 1 for cycles."""
        return {"ns": 10**9, "us": 10**6, "ms": 1000}.get(self.value, 1)


@dataclass(slots=True)
class PerfData:
    """The times of an event in all runs, in the order of the runs."""

    raw: list[float]

    def _percentile(self, percent: int) -> float:
        ordered = sorted(self.raw)
        place = (len(ordered) - 1) * percent / 100
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

    @property
    def p10(self) -> float:
        """Tenth percentile."""
        return self._percentile(10)

    @property
    def p50(self) -> float:
        """Median."""
        return self._percentile(50)

    @property
    def p90(self) -> float:
        """Ninetieth percentile."""
        return self._percentile(90)

    @property
    def avg(self) -> float:
        """Mean."""
        return statistics.fmean(self.raw)

    @property
    def min(self) -> float:
        """Shortest time."""
        return min(self.raw)

    @property
    def max(self) -> float:
        """Longest time."""
        return max(self.raw)


@dataclass(slots=True)
class Event:
    """An event that occurs in each run of a block.

    Attributes:
        name: The name; inside a delegate, the identifier.
        perf_data: The times, in the target unit; None if only values were recorded.
        op_types: The operators of the graph that the event computes.
        delegate_debug_identifier: The identifier that the delegate gave it.
        debug_handles: Debug handles of these operators: one, or a list.
        num_outputs: Number of outputs of a delegate's call.
        stack_traces: Name of a node -> the lines of code that made it.
        module_hierarchy: Name of a node -> the modules that contain it, as key -> (path, class).
        is_delegated_op: True inside a delegate; None if the event has neither times nor values.
        delegate_backend_name: Id of the backend.
        debug_data: Recorded values; None for a value that the debug buffer lacks.
        start_time: Start of the event in each run, in the unit of the file.
    """

    name: str
    perf_data: PerfData | None = None
    op_types: list[str] = field(default_factory=list)
    delegate_debug_identifier: int | str | None = None
    debug_handles: int | Sequence[int] | None = None
    num_outputs: int = 1
    stack_traces: dict[str, str | None] = field(default_factory=dict)
    module_hierarchy: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    is_delegated_op: bool | None = None
    delegate_backend_name: str | None = None
    debug_data: list[Any] = field(default_factory=list)
    start_time: list[int] | None = None
    _delegate_debug_metadatas: list[Any] = field(default_factory=list)
    _instruction_id: int | None = None
    _delegate_metadata_parser: MetadataParser | None = None
    _source: ProfileEvent | None = None

    @property
    def raw_delegate_debug_metadatas(self) -> list[Any]:
        """The metadata that the delegate attached to the event: the bytes of each run."""
        return self._delegate_debug_metadatas

    @property
    def delegate_debug_metadatas(self) -> list[str] | dict[str, Any]:
        """The delegate's metadata, converted by the inspector's parser; without a parser, the bytes."""
        if not self.is_delegated_op or self._delegate_metadata_parser is None:
            return self._delegate_debug_metadatas
        return self._delegate_metadata_parser(self._delegate_debug_metadatas)

    def asdict(self, _units: str = "") -> dict[str, Any]:
        """Return the row of the event in `Inspector.to_dataframe`."""
        times = self.perf_data
        operators: Any = self.op_types
        if len(operators) >= 5:
            operators = f"['{operators[0]}', '{operators[1]}' ... '{operators[-1]}'] ({len(operators)} total)"
        row: dict[str, Any] = {"event_name": self.name, "raw": times.raw if times else None}
        for name in ("p10", "p50", "p90", "avg", "min", "max"):
            row[name + _units] = getattr(times, name) if times else None
        return row | {
            "op_types": operators,
            "delegate_debug_identifier": self.delegate_debug_identifier,
            "stack_traces": self.stack_traces,
            "module_hierarchy": self.module_hierarchy,
            "is_delegated_op": self.is_delegated_op,
            "delegate_backend_name": self.delegate_backend_name,
            "debug_data": self.debug_data,
            "start_time": self.start_time,
        }

    def to_dataframe(self, _units: str = "") -> Any:
        """Return a pandas data frame with one row."""
        return as_frame([self.asdict(_units)])


@dataclass(slots=True)
class EventBlock:
    """Runs that have equal events, with the times of each event in all these runs.

    Attributes:
        name: Name of the block: "Execute", "Default".
        events: Its events.
        source_time_scale: Unit of the times in the file.
        target_time_scale: Unit of `Event.perf_data`.
        bundled_input_index: Number of the test case that ran; -1 if there was none.
        run_output: The outputs of the method, if they were recorded.
        reference_output: The expected outputs, from the ETRecord.
    """

    name: str
    events: list[Event] = field(default_factory=list)
    source_time_scale: TimeScale = TimeScale.NS
    target_time_scale: TimeScale = TimeScale.MS
    bundled_input_index: int | None = None
    run_output: list[Any] | None = None
    reference_output: list[Any] | None = None

    def rows(self, include_units: bool = False, include_delegate_debug_data: bool = False) -> list[dict[str, Any]]:
        """Return the rows of `to_dataframe`, without pandas."""
        units = f" ({self.target_time_scale.value})" if include_units else ""
        rows = [{"event_block_name": self.name, **event.asdict(units)} for event in self.events]
        if include_delegate_debug_data:
            for row, event in zip(rows, self.events, strict=True):
                added = event.delegate_debug_metadatas
                if added:
                    row.update(added if isinstance(added, dict) else {"delegate_debug_metadata": added})
        return rows

    def to_dataframe(self, include_units: bool = False, include_delegate_debug_data: bool = False) -> Any:
        """Return a pandas data frame with a row for each event."""
        return as_frame(self.rows(include_units, include_delegate_debug_data))


def as_frame(rows: list[dict[str, Any]]) -> Any:
    """Return rows as a pandas data frame."""
    import pandas  # type: ignore[import-untyped]

    frame = pandas.DataFrame(rows or None, columns=None if rows else ["event_block_name", *Event("").asdict()])
    # Use dtype object, because pandas would convert None to NaN.
    for name in ("delegate_debug_identifier", "delegate_backend_name"):
        frame[name] = pandas.Series([row.get(name) for row in rows], dtype=object)
    return frame


Signature = tuple[Any, ...]
Sample = tuple[ProfileEvent | None, list[DebugEvent]]


def event_blocks(
    etdump: ETDump,
    source: TimeScale,
    target: TimeScale,
    values: Values,
    parser: MetadataParser | None,
    converter: Converter | None,
) -> list[EventBlock]:
    """Group the runs of an ETDump.

    Args:
        etdump: The file.
        source: Unit of the times in the file.
        target: Unit of the times in the blocks.
        values: Reader of the debug buffer.
        parser: Reads the metadata of delegates.
        converter: Converts a delegate's time; by default such times are scaled like all others.

    Returns:
        The blocks in the order of their first runs.
    """
    groups: dict[Signature, tuple[dict[Signature, list[Sample]], list[DebugEvent]]] = {}
    for run in etdump.run_data:
        if not run.events:
            continue
        sample_of = _signatures(run)
        samples, outputs = groups.setdefault((run.name, tuple(sample_of), run.bundled_input_index), ({}, []))
        for signature, sample in sample_of.items():
            samples.setdefault(signature, []).append(sample)
        if not outputs:  # a block has the outputs of its first run; later runs may have had other inputs
            outputs += [
                event.debug_event for event in run.events if event.debug_event and _is_output(event.debug_event)
            ]
    scale = source.per_second / target.per_second
    return [
        EventBlock(
            name or "",
            [_event(runs, scale, values, parser, converter) for runs in samples.values()],
            source,
            target,
            index,
            [values.read(output.debug_entry) for output in outputs],
        )
        for (name, _, index), (samples, outputs) in groups.items()
    ]


def _is_output(event: DebugEvent) -> bool:
    output = event.debug_entry.output if event.debug_entry else None
    return output is not None and output.bool_val


def _signatures(run: RunData) -> dict[Signature, Sample]:
    """Map each signature in a run (instruction, signature of the times, signature of the values) to its last event."""
    by_operation: dict[Signature, tuple[list[ProfileEvent], list[DebugEvent]]] = {}
    for event in run.events:
        recorded = event.profile_event or event.debug_event
        if recorded is None:
            continue
        key = (
            recorded.instruction_id,
            recorded.chain_index,
            recorded.delegate_debug_id_int,
            recorded.delegate_debug_id_str,
        )
        profiles, debugs = by_operation.setdefault(key, ([], []))
        if isinstance(recorded, ProfileEvent):
            profiles.append(recorded)
        elif not _is_output(recorded):
            debugs.append(recorded)
    samples: dict[Signature, Sample] = {}
    for (instruction, *_), (profiles, debugs) in by_operation.items():
        values = _signature(debugs[0]) if debugs else None
        for profile in profiles:
            samples[instruction, _signature(profile), values] = (profile, debugs)
        if debugs and not profiles:
            samples[instruction, None, values] = (None, debugs)
    return samples


def _signature(event: ProfileEvent | DebugEvent) -> Signature:
    text = event.delegate_debug_id_str
    return event.name or "", event.instruction_id, event.delegate_debug_id_int, text if text != "" else None


def _event(
    samples: list[Sample], scale: float, values: Values, parser: MetadataParser | None, converter: Converter | None
) -> Event:
    profile, debugs = samples[0]
    recorded = profile or debugs[0]
    number, text = recorded.delegate_debug_id_int, recorded.delegate_debug_id_str
    key = number if number != -1 else text or None
    name = str(key) if key is not None else (debugs[0].name if debugs else None) or recorded.name or ""
    event = Event(name, delegate_debug_identifier=key, is_delegated_op=key is not None)
    event._instruction_id = recorded.instruction_id
    event._delegate_metadata_parser = parser
    event._source = profile or ProfileEvent(recorded.name, 0, recorded.instruction_id, number, text)
    profiles = [profile for profile, _ in samples if profile is not None]
    if profiles:
        if identifier(profiles[0]) is not None and converter is not None:
            times = [_elapsed(converter(name, p.start_time), converter(name, p.end_time)) for p in profiles]
        else:
            times = [_elapsed(p.start_time, p.end_time) / scale for p in profiles]
        event.perf_data = PerfData(times)
        event.start_time = [profile.start_time for profile in profiles]
        metadata = [profile.delegate_debug_metadata or "" for profile in profiles]
        event._delegate_debug_metadatas = metadata if any(metadata) else []
    event.debug_data = [values.read(debug.debug_entry) for debug in debugs]
    return event


def _elapsed(start: float, end: float) -> float:
    """Return the time between two readings of a clock, which may be a 32-bit counter that overflowed."""
    if start <= end:
        return end - start
    return 2**32 - 1 - start + end if start < 2**32 else 0.0
