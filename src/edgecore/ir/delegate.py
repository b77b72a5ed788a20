"""A delegated part of a graph: a module that holds a backend's blob, and the node that calls it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.plugin import CompileSpec, PreprocessResult


class LoweredBackendModule(torch.nn.Module):
    """What a backend made of one partition; running it in Python runs the partition's own graph."""

    def __init__(
        self,
        backend_id: str,
        result: PreprocessResult,
        compile_specs: Sequence[CompileSpec],
        original_module: ExportedProgram,
        distribution: tuple[str, str],
    ) -> None:
        super().__init__()
        self.backend_id = backend_id
        self.result = result
        self.compile_specs = tuple(compile_specs)
        self.original_module = original_module
        self.distribution = distribution
        """Name and version of the package that made the blob."""

    @property
    def processed_bytes(self) -> bytes:
        """The blob."""
        return self.result.blob

    @property
    def named_data(self) -> Mapping[str, Any]:
        """Weights that the blob refers to by key."""
        return self.result.named_data

    def forward(self, *args: Any) -> tuple[Any, ...]:
        """The partition's outputs, computed by torch."""
        outputs = self.original_module.module(check_guards=False)(*args)
        return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


class DelegatedCall(NamedTuple):
    """An operator call inside a delegate, for the report; `node.meta["delegated"]` of a delegate call is a list of these."""

    operator: str
    node: str
    module: str
    source: str
    dtypes: tuple[str, ...]


def call_delegate(module: LoweredBackendModule, *args: Any) -> tuple[Any, ...]:
    """Target of a delegate call: its first argument is the `get_attr` node of the lowered module."""
    return module(*args)  # type: ignore[no-any-return]


def is_delegate_call(node: Node) -> bool:
    """Whether `node` calls a delegate."""
    return node.op == "call_function" and node.target is call_delegate


def delegates(program: ExportedProgram) -> list[tuple[Node, LoweredBackendModule]]:
    """The delegate calls of a program in order, with their modules."""
    found = []
    for node in program.graph.nodes:
        if is_delegate_call(node):
            module = getattr(program.graph_module, node.args[0].target)
            found.append((node, module))
    return found
