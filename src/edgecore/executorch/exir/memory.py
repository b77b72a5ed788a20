"""Memory planning with ExecuTorch's arguments: a planner gets the graph, and a pass sees the operators' out variants.

A planner of ExecuTorch is `algo(alignment, specs, graph_module, graph_signature, extra_padding)`. It returns a
`MemoryAlgoResult`, or it sets `mem_id` and `mem_offset` of the specs and returns the sizes of all arenas.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch.export import ExportedProgram, ExportGraphSignature
from torch.fx import GraphModule

from edgecore import memory
from edgecore.emit.out_variants import out_variant
from edgecore.errors import CompileError
from edgecore.ir.graph import all_calls
from edgecore.ir.torch_compat import OpOverload
from edgecore.memory import Planner, TensorSpec, annealed
from edgecore.stability import warn_no_effect


@dataclass
class SpecAllocResult:
    """The place of a tensor: number of the arena, identifier of a shared object (unused), offset in bytes."""

    mem_id: int
    mem_obj_id: int
    mem_offset: int


@dataclass
class MemoryAlgoResult:
    """The result of a planner: the place of each tensor, and the sizes of the arenas in bytes; entry 0 is unused."""

    spec_dict: dict[TensorSpec, SpecAllocResult]
    bufsizes: list[int]


Algorithm = Callable[[int, Collection[TensorSpec], GraphModule, "ExportGraphSignature | None", int], Any]
"""A planner of ExecuTorch: `algo(alignment, specs, graph_module, graph_signature, extra_padding)`."""


def greedy(
    alignment: int,
    specs: Collection[TensorSpec],
    graph_module: GraphModule,
    graph_signature: ExportGraphSignature | None = None,
    extra_padding: int = 0,
) -> MemoryAlgoResult:
    """Place the tensors from the largest to the smallest, each at the lowest offset that is free during its lifetime.

    Args:
        alignment: Every offset is a multiple of this number of bytes.
        specs: The tensors.
        graph_module: Its attribute `input_mem_buffer_sizes`, if it has one, tells how many bytes at the start of each
            arena stay free.
        graph_signature: Unused.
        extra_padding: Bytes to add to the size of each arena.
    """
    return _result(memory.greedy, alignment, specs, graph_module, extra_padding)


def naive(
    alignment: int,
    specs: Collection[TensorSpec],
    graph_module: GraphModule,
    graph_signature: ExportGraphSignature | None = None,
    extra_padding: int = 0,
) -> MemoryAlgoResult:
    """Place the tensors one after another without sharing bytes; for the arguments, see `greedy`."""
    return _result(memory.naive, alignment, specs, graph_module, extra_padding)


def _result(
    planner: Planner, alignment: int, specs: Collection[TensorSpec], graph_module: GraphModule | None, padding: int
) -> MemoryAlgoResult:
    """Run a planner of edgecore for each arena, and return the offsets and sizes as ExecuTorch's `MemoryAlgoResult`."""
    reserved = dict(enumerate(getattr(graph_module, "input_mem_buffer_sizes", None) or ()))
    arenas: dict[int, list[TensorSpec]] = {}
    for spec in sorted(specs, key=_order):
        arenas.setdefault(spec.mem_id or 1, []).append(spec)
    result = MemoryAlgoResult({}, [0] * (max(arenas, default=1) + 1))
    for mem_id, members in arenas.items():
        start = -(-reserved.get(mem_id, 0) // alignment) * alignment
        result.bufsizes[mem_id] = start + planner(members, alignment) + padding
        result.spec_dict.update((spec, SpecAllocResult(mem_id, 0, start + spec.mem_offset)) for spec in members)
    return result


def _order(spec: TensorSpec) -> tuple[object, ...]:
    """Return a sort key of a tensor, since a set of specs has no fixed order, but equal programs need equal plans."""
    return spec.lifetime, spec.shape, str(spec.dtype), spec.dim_order, spec.alignment


class MemoryPlanningPass(memory.MemoryPlanningPass):
    """The memory planning pass with ExecuTorch's arguments and defaults.

    A subclass that overrides `run` finds the out variants of operators as the targets of nodes, as in ExecuTorch. Its
    `run_multimethod` is not called.

    Args:
        memory_planning_algo: The planner, with ExecuTorch's arguments or with edgecore's; by default edgecore's
            `annealed`. The planner runs once for each arena, and cannot move tensors to another arena; `run` can.
        allow_lifetime_and_storage_overlap: Without effect. Tensors share bytes only where that is safe.
        alloc_graph_input: True to place inputs in an arena.
        alloc_graph_output: True to place outputs in an arena.
        alloc_mutable_buffers: False has no effect: mutable buffers always are in an arena.
        share_mutable_buffers: True if all methods share the buffers with the same qualified name.
        alignment: Every offset is a multiple of this number of bytes.
        options: Other arguments of `edgecore.memory.MemoryPlanningPass`.
    """

    def __init__(
        self,
        memory_planning_algo: Planner | Algorithm | None = None,
        allow_lifetime_and_storage_overlap: bool = False,
        alloc_graph_input: bool = True,
        alloc_graph_output: bool = True,
        alloc_mutable_buffers: bool = True,
        share_mutable_buffers: bool = False,
        alignment: int = 16,
        **options: Any,
    ) -> None:
        if allow_lifetime_and_storage_overlap:
            reason = "tensors share bytes wherever that is safe"
            warn_no_effect("MemoryPlanningPass(allow_lifetime_and_storage_overlap=True)", reason)
        if not alloc_mutable_buffers:
            reason = "the runtime keeps mutable buffers in an arena of the method"
            warn_no_effect("MemoryPlanningPass(alloc_mutable_buffers=False)", reason)
        planner: Any = memory_planning_algo or annealed
        super().__init__(
            partial(self._run_algorithm, planner) if _sees_the_graph(planner) else planner,
            alloc_graph_input,
            alloc_graph_output,
            alignment,
            share_mutable_buffers,
            **options,
        )

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "run_multimethod" in vars(cls):
            reason = "share_mutable_buffers=True places what methods share"
            warn_no_effect("MemoryPlanningPass.run_multimethod", reason)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)  # not frozen, as in ExecuTorch: subclasses may set attributes

    def choose_arenas(self, program: ExportedProgram) -> None:
        """Call `run` while the targets of nodes are out variants, as ExecuTorch's subclasses expect."""
        self._graph = program.graph_module, program.graph_signature
        nodes = [node for node in all_calls(program.graph_module) if isinstance(node.target, OpOverload)]
        functional = {node: node.target for node in nodes}
        try:
            for node, target in functional.items():
                node.target = out_variant(target) or target
            super().choose_arenas(program)
        finally:
            for node, target in functional.items():
                node.target = target

    def _run_algorithm(self, algorithm: Algorithm, specs: Sequence[TensorSpec], alignment: int) -> int:
        """Run a planner of ExecuTorch for one arena, set the offsets, and return the size of the arena in bytes."""
        mem_id = specs[0].mem_id
        assert mem_id is not None
        result = algorithm(alignment, specs, *self._graph, 0)
        places = result.spec_dict if isinstance(result, MemoryAlgoResult) else {}
        for spec, place in places.items():
            spec.mem_id, spec.mem_offset = place.mem_id, place.mem_offset
        if any(spec.mem_id != mem_id for spec in specs):
            raise CompileError("the memory planner moved a tensor to another arena; choose arenas in `run` of the pass")
        sizes: Sequence[int] = result.bufsizes if isinstance(result, MemoryAlgoResult) else result
        if len(sizes) <= mem_id:
            raise CompileError(
                f"the memory planner returned {len(sizes)} sizes of arenas, but it placed arena {mem_id}"
            )
        return sizes[mem_id]


def _sees_the_graph(planner: Callable[..., Any]) -> bool:
    """Return True for a planner with ExecuTorch's three or more arguments; edgecore's planners take two."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(planner).parameters.values()
    return sum(parameter.kind in kinds for parameter in parameters) >= len(("alignment", "specs", "graph_module"))


class MemoryPlanningAlgorithmSuite:
    """A planner that tries several planners of ExecuTorch, and uses the result with the smallest arenas.

    Args:
        algo_list: The planners; by default `greedy`.
    """

    def __init__(self, algo_list: Sequence[Callable[..., MemoryAlgoResult]] | None = None) -> None:
        self.algo_list = list(algo_list or [greedy])

    def __call__(
        self,
        alignment: int,
        specs: Collection[TensorSpec],
        graph_module: GraphModule,
        graph_signature: ExportGraphSignature | None = None,
        extra_padding: int = 0,
    ) -> list[int]:
        """Place the tensors, and return the sizes of the arenas in bytes; entry 0 is unused."""
        results = [algo(alignment, specs, graph_module, graph_signature, extra_padding) for algo in self.algo_list]
        best = min(results, key=lambda result: sum(result.bufsizes))
        for spec, place in best.spec_dict.items():
            spec.mem_id, spec.mem_offset = place.mem_id, place.mem_offset
        return best.bufsizes
