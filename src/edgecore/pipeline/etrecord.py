"""ETRecords of what edgecore compiles: the edge graphs with debug handles, for ExecuTorch's developer tools.

ExecuTorch reads programs in torch's JSON of an older schema (5.4). It is torch's own (8.20) without the keys that are new.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from torch.export import ExportedProgram

from edgecore import format as fmt
from edgecore.errors import CompileError
from edgecore.format.etrecord import EDGE, EXPORTED, EtRecordFile, Graph, write_etrecord

if TYPE_CHECKING:
    from edgecore.pipeline.bundled import BundledProgram

_NEW_KEYS = frozenset(
    ("torch_version", "guards_code", "sym_float_values", "kind", "is_hop_single_tensor_return",
     "treespec_namedtuple_fields", "forward_arg_names", "parameter_mutation")
)  # fmt: skip
_BY_NAME = frozenset(
    ("tensor_values", "sym_int_values", "sym_bool_values", "custom_obj_values", "range_constraints", "metadata",
     "as_string_to_argument", "opset_version")
)  # fmt: skip
"""Objects whose keys are names of the model, which may be equal to a new key."""
_RESERVED = (EXPORTED, EDGE, "et_dialect_graph_module", "export_graph_id", "debug_handle_map", "delegate_map")


class ETRecord:
    """The knowledge of the compiler about a program. `manager.get_etrecord()` returns it.

    Attributes:
        exported_program: The program before lowering, of the method `forward`.
        export_graph_id: The id of its graph.
        edge_dialect_program: The edge programs by method, before backends took their parts.
        graph_map: Other programs, as `NAME/METHOD`.
    """

    def __init__(
        self, exported: Mapping[str, ExportedProgram] | None = None, edge: Mapping[str, ExportedProgram] | None = None
    ) -> None:
        exported = exported or {}
        self.exported_program = exported.get("forward") or next(iter(exported.values()), None)
        self.export_graph_id = id(self.exported_program.graph) if self.exported_program is not None else None
        self.edge_dialect_program = dict(edge or {})
        self.graph_map: dict[str, ExportedProgram] = {}
        self._maps: tuple[dict[str, Any], dict[str, Any], dict[str, Any]] | None = None
        self._inputs: Any = None
        self._outputs: Any = None

    def with_program(self, pte: fmt.PteFile, outputs: Mapping[str, Sequence[int]]) -> ETRecord:
        """Return a copy that knows the instructions of the finished program too.

        Args:
            pte: The program.
            outputs: Number of outputs of each call of a delegate, by method.
        """
        record = copy.copy(self)
        record._maps = _maps(pte, outputs)
        return record

    def add_extra_export_modules(self, modules: Mapping[str, Any]) -> None:
        """Add programs under names of their own: exported programs, or managers of edge programs.

        Raises:
            ValueError: A name is one that the file uses itself.
        """
        for name, program in modules.items():
            if any(reserved in name for reserved in _RESERVED):
                raise ValueError(f"the name {name!r} is reserved in an ETRecord")
            if isinstance(program, ExportedProgram):
                self.graph_map[f"{name}/forward"] = program
            else:
                self.graph_map |= {f"{name}/{one}": program.exported_program(one) for one in program.methods}

    def update_representative_inputs(self, representative_inputs: Sequence[Any] | BundledProgram) -> None:
        """Set the inputs of `forward` with which graphs are run for comparisons."""
        if hasattr(representative_inputs, "method_test_suites"):
            suites = {suite.method_name: suite.test_cases for suite in representative_inputs.method_test_suites}
            cases = suites.get("forward") or ()
            self._inputs = list(cases[0].inputs) if cases else None
        else:
            self._inputs = representative_inputs

    def update_reference_outputs(self, reference_outputs: Mapping[str, Any] | Sequence[Any] | BundledProgram) -> None:
        """Set the outputs to expect: by method a list with the outputs of each test case; a list is that of `forward`."""
        if hasattr(reference_outputs, "method_test_suites"):
            self._outputs = {
                suite.method_name: [case.expected_outputs for case in suite.test_cases]
                for suite in reference_outputs.method_test_suites
            }
        else:
            by_method = isinstance(reference_outputs, Mapping)
            self._outputs = dict(reference_outputs) if by_method else {"forward": reference_outputs}

    def content(self) -> EtRecordFile:
        """Return what `save` writes.

        Raises:
            CompileError: There are no edge programs, or no finished program yet; or torch cannot serialize a program.
        """
        if not self.edge_dialect_program or self._maps is None:
            raise CompileError(
                "an ETRecord needs the edge programs and the finished one; pass generate_etrecord=True, and ask the "
                "result of to_executorch for it"
            )
        graphs = {f"{EDGE}/{name}": _graph(name, one) for name, one in self.edge_dialect_program.items()}
        graphs |= {name: _graph(name, one) for name, one in self.graph_map.items()}
        if self.exported_program is not None:
            graphs[EXPORTED] = _graph(EXPORTED, self.exported_program)
        saved = [None if value is None else _saved(value) for value in (self._outputs, self._inputs)]
        return EtRecordFile(graphs, *self._maps, self.export_graph_id, *saved)

    def save(self, path: Any) -> None:
        """Write the record.

        Args:
            path: Path of the file, or an open binary file.

        Raises:
            CompileError: As for `content`.
            OSError: The file cannot be written.
        """
        write_etrecord(self.content(), path)


def _saved(value: Any) -> bytes:
    import torch

    buffer = BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def _graph(name: str, program: ExportedProgram) -> Graph:
    from torch._export.serde.serialize import serialize

    try:
        artifact = serialize(program)
    except Exception as error:  # torch raises errors of many types for what it cannot serialize
        raise CompileError(f"torch cannot serialize the program {name} for the ETRecord: {error}") from error
    content = _without_new_keys(json.loads(artifact.exported_program))
    content["schema_version"] = {"major": 5, "minor": 4}
    content["dialect"] = "ATEN"
    content["graph_module"].pop("metadata", None)
    handles = {
        node.name: node.meta["debug_handle"]
        for module in program.graph_module.modules()
        if hasattr(module, "graph")
        for node in module.graph.nodes
        if isinstance(node.meta.get("debug_handle"), int)
    }
    _add_handles(content["graph_module"]["graph"], handles)
    return Graph(json.dumps(content).encode(), artifact.state_dict, artifact.constants, artifact.example_inputs)


def _without_new_keys(value: Any, by_name: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_new_keys(item, not by_name and key in _BY_NAME)
            for key, item in value.items()
            if by_name or key not in _NEW_KEYS
        }
    return [_without_new_keys(item) for item in value] if isinstance(value, list) else value


def _add_handles(graph: dict[str, Any], handles: Mapping[str, int]) -> None:
    for node in graph["nodes"]:
        results = [value for output in node["outputs"] for value in output.values() if isinstance(value, dict)]
        name = node.get("name") or (results[0].get("name", "") if results else "")
        if name in handles:
            node["metadata"]["debug_handle"] = str(handles[name])
        for argument in node["inputs"]:
            inner = argument["arg"].get("as_graph") if isinstance(argument["arg"], dict) else None
            if inner:
                _add_handles(inner["graph"], handles)


def _maps(
    pte: fmt.PteFile, outputs: Mapping[str, Sequence[int]]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the maps from instructions to debug handles, delegates and numbers of outputs, by method.

    Operations of delegates with a number have the key `[12]`, which ExecuTorch looks for in the id `Conv2d [12]`.
    """
    meta = fmt.get_meta(pte) or fmt.Meta()
    handle_map: dict[str, Any] = {}
    delegate_map: dict[str, Any] = {}
    output_map: dict[str, Any] = {}
    for plan in pte.program.execution_plan:
        method = meta.method(plan.name)
        if method is None or plan.name not in outputs:
            continue
        handles = [one.handles for one in method.instructions]
        handle_map[plan.name] = {
            str(index): own[0] if len(own) == 1 else list(own) for index, own in enumerate(handles) if own
        }
        delegates = delegate_map.setdefault(plan.name, {})
        counts = output_map.setdefault(plan.name, {})
        for index, instruction in enumerate(plan.chains[0].instructions):
            call = instruction.instr_args
            if isinstance(call, fmt.DelegateCall):
                operations = method.delegates[call.delegate_index].operations
                ids = {one.name or f"[{one.id}]": list(one.handles) for one in operations}
                delegates[str(index)] = {"name": plan.delegates[call.delegate_index].id, "delegate_map": ids}
                counts[str(index)] = outputs[plan.name][call.delegate_index]
    return handle_map, delegate_map, output_map
