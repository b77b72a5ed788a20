"""Exported programs as edgecore handles them: a copy of the user's, with the graph free to be edited."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram, ExportGraphSignature, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import InputKind
from torch.fx import Graph, GraphModule
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.utils import _pytree as pytree


def make_program(
    graph: Graph,
    signature: ExportGraphSignature,
    *,
    like: ExportedProgram,
    state_dict: Mapping[str, torch.Tensor],
    constants: Mapping[str, Any],
    submodules: Mapping[str, torch.nn.Module] | None = None,
) -> ExportedProgram:
    """An `ExportedProgram` over `graph`; range constraints and call structure come from `like`."""
    root: dict[str, object] = dict(submodules or {})
    program = copy.copy(like)
    program._graph_module = _LazyGraphModule(root, graph)  # passes edit it often; code is made when somebody runs it
    program._graph_module.meta.update(like.graph_module.meta)
    program._graph_signature = signature
    program._state_dict = dict(state_dict)
    program._constants = dict(constants)
    program._range_constraints = dict(like.range_constraints)
    program._example_inputs = None
    if signature.user_inputs != like.graph_signature.user_inputs:
        program._module_call_graph = [ModuleCallEntry("", _call_signature(signature))]
    return program


def _call_signature(signature: ExportGraphSignature) -> ModuleCallSignature:
    """Positional tensors in, a tuple of tensors out."""
    arguments = [spec.arg for spec in signature.input_specs if spec.kind == InputKind.USER_INPUT]
    results = [spec.arg for spec in signature.output_specs]
    _, in_spec = pytree.tree_flatten(((0,) * len(arguments), {}))
    _, out_spec = pytree.tree_flatten((0,) * len(results))
    return ModuleCallSignature(list(arguments), list(results), in_spec, out_spec)


def copy_program(program: ExportedProgram) -> ExportedProgram:
    """A program that can be edited without touching `program`. Tensors are shared, dictionaries and nodes are not."""
    old = program.graph_signature
    signature = ExportGraphSignature(
        input_specs=[copy.copy(spec) for spec in old.input_specs],
        output_specs=[copy.copy(spec) for spec in old.output_specs],
    )
    return make_program(
        _copy_graph(program.graph),
        signature,
        like=program,
        state_dict=program.state_dict,
        constants=program.constants,
        submodules=_copy_submodules(program.graph_module),
    )


def buffer_of(program: ExportedProgram, name: str) -> torch.Tensor:
    """The initial content of the buffer of that qualified name."""
    tensor = program.state_dict.get(name)
    return program.constants[name] if tensor is None else tensor  # type: ignore[no-any-return]


def _copy_graph(original: Graph) -> Graph:
    graph = Graph()
    nodes: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in original.nodes:
        nodes[node] = graph.node_copy(node, lambda other: nodes[other])
        nodes[node].meta = dict(node.meta)
        nodes[node].name = node.name  # fx renames what shadows a builtin (`input`), but the signature goes by name
    return graph


def _copy_submodules(graph_module: GraphModule) -> dict[str, torch.nn.Module]:
    """The modules that a graph refers to; graphs among them (branches, loop bodies) are copied."""
    modules: dict[str, torch.nn.Module] = {}
    for node in graph_module.graph.nodes:
        if node.op == "get_attr":
            module = getattr(graph_module, str(node.target))
            if isinstance(module, GraphModule):
                root: dict[str, object] = dict(_copy_submodules(module))
                module = _LazyGraphModule(root, _copy_graph(module.graph))
            modules[str(node.target)] = module
    return modules
