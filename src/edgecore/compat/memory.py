"""Memory planning with ExecuTorch's arguments: its passes see nodes of out variants, its suites try several planners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch._ops import OpOverload
from torch.export import ExportedProgram

from edgecore import memory
from edgecore.emit.out_variants import out_variant
from edgecore.ir.graph import all_calls
from edgecore.memory import Planner, TensorSpec, annealed, greedy
from edgecore.stability import warn_no_effect


class MemoryPlanningPass(memory.MemoryPlanningPass):
    """The memory planning pass with ExecuTorch's arguments and defaults.

    A subclass that overrides `run` finds the out variants of operators as the targets of nodes, as in ExecuTorch.

    Args:
        memory_planning_algo: The planner; by default that of edgecore, which needs the least memory.
        allow_lifetime_and_storage_overlap: Without effect. Tensors share bytes only where that is safe.
        alloc_graph_input: True to place inputs in an arena.
        alloc_graph_output: The same for outputs.
        alloc_mutable_buffers: Without effect if False. Mutable buffers are in an arena.
        share_mutable_buffers: True if all methods share the buffers with the same qualified name.
        alignment: Bytes of which every offset is a multiple.
        options: Other arguments of `edgecore.memory.MemoryPlanningPass`.
    """

    def __init__(
        self,
        memory_planning_algo: Planner | None = None,
        allow_lifetime_and_storage_overlap: bool = False,
        alloc_graph_input: bool = True,
        alloc_graph_output: bool = True,
        alloc_mutable_buffers: bool = True,
        share_mutable_buffers: bool = False,
        alignment: int = 16,
        **options: Any,
    ) -> None:
        if allow_lifetime_and_storage_overlap:
            reason = "tensors share bytes only where the compiler has proved that this is safe"
            warn_no_effect("MemoryPlanningPass(allow_lifetime_and_storage_overlap=True)", reason)
        if not alloc_mutable_buffers:
            reason = "the runtime keeps mutable buffers in an arena of the method"
            warn_no_effect("MemoryPlanningPass(alloc_mutable_buffers=False)", reason)
        super().__init__(
            memory_planning_algo or annealed,
            alloc_graph_input,
            alloc_graph_output,
            alignment,
            share_mutable_buffers,
            **options,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)  # ExecuTorch's class is not frozen: subclasses may set attributes

    def choose_arenas(self, program: ExportedProgram) -> None:
        """Call `run` while the targets of nodes are out variants."""
        nodes = [node for node in all_calls(program.graph_module) if isinstance(node.target, OpOverload)]
        functional = {node: node.target for node in nodes}
        try:
            for node, target in functional.items():
                node.target = out_variant(target) or target
            super().choose_arenas(program)
        finally:
            for node, target in functional.items():
                node.target = target


class MemoryPlanningAlgorithmSuite:
    """A planner that tries several planners, and uses the one with the smallest arena.

    Args:
        algo_list: The planners; by default `greedy`.
    """

    def __init__(self, algo_list: Sequence[Planner] | None = None) -> None:
        self.algo_list = list(algo_list or [greedy])

    def __call__(self, specs: Sequence[TensorSpec], alignment: int) -> int:
        """Place the tensors of one arena, and return its size in bytes."""
        sizes = [planner(specs, alignment) for planner in self.algo_list]
        return self.algo_list[sizes.index(min(sizes))](specs, alignment)
