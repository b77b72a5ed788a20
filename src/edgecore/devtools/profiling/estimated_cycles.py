"""Cycles that the compilers of backends expect on their devices: estimates, where no device has been measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgecore.devtools.profiling.summary import label_of_origins
from edgecore.devtools.profiling.symbols import Origin
from edgecore.format import PteFile, get_meta

NOTE = "estimated by the backend's compiler for its device, not measured"


@dataclass(slots=True)
class Estimate:
    """The cycles that a compiler expects for one operation of a delegate.

    Attributes:
        backend: Id of the backend.
        operation: The operation: "CONV2D t37".
        cycles: The cycles of one run.
        origins: The nodes of the graph that it computes.
    """

    backend: str
    operation: str
    cycles: int
    origins: list[Origin] = field(default_factory=list)


def estimates(pte: PteFile, method: str) -> list[Estimate]:
    """Return the estimates for the operations of a method's delegates, in the order of execution; empty if none has any.

    Args:
        pte: The file.
        method: Name of the method.
    """
    meta = get_meta(pte)
    facts = meta.method(method) if meta else None
    plan = next((one for one in pte.program.execution_plan if one.name == method), None)
    if facts is None or plan is None:
        return []
    nodes = {one.handle: Origin(one.handle, one.operator_name, one.module_path, one.source)
             for one in facts.debug_handles}  # fmt: skip
    found = []
    for delegate, known in zip(plan.delegates, facts.delegates, strict=False):
        handles = {(one.id, one.name): one.handles for one in known.operations}
        for one in known.read_details().cycles:
            origins = [nodes[handle] for handle in handles.get((one.id, one.name), []) if handle in nodes]
            found.append(Estimate(delegate.id, one.name or str(one.id), one.cycles, origins))
    return found


def estimate_lines(found: list[Estimate], by: str, top: int) -> list[str]:
    """Return the estimates as lines of text, the largest first.

    Args:
        found: The estimates.
        by: What to sum up by, as in `summarize`; "kernel" keeps each operation.
        top: Number of rows.
    """
    if not found:
        return []
    sums: dict[str, int] = {}
    for one in found:
        name = estimate_label(one, by)
        sums[name] = sums.get(name, 0) + one.cycles
    total = sum(sums.values())
    rows = sorted(sums.items(), key=lambda row: -row[1])
    backends = ", ".join(dict.fromkeys(one.backend for one in found))
    lines = ["", f"cycles of {backends}, {NOTE}:"]
    lines += [f"{cycles:>12,} {100 * cycles / total:>5.1f} %  {name}" for name, cycles in rows[:top]]
    if rows[top:]:
        lines.append(f"{sum(cycles for _, cycles in rows[top:]):>12,}          ({len(rows[top:])} more)")
    return [*lines, f"{total:>12,} 100.0 %  all operations"]


def estimate_label(one: Estimate, by: str) -> str:
    """Return what an estimate counts for."""
    if by == "backend":
        return one.backend
    if by == "kernel" or not one.origins:
        return one.operation
    return label_of_origins(one.origins, by)
