"""Numeric gap: what operators computed on the device beside what the graph of an ETRecord computes."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgecore.devtools.comparators import COMPARATORS, NumericalComparatorBase
from edgecore.devtools.symbols import DELEGATE
from edgecore.errors import FormatError
from edgecore.format.etrecord import EtRecordFile, Graph, graph_nodes

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from edgecore.devtools.events import Event

Handles = tuple[int, ...]
COLUMNS = (
    "aot_debug_handle", "aot_ops", "aot_intermediate_output", "runtime_ops", "runtime_debug_handle",
    "runtime_intermediate_output", "gap", "stacktraces",
)  # fmt: skip


def load_graph(graph: Graph) -> ExportedProgram:
    """Load a program of an ETRecord; operators of ExecuTorch's edge dialect become those of torch.

    Raises:
        FormatError: torch cannot load it, for example because an operator of it is not registered in this process.
    """
    from torch._export.serde.serialize import SerializedArtifact, deserialize

    handles = {node.name: node.handle for node in graph_nodes(graph) if node.handle}
    try:
        content = json.loads(graph.program)
        content |= {"schema_version": {"major": 8, "minor": 20}, "verifiers": ["TRAINING"]}
        content.pop("dialect", None)
        text = json.dumps(content).replace("executorch.exir.dialects.edge.ops.", "torch.ops.")
        parts = (graph.state_dict, graph.constants, graph.example_inputs)
        program = deserialize(SerializedArtifact(text.encode(), *parts))
    except Exception as error:  # torch raises errors of many types here
        raise FormatError(f"torch cannot load a program of the ETRecord: {error!r}") from error
    for node in program.graph.nodes:
        if node.name in handles:
            node.meta["debug_handle"] = handles[node.name]
    return program


def loaded_values(saved: bytes | None) -> Any:
    """Return the inputs or outputs of an ETRecord, which are a file of `torch.save`; None for None.

    Raises:
        FormatError: torch cannot load them.
    """
    import torch

    if saved is None:
        return None
    try:
        return torch.load(io.BytesIO(saved), weights_only=True)
    except Exception as error:  # torch raises errors of many types here
        raise FormatError(f"torch cannot load the inputs or outputs of the ETRecord: {error!r}") from error


def numeric_gap(
    record: EtRecordFile, graph: Graph, events: Iterable[Event], distance: str | NumericalComparatorBase, inspector: Any
) -> list[dict[str, Any]]:
    """Compare the recorded values of events with those of a graph.

    Args:
        record: The record, which must have representative inputs.
        graph: The graph that is run on these inputs.
        events: The events, with debug handles and data.
        distance: "MSE", "L1", "SNR" or a comparator.
        inspector: The inspector that the comparator gets.

    Returns:
        A row for each event whose values can be compared, with the keys `COLUMNS`.

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
    mapping, shown = {}, {}
    for handles, event in _recorded(events).items():
        known = [handle for handle in handles if handle in values]
        if known:
            mapping[handles] = _pair(values[known[-1]], event.debug_data)
            shown[handles] = (known, event)
    prepared = comparator.preprocessing(
        {((handles[-1],), _Keyed(a)): (handles, b) for handles, (a, b) in mapping.items()}
    )
    rows = []
    for (_, keyed), (handles, b) in prepared.items():
        known, event = shown[handles]
        nodes = [name for handle in known for name in names[handle]]
        a = keyed.value if isinstance(keyed, _Keyed) else keyed
        cells = (tuple(known), nodes, a, [event.name], handles, b, _gap(comparator, a, b))
        rows.append(dict(zip(COLUMNS, (*cells, {name: traces.get(name) for name in nodes}), strict=True)))
    return rows


def _pair(computed: Any, recorded: Sequence[Any]) -> tuple[Any, Any]:
    """Return the values to compare of an operator, which may have several outputs.

    edgecore's kernels record these as one list, ExecuTorch's runtime as a value each, and delegates the first only.
    """
    if isinstance(computed, (list, tuple)) and computed and _shapes(recorded[-1]) != _shapes(computed):
        if _shapes(recorded) == _shapes(computed):
            return computed, list(recorded)
        if _shapes(recorded[-1]) == _shapes(computed[0]):
            return computed[0], recorded[-1]
    return computed, recorded[-1]


class _Keyed:
    """A value as part of a key of a dict: tensors and lists cannot be one."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _comparator(distance: str | NumericalComparatorBase) -> NumericalComparatorBase:
    if isinstance(distance, NumericalComparatorBase):
        return distance
    chosen = COMPARATORS.get(distance.strip().upper())
    if chosen is None:
        raise ValueError(f"unknown distance {distance!r}; it must be MSE, L1, SNR or a comparator")
    return chosen()


def _gap(comparator: NumericalComparatorBase, a: Any, b: Any) -> list[float]:
    """Return the distances; NaN if the values are of different shapes, or lists of them, which has no distance."""
    return comparator.compare_values(a, b) if _shapes(a) == _shapes(b) else [math.nan]


def _shapes(value: Any) -> Any:
    return [_shapes(item) for item in value] if isinstance(value, (list, tuple)) else getattr(value, "shape", None)


def _computed(program: ExportedProgram, inputs: bytes) -> tuple[dict[int, Any], dict[int, list[str]]]:
    """Run a program; return values and names of nodes by debug handle. Of several nodes with one, the last counts."""
    import torch

    tensors = (*program.state_dict.values(), *program.constants.values())
    if any(isinstance(one, torch.Tensor) and one.is_meta for one in tensors):
        raise ValueError("the ETRecord has no weights to run the graph with; save it with weights=True")
    arguments = loaded_values(inputs)
    values: dict[int, Any] = {}
    names: dict[int, list[str]] = {}

    class Recorder(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            result = super().run_node(n)
            handle = n.meta.get("debug_handle")
            if isinstance(handle, int) and n.op == "call_function" and "getitem" not in n.name:
                values[handle] = result.clone() if isinstance(result, torch.Tensor) else result
                names.setdefault(handle, []).append(n.name)
            return result

    module = program.module()
    assert isinstance(module, torch.fx.GraphModule)
    try:
        with torch.no_grad():
            Recorder(module).run(*arguments)
    except Exception as error:  # torch raises errors of many types here
        raise ValueError(f"the graph cannot be run with the inputs of the ETRecord: {error}") from error
    return values, names


def _recorded(events: Iterable[Event]) -> Mapping[Handles, Event]:
    """Return the events with values by their handles: of the same handles the last, which finishes the operator.

    A call of a delegate is left out if operations of it have values.
    """
    found: dict[Handles, Event] = {}
    inside: set[int] = set()
    for event in events:
        if event.name == "OPERATOR_CALL" or not event.op_types or event.debug_handles is None:
            continue
        if not event.debug_data or event.debug_data[-1] is None:
            continue
        own = event.debug_handles
        handles = (own,) if isinstance(own, int) else tuple(own)
        if event.is_delegated_op:
            inside.update(handles)
        other = found.get(handles)
        if other is None or (event._instruction_id or 0) >= (other._instruction_id or 0):
            found[handles] = event
    return {handles: event for handles, event in found.items() if event.name != DELEGATE or inside.isdisjoint(handles)}
