"""Delegates in a graph: the module that holds a backend's blob, and the node that calls this module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.node import has_side_effect

from edgecore.ir.control_flow import in_execution_order
from edgecore.ir.program.mutable_state import MutableBuffer, mutable_buffers
from edgecore.plugin import CompileSpec, PreprocessResult


class LoweredBackendModule(torch.nn.Module):
    """A partition that a backend compiled. A call in Python runs the partition's original graph, not the blob.

    Attributes:
        backend_id: The id of the backend.
        result: The result of the backend's `preprocess`.
        compile_specs: The compile specs that were passed to `preprocess`.
        original_module: The partition as a program. The backend keeps the state of its mutable buffers.
        distribution: Name and version of the package that made the blob.
    """

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

    def __deepcopy__(self, memo: dict[int, object]) -> LoweredBackendModule:
        """Return this module itself: it never changes, and its blob may be a view of memory that cannot be copied."""
        return self

    @property
    def processed_bytes(self) -> bytes:
        """The blob, under the name that this property has in ExecuTorch's class `LoweredBackendModule`."""
        return self.result.blob

    @property
    def meta(self) -> dict[str, Any]:
        """A dict with `debug_handle_map`, and with `_delegate_info_meta` if a backend written for ExecuTorch set it."""
        added = getattr(self.result, "_delegate_info_meta", None)
        handles = {"debug_handle_map": self.result.debug_handle_map}
        return handles if added is None else {**handles, "_delegate_info_meta": added}

    @property
    def named_data(self) -> Mapping[str, Any]:
        """Data that the blob references by key, such as weights."""
        return self.result.named_data

    @property
    def operands(self) -> list[Any]:
        """The fake tensors (`val`) of the partition's inputs, in the order of the delegate call's operands."""
        nodes = {node.name: node for node in self.original_module.graph.nodes if node.op == "placeholder"}
        return [nodes[name].meta.get("val") for name in self.original_module.graph_signature.user_inputs]

    @property
    def held_buffers(self) -> list[MutableBuffer]:
        """The mutable buffers that this delegate uses and whose content the backend keeps between runs."""
        return mutable_buffers(self.original_module)

    @property
    def writes_state(self) -> bool:
        """True if a run may change a mutable buffer whose content the backend keeps between runs."""
        return any(buffer.is_written for buffer in self.held_buffers)

    def forward(self, *args: Any) -> tuple[Any, ...]:
        """Compute the partition's outputs with torch."""
        outputs = self.original_module.module(check_guards=False)(*args)
        return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


class DelegatedCall(NamedTuple):
    """An operator call inside a delegate, for the delegation report.

    The entry `delegated` in the `meta` of a delegate's call node is the list of its calls, each a `DelegatedCall`.
    """

    operator: str
    node: str
    module: str
    source: str
    dtypes: tuple[str, ...]


@has_side_effect
def call_delegate(module: LoweredBackendModule, *args: Any) -> tuple[Any, ...]:
    """Run a delegate.

    In a delegate call, this function is the target, and the module's `get_attr` node is the first argument. torch keeps
    such a call even without users, because it may change state; `ir.graph.edit` removes a call that writes no state.
    """
    return module(*args)  # type: ignore[no-any-return]


def is_delegate_call(node: Node) -> bool:
    """Return True if `node` calls a delegate."""
    return node.op == "call_function" and node.target is call_delegate


def module_of(node: Node) -> LoweredBackendModule:
    """Return the module of the delegate that a node calls."""
    module = getattr(node.graph.owning_module, str(node.args[0].target))  # type: ignore[union-attr]
    assert isinstance(module, LoweredBackendModule)
    return module


def delegates(program: ExportedProgram) -> list[tuple[Node, LoweredBackendModule]]:
    """List the delegate calls of a program and of its branches and loops in order, each with its module."""
    nodes = in_execution_order(program.graph_module)
    return [(node, module_of(node)) for node in nodes if is_delegate_call(node)]
