"""Convert the trace records of firmware (`edgecore/trace_buffer.h`) to an ETDump with the names from the `.pte`.

The records are a memory dump of a `TraceBuffer` (a ring of events) or of a `TraceStatistics` (totals of each event).
`edgecore-run --records` (runtime_cpp/host/trace_records.cpp) must make the same ETDump from the same records.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NoReturn

from edgecore.errors import FormatError
from edgecore.format import DelegateCall, ExecutionPlan, KernelCall, Meta, PteFile, get_meta
from edgecore.format.etdump import ETDump, Event, ProfileEvent, RunData

MAGIC = b"ECTR"
_HEADER = struct.Struct("<4sHHQQQ")  # header: magic, version, record size, ticks per second, events, dropped events
_RECORD = struct.Struct("<IIHHI")  # fields of an event: begin, length (both in ticks), instruction, kind, id
_TOTAL = struct.Struct("<HHIIIIIQQ")  # fields of a total: instruction, kind, id, count, min, max, method, sum, squares
_VERSION = 2
_NAMED = 0x100  # flag of `kind`: `id` is the hash of an operation's name, not its number
_OPEN = 0xFFFFFFFF  # value of the field `length` of an event that has not ended
_U64 = (1 << 64) - 1
_LONGEST = 2.0**62  # limit of a time in nanoseconds, so that a wrong clock of a device causes no overflow


class _Kind(IntEnum):
    EXECUTE = 0
    KERNEL = 1
    DELEGATE = 2
    PREPARE = 3
    COPY = 4
    BACKEND = 5


@dataclass(slots=True)
class _Recorded:
    """An event with times in nanoseconds. If it is a total of several events, `metadata` has its figures as JSON."""

    kind: int
    instruction: int
    key: int
    begin: int
    end: int
    metadata: bytes | None = None


def etdump_of_records(records: Any, pte: PteFile) -> ETDump:
    """Convert trace records to an ETDump.

    Args:
        records: The content of the device's trace memory.
        pte: The program that ran.

    Returns:
        The ETDump. Totals become one run of mean times; the metadata of its events has the count, minimum, maximum and
        standard deviation in nanoseconds.

    Raises:
        FormatError: The bytes are not records, are damaged, or come from another program.
    """
    content = bytes(records)
    if len(content) < _HEADER.size:
        _refuse("have no header")
    magic, version, size, ticks_per_second, recorded, dropped = _HEADER.unpack_from(content)
    if magic != MAGIC:
        _refuse("do not begin with ECTR")
    if version != _VERSION or size not in (_RECORD.size, _TOTAL.size):
        _refuse("have a version that is not known")
    if ticks_per_second == 0:
        _refuse("have no time unit")
    plans = pte.program.execution_plan
    meta = {method.name: method for method in (get_meta(pte) or Meta()).methods}
    operations = {
        plan.name: {
            name_hash(operation.name): operation.name
            for delegate in (meta[plan.name].delegates if plan.name in meta else ())
            for operation in delegate.operations
            if operation.name
        }
        for plan in plans
    }
    methods = [_Method(plan, operations[plan.name], " " + plan.name if len(plans) > 1 else "") for plan in plans]
    if not methods:
        _refuse("belong to a program with other methods")
    unit = 1e9 / ticks_per_second
    read = _read_ring if size == _RECORD.size else _read_totals
    read(content, recorded, dropped, unit, methods)
    return ETDump(0, [block for method in methods for block in method.blocks()])


def name_hash(name: str) -> int:
    """Return the 32-bit FNV-1a hash by which records refer to a name."""
    value = 2166136261
    for byte in name.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def _refuse(reason: str) -> NoReturn:
    raise FormatError(f"the records of the trace {reason}")


def _nanoseconds(ticks: float, unit: float) -> int:
    return int(min(ticks * unit, _LONGEST))


def _read_ring(content: bytes, recorded: int, dropped: int, unit: float, methods: list[_Method]) -> None:
    """Add the events of a ring buffer to their methods, oldest first."""
    capacity = (len(content) - _HEADER.size) // _RECORD.size
    method: _Method | None = None
    run_begin = 0
    for number in range(recorded - min(recorded, capacity), recorded):
        place = _HEADER.size + number % capacity * _RECORD.size
        begin, length, instruction, kind, key = _RECORD.unpack_from(content, place)
        if kind & 0xFF > _Kind.BACKEND:
            _refuse("have an event of unknown kind")
        if kind == _Kind.EXECUTE:
            method = next((known for known in methods if known.hash & 0xFFFF == instruction), None)
            if method is None:
                _refuse("belong to a program with other methods")
            run_begin, begin = key << 32 | begin, 0
        elif method is None:  # skip an event of loading, or of a run whose begin the ring has overwritten
            dropped += 1
            continue
        start = _nanoseconds(float((run_begin + begin) & _U64), unit)
        end = start + _nanoseconds(0.0 if length == _OPEN else float(length), unit)
        method.add(_Recorded(kind, instruction, key, start, end))
    (method or methods[0]).dropped = dropped & _U64


def _read_totals(content: bytes, recorded: int, dropped: int, unit: float, methods: list[_Method]) -> None:
    """Add to each method the total of its runs, then the totals of its events, as if they ran one after another."""
    if recorded > (len(content) - _HEADER.size) // _TOTAL.size:
        _refuse("are cut off")
    totals = [_TOTAL.unpack_from(content, _HEADER.size + index * _TOTAL.size) for index in range(recorded)]
    ends: Counter[int] = Counter()  # hash of a method's name -> end of its last event, in nanoseconds
    for runs in (True, False):
        for instruction, kind, key, count, low, high, whole, ticks, squares in totals:
            is_run = kind == _Kind.EXECUTE
            if kind & 0xFF > _Kind.BACKEND or (count == 0 and not is_run):
                _refuse("have an event of unknown kind")
            if is_run != runs:
                continue
            if whole == 0 and len(methods) == 1:  # loading belongs to no method: add it to the only method
                method: _Method | None = methods[0]
            else:
                method = next((known for known in methods if known.hash == whole), None)
            if method is None:
                if whole:
                    _refuse("belong to a program with other methods")
                dropped += count
                continue
            # the count of runs is 0 until the first run has ended; avoid a division by 0
            runs_made = float(max(count, 1))
            mean = float(ticks) / runs_made
            figures = f'"count": {count}, "min": {_nanoseconds(float(min(low, high)), unit)}, '
            figures += f'"max": {_nanoseconds(float(high), unit)}'
            if squares != _U64:  # the largest integer marks an unknown sum of squares
                deviation = math.sqrt(max(0.0, float(squares) / runs_made - mean * mean))
                figures += f', "deviation": {_nanoseconds(deviation, unit)}'
            begin = 0 if is_run else ends[method.hash]
            end = begin + _nanoseconds(mean, unit)
            if not is_run:
                ends[method.hash] = end
            method.add(_Recorded(kind, instruction, key, begin, end, f"{{{figures}}}".encode()))
    methods[0].dropped = dropped & _U64


class _Method:
    """Collects the events of one method, and names them from the program."""

    def __init__(self, plan: ExecutionPlan, operations: dict[int, str], suffix: str) -> None:
        self.hash = name_hash(plan.name)
        self.dropped = 0
        self._operations = operations
        self._suffix = suffix
        self._events: list[_Recorded] = []
        self._kernels: list[str] = []  # index of an instruction -> kernel, or ""
        self._backends: list[str] = []  # index of an instruction -> backend of the delegate, or ""
        for instruction in (call.instr_args for chain in plan.chains for call in chain.instructions):
            kernel = backend = ""
            if isinstance(instruction, KernelCall) and 0 <= instruction.op_index < len(plan.operators):
                kernel = plan.operators[instruction.op_index].key.rpartition("::")[2]
            elif isinstance(instruction, DelegateCall) and 0 <= instruction.delegate_index < len(plan.delegates):
                backend = plan.delegates[instruction.delegate_index].id
            self._kernels.append(kernel)
            self._backends.append(backend)

    def add(self, event: _Recorded) -> None:
        self._events.append(event)

    def blocks(self) -> Iterator[RunData]:
        """Return a block for the preparation, then one for each run, in the layout that edgecore's runtime writes."""
        preparation, runs = _Block("Default" + self._suffix), [_Block("Execute" + self._suffix)]
        numbers = (number for number, event in enumerate(self._events) if event.kind & 0xFF == _Kind.EXECUTE)
        first = next(numbers, len(self._events))
        for event in self._events[:first]:
            preparation.add(*self._names(event), -1, replace(event, metadata=None))
        if self.dropped:
            preparation.add(f"{self.dropped} events were dropped", None, -1, _Recorded(0, 0, 0, 0, 0))
        prepared = 0  # end of the last preparation
        for event in self._events[first:]:
            kind = event.kind & 0xFF
            if kind == _Kind.EXECUTE:
                runs.append(_Block("Execute" + self._suffix))
                prepared = 0  # 0: the device's clock may have wrapped around since the last preparation ended
            if kind == _Kind.PREPARE:
                prepared = event.end
            outside = kind == _Kind.PREPARE or event.begin < prepared
            in_instruction = kind in (_Kind.KERNEL, _Kind.DELEGATE, _Kind.BACKEND) and not outside
            block = preparation if outside else runs[-1]
            block.add(*self._names(event), event.instruction if in_instruction else -1, event)
        return (block.run for block in (preparation, *runs) if block.run.events)

    def _names(self, event: _Recorded) -> tuple[str | None, str | None]:
        """Return (name, None) for an event of the runtime, (None, id) for an operation inside a delegate."""
        kind = event.kind & 0xFF
        if kind == _Kind.BACKEND:
            known = self._operations.get(event.key, f"operation {event.key}")
            return None, known if event.kind & _NAMED else f"[{event.key}]"
        if kind == _Kind.KERNEL:
            return "native_call_" + _at(self._kernels, event.instruction), None
        if kind in (_Kind.PREPARE, _Kind.COPY):
            word = "prepare " if kind == _Kind.PREPARE else "copy "
            return word + _at(self._backends, event.instruction), None
        return "Method::execute" if kind == _Kind.EXECUTE else "DELEGATE_CALL", None


def _at(names: list[str], index: int) -> str:
    return names[index] if index < len(names) else ""


class _Block:
    """A block of the ETDump. Repeated event names get a number, because names must be unique within an instruction."""

    def __init__(self, name: str) -> None:
        self.run = RunData(name)
        self._counts: Counter[tuple[str, int]] = Counter()

    def add(self, name: str | None, identifier: str | None, instruction: int, event: _Recorded) -> None:
        key = (name or identifier or "", instruction)
        self._counts[key] += 1
        again = f" ({self._counts[key]})" if self._counts[key] > 1 else ""
        shown = None if name is None else name + again
        numbered = None if identifier is None else identifier + again
        end = event.end or event.begin
        profile = ProfileEvent(shown, 0, instruction, -1, numbered, event.metadata, event.begin, end)
        self.run.events.append(Event(profile))
