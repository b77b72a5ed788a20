"""ETRecords of edgecore's programs: the edge graphs with debug handles, for ExecuTorch's developer tools.

ExecuTorch reads programs in torch's JSON with an older schema (5.4) than torch writes (8.20). To convert, remove the
keys that are new, and write Infinity and NaN as numbers instead of strings.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Collection, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram

from edgecore import format as fmt
from edgecore.errors import CompileError
from edgecore.executorch.devtools.etrecord.delegates import (
    inner_graphs,
    list_results,
    with_serializable_delegates,
    write_delegates,
)
from edgecore.executorch.devtools.etrecord.same_nodes import same_nodes
from edgecore.files import write_files
from edgecore.format.etrecord import EDGE, EXPORTED, EtRecordFile, Graph, write_etrecord
from edgecore.ir.delegate import delegates
from edgecore.ir.graph import all_calls, operator_name
from edgecore.ir.torch_compat import replace_parts

if TYPE_CHECKING:
    from edgecore.executorch.exir.program import EdgeProgramManager
    from edgecore.pipeline.bundled import BundledProgram
    from edgecore.pipeline.finished_program import FinishedProgram

Programs = ExportedProgram | Mapping[str, ExportedProgram]
Maps = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
"""Method -> instruction -> debug handles, delegate and number of outputs, in three maps; see `instruction_maps`."""

_NEW_KEYS = frozenset(
    "torch_version guards_code sym_float_values kind is_hop_single_tensor_return treespec_namedtuple_fields "
    "forward_arg_names parameter_mutation".split()
)
_BY_NAME = frozenset(
    "tensor_values sym_int_values sym_bool_values custom_obj_values range_constraints metadata as_string_to_argument "
    "opset_version".split()
)
"""Objects whose keys are names from the model: such a key stays, even if it equals one of `_NEW_KEYS`."""
_FLOATS = frozenset(("as_float", "as_floats"))
_SYMBOL = re.compile(r"Symbol\('(\w+)'[^()]*\)")
_GRAPH_ID = 1
"""The id of `exported_program`'s graph, to which `from_node` of the edge program's nodes refers."""
_RESERVED = (EXPORTED, EDGE, "et_dialect_graph_module", "export_graph_id", "debug_handle_map", "delegate_map")


class ETRecord:
    """The record of a compilation for developer tools, which `manager.get_etrecord()` returns.

    Attributes:
        exported_program: The program before lowering, of the method `forward`; None if it is not known.
        export_graph_id: The id of the graph of `exported_program`.
        graph_map: Other programs, as `NAME/METHOD`.
    """

    def __init__(
        self,
        exported_program: Programs | None = None,
        edge_dialect_program: Programs | EdgeProgramManager | None = None,
    ) -> None:
        self.exported_program: ExportedProgram | None = None
        self.export_graph_id: int | None = None
        self.graph_map: dict[str, ExportedProgram] = {}
        self._edge: dict[str, ExportedProgram] = {}
        self._maps: Maps | None = None
        self._inputs: Any = None
        self._outputs: Any = None
        if exported_program is not None:
            self.add_exported_program(exported_program)
        if edge_dialect_program is not None:
            self.add_edge_dialect_program(edge_dialect_program)

    @classmethod
    def restored(
        cls, programs: Mapping[str, ExportedProgram], file: EtRecordFile, inputs: Any, outputs: Any
    ) -> ETRecord:
        """Make the record of a file from its loaded programs (by their names in the file), inputs and outputs."""
        record = cls()
        record.exported_program, record.export_graph_id = programs.get(EXPORTED), file.export_graph_id
        record._edge = {name: programs[f"{EDGE}/{name}"] for name in file.methods}
        others = (name for name in programs if name != EXPORTED and not name.startswith(f"{EDGE}/"))
        record.graph_map = {name: programs[name] for name in others}
        if file.debug_handle_map is not None:
            record._maps = file.debug_handle_map, file.delegate_map or {}, file.instruction_id_to_num_outs_map or {}
        record._inputs, record._outputs = inputs, outputs
        return record

    @property
    def edge_dialect_program(self) -> ExportedProgram | dict[str, ExportedProgram] | None:
        """The edge program before delegation; a dictionary if there are several methods; None if there is none."""
        return next(iter(self._edge.values())) if len(self._edge) == 1 else self._edge or None

    def copy(self) -> ETRecord:
        """Return a copy without the finished program, its inputs and its outputs."""
        record = copy.copy(self)
        record.graph_map = dict(self.graph_map)
        record._maps = record._inputs = record._outputs = None
        return record

    def add_exported_program(self, exported_program: Programs | None) -> None:
        """Add the program before lowering: the method `forward`, or the first method.

        Raises:
            RuntimeError: There is one already.
        """
        if self.exported_program is not None:
            raise RuntimeError("the ETRecord has an exported program already")
        if exported_program is not None:
            methods = _by_method(exported_program)
            self.exported_program = methods.get("forward") or next(iter(methods.values()), None)
            self.export_graph_id = _GRAPH_ID

    def add_edge_dialect_program(self, edge_dialect_program: Programs | EdgeProgramManager) -> None:
        """Add the edge programs of all methods, which must not have been changed by `to_backend` or `to_executorch`.

        Raises:
            RuntimeError: There are some already.
        """
        if self._edge:
            raise RuntimeError("the ETRecord has an edge program already")
        self._edge = _by_method(edge_dialect_program)

    def add_executorch_program(self, executorch_program: FinishedProgram | BundledProgram) -> None:
        """Add the instruction maps of the finished program; for a `BundledProgram`, also its inputs and outputs.

        Raises:
            CompileError: The bundled program was made from a file, not from a program.
            RuntimeError: There is a finished program already.
        """
        if self._maps is not None:
            raise RuntimeError("the ETRecord has a finished program already")
        finished: Any = executorch_program
        if hasattr(finished, "method_test_suites"):
            self.update_representative_inputs(finished)
            self.update_reference_outputs(finished)
            finished = finished.executorch_program
            if finished is None:
                raise CompileError("an ETRecord needs the result of to_executorch, not a bundled program of a file")
        self._maps = instruction_maps(finished.pte, delegate_outputs(finished.programs))

    def add_extra_export_modules(
        self, extra_recorded_export_modules: Mapping[str, ExportedProgram | EdgeProgramManager]
    ) -> None:
        """Add more programs under names that the caller chooses: exported programs, or managers of edge programs.

        Raises:
            ValueError: A name is reserved for the file's own entries.
        """
        for name, program in extra_recorded_export_modules.items():
            if any(reserved in name for reserved in _RESERVED):
                raise ValueError(f"the name {name!r} is reserved in an ETRecord")
            self.graph_map |= {f"{name}/{method}": edge for method, edge in _by_method(program).items()}

    def update_representative_inputs(self, representative_inputs: Sequence[Any] | BundledProgram) -> None:
        """Set the inputs of `forward` with which graphs are run for comparisons."""
        if hasattr(representative_inputs, "method_test_suites"):
            suites = {suite.method_name: suite.test_cases for suite in representative_inputs.method_test_suites}
            cases = suites.get("forward") or ()
            self._inputs = list(cases[0].inputs) if cases else None
        else:
            self._inputs = representative_inputs

    def update_reference_outputs(self, reference_outputs: Mapping[str, Any] | Sequence[Any] | BundledProgram) -> None:
        """Set the expected outputs: method -> the outputs of each test case; or only the list for `forward`."""
        if hasattr(reference_outputs, "method_test_suites"):
            self._outputs = {
                suite.method_name: [case.expected_outputs for case in suite.test_cases]
                for suite in reference_outputs.method_test_suites
            }
        else:
            by_method = isinstance(reference_outputs, Mapping)
            self._outputs = dict(reference_outputs) if by_method else {"forward": reference_outputs}

    def content(self, weights: bool | None = None) -> EtRecordFile:
        """Return the content that `save` writes.

        Args:
            weights: As for `save`.

        Raises:
            CompileError: There are no edge programs, or no finished program yet; or torch cannot serialize a program.
        """
        if not self._edge or self._maps is None:
            raise CompileError(
                "an ETRecord needs the edge programs and the finished one; pass generate_etrecord=True, and ask the "
                "result of to_executorch for it"
            )
        full = self._inputs is not None if weights is None else weights
        sources = {"forward": same_nodes(self._edge.get("forward"), self.exported_program)}
        graphs = {
            f"{EDGE}/{name}": _graph(name, program, full, sources.get(name)) for name, program in self._edge.items()
        }
        graphs |= {name: _graph(name, program, full) for name, program in self.graph_map.items()}
        if self.exported_program is not None:
            graphs[EXPORTED] = _graph(EXPORTED, self.exported_program, full)
        maps = self._maps
        if self._inputs is not None:
            # ExecuTorch's Inspector expects as many values of each operation as the delegate has outputs. An operation
            # records one value, so store 1 as the number of outputs.
            single = {method: dict.fromkeys(counts, 1) for method, counts in maps[2].items()}
            maps = maps[0], _comparable(maps[1], self._edge), single
        saved = [None if value is None else _saved(value) for value in (self._outputs, self._inputs)]
        return EtRecordFile(graphs, *maps, self.export_graph_id, *saved)

    def save(self, path: Any, weights: bool | None = None) -> None:
        """Write the record.

        Args:
            path: Path of the file, or an open binary file.
            weights: Also write the weights, including the delegates'. They are needed only to run the graphs: for the
                numeric gap, or to call `get_exported_program().module()`. By default they are written if there are
                representative inputs.

        Raises:
            CompileError: As for `content`.
            OSError: The file cannot be written.
        """
        content = self.content(weights)
        if hasattr(path, "write"):
            write_etrecord(content, path)
        else:
            write_files({Path(path): lambda file: write_etrecord(content, file)})


def generate_etrecord(
    et_record: Any,
    edge_dialect_program: EdgeProgramManager,
    executorch_program: FinishedProgram | BundledProgram,
    exported_program: Programs | None = None,
    extra_recorded_export_modules: Mapping[str, ExportedProgram | EdgeProgramManager] | None = None,
    weights: bool | None = None,
) -> None:
    """Write an ETRecord of programs that were lowered without `generate_etrecord=True`.

    Args:
        et_record: Path of the file, or an open binary file.
        edge_dialect_program: The result of `to_edge` or `to_edge_transform_and_lower`, or a copy of it
            (`copy.deepcopy`) that was made before `to_executorch` changed it.
        executorch_program: The finished program; a `BundledProgram` also gives its inputs and outputs.
        exported_program: The program before lowering.
        extra_recorded_export_modules: Other programs, by names that the caller chooses.
        weights: As for `ETRecord.save`. ExecuTorch always writes them.

    Raises:
        CompileError: torch cannot serialize a program.
        ValueError: A name of an extra program is reserved.
        OSError: The file cannot be written.

    Example:
        >>> edge = edgecore.to_edge(exported)
        >>> before = copy.deepcopy(edge)
        >>> generate_etrecord("model.etrecord", before, edge.to_backend(partitioner).to_executorch())
    """
    record = ETRecord(exported_program, edge_dialect_program)
    record.add_executorch_program(executorch_program)
    record.add_extra_export_modules(extra_recorded_export_modules or {})
    record.save(et_record, weights)


def _by_method(programs: Programs | EdgeProgramManager) -> dict[str, ExportedProgram]:
    if isinstance(programs, ExportedProgram):
        return {"forward": programs}
    if isinstance(programs, Mapping):
        return dict(programs)
    return {name: programs.exported_program(name) for name in sorted(programs.methods)}


def _comparable(delegate_map: Mapping[str, Any], programs: Mapping[str, ExportedProgram]) -> dict[str, Any]:
    """Keep only the operations of `delegate_map` whose values can be compared with the values of their last nodes.

    If several operations compute a node, such as a layout copy and a convolution, only the last one has the node's
    value. Operations that quantize report floating-point values, but their nodes have integers.
    """
    changed: dict[str, Any] = {}
    for method, calls in delegate_map.items():
        changed[method] = {}
        if method not in programs:
            continue
        inside = [lowered.original_module for _, lowered in delegates(programs[method])]
        nodes = [node for program in (programs[method], *inside) for node in all_calls(program.graph_module)]
        quantizers = (node for node in nodes if ".quantize_per_" in operator_name(node.target))
        quantizing = {node.meta.get("debug_handle") for node in quantizers}
        for call, delegate in calls.items():
            ids = delegate.get("delegate_map") or {}
            finishing = {handle: name for name, handles in ids.items() for handle in handles}
            kept = {
                name: [handle for handle in handles if finishing[handle] == name]
                for name, handles in ids.items()
                if handles and finishing[handles[-1]] == name and handles[-1] not in quantizing
            }
            changed[method][call] = {**delegate, "delegate_map": kept}
    return changed


def _saved(value: Any) -> bytes:
    buffer = BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def _graph(name: str, program: ExportedProgram, weights: bool, sources: Mapping[str, str] | None = None) -> Graph:
    """Serialize a program; `sources` maps a node's name to the equal node of the exported program."""
    from edgecore.ir.torch_compat import serialize

    program, modules = with_serializable_delegates(program)
    try:
        artifact = serialize(program if weights else _without_weights(program))
    except Exception as error:  # torch raises errors of many types, so catch all
        raise CompileError(f"torch cannot serialize the program {name} for the ETRecord: {error}") from error
    serialized = json.loads(artifact.exported_program)
    list_results(serialized["graph_module"]["graph"])
    content = _without_new_keys(serialized)
    content["schema_version"] = {"major": 5, "minor": 4}
    content["dialect"] = "ATEN"
    content["graph_module"].pop("metadata", None)
    graphs = (module.graph for module in program.graph_module.modules() if hasattr(module, "graph"))
    nodes = [node for graph in graphs for node in graph.nodes]
    handles = {node.name: node.meta["debug_handle"] for node in nodes if isinstance(node.meta.get("debug_handle"), int)}
    _add_handles(content["graph_module"]["graph"], handles, sources or {})
    _name_unused(content["graph_module"]["graph"], {node.name for node in nodes})
    nested = content["graph_module"]["graph"]
    write_delegates(nested, modules, lambda original: _graph(name, original, weights), weights)
    return Graph(json.dumps(content).encode(), artifact.state_dict, artifact.constants, artifact.example_inputs)


def _without_weights(program: ExportedProgram) -> ExportedProgram:
    """Return a program with meta tensors in place of its weights."""
    state_dict = {name: _on_meta(value) for name, value in program.state_dict.items()}
    constants = {name: _on_meta(value) for name, value in program.constants.items()}
    return replace_parts(program, state_dict=state_dict, constants=constants, example_inputs=None)


def _on_meta(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    empty = torch.empty_like(value.detach(), device="meta")
    return torch.nn.Parameter(empty, value.requires_grad) if isinstance(value, torch.nn.Parameter) else empty


def _without_new_keys(value: Any, by_name: bool = False) -> Any:
    if isinstance(value, dict):
        symbol = None if by_name else _SYMBOL.fullmatch(str(value.get("expr_str")))
        if symbol:  # the older schema has only the symbol's name, and stores its range elsewhere, by this name
            return {**value, "expr_str": symbol[1]}
        return {
            key: _number(item)
            if not by_name and key in _FLOATS
            else _without_new_keys(item, not by_name and key in _BY_NAME)
            for key, item in value.items()
            if by_name or key not in _NEW_KEYS
        }
    return [_without_new_keys(item) for item in value] if isinstance(value, list) else value


def _number(value: Any) -> Any:
    """Convert "Infinity", "-Infinity" and "NaN", which torch writes as strings, to floats."""
    if isinstance(value, list):
        return [_number(item) for item in value]
    return float(value) if isinstance(value, str) else value


def _add_handles(graph: dict[str, Any], handles: Mapping[str, int], sources: Mapping[str, str]) -> None:
    for node in graph["nodes"]:
        results = [value for output in node["outputs"] for value in output.values() if isinstance(value, dict)]
        name = node.get("name") or (results[0].get("name", "") if results else "")
        if name in handles:
            node["metadata"]["debug_handle"] = str(handles[name])
        if name in sources:
            node["metadata"]["from_node"] = json.dumps([_origin(sources[name])])
        for inner in inner_graphs(node):
            _add_handles(inner, handles, {})


def _name_unused(graph: dict[str, Any], names: Collection[str]) -> None:
    """Rename each output that no node reads to `getitem_NAME`.

    A tool that loads the graph adds a node for such an output. If this node had another name, ExecuTorch's Inspector
    would mistake it for the operator itself.
    """
    values = graph["tensor_values"]
    for node in graph["nodes"]:
        for output in node["outputs"]:
            for result in output.get("as_tensors") or [output.get("as_tensor")]:
                if result and result["name"] not in names:
                    name = f"getitem_{result['name']}"
                    values[name] = values.pop(result["name"])
                    result["name"] = name
        for inner in inner_graphs(node):
            _name_unused(inner, names)


def _origin(name: str) -> dict[str, Any]:
    """Return an entry of `from_node` that refers to the node `name` of the exported program."""
    node = {"name": name, "target": name, "graph_id": _GRAPH_ID}
    return {**node, "pass_name": "edgecore", "action": "replace", "from_node": []}


def instruction_maps(pte: fmt.PteFile, outputs: Mapping[str, Sequence[int]]) -> Maps:
    """Return the maps from instructions to debug handles, delegates and numbers of outputs, by method.

    A delegate's operation that has the number 12 but no name gets the key `[12]`: ExecuTorch looks for this text
    in the event's id, such as `Conv2d [12]`.
    """
    meta = fmt.get_meta(pte) or fmt.Meta()
    handle_map: dict[str, Any] = {}
    delegate_map: dict[str, Any] = {}
    output_map: dict[str, Any] = {}
    for plan in pte.program.execution_plan:
        method = meta.method(plan.name)
        if method is None or plan.name not in outputs:
            continue
        handles = [instruction.handles for instruction in method.instructions]
        handle_map[plan.name] = {
            str(index): own[0] if len(own) == 1 else list(own) for index, own in enumerate(handles) if own
        }
        delegates = delegate_map.setdefault(plan.name, {})
        counts = output_map.setdefault(plan.name, {})
        for index, instruction in enumerate(plan.chains[0].instructions):
            call = instruction.instr_args
            if isinstance(call, fmt.DelegateCall):
                operations = method.delegates[call.delegate_index].operations
                ids = {row.name or f"[{row.id}]": list(row.handles) for row in operations}
                delegates[str(index)] = {"name": plan.delegates[call.delegate_index].id, "delegate_map": ids}
                counts[str(index)] = outputs[plan.name][call.delegate_index]
    return handle_map, delegate_map, output_map


def delegate_outputs(programs: Mapping[str, ExportedProgram]) -> dict[str, list[int]]:
    """Return the number of outputs of each delegate call, by method."""
    return {name: [len(node.meta["val"]) for node, _ in delegates(program)] for name, program in programs.items()}


def present_record(record: ETRecord | None) -> ETRecord:
    """Return `record`, or raise a `CompileError` if there is none."""
    if record is None:
        raise CompileError(
            "there is no ETRecord; pass generate_etrecord=True to compile, to_edge or to_edge_transform_and_lower"
        )
    return record
