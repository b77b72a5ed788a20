"""Delegates in ETRecords, as ExecuTorch writes them: a call whose first argument is the text of the lowered module."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate
from torch.export import ExportedProgram

from edgecore.format.etrecord import Graph
from edgecore.ir import delegate
from edgecore.ir.program import copy_program

Serialize = Callable[[ExportedProgram], Graph]
"""A function that serializes the program of a partition."""


class LoweredBackendModule(torch.nn.Module):
    """A delegate with the fields that torch's serialization reads. torch knows the class by its name."""

    def __init__(self, lowered: delegate.LoweredBackendModule, name: str) -> None:
        super().__init__()
        self.module_name = name
        self.backend_id = lowered.backend_id
        self.processed_bytes = bytes(lowered.processed_bytes)
        self.compile_specs = list(lowered.compile_specs)
        self.original_module = lowered.original_module


def with_serializable_delegates(program: ExportedProgram) -> tuple[ExportedProgram, list[LoweredBackendModule]]:
    """Return a copy of a program whose delegates torch can serialize, and these; a program without delegates itself."""
    if not delegate.delegates(program):
        return program, []
    copied = copy_program(program)
    modules = []
    for node, lowered in delegate.delegates(copied):
        name = str(node.args[0].target)  # type: ignore[union-attr]
        owner: Any = node.graph.owning_module
        modules.append(LoweredBackendModule(lowered, name))
        node.target = executorch_call_delegate
        delattr(owner, name)
        setattr(owner, name, modules[-1])
    return copied, modules


def write_delegates(graph: dict[str, Any], modules: list[LoweredBackendModule], serialize: Serialize) -> None:
    """Give each call of a delegate in a serialized graph the text of its module."""
    by_text = {f"{module.module_name}-{module.backend_id}": module for module in modules}
    for node in graph["nodes"]:
        if node["target"] == "torch.ops.higher_order.executorch_call_delegate":
            first, *others = node["inputs"]
            module = by_text[first["arg"]["as_string"]]
            first |= {"name": module.module_name, "arg": {"as_string": _text(module, serialize)}}
            node["outputs"] = [{"as_tensors": [output["as_tensor"] for output in node["outputs"]]}]
            for index, other in enumerate(others):
                other["name"] = f"delegate_arg_{index}"


def _text(module: LoweredBackendModule, serialize: Serialize) -> str:
    original = serialize(module.original_module)
    program = json.loads(original.program)
    for entry in program["graph_module"]["module_call_graph"]:
        if entry["signature"]:  # a reader that renames inputs would not find them
            entry["signature"] |= {"inputs": [], "outputs": []}
    return json.dumps(
        {
            "backend_id": module.backend_id,
            "processed_bytes": b64encode(module.processed_bytes).decode(),
            "compile_specs": [
                {"key": spec.key, "value": b64encode(spec.value).decode()} for spec in module.compile_specs
            ],
            "original_module": program,
            "original_state_dict": b64encode(original.state_dict).decode(),
            "original_constants": b64encode(original.constants).decode(),
        }
    )
