"""Check that repeated loading, running and destroying leaks no memory, file descriptors or threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.checks.networks import delegated
from edgecore.conformance.programs import eager
from edgecore.conformance.workers.process import call, results

HEAP = 24
"""Limit in bytes for the heap's average growth per load or call. A leak of one block per load or call exceeds it,
because the smallest block of malloc has 32 bytes with its header.
"""

PAGE = 4096
"""Limit in bytes for the growth of the address space in one step of a measurement; a step makes many loads or calls."""

SPARSE = 3, 16
"""Factors for the limits `HEAP` and `PAGE` if memory grows in some steps of a measurement but not in all. Libraries
fill caches now and then, so growth that is not steady must be this much larger to count as a leak.
"""

RETRY_FACTOR = 4
"""Factor by which the second measurement, which confirms a suspected leak, makes more loads or calls than the first."""


EXACT_HEAP = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
"""Environment variable that turns off the thread caches of glibc's malloc. malloc counts the freed blocks in these
caches as allocated; their number varies with the timing of threads, so the count of the heap would vary, too.
"""


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """Yield a check of repeated loading and a check of repeated running."""
    counted = "memory, descriptors and threads are counted in the process that runs"
    yield Check("lifetime/load and destroy", load_and_destroy, seconds=180, needs_run=True, in_process=counted)
    yield Check("lifetime/run", run_often, seconds=180, needs_run=True, in_process=counted)


def load_and_destroy(subject: BackendUnderTest) -> str:
    """Check that loading, calling twice and destroying a program many times leaks nothing."""
    return _check_steady(subject, rounds=10 if subject.quick else 40, calls=2)


def run_often(subject: BackendUnderTest) -> str:
    """Check that calling a loaded program many times leaks nothing."""
    return _check_steady(subject, rounds=1, calls=100 if subject.quick else 400)


def _check_steady(subject: BackendUnderTest, *, rounds: int, calls: int) -> str:
    if not sys.platform.startswith("linux"):
        raise Skipped("the check needs /proc")
    files = write_files(subject)
    unit, loops = ("load", "rounds") if rounds > 1 else ("call", "calls")
    # Count growth of memory as a leak only if a second, longer measurement shows it, too: caches and memory pools grow
    # at first, but not for long.
    for factor, grown_steps in ((1, 2), (RETRY_FACTOR, 3)):
        settings = {"rounds": rounds, "calls": calls}
        settings[loops] *= factor
        units = settings[loops]
        amount = f"{6 * units} {unit}s"
        subject.trying(amount)
        arguments = {key: files[key] for key in ("program", "inputs", "options")} | settings
        events = call("edgecore.conformance.workers.measure:repeat", arguments, environment=EXACT_HEAP)
        counts = results(events, subject.trying)
        heap, pages = ([later[i] - earlier[i] for earlier, later in pairwise(counts)] for i in (0, 1))
        leaks = _grows(heap, HEAP * units, SPARSE[0], grown_steps)
        spreads = _grows(pages, PAGE, SPARSE[1], grown_steps)
        if not leaks and not spreads:
            break
    if leaks:
        lost = median(heap) / units
        raise Failed(f"it leaks {lost:.0f} bytes of heap with each {unit} ({amount}, measured by mallinfo2)")
    if spreads:
        raise Failed(f"its address space grows by {median(pages) / units:.0f} bytes with each {unit} ({amount})")
    if counts[-1][2] > counts[0][2]:
        raise Failed(f"it leaves {counts[-1][2] - counts[0][2]} file descriptors open after {amount}")
    if counts[-1][3] > counts[0][3]:
        raise Failed(f"it leaves {counts[-1][3] - counts[0][3]} threads running after {amount}")
    return f"{amount}: heap steady, {counts[-1][2]} descriptors, {counts[-1][3]} threads throughout"


def _grows(growth: Sequence[int], limit: int, sparse: int, steps: int) -> bool:
    """Return True if `growth` shows a leak. `growth` has the bytes by which memory grew in each step of a measurement.

    A leak is growth by at least `limit` in every step, or by at least `limit * sparse` in at least `steps` steps while
    the other steps release at most half of all growth.
    """
    many = sum(step >= limit * sparse for step in growth) >= steps
    return min(growth) >= limit or (many and sum(growth) >= sum(step for step in growth if step > 0) / 2)


def write_files(subject: BackendUnderTest) -> dict[str, Any]:
    """Write to files a compiled network, its inputs, and eager PyTorch's outputs; only the first call writes them.

    Returns:
        The paths `program`, `inputs` and `outputs`, and the `options` for loading the program.
    """
    if "files" not in subject.cache:
        name, model, inputs, program = delegated(subject)
        folder = subject.folder
        paths = {"program": folder / f"{name}.pte"}
        paths["program"].write_bytes(program.buffer)
        paths["inputs"] = _save(folder / "inputs.npz", inputs)
        paths["outputs"] = _save(folder / "outputs.npz", eager(model, inputs))
        names = {key: str(path) for key, path in paths.items()}
        subject.cache["files"] = names | {"options": subject.options_of_load}
    files: dict[str, Any] = subject.cache["files"]
    return files


def _save(path: Path, tensors: list[torch.Tensor] | tuple[torch.Tensor, ...]) -> Path:
    np.savez(path, *(tensor.numpy() for tensor in tensors))
    return path
