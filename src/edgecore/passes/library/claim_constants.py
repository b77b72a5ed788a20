"""Turn the constants and parameters that the model writes into buffers."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node

from edgecore.ir.graph import edit
from edgecore.passes.in_place import is_mutable, written_by
from edgecore.passes.written_views import aliased


def claim_constants(program: ExportedProgram) -> ExportedProgram:
    """Turn the constants and parameters that in-place operators write into buffers, because they are state.

    `torch.export` lifts a tensor that is an ordinary attribute of a module as a constant, even if in-place operators
    write to it; torch's functionalization then fails. An example is the static cache of the package transformers. A
    constant that shares the memory of a registered buffer, written or not, is replaced by this buffer.
    """
    specs = program.graph_signature.input_specs
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    buffers = {
        _memory(_tensor(program, spec.target)): nodes[spec.arg.name] for spec in specs if spec.kind == InputKind.BUFFER
    }
    written = _written(program)
    written.update(nodes[name] for name in _given_new_content(program))
    with edit(program) as graph_module:
        for spec in specs:
            if spec.kind == InputKind.PARAMETER and nodes[spec.arg.name] in written:
                spec.kind, spec.persistent = InputKind.BUFFER, True
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


def _given_new_content(program: ExportedProgram) -> list[str]:
    """Return the placeholders of parameters whose new content is an output; mark the outputs as updates of buffers.

    Such outputs occur in programs after `run_decompositions`.
    """
    signature = program.graph_signature
    parameters = {target: name for name, target in signature.inputs_to_parameters.items()}
    outputs = [spec for spec in signature.output_specs if spec.kind == OutputKind.PARAMETER_MUTATION]
    for spec in outputs:
        spec.kind = OutputKind.BUFFER_MUTATION
    return [parameters[str(spec.target)] for spec in outputs]


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
