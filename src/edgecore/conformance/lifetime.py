"""Loading, running and destroying for a long time: no leak of memory, descriptors or threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import edgecore
from edgecore.conformance.check import Check, Failed, Skipped, Subject
from edgecore.conformance.networks import delegated
from edgecore.conformance.process import call, results
from edgecore.conformance.programs import eager

HEAP_PER_ROUND = 24
"""Bytes that a round may add to the heap beyond what the same program adds without the backend: less than any block."""

PAGES = 8 << 20
"""Bytes of address space that all rounds after the first fifth may add beyond those without the backend."""


def checks(subject: Subject) -> Iterator[Check]:
    """A row for loading again and again, one for running again and again."""
    yield Check("lifetime/load and destroy", load_and_destroy, seconds=180, needs_run=True)
    yield Check("lifetime/run", run_often, seconds=180, needs_run=True)


def load_and_destroy(subject: Subject) -> str:
    """Six times some loads of a file, with two calls each."""
    rounds = 10 if subject.quick else 40
    return _steady(subject, rounds=rounds, calls=2, what=f"{6 * rounds} loads")


def run_often(subject: Subject) -> str:
    """Six times many calls of a loaded model."""
    calls = 100 if subject.quick else 400
    return _steady(subject, rounds=1, calls=calls, what=f"{6 * calls} calls")


def _steady(subject: Subject, *, rounds: int, calls: int, what: str) -> str:
    if not sys.platform.startswith("linux"):
        raise Skipped("it reads /proc")
    files = written(subject)
    settings = {"inputs": files["inputs"], "rounds": rounds, "calls": calls}
    target = "edgecore.conformance.measure:repeat"
    mine = results(call(target, {"program": files["program"], "options": files["options"], **settings}))
    usual = results(call(target, {"program": files["plain"], "options": {}, **settings}))
    units = 5 * rounds * (1 if rounds > 1 else calls)
    heap = ((mine[-1][0] - mine[0][0]) - (usual[-1][0] - usual[0][0])) / units
    pages = (mine[-1][1] - mine[1][1]) - max(0, usual[-1][1] - usual[1][1])
    each = "load" if rounds > 1 else "call"
    grows = all(later[0] > earlier[0] for earlier, later in zip(mine, mine[1:], strict=False))
    if heap > HEAP_PER_ROUND and grows:
        raise Failed(f"it leaks {heap:.0f} bytes of heap with each {each} ({what}; mallinfo2, beyond the same without it)")
    steps = [later[1] - earlier[1] for earlier, later in zip(mine[1:], mine[2:], strict=False)]
    if pages > PAGES and all(step > 0 for step in steps):
        raise Failed(f"its address space grows by {pages / units / 1024:.0f} KiB with each {each} ({what})")
    if mine[-1][2] > mine[0][2]:
        raise Failed(f"it leaves {mine[-1][2] - mine[0][2]} file descriptors open after {what}")
    if mine[-1][3] > mine[0][3]:
        raise Failed(f"it leaves {mine[-1][3] - mine[0][3]} threads behind after {what}")
    return f"{what}: heap {heap:+.0f} bytes each, {mine[-1][2]} descriptors, {mine[-1][3]} threads throughout"


def written(subject: Subject) -> dict[str, Any]:
    """Paths of a delegated network, the same without the backend, its inputs and outputs; options for loading it."""
    if "written" not in subject.cache:
        name, model, inputs, program = delegated(subject)
        folder = subject.folder
        paths = {key: folder / f"{name}.{key}" for key in ("program", "plain")}
        paths["program"].write_bytes(program.buffer)
        paths["plain"].write_bytes(edgecore.compile(model, inputs).buffer)
        paths |= {"inputs": _save(folder / "inputs.npz", inputs), "outputs": _save(folder / "outputs.npz", eager(model, inputs))}
        options = {subject.backend_id: dict(subject.load_options)} if subject.load_options else {}
        subject.cache["written"] = {key: str(path) for key, path in paths.items()} | {"options": options}
    found: dict[str, Any] = subject.cache["written"]
    return found


def _save(path: Path, tensors: list[torch.Tensor] | tuple[torch.Tensor, ...]) -> Path:
    np.savez(path, *(tensor.numpy() for tensor in tensors))
    return path
