"""Map trace events to their origins: operators, modules and source lines of the model.

edgecore stores the origins in the metadata of the `.pte`; for a file of ExecuTorch they come from an ETRecord.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from edgecore.format import DelegateCall, KernelCall, Meta, PteFile, get_meta
from edgecore.format.etdump import ProfileEvent
from edgecore.format.etrecord import EDGE, EtRecordFile, GraphNode, graph_nodes

KERNEL = "native_call_"
DELEGATE = "DELEGATE_CALL"
FRAMEWORK = ("Method::execute", "Method::init", "Program::load_method", "OPERATOR_CALL")
REPEATED = re.compile(r" \(\d+\)$")
"""The suffix, such as ` (2)`, of an event's name if its instruction runs again in the same run."""
_NUMBER = re.compile(r"(?:^| )\[(\d+)\]$")
_LINE = re.compile(r'File "([^"]*)", line (\d+)')


@dataclass(frozen=True, slots=True)
class Origin:
    """A graph node, such as operator "aten.linear.default" in module "features.0" at source "model.py:12"."""

    handle: int
    operator: str
    module: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The origin of an event: the graph nodes, and the id of the backend that runs them ("" for a kernel)."""

    origins: tuple[Origin, ...] = ()
    backend: str = ""


class Symbols(Protocol):
    """Maps events to their origins (graph nodes and a backend). Implementations read a `.pte` or an ETRecord."""

    def methods(self) -> Sequence[str]: ...

    def fits(self, method: str, event: ProfileEvent) -> bool:
        """Return False if the event cannot come from a run of the method."""
        ...

    def size(self, method: str) -> int:
        """Return how many events a run of the method has if it executes each instruction once."""
        ...

    def find(self, method: str, event: ProfileEvent) -> Meaning:
        """Return the graph nodes and the backend that caused an event."""
        ...


def identifier(event: ProfileEvent) -> str | int | None:
    """Return the name or number by which a delegate identifies the event; None for an event of the runtime."""
    if event.delegate_debug_id_int != -1:
        return event.delegate_debug_id_int
    return event.delegate_debug_id_str or None


def operation_number(event: ProfileEvent) -> int | None:
    """Return the number at the end of an operation's id, as in `Conv2d [12]`; None if the id has no number."""
    if event.delegate_debug_id_int != -1:
        return event.delegate_debug_id_int
    match = _NUMBER.search(REPEATED.sub("", event.delegate_debug_id_str or ""))
    return int(match[1]) if match else None


def method_of(symbols: Symbols, block: str | None, events: Sequence[ProfileEvent]) -> str:
    """Return the method that caused a block of events (a run, or loading); empty if no method fits.

    Args:
        symbols: Maps events to their origins.
        block: Name of the block. edgecore writes `Execute METHOD` if a program has several methods.
        events: The events of the block.
    """
    names = symbols.methods()
    word, _, named = (block or "").partition(" ")
    if word == "Execute" and named and (named in names or isinstance(symbols, NoSymbols)):
        return named
    seen = sum(
        (event.name or "").startswith(KERNEL) or event.name == DELEGATE or identifier(event) is not None
        for event in events
    )
    known = [name for name in names if all(symbols.fits(name, event) for event in events)]
    return min(known, key=lambda name: abs(symbols.size(name) - seen), default="")


class NoSymbols:
    """The symbols of a trace that is read without its program: no event has a known origin."""

    def methods(self) -> Sequence[str]:
        return ("",)

    def fits(self, method: str, event: ProfileEvent) -> bool:
        return True

    def size(self, method: str) -> int:
        return 0

    def find(self, method: str, event: ProfileEvent) -> Meaning:
        return Meaning()


class ProgramSymbols:
    """The origins of events, read from a `.pte`. Without edgecore's metadata, only an event's backend is known."""

    def __init__(self, pte: PteFile) -> None:
        self._plans = {plan.name: plan for plan in pte.program.execution_plan}
        meta = get_meta(pte) or Meta()
        self._meta = {method.name: method for method in meta.methods}
        self._nodes = {
            name: {
                node.handle: Origin(node.handle, node.operator_name, node.module_path, node.source)
                for node in method.debug_handles
            }
            for name, method in self._meta.items()
        }
        self._operations: dict[tuple[str, int], dict[str | int, Sequence[int]]] = {
            (name, index): {(op.name or op.id): op.handles for op in delegate.operations}
            for name, method in self._meta.items()
            for index, delegate in enumerate(method.delegates)
        }

    def methods(self) -> Sequence[str]:
        return tuple(self._plans)

    def _call(self, method: str, instruction: int) -> Any:
        chains = self._plans[method].chains
        instructions = chains[0].instructions if chains else []
        return instructions[instruction].instr_args if 0 <= instruction < len(instructions) else None

    def fits(self, method: str, event: ProfileEvent) -> bool:
        name = event.name or ""
        if name.startswith(KERNEL):
            call = self._call(method, event.instruction_id)
            operators = self._plans[method].operators
            if not isinstance(call, KernelCall) or not 0 <= call.op_index < len(operators):
                return False
            operator = operators[call.op_index].name.rpartition("::")[2]
            return operator == REPEATED.sub("", name.removeprefix(KERNEL)).partition(".")[0]
        if REPEATED.sub("", name) == DELEGATE or operation_number(event) is not None:
            # Accept an operation of any name, as the metadata lacks operations without debug handles (layout copies).
            return isinstance(self._call(method, event.instruction_id), DelegateCall)
        return True

    def size(self, method: str) -> int:
        chains = self._plans[method].chains
        calls = [instruction.instr_args for instruction in chains[0].instructions] if chains else []
        inside = [self._operations.get((method, c.delegate_index), ()) for c in calls if isinstance(c, DelegateCall)]
        return sum(isinstance(call, KernelCall) for call in calls) + sum(1 + len(operations) for operations in inside)

    def find(self, method: str, event: ProfileEvent) -> Meaning:
        call = self._call(method, event.instruction_id)
        name = identifier(event)
        if call is None or (name is None and event.name in FRAMEWORK):
            return Meaning()
        meta = self._meta.get(method)
        handles: Sequence[int] = ()
        backend = ""
        if isinstance(call, DelegateCall):
            delegates = self._plans[method].delegates
            backend = delegates[call.delegate_index].id if 0 <= call.delegate_index < len(delegates) else ""
            if name is not None:
                operations = self._operations.get((method, call.delegate_index), {})
                number = operation_number(event)
                handles = operations.get(name, () if number is None else operations.get(number, ()))
            elif REPEATED.sub("", event.name or "") != DELEGATE:
                return Meaning((), backend)  # an event of the runtime, which prepares the delegate or copies data
        if name is None and meta and event.instruction_id < len(meta.instructions):
            handles = meta.instructions[event.instruction_id].handles
        nodes = self._nodes.get(method, {})
        return Meaning(tuple(nodes[handle] for handle in handles if handle in nodes), backend)

    def origins(self, method: str, instruction: int) -> tuple[Origin, ...]:
        """Return the graph nodes that an instruction computes."""
        return self.find(method, ProfileEvent(None, 0, instruction)).origins


class RecordSymbols:
    """The origins of events, read from an ETRecord."""

    def __init__(self, record: EtRecordFile) -> None:
        self._record = record
        self._handles = record.debug_handle_map or {}
        self._delegates = record.delegate_map or {}
        self._nodes: dict[str, dict[int, list[Origin]]] = {}

    def methods(self) -> Sequence[str]:
        return tuple(self._handles) or ("",)

    def fits(self, method: str, event: ProfileEvent) -> bool:
        instruction = str(event.instruction_id)
        delegated = instruction in self._delegates.get(method, {})
        if REPEATED.sub("", event.name or "") == DELEGATE:
            return delegated or instruction in self._handles.get(method, {})
        return not (delegated and (event.name or "").startswith(KERNEL))  # accept kernels without debug handles

    def size(self, method: str) -> int:
        delegates = self._delegates.get(method, {}).values()
        return len(self._handles.get(method, {})) + sum(
            len(delegate.get("delegate_map") or ()) for delegate in delegates
        )

    def find(self, method: str, event: ProfileEvent) -> Meaning:
        instruction = str(event.instruction_id)
        delegate = self._delegates.get(method, {}).get(instruction) or {}
        name = identifier(event)
        handles: Any = ()
        if name is not None:
            ids = delegate.get("delegate_map") or {}
            number = operation_number(event)
            handles = next((ids[key] for key in (str(name), str(number), f"[{number}]") if key in ids), ())
        elif event.name not in FRAMEWORK:
            handles = self._handles.get(method, {}).get(instruction, ())
        handles = [handles] if isinstance(handles, int) else handles or ()
        nodes = self._origins(method)
        origins = tuple(origin for handle in handles for origin in nodes.get(handle, ()))
        return Meaning(origins, delegate.get("name", "") if name is not None or event.name == DELEGATE else "")

    def _origins(self, method: str) -> dict[int, list[Origin]]:
        nodes = self._nodes.get(method)
        if nodes is None:
            nodes = self._nodes[method] = {}
            graph = self._record.graphs.get(f"{EDGE}/{method}")
            for node in graph_nodes(graph) if graph else ():
                if node.handle:
                    nodes.setdefault(node.handle, []).append(_origin(node))
        return nodes


def _origin(node: GraphNode) -> Origin:
    parts = node.target.split(".")
    operator = ".".join(parts[-3:]) if len(parts) >= 3 else node.target
    lines = [(file, line) for file, line in _LINE.findall(node.stack_trace) if "/torch/" not in file]
    source = f"{lines[-1][0]}:{lines[-1][1]}" if lines else ""
    return Origin(node.handle, operator, node.modules[-1][1] if node.modules else "", source)
