"""Constants of an exported program that are state in truth become buffers."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from edgecore.ir.graph import edit
from edgecore.passes.functionalize import aliased, is_mutable


def claim_constants(program: ExportedProgram) -> ExportedProgram:
    """Read a constant that is the memory of a registered buffer from that buffer, and make a buffer of one that is written.

    torch.export lifts tensors that a module holds outside its buffers as constants, in-place operators on them included:
    the static caches of transformers, which are registered as buffers elsewhere too. torch's functionalisation fails there.
    """
    specs = program.graph_signature.input_specs
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    buffers = {
        _memory(_tensor(program, spec.target)): nodes[spec.arg.name] for spec in specs if spec.kind == InputKind.BUFFER
    }
    written = _written(program)
    with edit(program) as graph_module:
        for spec in [spec for spec in specs if spec.kind == InputKind.CONSTANT_TENSOR]:
            constant = nodes[spec.arg.name]
            buffer = buffers.get(_memory(_tensor(program, spec.target)))
            if buffer is not None:
                constant.replace_all_uses_with(buffer)
                graph_module.graph.erase_node(constant)
                specs.remove(spec)
                program.constants.pop(spec.target, None)
            elif constant in written:
                spec.kind, spec.persistent = InputKind.BUFFER, False
    return program


def _tensor(program: ExportedProgram, name: str | None) -> Any:
    tensor = program.state_dict.get(name)
    return program.constants[name] if tensor is None else tensor


def _memory(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr() or id(tensor), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype


def _written(program: ExportedProgram) -> set[Node]:
    """The placeholders that in-place operators write into, themselves or through a view."""
    root: dict[Node, Node] = {}
    found = set()
    for node in program.graph.nodes:
        base = aliased(node)
        root[node] = root[base] if base is not None else node
        if node.op == "call_function" and is_mutable(node):
            found.add(root[node.args[0]])
    return found
