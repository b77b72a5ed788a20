"""Delegates in ETRecords. As in ExecuTorch, a delegate is a call whose first argument is the lowered module as JSON."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram

from edgecore.format.etrecord import Graph
from edgecore.ir import delegate
from edgecore.ir.control_flow import graph_modules
from edgecore.ir.graph import all_calls, handles_of
from edgecore.ir.program.copying import copy_program
from edgecore.ir.torch_compat import executorch_call_delegate
from edgecore.plugin import CompileSpec, NamedBlob, PreprocessResult

Serialize = Callable[[ExportedProgram], Graph]
"""A function that serializes the program inside a delegate."""

Load = Callable[[Graph], ExportedProgram]
"""A function that loads the program inside a delegate from its serialized form."""

_PARTS = {"original_state_dict": "state_dict", "original_constants": "constants"}


class LoweredBackendModule(torch.nn.Module):
    """A delegate with the fields that torch's serialization reads. torch recognizes the class by its name."""

    def __init__(self, lowered: delegate.LoweredBackendModule, name: str) -> None:
        super().__init__()
        self.module_name = name
        self.backend_id = lowered.backend_id
        self.processed_bytes = bytes(lowered.processed_bytes)
        self.compile_specs = list(lowered.compile_specs)
        self.named_data = lowered.named_data
        self.original_module = lowered.original_module


def with_serializable_delegates(program: ExportedProgram) -> tuple[ExportedProgram, list[LoweredBackendModule]]:
    """Return a copy of a program whose delegates have a form that torch can serialize, and the delegates of the copy.

    A program without delegates is not copied. As in ExecuTorch, delegate calls get their debug handles after all other
    nodes.
    """
    if not delegate.delegates(program):
        return program, []
    copied = copy_program(program)
    modules = []
    first = 1 + max(_handles(program), default=0)
    for index, (node, lowered) in enumerate(delegate.delegates(copied)):
        node.meta["debug_handle"] = first + index
        name = str(node.args[0].target)  # type: ignore[union-attr]
        owner: Any = node.graph.owning_module
        # Number the delegates' modules over all graphs, because a name may occur in two graphs.
        modules.append(LoweredBackendModule(lowered, f"lowered_module_{index}"))
        node.target = executorch_call_delegate
        delattr(owner, name)
        setattr(owner, name, modules[-1])
    return copied, modules


def _handles(program: ExportedProgram) -> set[int]:
    """Return the debug handles of a program's nodes, including nodes in delegates."""
    programs = (program, *(lowered.original_module for _, lowered in delegate.delegates(program)))
    nodes = (node for part in programs for node in all_calls(part.graph_module))
    return {handle for node in nodes if not delegate.is_delegate_call(node) for handle in handles_of(node)}


def inner_graphs(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the graphs of the branches or the loop that a serialized node runs."""
    arguments = (argument["arg"] for argument in node["inputs"])
    graphs = (argument.get("as_graph") for argument in arguments if isinstance(argument, dict))
    return [graph["graph"] for graph in graphs if graph]


def all_nodes(graph: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a serialized graph, including nodes of branches and loops."""
    for node in graph["nodes"]:
        yield node
        for inner in inner_graphs(node):
            yield from all_nodes(inner)


def list_results(graph: dict[str, Any]) -> None:
    """Store the results of each delegate, branch and loop as one list of tensors, as in ExecuTorch's older schema."""
    for node in all_nodes(graph):
        is_list = node["target"].startswith("torch.ops.higher_order.") and not node.get("is_hop_single_tensor_return")
        if is_list and all("as_tensor" in output for output in node["outputs"]):
            node["outputs"] = [{"as_tensors": [output["as_tensor"] for output in node["outputs"]]}]


def write_delegates(
    graph: dict[str, Any], modules: list[LoweredBackendModule], serialize: Serialize, weights: bool
) -> None:
    """In a serialized graph, write each delegate's module as JSON into the call of the delegate.

    With `weights`, the JSON also contains the named data of the module.
    """
    by_text = {f"{module.module_name}-{module.backend_id}": module for module in modules}
    for node in all_nodes(graph):
        if node["target"] == "torch.ops.higher_order.executorch_call_delegate":
            first, *others = node["inputs"]
            module = by_text[first["arg"]["as_string"]]
            first |= {"name": module.module_name, "arg": {"as_string": _text(module, serialize, weights)}}
            for index, other in enumerate(others):
                other["name"] = f"delegate_arg_{index}"


def read_delegates(program: ExportedProgram, load: Load) -> None:
    """In each delegate call, replace the JSON, which torch has loaded as a string, by the delegate itself.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: The JSON is damaged.
    """
    for graph_module in graph_modules(program.graph_module):
        calls = graph_module.graph.find_nodes(op="call_function", target=executorch_call_delegate)
        for index, node in enumerate(calls):
            arguments: list[Any] = [*node.args, *node.kwargs.values()]
            name = f"lowered_module_{index}"
            graph_module.add_submodule(name, _lowered(json.loads(arguments[0]), load))
            with graph_module.graph.inserting_before(node):
                module = graph_module.graph.get_attr(name)
            node.target, node.args, node.kwargs = delegate.call_delegate, (module, *arguments[1:]), {}
        graph_module.recompile()


def _lowered(content: Mapping[str, Any], load: Load) -> delegate.LoweredBackendModule:
    parts = {part: b64decode(content[key]) for key, part in _PARTS.items()}
    store = json.loads(content.get("named_data_store") or '{"pte_data": {}}')
    named = {
        key: NamedBlob(b64decode(store["buffers"][entry["buffer_index"]]), entry["alignment"] or 1)
        for key, entry in store["pte_data"].items()
    }
    return delegate.LoweredBackendModule(
        content["backend_id"],
        PreprocessResult(b64decode(content["processed_bytes"]), named),
        [CompileSpec(spec["key"], b64decode(spec["value"])) for spec in content["compile_specs"]],
        load(Graph(json.dumps(content["original_module"]).encode(), **parts)),
        ("", ""),
    )


def _text(module: LoweredBackendModule, serialize: Serialize, weights: bool) -> str:
    original = serialize(module.original_module)
    program = json.loads(original.program)
    for entry in program["graph_module"]["module_call_graph"]:
        if entry["signature"]:  # drop the names of inputs and outputs: a reader that renames inputs would not find them
            entry["signature"] |= {"inputs": [], "outputs": []}
    content = {
        "backend_id": module.backend_id,
        "processed_bytes": _encoded(module.processed_bytes),
        "compile_specs": [{"key": spec.key, "value": _encoded(spec.value)} for spec in module.compile_specs],
        "original_module": program,
    }
    content |= {key: _encoded(getattr(original, part)) for key, part in _PARTS.items()}
    if weights:
        content["named_data_store"] = json.dumps(_store(module.named_data))
    return json.dumps(content)


def _store(named_data: Mapping[str, NamedBlob]) -> dict[str, Any]:
    """Convert named data to ExecuTorch's JSON, which stores equal data once."""
    numbers = {
        data: number for number, data in enumerate(dict.fromkeys(bytes(blob.data) for blob in named_data.values()))
    }
    entries = {
        key: {"buffer_index": numbers[bytes(blob.data)], "alignment": blob.alignment, "tensor_layout": None}
        for key, blob in named_data.items()
    }
    return {"buffers": [_encoded(data) for data in numbers], "pte_data": entries, "external_data": {}}


def _encoded(content: bytes) -> str:
    return b64encode(content).decode()
