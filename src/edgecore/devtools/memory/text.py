"""Describe the memory of a file as text and JSON: arenas, sizes for firmware, the peak, and the use over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgecore.devtools.memory.timeline import delegate_needs, peak, timeline
from edgecore.devtools.printable import join_lines
from edgecore.format import PteFile

ARENA_TAIL = 128
"""Bytes that must be readable after each arena: `kArenaTail` of edgecore/method.h."""
ARENA_ALIGNMENT = 64
"""Alignment of an arena's memory: `kArenaAlignment` of edgecore/method.h."""
_ROWS = 24
_OWNERS = 8
_BAR = 40


def describe_memory(pte: PteFile) -> list[dict[str, Any]]:
    """Describe the memory of each method.

    Returns:
        A dict for each method with `method`; `arenas`, each with `bytes` and `firmware_bytes` (the size to allocate for
        `MethodConfig::arenas`); `firmware_alignment`; `delegates` (bytes by backend and use; None if unknown); `peak`
        with `instruction`, `bytes` and `owners`; `timeline` with `instruction`, `name`, `bytes` and `scratch`.
    """
    rows = []
    for plan in pte.program.execution_plan:
        highest = peak(pte, plan.name)
        sizes = plan.non_const_buffer_sizes[1:]
        rows.append(
            {
                "method": plan.name,
                "arenas": [{"bytes": size, "firmware_bytes": size + ARENA_TAIL} for size in sizes],
                "firmware_alignment": ARENA_ALIGNMENT,
                "delegates": delegate_needs(pte, plan.name),
                "peak": {"instruction": highest.index, "bytes": highest.bytes, "owners": highest.as_rows()},
                "timeline": [
                    {"instruction": step.index, "name": step.name, "bytes": step.bytes, "scratch": step.scratch}
                    for step in timeline(pte, plan.name)
                ],
            }
        )
    return rows


def memory_text(rows: list[dict[str, Any]]) -> str:
    """Format the result of `describe_memory`."""
    return join_lines(line for row in rows for line in _method(row))


def _method(row: dict[str, Any]) -> Iterator[str]:
    yield f"method {row['method']}"
    for number, arena in enumerate(row["arenas"], 1):
        firmware = f"{arena['firmware_bytes']:,} bytes at a multiple of {row['firmware_alignment']}"
        yield f"  arena {number}: {arena['bytes']:,} bytes; a firmware gives {firmware}"
    if row["delegates"] is None:
        yield "  delegates: their needs are unknown"
    for backend, uses in (row["delegates"] or {}).items():
        yield f"  {backend}: " + (
            ", ".join(f"{use} {size:,} bytes" for use, size in uses.items()) or "declares nothing"
        )
    highest = row["peak"]
    yield f"  peak of the arenas: {highest['bytes']:,} bytes at instruction {highest['instruction']}"
    for owner in highest["owners"][:_OWNERS]:
        place = "  ".join(part for part in (owner["module"], owner["source"].rpartition("/")[2]) if part)
        yield f"    {owner['bytes']:>12,}  {owner['name']:<24} {place}".rstrip()
    left = highest["owners"][_OWNERS:]
    if left:
        yield f"    {sum(owner['bytes'] for owner in left):>12,}  in {len(left)} more"
    steps = row["timeline"]
    width = -(-len(steps) // _ROWS) or 1
    most = max((step["bytes"] for step in steps), default=0) or 1
    if steps:
        yield "  instructions, and the most bytes that the arenas hold in them (+ scratch of delegates):"
    for start in range(0, len(steps), width):
        part = steps[start : start + width]
        step = max(part, key=lambda entry: (entry["bytes"], entry["scratch"]))
        numbers = f"{start}" if len(part) == 1 else f"{start}-{start + len(part) - 1}"
        scratch = max(entry["scratch"] for entry in part)
        extra = f" + {scratch:,}" if scratch else ""
        bar = "#" * round(_BAR * step["bytes"] / most)
        yield f"    {numbers:>9}  {step['name'][:24]:<24} {step['bytes']:>12,}{extra}  {bar}".rstrip()
