"""Functions that make and copy exported programs. edgecore edits a copy, never the user's program."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.export import ExportedProgram, ExportGraphSignature, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import InputKind
from torch.fx import Graph, GraphModule

from edgecore.ir.program.lazy_constants import load
from edgecore.ir.program.outputs import has_gradients, is_result
from edgecore.ir.torch_compat import LazyGraphModule, pytree, replace_parts


def make_program(
    graph: Graph,
    signature: ExportGraphSignature,
    *,
    like: ExportedProgram,
    state_dict: Mapping[str, torch.Tensor],
    constants: Mapping[str, Any],
    submodules: Mapping[str, torch.nn.Module] | None = None,
) -> ExportedProgram:
    """Make an `ExportedProgram` from a graph. The program takes positional inputs and returns a tuple.

    Args:
        graph: The graph.
        signature: The signature of the graph.
        like: A program from which the ranges of symbolic sizes are taken.
        state_dict: Parameters and buffers by the names in the signature.
        constants: Lifted tensors and objects by the names in the signature.
        submodules: Delegates and bodies of control flow, by the names that `get_attr` nodes read.
    """
    root: dict[str, object] = dict(submodules or {})
    # Make a lazy module, which generates Python code only when it is called, because passes edit the graph often.
    graph_module = LazyGraphModule(root, graph)
    graph_module.meta.update(like.graph_module.meta)
    return replace_parts(
        like,
        graph_module=graph_module,
        graph_signature=signature,
        state_dict=dict(state_dict),
        constants=dict(constants),
        range_constraints=dict(like.range_constraints),
        example_inputs=None,
        module_call_graph=[ModuleCallEntry("", _call_signature(signature))],
    )


def _call_signature(signature: ExportGraphSignature) -> ModuleCallSignature:
    """Return the signature of calls with positional inputs and a tuple of results."""
    arguments = [spec.arg for spec in signature.input_specs if spec.kind == InputKind.USER_INPUT]
    results = [spec.arg for spec in signature.output_specs if is_result(spec)]
    _, in_spec = pytree.tree_flatten(((0,) * len(arguments), {}))
    _, out_spec = pytree.tree_flatten((0,) * len(results))
    return ModuleCallSignature(list(arguments), list(results), in_spec, out_spec)


def copy_program(program: ExportedProgram) -> ExportedProgram:
    """Copy a program for editing. The copy has its own dictionaries and nodes, but the same tensors."""
    old = program.graph_signature
    signature = ExportGraphSignature(
        input_specs=[copy.copy(spec) for spec in old.input_specs],
        output_specs=[copy.copy(spec) for spec in old.output_specs],
    )
    copied = make_program(
        _copy_graph(program.graph),
        signature,
        like=program,
        state_dict=program.state_dict,
        constants=program.constants,
        submodules=_copy_submodules(program.graph_module),
    )
    return replace_parts(copied, module_call_graph=program.module_call_graph)


def module_to_run(program: ExportedProgram, *, check_guards: bool = True) -> GraphModule:
    """Return `program.module()`, or for a program with gradients a module that returns a tuple of all results.

    For a program with gradients torch keeps the signature of the original model, so `module()` could not be called.
    """
    if has_gradients(program):
        entry, *others = program.module_call_graph
        assert entry.signature is not None
        _, out_spec = pytree.tree_flatten((0,) * sum(map(is_result, program.graph_signature.output_specs)))
        entry = replace(entry, signature=replace(entry.signature, out_spec=out_spec))
        program = replace_parts(program, module_call_graph=[entry, *others])
    return program.module(check_guards=check_guards)


@contextmanager
def unchanged_buffers(*models: Any) -> Iterator[None]:
    """Restore the buffers of programs and modules at the end of the block, because runs may write to them.

    A program's buffers are the tensors of the user's model. `models` may include functions, which have no buffers.
    """
    owners = [model for model in models if isinstance(model, (ExportedProgram, torch.nn.Module))]
    saved = [(buffer, buffer.detach().clone()) for owner in owners for buffer in owner.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, content in saved:
                buffer.copy_(content)


def buffer_of(program: ExportedProgram, name: str) -> torch.Tensor:
    """Return the initial content of the buffer with the qualified name `name`."""
    tensor = program.state_dict.get(name)
    return load(program.constants[name] if tensor is None else tensor)


def _copy_graph(original: Graph) -> Graph:
    graph = Graph()
    nodes: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in original.nodes:
        nodes[node] = graph.node_copy(node, nodes.__getitem__)
        nodes[node].meta = dict(node.meta)
        nodes[node].name = node.name  # restore the name: fx renames the copy of a node named like a builtin (`input`)
    return graph


def _copy_submodules(graph_module: GraphModule) -> dict[str, torch.nn.Module]:
    """Return the modules that a graph refers to by name; branches and loop bodies are copied, delegates are not."""
    modules: dict[str, torch.nn.Module] = {}
    for node in graph_module.graph.nodes:
        if node.op == "get_attr":
            module = getattr(graph_module, str(node.target))
            if isinstance(module, GraphModule):
                root: dict[str, object] = dict(_copy_submodules(module))
                module = LazyGraphModule(root, _copy_graph(module.graph))
            modules[str(node.target)] = module
    return modules
