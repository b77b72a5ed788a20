"""Compute the memory use of a `.pte` over time: the tensors that are live in its arenas at each instruction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from edgecore import format as fmt
from edgecore.devtools.file_arguments import program_file
from edgecore.devtools.graph import graph_of
from edgecore.devtools.profiling import ProgramSymbols
from edgecore.files import write_file


@dataclass(frozen=True, slots=True)
class Allocation:
    """A tensor in an arena.

    Attributes:
        name: The operator that computes the value, and the value's index: "linear [7]", "input [0]" or "buffer [3]".
        operator: The operator: "aten.linear.default"; empty for inputs and buffers.
        module: Module of the operator.
        source: Line of the operator.
        memory_id: Number of the arena, from 1.
        offset: Its first byte in the arena.
        bytes: Its size.
        first: Index of the first instruction during which it is live.
        last: Index of the last instruction during which it is live.
    """

    name: str
    operator: str
    module: str
    source: str
    memory_id: int
    offset: int
    bytes: int
    first: int
    last: int


def allocations(pte: fmt.PteFile, method: str = "forward") -> list[Allocation]:
    """Return the tensors in the arenas of a method, in the order of their first use.

    Raises:
        KeyError: The program has no such method.
    """
    plan = next((plan for plan in pte.program.execution_plan if plan.name == method), None)
    if plan is None:
        raise KeyError(f"the program has no method {method!r}")
    calls = [instruction.instr_args for instruction in plan.chains[0].instructions] if plan.chains else []
    end = max(len(calls) - 1, 0)
    uses: dict[int, list[int]] = {}
    makers: dict[int, int] = {}
    for step, call in enumerate(calls):
        for index in _tensors(plan, call):
            uses.setdefault(index, []).append(step)
            makers.setdefault(index, step)
    for index in plan.inputs:
        uses.setdefault(index, []).append(0)
    for index in plan.outputs:
        uses.setdefault(index, []).append(end)
    jumps = [
        (call.destination_instruction, step) for step, call in enumerate(calls) if isinstance(call, fmt.JumpFalseCall)
    ]
    loops = [(target, step) for target, step in jumps if target <= step]
    symbols = ProgramSymbols(pte)
    rows = []
    for index, value in enumerate(plan.values):
        tensor = value.val
        if not isinstance(tensor, fmt.Tensor) or tensor.allocation_info is None or index not in uses:
            continue
        steps = uses[index]
        first, last = min(steps), max(steps)
        for begin, stop in loops:  # a value that a loop uses must live through all iterations
            if first <= stop and last >= begin:
                first, last = min(first, begin), max(last, stop)
        kind, origin = "input" if index in plan.inputs else "", None
        if not kind and (tensor.data_buffer_idx or tensor.extra_tensor_info):
            kind, first, last = "buffer", 0, end
        elif not kind:
            origin = next(iter(symbols.origins(method, makers[index])), None) if index in makers else None
        name = kind or (origin.operator.split(".")[-2] if origin and "." in origin.operator else "value")
        size = prod(tensor.sizes) * fmt.SCALAR_TYPE_SIZES[tensor.scalar_type]
        place = tensor.allocation_info
        texts = (origin.operator, origin.module, origin.source) if origin else ("", "", "")
        rows.append(Allocation(f"{name} [{index}]", *texts, place.memory_id, place.offset, size, first, last))
    return sorted(rows, key=lambda row: (row.first, row.memory_id, row.offset))


def _tensors(plan: fmt.ExecutionPlan, call: Any) -> Iterator[int]:
    """Yield the values that an instruction reads or writes, including the items of lists."""
    if isinstance(call, (fmt.KernelCall, fmt.DelegateCall)):
        for index in call.args:
            value = plan.values[index].val if 0 <= index < len(plan.values) else None
            if isinstance(value, (fmt.TensorList, fmt.OptionalTensorList)):
                yield from (item for item in value.items if item >= 0)
            else:
                yield index
    elif isinstance(call, fmt.MoveCall):
        yield from (call.move_from, call.move_to)


@dataclass(frozen=True, slots=True)
class Step:
    """The use of the arenas while an instruction runs.

    Attributes:
        index: Index of the instruction.
        name: The operator that the instruction runs, such as "linear", or the id of the backend that it calls.
        bytes: Bytes of live tensors in all arenas; bytes that tensors share count once.
        scratch: Scratch bytes that the called delegate declares.
    """

    index: int
    name: str
    bytes: int
    scratch: int


@dataclass(frozen=True, slots=True)
class Peak:
    """The instruction with the most live bytes in the arenas, and its live tensors, largest first."""

    index: int
    bytes: int
    owners: list[Allocation]

    def as_rows(self) -> list[dict[str, Any]]:
        """Return the tensors that are live at the peak as dicts for JSON."""
        keys = ("name", "operator", "module", "source", "bytes")
        return [{key: getattr(owner, key) for key in keys} for owner in self.owners]


def peak(pte: fmt.PteFile, method: str = "forward") -> Peak:
    """Return the instruction with the most live bytes in the arenas, and the tensors that are live then.

    Raises:
        KeyError: The program has no such method.
    """
    rows = allocations(pte, method)
    used = _usage(rows)
    index = max(range(len(used)), key=lambda step: used[step])
    owners = sorted((row for row in rows if row.first <= index <= row.last), key=lambda row: -row.bytes)
    return Peak(index, used[index], owners)


def timeline(pte: fmt.PteFile, method: str = "forward") -> list[Step]:
    """Return the live bytes of the arenas at each instruction of a method.

    Raises:
        KeyError: The program has no such method.
    """
    used = _usage(allocations(pte, method))
    graph = next(graph for graph in graph_of(pte).methods if graph.name == method)
    names = {node.id: node.name for node in graph.nodes}
    plan = next(plan for plan in pte.program.execution_plan if plan.name == method)
    meta = fmt.get_meta(pte)
    delegates = (about.delegates if (about := meta.method(method)) else []) if meta else []
    steps = []
    for index, instruction in enumerate(plan.chains[0].instructions if plan.chains else ()):
        scratch, call = 0, instruction.instr_args
        if isinstance(call, fmt.DelegateCall) and 0 <= call.delegate_index < len(delegates):
            needs = delegates[call.delegate_index].memory
            scratch = sum(need.bytes for need in needs if need.kind == fmt.MemoryKind.SCRATCH)
        steps.append(
            Step(index, names.get(f"{method}/{index}", "free"), used[index] if index < len(used) else 0, scratch)
        )
    return steps


def _usage(rows: list[Allocation]) -> list[int]:
    """Return the live bytes at each instruction, up to the last instruction with a live tensor."""
    begin: dict[int, list[Allocation]] = {}
    for row in rows:
        begin.setdefault(row.first, []).append(row)
    used = []
    live: list[Allocation] = []
    for step in range(max((row.last for row in rows), default=0) + 1):
        live = [row for row in live if row.last >= step] + begin.get(step, [])
        total, arena, reached = 0, -1, 0
        for memory, start, end in sorted((row.memory_id, row.offset, row.offset + row.bytes) for row in live):
            reached = 0 if memory != arena else reached
            arena = memory
            total += max(0, end - max(start, reached))
            reached = max(reached, end)
        used.append(total)
    return used


def delegate_needs(pte: fmt.PteFile, method: str) -> dict[str, dict[str, int]] | None:
    """Sum up the memory that the delegates of a method declare, in bytes by backend and use; None without metadata.

    A use is `scratch`, `persistent` or `staging`, followed by ` on device` for memory that is not host memory.
    Delegates with the same `shared_group` use the same memory, so only the largest need of a group counts.
    """
    meta = fmt.get_meta(pte)
    about = meta.method(method) if meta else None
    plan = next((plan for plan in pte.program.execution_plan if plan.name == method), None)
    if about is None or plan is None:
        return None
    needs: dict[str, dict[str, int]] = {}
    shared: dict[str, int] = {}
    for delegate, declared in zip(plan.delegates, about.delegates, strict=False):
        uses = needs.setdefault(delegate.id, {})
        for need in declared.memory:
            known = shared.get(need.shared_group, 0) if need.shared_group else 0
            shared[need.shared_group] = max(known, need.bytes)
            use = need.kind.name.lower() + (" on device" if need.space else "")
            uses[use] = uses.get(use, 0) + max(0, need.bytes - known)
    return needs


def generate_memory_trace(
    executorch_program_manager: Any,
    chrome_trace_filename: str | Path,
    enable_memory_offsets: bool = False,
    method_name: str = "forward",
    ommit_metadata: bool = False,
) -> None:
    """Write the memory use over time as JSON for Chrome's trace viewer, in the layout of ExecuTorch.

    Each arena is a process of the trace, each instruction a thread, and the x axis shows bytes instead of time.

    Args:
        executorch_program_manager: The finished program, or path or bytes of its `.pte`.
        chrome_trace_filename: The file to write.
        enable_memory_offsets: True to draw each tensor at its offset in the arena instead of after the previous one.
        method_name: The method.
        ommit_metadata: Leave out operators, modules and lines.

    Raises:
        KeyError: The program has no such method.
    """
    program = executorch_program_manager
    if hasattr(program, "pte"):
        pte = program.pte
    else:
        pte = program_file(program)
    rows = allocations(pte, method_name)
    events = []
    for step in range(max((row.last for row in rows), default=-1) + 1):
        place: dict[int, int] = {}
        for row in (row for row in rows if row.first <= step <= row.last):
            before = place.get(row.memory_id, 0)
            facts = {"op_name": row.operator, "Memory ID": row.memory_id, "fqn": row.module, "source": row.source}
            event: dict[str, Any] = {"name": row.name, "cat": "memory_allocation", "ph": "X"}
            event |= {"ts": row.offset if enable_memory_offsets else before, "dur": row.bytes, "pid": row.memory_id}
            events.append(event | {"tid": step, "args": {} if ommit_metadata else facts | {"bytes": row.bytes}})
            place[row.memory_id] = before + row.bytes
    write_file(chrome_trace_filename, json.dumps({"traceEvents": events}, indent=2))
