"""The memory of a file as text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import torch

import edgecore
from edgecore.devtools.memory.text import ARENA_ALIGNMENT, ARENA_TAIL, describe_memory, memory_text
from edgecore.devtools.memory.timeline import delegate_needs, peak, timeline

HEADER = Path(__file__).resolve().parents[3] / "runtime_cpp" / "include" / "edgecore" / "method.h"


def net(layers: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        *[torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Softmax(1)) for _ in range(layers)]
    )


def test_the_sizes_for_firmware_are_those_of_the_header() -> None:
    text = HEADER.read_text()
    assert int(re.search(r"kArenaTail = (\d+)", text)[1]) == ARENA_TAIL
    assert int(re.search(r"kArenaAlignment = (\d+)", text)[1]) == ARENA_ALIGNMENT


def test_the_peak_is_the_highest_step_and_fits_the_arenas() -> None:
    pte = edgecore.compile(net(3).eval(), (torch.ones(4, 8),), backends=[]).pte
    steps, highest = timeline(pte), peak(pte)
    assert highest.bytes == max(step.bytes for step in steps) == steps[highest.index].bytes
    assert highest.bytes <= sum(pte.program.execution_plan[0].non_const_buffer_sizes)
    assert highest.bytes <= sum(owner.bytes for owner in highest.owners)
    assert [step.name for step in steps][:2] == ["linear", "_softmax"]


def test_the_text_of_a_long_method_is_short() -> None:
    pte = edgecore.compile(net(60).eval(), (torch.ones(4, 8),), backends=[]).pte
    lines = memory_text(describe_memory(pte)).splitlines()
    assert len(lines) < 45
    assert lines[1] == f"  arena 1: {pte.program.execution_plan[0].non_const_buffer_sizes[1]:,} bytes; a firmware gives " \
        f"{pte.program.execution_plan[0].non_const_buffer_sizes[1] + 128:,} bytes at a multiple of 64"  # fmt: skip
    assert any(re.match(r" +0-4 ", line) for line in lines)


def test_the_needs_of_delegates_are_in_the_text_and_in_json() -> None:
    pte = edgecore.compile(net(2).eval(), (torch.ones(4, 8),), backends=["xnnpack"]).pte
    rows = describe_memory(pte)
    needs = delegate_needs(pte, "forward")
    assert rows[0]["delegates"] == needs
    assert needs is not None
    assert needs["XnnpackBackend"]["persistent"] > 0
    assert f"persistent {needs['XnnpackBackend']['persistent']:,} bytes" in memory_text(rows)
    assert sum(step["scratch"] for step in rows[0]["timeline"]) == needs["XnnpackBackend"]["scratch"]
    json.dumps(rows, allow_nan=False)
