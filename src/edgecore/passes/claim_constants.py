"""Turn constants of an exported program into buffers, or replace them by buffers, so that the model can write them."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from edgecore.ir.graph import edit
from edgecore.passes.in_place import is_mutable, written_by
from edgecore.passes.written_views import aliased


def claim_constants(program: ExportedProgram) -> ExportedProgram:
    """Replace a constant by the buffer that shares its memory, and turn a constant that the model writes into a buffer.

    `torch.export` lifts tensors that a module holds outside its buffers as constants, even if in-place operators write
    them. An example is the static cache of the package transformers, which may also be registered as a buffer
    elsewhere. torch's functionalization fails for constants that are written.
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
    """Return the placeholders that in-place operators write, directly or through a view."""
    base_of: dict[Node, Node] = {}
    written = set[Node]()
    for node in program.graph.nodes:
        targets = written_by(node) if node.op == "call_function" and is_mutable(node) else []
        source = targets[0] if targets else aliased(node)
        base_of[node] = base_of[source] if source is not None else node
        written.update(base_of[target] for target in targets)
    return written
