"""Loading, running and destroying for a long time: no leak of memory, descriptors or threads."""

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
from edgecore.conformance.networks import delegated
from edgecore.conformance.process import call, results
from edgecore.conformance.programs import eager

HEAP = 24
"""Bytes of heap that a load or call may lose on average: less than any block, which takes 32 with its header."""

PAGE = 4096
"""Bytes of address space that a step of many rounds may lose each time."""

SPARSE = 3, 16
"""Times as much (heap, address space) must a step lose to count where others lose nothing: libraries also fill caches slowly."""

PATIENCE = 4
"""Times as many loads or calls before what looks like a leak is one."""


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """A row for loading again and again, one for running again and again."""
    yield Check("lifetime/load and destroy", load_and_destroy, seconds=180, needs_run=True)
    yield Check("lifetime/run", run_often, seconds=180, needs_run=True)


def load_and_destroy(subject: BackendUnderTest) -> str:
    """Six times some loads of a file, with two calls each."""
    return _steady(subject, rounds=10 if subject.quick else 40, calls=2)


def run_often(subject: BackendUnderTest) -> str:
    """Six times many calls of a loaded model."""
    return _steady(subject, rounds=1, calls=100 if subject.quick else 400)


def _steady(subject: BackendUnderTest, *, rounds: int, calls: int) -> str:
    if not sys.platform.startswith("linux"):
        raise Skipped("it reads /proc")
    files = written(subject)
    each, loops = ("load", "rounds") if rounds > 1 else ("call", "calls")
    # What caches and pools take, they take once, though a library's may fill slowly; a leak need not show in every step.
    for times, grown_steps in ((1, 2), (PATIENCE, 3)):
        settings = {"rounds": rounds, "calls": calls}
        settings[loops] *= times
        units = settings[loops]
        what = f"{6 * units} {each}s"
        subject.trying(what)
        arguments = {key: files[key] for key in ("program", "inputs", "options")} | settings
        counts = results(call("edgecore.conformance.measure:repeat", arguments), subject.trying)
        heap, pages = ([later[i] - earlier[i] for earlier, later in pairwise(counts)] for i in (0, 1))
        leaks = _grows(heap, HEAP * units, SPARSE[0], grown_steps)
        spreads = _grows(pages, PAGE, SPARSE[1], grown_steps)
        if not leaks and not spreads:
            break
    if leaks:
        lost = median(heap) / units
        raise Failed(f"it leaks {lost:.0f} bytes of heap with each {each} ({what}, measured by mallinfo2)")
    if spreads:
        raise Failed(f"its address space grows by {median(pages) / units:.0f} bytes with each {each} ({what})")
    if counts[-1][2] > counts[0][2]:
        raise Failed(f"it leaves {counts[-1][2] - counts[0][2]} file descriptors open after {what}")
    if counts[-1][3] > counts[0][3]:
        raise Failed(f"it leaves {counts[-1][3] - counts[0][3]} threads behind after {what}")
    return f"{what}: heap steady, {counts[-1][2]} descriptors, {counts[-1][3]} threads throughout"


def _grows(growth: Sequence[int], limit: int, sparse: int, steps: int) -> bool:
    """Whether every step grows by `limit`, or so many `steps` by `sparse` times as much and at most half is given back."""
    many = sum(one >= limit * sparse for one in growth) >= steps
    return min(growth) >= limit or (many and sum(growth) >= sum(one for one in growth if one > 0) / 2)


def written(subject: BackendUnderTest) -> dict[str, Any]:
    """Paths of a delegated network, its inputs and outputs; options for loading it."""
    if "written" not in subject.cache:
        name, model, inputs, program = delegated(subject)
        folder = subject.folder
        paths = {"program": folder / f"{name}.pte"}
        paths["program"].write_bytes(program.buffer)
        paths["inputs"] = _save(folder / "inputs.npz", inputs)
        paths["outputs"] = _save(folder / "outputs.npz", eager(model, inputs))
        options = {subject.backend_id: dict(subject.load_options)} if subject.load_options else {}
        subject.cache["written"] = {key: str(path) for key, path in paths.items()} | {"options": options}
    found: dict[str, Any] = subject.cache["written"]
    return found


def _save(path: Path, tensors: list[torch.Tensor] | tuple[torch.Tensor, ...]) -> Path:
    np.savez(path, *(tensor.numpy() for tensor in tensors))
    return path
