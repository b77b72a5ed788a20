"""Deciding when each tensor lives and where: lifetimes, arenas, offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from edgecore.errors import CompileError
from edgecore.ir.constants import Constants
from edgecore.ir.control_flow import in_order, is_control_flow
from edgecore.memory.planners import Planner, greedy, overlap
from edgecore.memory.specs import SPEC, TensorSpec, assign_specs, specs_of

DEFAULT_ARENA = 1
SHARED_ARENA = 2
"""Of mutable buffers that all methods share; the number is executorch's."""


@dataclass
class MemoryPlan:
    """Arena sizes in bytes by memory id, the specs that were placed, and those of mutable buffers by qualified name."""

    arenas: dict[int, int] = field(default_factory=dict)
    specs: list[TensorSpec] = field(default_factory=list)
    state: dict[str, TensorSpec] = field(default_factory=dict)

    @property
    def sizes(self) -> list[int]:
        """`non_const_buffer_sizes` of the file: entry 0 is unused."""
        return [self.arenas.get(index, 0) for index in range(max(self.arenas, default=0) + 1)]


@dataclass(frozen=True)
class MemoryPlanningPass:
    """Plans a program's memory.

    `memory_planning_algo` places the tensors of one arena; `alloc_graph_input` and `alloc_graph_output` say whether
    inputs and outputs live in the arena (else the caller's buffers are used). A subclass overrides `arena_of` to spread
    tensors over several memories. `alignment` is in bytes. `share_mutable_buffers` keeps mutable buffers apart in arena 2,
    where those of one qualified name have one place in all methods.
    """

    memory_planning_algo: Planner = greedy
    alloc_graph_input: bool = False
    alloc_graph_output: bool = False
    alignment: int = 16
    share_mutable_buffers: bool = False

    def arena_of(self, spec: TensorSpec) -> int:
        """The memory id, counted from 1, of the arena that `spec` goes to."""
        return spec.mem_id or DEFAULT_ARENA

    def run(self, program: ExportedProgram) -> MemoryPlan:
        """Set lifetime, memory id and offset of every planned spec."""
        assign_specs(program)
        arenas: Mapping[int, list[TensorSpec]] = defaultdict(list)
        plan = MemoryPlan(state=_state(program))
        shared = set(plan.state.values()) if self.share_mutable_buffers else set()
        for spec in self._planned(program):
            spec.mem_id = SHARED_ARENA if spec in shared else self.arena_of(spec)
            if shared and spec.mem_id == SHARED_ARENA and spec not in shared:
                raise CompileError(
                    f"the arena {SHARED_ARENA} belongs to the buffers that methods share (share_mutable_buffers), but "
                    f"arena_of puts another tensor there: {spec}"
                )
            arenas[spec.mem_id].append(spec)
        for mem_id, specs in sorted(arenas.items()):
            plan.arenas[mem_id] = self.memory_planning_algo(specs, self.alignment)
            plan.specs.extend(specs)
        check_plan(plan)
        return plan

    def _planned(self, program: ExportedProgram) -> list[TensorSpec]:
        """The specs that need a place, with their lifetimes, in order of appearance."""
        constants = Constants(program)
        inputs = {s.arg.name for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT}
        outputs = {s.arg.name for s in program.graph_signature.output_specs if s.kind == OutputKind.USER_OUTPUT}
        order = list(in_order(program.graph_module))
        end = len(order)
        first: dict[TensorSpec, int] = {}
        last: dict[TensorSpec, int] = {}
        unplanned: set[TensorSpec] = set()
        state: set[TensorSpec] = set()  # mutable buffers keep their memory to themselves
        for index, node in enumerate(order):
            is_top = node.graph is program.graph
            is_output = node.op == "output" and is_top
            for source in node.all_input_nodes:
                for spec in specs_of(source):
                    last[spec] = end if is_output else index
                    if is_output and source.name in outputs and not self.alloc_graph_output:
                        unplanned.add(spec)
            for spec in specs_of(node):
                first.setdefault(spec, 0 if is_top and node.op == "placeholder" else index)
                last.setdefault(spec, index)
                if is_control_flow(node):
                    last[spec] = index  # its bodies work in its results until they end
                if not is_top or node.op != "placeholder":
                    continue
                if constants.has(node) or (node.name in inputs and not self.alloc_graph_input):
                    unplanned.add(spec)
                elif node.name not in inputs:
                    state.add(spec)
        for spec, start in first.items():
            spec.lifetime = (start, end if spec in state else last[spec])
        return [spec for spec in first if spec not in unplanned]


def _state(program: ExportedProgram) -> dict[str, TensorSpec]:
    """The specs of the buffers that the program writes, by qualified name."""
    signature = program.graph_signature
    mutated = set(signature.buffers_to_mutate.values())
    names = {name: target for name, target in signature.inputs_to_buffers.items() if target in mutated}
    return {names[node.name]: node.meta[SPEC] for node in program.graph.nodes if node.name in names}


def check_plan(plan: MemoryPlan) -> None:
    """Raise `CompileError` if two tensors that live at the same time share memory, or one leaves its arena."""
    by_arena: dict[int, list[TensorSpec]] = defaultdict(list)
    for spec in plan.specs:
        assert spec.mem_id is not None
        by_arena[spec.mem_id].append(spec)
        if spec.mem_offset < 0 or spec.mem_offset + spec.nbytes > plan.arenas[spec.mem_id]:
            raise CompileError(f"the memory planner placed a tensor of {spec.nbytes} bytes outside its arena: {spec}")
    for members in by_arena.values():
        ordered = sorted(members, key=lambda spec: spec.mem_offset)
        for index, spec in enumerate(ordered):
            for other in ordered[index + 1 :]:
                if other.mem_offset >= spec.mem_offset + spec.nbytes:
                    break
                if overlap(spec, other) and other.nbytes:
                    raise CompileError(f"the memory planner gave two live tensors the same memory: {spec} and {other}")
