"""Describe the memory plan of each method: figures for the text report, and boxes for the diagram of the HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch.export import ExportedProgram

from edgecore.ir.control_flow import in_execution_order
from edgecore.memory import MemoryPlan, TensorSpec
from edgecore.memory.specs import specs_of


@dataclass(frozen=True)
class Box:
    """The memory of one tensor in a diagram of addresses over time.

    Time is counted in steps: step i runs node i in the order of execution.

    Attributes:
        nodes: Names of the nodes whose results are in this memory.
        first: The first step at which the tensor is live.
        last: The last step at which the tensor is live.
        offset: Bytes from the start of the arena.
        size: In bytes.
    """

    nodes: tuple[str, ...]
    first: int
    last: int
    offset: int
    size: int


@dataclass(frozen=True)
class ArenaReport:
    """One arena of a method.

    Attributes:
        method: The name of the method.
        name: The name of the memory that holds the arena; without a name, `arena` and its number.
        size: In bytes.
        bound: The lower bound of the size: the largest sum of sizes of tensors that are live at the same step.
        steps: The number of steps in the diagram (see `Box`).
        shared: The number of tensors that share the memory of a tensor in `boxes`.
        boxes: The tensors with their own memory.
    """

    method: str
    name: str
    size: int
    bound: int
    steps: int
    shared: int
    boxes: list[Box] = field(default_factory=list)

    def __str__(self) -> str:
        return f"memory of {self.method}, {self.name}: {self.figures}"

    @property
    def figures(self) -> str:
        """The size, the lower bound and the number of tensors, as text."""
        over = f", {self.size / self.bound - 1:.1%} over it" if self.size > self.bound else ""
        return (
            f"{self.size:,} bytes (lower bound {self.bound:,}{over}); "
            f"{len(self.boxes)} tensors, {self.shared} more in the memory of these"
        )


def arena_reports(planned: Mapping[str, tuple[ExportedProgram, MemoryPlan]]) -> list[ArenaReport]:
    """Describe the arenas of all methods."""
    reports = []
    for method, (program, plan) in planned.items():
        order = list(in_execution_order(program.graph_module))
        nodes: dict[TensorSpec, dict[str, None]] = {}
        members: dict[TensorSpec, set[TensorSpec]] = {}
        for node in order:
            for spec in specs_of(node):
                nodes.setdefault(spec.storage, {})[node.name] = None
                members.setdefault(spec.storage, set()).add(spec)
        for mem_id, size in sorted(plan.arenas.items()):
            specs = [spec for spec in plan.specs if spec.mem_id == mem_id]
            boxes = [Box(tuple(nodes[spec]), *spec.lifetime, spec.mem_offset, spec.nbytes) for spec in specs]
            shared = sum(len(members[spec]) - 1 for spec in specs)
            name = plan.names.get(mem_id, f"arena {mem_id}")
            reports.append(ArenaReport(method, name, size, plan.bounds.get(mem_id, 0), len(order) + 1, shared, boxes))
    return reports
