"""Cycle estimates that backends' compilers store in a file, for devices that are not here to be measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgecore.devtools.profiling.summary import label_of_origins
from edgecore.devtools.profiling.symbols import Origin
from edgecore.format import PteFile, get_meta

NOTE = "estimated by the backend's compiler for its device, not measured"


@dataclass(slots=True)
class Estimate:
    """The cycles that a backend's compiler expects for one operation of a delegate.

    Attributes:
        backend: Id of the backend.
        operation: The operation: "CONV2D t37".
        cycles: The cycles per run.
        origins: The graph nodes that the operation computes.
    """

    backend: str
    operation: str
    cycles: int
    origins: list[Origin] = field(default_factory=list)


def estimates(pte: PteFile, method: str) -> list[Estimate]:
    """Return the estimates for the operations of a method's delegates in the order of execution.

    Args:
        pte: The file.
        method: Name of the method.
    """
    meta = get_meta(pte)
    facts = meta.method(method) if meta else None
    plan = next((plan for plan in pte.program.execution_plan if plan.name == method), None)
    if facts is None or plan is None:
        return []
    nodes = {
        node.handle: Origin(node.handle, node.operator_name, node.module_path, node.source)
        for node in facts.debug_handles
    }
    rows = []
    for delegate, known in zip(plan.delegates, facts.delegates, strict=False):
        handles = {(operation.id, operation.name): operation.handles for operation in known.operations}
        for row in known.read_details().cycles:
            origins = [nodes[handle] for handle in handles.get((row.id, row.name), []) if handle in nodes]
            rows.append(Estimate(delegate.id, row.name or str(row.id), row.cycles, origins))
    return rows


def estimate_lines(estimated: list[Estimate], by: str, top: int) -> list[str]:
    """Format the estimates as lines of text, the largest first.

    Args:
        estimated: The estimates.
        by: The grouping whose cycles are summed up, as in `summarize`; "kernel" keeps each operation.
        top: Largest number of rows; the cycles of the other groups are summed up in one line.
    """
    if not estimated:
        return []
    sums: dict[str, int] = {}
    for estimate in estimated:
        name = estimate_label(estimate, by)
        sums[name] = sums.get(name, 0) + estimate.cycles
    total = sum(sums.values())
    rows = sorted(sums.items(), key=lambda row: -row[1])
    backends = ", ".join(dict.fromkeys(estimate.backend for estimate in estimated))
    lines = ["", f"cycles of {backends}, {NOTE}:"]
    lines += [f"{cycles:>12,} {100 * cycles / total:>5.1f} %  {name}" for name, cycles in rows[:top]]
    if rows[top:]:
        lines.append(f"{sum(cycles for _, cycles in rows[top:]):>12,}          ({len(rows[top:])} more)")
    return [*lines, f"{total:>12,} 100.0 %  all operations"]


def estimate_label(estimate: Estimate, by: str) -> str:
    """Return the backend, operation, operator, module or line (as `by` says) by which an estimate is summed up."""
    if by == "backend":
        return estimate.backend
    if by == "kernel" or not estimate.origins:
        return estimate.operation
    return label_of_origins(estimate.origins, by)
