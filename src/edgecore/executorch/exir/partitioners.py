"""ExecuTorch's base class of partitioners, `AllNodePartitioner`, and functions that list the delegates of a graph."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

from edgecore.ir.control_flow import COND, MAP, SCAN, WHILE
from edgecore.ir.delegate import LoweredBackendModule, call_delegate, is_delegate_call, module_of
from edgecore.ir.graph import calls
from edgecore.partition import TAG, DelegationSpec, PartitionResult
from edgecore.partition import Partitioner as Protocol
from edgecore.plugin import CompileSpec


class Partitioner(Protocol):
    """The base class of partitioners.

    Args:
        spec: Settings of the partitioner; the property `spec` returns them.
    """

    def __init__(self, spec: Mapping[str | int | float | bool, object] | None = None) -> None:
        self._spec = MappingProxyType(dict(spec or {}))

    def __call__(self, exported_program: ExportedProgram) -> PartitionResult:
        """Call `partition`."""
        return self.partition(exported_program)

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        """Return the program to lower; `to_edge_transform_and_lower` calls this before operators are decomposed."""
        return exported_program

    @property
    def spec(self) -> Mapping[str | int | float | bool, object]:
        """The settings, read-only."""
        return self._spec


class AllNodePartitioner(Partitioner):
    """Tags all operators for one backend, even if the backend does not support them."""

    def __init__(self, backend_id: str, compile_specs: Sequence[CompileSpec]) -> None:
        super().__init__()
        self.delegation_spec = DelegationSpec(backend_id, tuple(compile_specs))

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag all calls that compute tensors."""
        for node in calls(exported_program.graph_module):
            if not isinstance(node.meta["val"], (torch.SymInt, torch.SymFloat, torch.SymBool)):
                node.meta[TAG] = self.delegation_spec.backend_id
        return PartitionResult(exported_program, {self.delegation_spec.backend_id: self.delegation_spec})


def get_delegates(graph: Graph) -> list[Node]:
    """List the nodes that hold the modules of delegates."""
    return [node.args[0] for node in graph.nodes if is_delegate_call(node)]


def get_non_lowered_nodes(graph: Graph) -> list[Node]:
    """List the calls outside of delegates, except for `getitem` of a delegate's result."""
    return [
        node
        for node in graph.nodes
        if node.op == "call_function"
        and not is_delegate_call(node)
        and not (node.target is operator.getitem and is_delegate_call(node.args[0]))
    ]


def get_lowered_submodules(graph_module: GraphModule) -> list[tuple[str, LoweredBackendModule, Node]]:
    """List the delegates of a graph as (name of the module, module, call)."""
    nodes = calls(graph_module, call_delegate)
    return [(str(node.args[0].target), module_of(node), node) for node in nodes]  # type: ignore[union-attr]


def get_lowered_backend_modules(graph_module: GraphModule) -> list[LoweredBackendModule]:
    """List the modules of a graph's delegates."""
    return [module for _, module, _ in get_lowered_submodules(graph_module)]


def get_control_flow_submodules(graph_module: GraphModule) -> list[tuple[str, GraphModule, Node]]:
    """List the branches and loop bodies of a graph as (name, graph, control-flow node); omit nested ones."""
    return _submodules(graph_module, COND, MAP, SCAN)


def get_cond_while_submodules(graph_module: GraphModule) -> list[tuple[str, GraphModule, Node]]:
    """List the branches of `cond`, and the conditions and bodies of `while_loop`; see `get_control_flow_submodules`."""
    return _submodules(graph_module, COND, WHILE)


def _submodules(graph_module: GraphModule, *operators: object) -> list[tuple[str, GraphModule, Node]]:
    return [
        (name, getattr(graph_module, name), node)
        for node in calls(graph_module, *operators)
        for name in [str(source.target) for source in node.all_input_nodes if source.op == "get_attr"]
    ]
