"""The memory plan of a program: lifetimes, shared memory, arenas, offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch.export import ExportedProgram, ExportGraphSignature
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassResult

from edgecore.errors import CompileError
from edgecore.ir.control_flow import in_execution_order, is_control_flow
from edgecore.ir.operators.mutating_operators import writer_of
from edgecore.ir.program.constants import Constants
from edgecore.ir.program.outputs import is_result, written_inputs, written_placeholders
from edgecore.memory.memories import Memory, distribute
from edgecore.memory.planners import Planner, annealed, lower_bound, overlap
from edgecore.memory.sharing import Sharing, share_memory
from edgecore.memory.specs import SPEC, TensorSpec, assign_specs, result_specs, specs_of

DEFAULT_ARENA = 1
SHARED_ARENA = 2
"""Memory id of the arena for mutable buffers that all methods share, as in executorch."""


@dataclass
class MemoryPlan:
    """The memory plan of one method.

    Attributes:
        arenas: Memory id -> size of the arena in bytes.
        specs: The tensor specs that own memory; the memory of every other tensor is a part of the memory of one of
            these.
        state: Qualified name of a mutable buffer -> its tensor spec.
        sharing: The nodes that need no instruction, because their results are aliases.
        bounds: Memory id -> the largest total size of tensors that are live at the same time, in bytes.
        names: Memory id -> name of the device's memory.
    """

    arenas: dict[int, int] = field(default_factory=dict)
    specs: list[TensorSpec] = field(default_factory=list)
    state: dict[str, TensorSpec] = field(default_factory=dict)
    sharing: Sharing = field(default_factory=Sharing)
    bounds: dict[int, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    @property
    def sizes(self) -> list[int]:
        """The size of each arena, by memory id, as in the file's `non_const_buffer_sizes`; entry 0 is unused."""
        return [self.arenas.get(index, 0) for index in range(max(self.arenas, default=0) + 1)]


@dataclass(frozen=True)
class MemoryPlanningPass:
    """Settings of the memory plan, for `edgecore.compile(memory=...)`.

    A subclass chooses the arenas of tensors by overriding `run`, which sees the graph, or `arena_of`.

    Attributes:
        memory_planning_algo: The planner, which places the tensors of one arena.
        alloc_graph_input: True to place inputs in an arena; otherwise the caller supplies their memory.
        alloc_graph_output: True to place outputs in an arena; otherwise the caller supplies their memory.
        alignment: Divisor of every offset, in bytes.
        share_mutable_buffers: True to place mutable buffers in arena 2, where buffers with the same qualified name have
            the same offset in all methods.
        reuse: True to let views, parts of concatenations and results computed in place share memory.
        memories: The memories of the device, as arenas 1, 2, ... The most used tensors are placed first, each in the
            cheapest memory that has room for it.

    Example:
        `edgecore.compile(model, inputs, memory=MemoryPlanningPass(alloc_graph_input=True, alignment=64))`
    """

    memory_planning_algo: Planner = annealed
    alloc_graph_input: bool = False
    alloc_graph_output: bool = False
    alignment: int = 16
    share_mutable_buffers: bool = False
    reuse: bool = True
    memories: Sequence[Memory] = ()

    def arena_of(self, spec: TensorSpec) -> int:
        """Return the memory id (from 1) of the arena in which the tensor of `spec` is placed."""
        return spec.mem_id or DEFAULT_ARENA

    def run(self, graph_module: GraphModule, graph_signature: ExportGraphSignature | None = None) -> PassResult:
        """Choose arenas by node: set `mem_id` of the tensor specs in `node.meta["spec"]` before memory is planned.

        The base class chooses none. A subclass that overrides `run` returns `super().run(graph_module,
        graph_signature)`.

        Args:
            graph_module: The graph, in the edge dialect; each tensor of a node has a `TensorSpec`.
            graph_signature: The signature of the program.
        """
        return PassResult(graph_module, False)

    def choose_arenas(self, program: ExportedProgram) -> None:
        """Call `run`, which chooses arenas, and check that it returned the same graph."""
        result = self.run(program.graph_module, program.graph_signature)
        if result is not None and result.graph_module is not program.graph_module:
            raise CompileError("run of the memory planning pass returned another graph than the one that it got")

    def plan(self, program: ExportedProgram) -> MemoryPlan:
        """Set the lifetime, memory id and offset of every tensor spec that needs memory, and check the plan.

        Raises:
            CompileError: A size has no upper bound, a memory is too small, or the planner, `run` or `arena_of` made an
                invalid plan.
        """
        if self.memories and self.share_mutable_buffers:
            raise CompileError(
                "share_mutable_buffers=True reserves arena 2 for mutable buffers, so it cannot be combined with "
                "memories=[...]; remove one of the two"
            )
        assign_specs(program)
        self.choose_arenas(program)
        plan = MemoryPlan(state=_state(program))
        shared = set(plan.state.values()) if self.share_mutable_buffers else set()
        lifetimes = _Lifetimes(program, self.alloc_graph_input, self.alloc_graph_output)
        for spec in lifetimes.unplanned:
            spec.mem_id = None  # undo the choice of `run`: a tensor in `unplanned` needs no arena
        for spec in lifetimes.planned:
            spec.mem_id = SHARED_ARENA if spec in shared else self.arena_of(spec)
            if shared and spec.mem_id == SHARED_ARENA and spec not in shared:
                raise CompileError(
                    f"arena {SHARED_ARENA} is reserved for the mutable buffers that methods share "
                    f"(share_mutable_buffers), but arena_of puts another tensor there: {spec}; let it return another "
                    "number"
                )
        if self.reuse:
            owned = [spec for spec in lifetimes.planned if spec not in lifetimes.fixed]
            plan.sharing = share_memory(program, owned, lifetimes.order, self.alignment)
        plan.specs = [spec for spec in lifetimes.planned if spec.base is None]
        if self.memories:
            distribute(self.memories, plan.specs, lifetimes.uses(), self.alignment)
            plan.names = {index: memory.name for index, memory in enumerate(self.memories, 1)}
        self._place(plan)
        for spec in lifetimes.planned:
            spec.mem_id, spec.mem_offset = spec.storage.mem_id, spec.storage.mem_offset + spec.storage_offset
        check_plan(plan)
        return plan

    def _place(self, plan: MemoryPlan) -> None:
        """Run the planner for each arena, and check the offsets that it set."""
        arenas: dict[int, list[TensorSpec]] = defaultdict(list)
        for spec in plan.specs:
            assert spec.mem_id is not None
            arenas[spec.mem_id].append(spec)
        for mem_id, specs in sorted(arenas.items()):
            offsets = [spec.mem_offset for spec in specs]
            plan.arenas[mem_id] = size = self.memory_planning_algo(specs, self.alignment)
            for spec in specs:
                if spec.mem_offset % self.alignment:
                    raise CompileError(
                        f"the memory planner ignored the alignment: offset {spec.mem_offset} of a tensor of "
                        f"{spec.nbytes} bytes is no multiple of {self.alignment}"
                    )
            limit = self.memories[mem_id - 1].size if self.memories else None
            if limit is not None and size > limit:
                # The planner's offsets exceed the size of the memory. Use the offsets of `distribute`, which chose the
                # memory of each tensor and has already found offsets that fit.
                for spec, offset in zip(specs, offsets, strict=True):
                    spec.mem_offset = offset
                plan.arenas[mem_id] = max(spec.mem_offset + spec.nbytes for spec in specs)
            plan.bounds[mem_id] = lower_bound(specs, self.alignment)


class _Lifetimes:
    """Computes the lifetimes of all tensor specs, as positions in `order` (all nodes in the order of execution).

    In `order`, a control-flow node occurs twice, before and after the nodes of its bodies. `planned` has the specs that
    need memory in an arena, in the order of their first use; specs in `unplanned` need none. Specs in `fixed` must not
    share memory: inputs, outputs, mutable buffers, written arguments, and all specs that branches and loops use.
    """

    def __init__(self, program: ExportedProgram, inputs_planned: bool, outputs_planned: bool) -> None:
        constants = Constants(program)
        inputs = {s.arg.name for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT}
        outputs = {s.arg.name for s in program.graph_signature.output_specs if is_result(s)}
        changed_inputs = written_inputs(program)
        self.order: list[Node] = list(in_execution_order(program.graph_module))
        self.fixed: set[TensorSpec] = set()
        end = len(self.order)
        first: dict[TensorSpec, int] = {}
        last: dict[TensorSpec, int] = {}
        unplanned: set[TensorSpec] = set()
        state: set[TensorSpec] = set()  # mutable buffers and written inputs, which are live all the time
        for index, node in enumerate(self.order):
            is_top = node.graph is program.graph
            is_output = node.op == "output" and is_top
            for source in node.all_input_nodes:
                for spec in specs_of(source):
                    last[spec] = end if is_output else index
                    if is_output and source.name in outputs:
                        self.fixed.add(spec)
                        if not outputs_planned:
                            unplanned.add(spec)
                    if is_control_flow(node) or not is_top:
                        self.fixed.add(spec)
            writer = writer_of(node.target)
            written = result_specs(node)[writer.fresh :] if writer is not None else ()
            for spec in specs_of(node):
                first.setdefault(spec, 0 if is_top and node.op == "placeholder" else index)
                last.setdefault(spec, index)
                if is_control_flow(node):
                    # The bodies of a control-flow node compute into its results, which live until its second position
                    # in `order`.
                    last[spec] = index
                if is_control_flow(node) or not is_top or node.op == "placeholder" or spec in written:
                    self.fixed.add(spec)
                if not is_top or node.op != "placeholder":
                    continue
                if constants.has(node) or (node.name in inputs and not inputs_planned):
                    unplanned.add(spec)
                elif node.name not in inputs or node.name in changed_inputs:
                    state.add(spec)
        for spec, start in first.items():
            spec.lifetime = (start, end if spec in state else last[spec])
        self.unplanned = unplanned
        self.planned = [spec for spec in first if spec not in unplanned]

    def uses(self) -> dict[TensorSpec, int]:
        """For each tensor with its own memory, count the nodes that read or write the tensor or one of its aliases."""
        count: dict[TensorSpec, int] = defaultdict(int)
        for node in self.order:
            for accessed in (node, *node.all_input_nodes):
                for spec in specs_of(accessed):
                    count[spec.storage] += 1
        return count


def _state(program: ExportedProgram) -> dict[str, TensorSpec]:
    """Return qualified name -> tensor spec for the mutable buffers that the program writes."""
    names = written_placeholders(program)
    return {names[node.name]: node.meta[SPEC] for node in program.graph.nodes if node.name in names}


def check_plan(plan: MemoryPlan) -> None:
    """Check that tensors that are live at the same time do not overlap, and that each tensor lies in its arena.

    Raises:
        CompileError: The plan breaks one of these rules.
    """
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
