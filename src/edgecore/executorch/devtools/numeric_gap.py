"""Numeric gap: the distance of the values that the device recorded from the values of an ETRecord's graph."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgecore.devtools.profiling import DELEGATE, REPEATED
from edgecore.errors import FormatError
from edgecore.executorch.devtools.comparators import COMPARATORS, NumericalComparatorBase
from edgecore.format.etrecord import EtRecordFile, Graph, graph_nodes

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

    from edgecore.executorch.devtools.events import Event

Handles = tuple[int, ...]
COLUMNS = (
    "aot_debug_handle", "aot_ops", "aot_intermediate_output", "runtime_ops", "runtime_debug_handle",
    "runtime_intermediate_output", "gap", "stacktraces",
)  # fmt: skip


def load_graph(graph: Graph) -> ExportedProgram:
    """Load a program of an ETRecord; operators of ExecuTorch's edge dialect become torch's operators.

    Raises:
        FormatError: torch cannot load it, for example because an operator is not registered in this process.
    """
    from edgecore.executorch.devtools.etrecord.delegates import all_nodes, read_delegates
    from edgecore.ir.torch_compat import SerializedArtifact, deserialize

    handles = {node.name: node.handle for node in graph_nodes(graph) if node.handle}
    try:
        content = json.loads(graph.program)
        content |= {"schema_version": {"major": 8, "minor": 20}, "verifiers": ["TRAINING"]}
        content.pop("dialect", None)
        for node in all_nodes(content["graph_module"]["graph"]):
            lists = [output for output in node["outputs"] if "as_tensors" in output]
            if node["target"].startswith("torch.ops.higher_order.") and lists:
                node["is_hop_single_tensor_return"] = True  # makes torch read the list of outputs as one result
        text = json.dumps(content).replace("executorch.exir.dialects.edge.ops.", "torch.ops.")
        parts = (graph.state_dict, graph.constants, graph.example_inputs)
        program = deserialize(SerializedArtifact(text.encode(), *parts))
        read_delegates(program, load_graph)
    except Exception as error:  # torch raises errors of many types, so catch all
        raise FormatError(f"torch cannot load a program of the ETRecord: {error!r}") from error
    for node in program.graph.nodes:
        if node.name in handles:
            node.meta["debug_handle"] = handles[node.name]
    return program


def loaded_values(saved: bytes | None) -> Any:
    """Load the inputs or outputs of an ETRecord from the bytes of a file of `torch.save`; return None for None.

    Raises:
        FormatError: torch cannot load them.
    """
    import torch

    if saved is None:
        return None
    try:
        return torch.load(io.BytesIO(saved), weights_only=True)
    except Exception as error:  # torch raises errors of many types, so catch all
        raise FormatError(f"torch cannot load the inputs or outputs of the ETRecord: {error!r}") from error


def numeric_gap(
    record: EtRecordFile, graph: Graph, events: Iterable[Event], distance: str | NumericalComparatorBase, inspector: Any
) -> list[dict[str, Any]]:
    """Compare the recorded values of events with the values of a graph.

    Args:
        record: The record, which must have representative inputs.
        graph: The graph that is run on these inputs.
        events: The events, with debug handles and data.
        distance: "MSE", "L1", "SNR" or a comparator.
        inspector: The inspector to set in the comparator.

    Returns:
        A row with the keys `COLUMNS` for each operator, or group of operators computed together, with a value.

    Raises:
        ValueError: The record has no inputs or weights, the graph does not take the inputs, or the distance is unknown.
    """
    if record.representative_inputs is None:
        raise ValueError("the ETRecord has no inputs to run the graph with; update_representative_inputs sets them")
    comparator = _comparator(distance)
    if comparator.inspector is None:
        comparator.inspector = inspector
    values, names = _computed(load_graph(graph), record.representative_inputs)
    traces = {node.name: node.stack_trace or None for node in graph_nodes(graph)}
    mapping: dict[Any, Any] = {}
    operators: dict[Handles, list[str]] = {}
    for group in _recorded(events):
        handles, data = group.handles, group.events[-1].debug_data
        if handles[-1] in values and data and data[-1] is not None:
            computed, recorded = _pair(values[handles[-1]], data)
            mapping[handles, computed] = handles, recorded
            operators[handles] = [*{_handles(event): _name(event) for event in group.events}.values()]
    rows = []
    for (_, a), (handles, b) in comparator.preprocessing(mapping).items():
        known = tuple(handle for handle in handles if handle in values)
        nodes = [name for handle in known for name in names[handle]]
        cells = (known, nodes, a, operators.get(handles, []), handles, b, _gap(comparator, a, b))
        rows.append(dict(zip(COLUMNS, (*cells, {name: traces.get(name) for name in nodes}), strict=True)))
    return rows


def _pair(computed: Any, recorded: Sequence[Any]) -> tuple[Any, Any]:
    """Return the values of an operator to compare: tuples if the operator has several outputs and all were recorded.

    edgecore's kernels record several outputs as one list, ExecuTorch's runtime records each output as a value, and
    delegates record only one output. A graph that is less decomposed than the program may have one output where a
    kernel has several.
    """
    outputs = [item for value in recorded for item in (value if isinstance(value, (list, tuple)) else [value])]
    if not isinstance(computed, (list, tuple)):
        return computed, _fitting(computed, outputs, outputs[-1])
    if [*map(_shape, outputs)] != [*map(_shape, computed)]:
        match = _fitting(outputs[-1], computed, None)
        if match is not None:
            return match, outputs[-1]
    return tuple(computed), tuple(outputs)


def _fitting(value: Any, others: Sequence[Any], default: Any) -> Any:
    """Return the only value in `others` with the shape, or the shape and dtype, of `value`; otherwise `default`."""
    for kind in (_shape, lambda value: (_shape(value), getattr(value, "dtype", None))):
        matches = [other for other in others if kind(other) == kind(value)]
        if len(matches) == 1:
            return matches[0]
    return default


def _comparator(distance: str | NumericalComparatorBase) -> NumericalComparatorBase:
    if isinstance(distance, NumericalComparatorBase):
        return distance
    chosen = COMPARATORS.get(distance.strip().upper())
    if chosen is None:
        raise ValueError(f"unknown distance {distance!r}; it must be MSE, L1, SNR or a comparator")
    return chosen()


def _gap(comparator: NumericalComparatorBase, a: Any, b: Any) -> list[float]:
    """Return the comparator's distance for each pair of values; NaN if their numbers of elements differ.

    The shapes may differ: a runtime does not run views, so a recorded value has the shape before the view.
    """
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return [distance for pair in zip(a, b, strict=True) for distance in _gap(comparator, *pair)]
    if isinstance(a, tuple) or isinstance(b, tuple):
        return [math.nan]
    if _shape(a) != _shape(b):
        if None in (_shape(a), _shape(b)) or a.numel() != b.numel():
            return [math.nan]
        b = b.reshape(a.shape)
    return [comparator.element_compare(a, b)]


def _shape(value: Any) -> Any:
    return getattr(value, "shape", None)


def _computed(program: ExportedProgram, inputs: bytes) -> tuple[dict[int, Any], dict[int, list[str]]]:
    """Run a program. Return, by debug handle, the value of the last node and the names of all nodes."""
    import torch

    from edgecore.ir.delegate import delegates
    from edgecore.numerics.evaluate import run_through_delegates

    programs = (program, *(lowered.original_module for _, lowered in delegates(program)))
    tensors = [value for part in programs for value in (*part.state_dict.values(), *part.constants.values())]
    if any(isinstance(value, torch.Tensor) and value.is_meta for value in tensors):
        raise ValueError("the ETRecord has no weights to run the graph with; save it with weights=True")
    arguments = loaded_values(inputs)
    values: dict[int, Any] = {}
    names: dict[int, list[str]] = {}

    def record(node: Node, result: Any, is_inside: bool) -> None:
        handle = node.meta.get("debug_handle")
        if isinstance(handle, int) and node.op == "call_function" and "getitem" not in node.name:
            values[handle] = result.clone() if isinstance(result, torch.Tensor) else result
            names.setdefault(handle, []).append(node.name)

    try:
        run_through_delegates(program, arguments, record)
    except Exception as error:  # torch raises errors of many types, so catch all
        raise ValueError(f"the graph cannot be run with the inputs of the ETRecord: {error}") from error
    return values, names


@dataclass(frozen=True)
class _Group:
    """Events that compute the same operators, in the order of execution. The last event has the last operator's value.

    Attributes:
        handles: The debug handles of all events; the handles of the last event are at the end.
        events: The events.
    """

    handles: Handles
    events: Sequence[Event]


def _recorded(events: Iterable[Event]) -> list[_Group]:
    """Group the events of operators: events that share debug handles are one group.

    If two events share a handle, each computes a part of the operator, so the first one does not have the operator's
    value. The call of a delegate is left out if operations inside have values.
    """
    named = (event for event in events if event.op_types and event.debug_handles is not None)
    # Skip delegated operations without values: the value of the delegate's call replaces them.
    with_values = (event for event in named if event.debug_data or not event.is_delegated_op)
    of_operators = [event for event in with_values if _name(event) != "OPERATOR_CALL"]
    inside = {handle for event in of_operators if event.is_delegated_op for handle in _handles(event)}
    groups: dict[int, _Group] = {}
    for event in sorted(of_operators, key=lambda event: event._instruction_id or 0):
        own = dict.fromkeys(_handles(event))
        if _name(event) == DELEGATE and not inside.isdisjoint(own):
            continue
        before = {id(groups[handle]): groups[handle] for handle in own if handle in groups}.values()
        others = [handle for group in before for handle in group.handles if handle not in own]
        joined = _Group((*others, *own), [*(earlier for group in before for earlier in group.events), event])
        groups |= dict.fromkeys(joined.handles, joined)
    return [*{id(group): group for group in groups.values()}.values()]


def _name(event: Event) -> str:
    """Return an event's name without the number by which the Inspector distinguishes repeated events."""
    return REPEATED.sub("", event.name)


def _handles(event: Event) -> Handles:
    own = event.debug_handles
    return (own,) if isinstance(own, int) else tuple(own or ())
