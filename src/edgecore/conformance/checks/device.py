"""Check tensors in device memory: between two delegates, copied from and to the host, and kept from run to run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import edgecore
from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.programs import compiled, eager, load, outputs
from edgecore.conformance.samples.network_models import Inputs
from edgecore.conformance.samples.state_models import (
    STATE_MODELS,
    STEPS,
    Eager,
    Stored,
    check_calls,
    compare,
    in_child,
    two_at_once,
    without_claims,
)
from edgecore.conformance.workers.process import call, results

Emit = Callable[[str, Any], None]

NEEDED = ("buffer_create", "buffer_destroy", "buffer_map", "buffer_unmap")
"""The functions that a backend's library must have so that tensors can stay in device memory; without any of them, the
runtime keeps all tensors in host memory."""

SIZES = (2, 6, 1, 6, 3)
MAX_COPIES = 5
"""Maximum copies in a run of `_Zigzag`: two inputs and a host result to the device, `a` and the output to the host."""

NEIGHBOURS = (
    "execute must read and write the buffer of each argument from byte_offset on; delegates may get a buffer that "
    "another delegate of the backend has written and the host never mapped."
)
BORDERS = (
    "The host calls buffer_map, writes, and calls buffer_flush and buffer_unmap before execute; afterwards it calls "
    "buffer_invalidate, buffer_map, reads, and calls buffer_unmap. Each must take effect before it returns."
)
SHAPES = (
    "Take sizes from the shapes of the last prepare, not from the size of a buffer, which is that of the maximum shape."
)
PENDING = "Call the completion of a pending execution only when the device has written all outputs."
RESIDENT = (
    "A mutable buffer has two buffers of the device, which exchange their roles: execute must use the buffers that it "
    "is given in this call, not those of an earlier call."
)
KINDS = (
    "Return the same memory_kind, not 0, in buffer_requirement for each argument; then values stay on the device "
    "between delegates and between runs."
)


IN_PROCESS = {
    "pending executions": "edgecore-run waits for each call",
    "sessions at once": "edgecore-run makes one call at a time",
    "copies": "the check counts calls of functions of the library in its process",
}
"""Name of a check -> the reason that the check needs the runtime in this process and cannot use edgecore-run."""


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """Yield the checks of the group `device`."""
    for name, function in (
        ("between delegates", between_delegates),
        ("dynamic sizes", dynamic_sizes),
        ("pending executions", pending_executions),
        ("resident state", resident_state),
        ("sessions at once", sessions_at_once),
        ("copies", copies),
    ):
        yield Check(f"device/{name}", function, seconds=120, needs_run=True, in_process=IN_PROCESS.get(name, ""))


def between_delegates(subject: BackendUnderTest) -> str:
    """Check tensors that pass from one delegate to another delegate, to a kernel on the host, or to both."""
    model, inputs, program = _zigzag(subject)
    loaded = load(subject, program)
    for number in range(4):
        subject.trying(f"run {number}")
        scaled = tuple(tensor * (1 + number) for tensor in inputs)
        got = outputs(loaded.forward(*scaled))
        compare(
            subject, f"values between delegates, run {number}", f"{NEIGHBOURS} {BORDERS}", got, eager(model, scaled)
        )
    return f"{program.report().delegates[subject.backend_id]} delegates"


def dynamic_sizes(subject: BackendUnderTest) -> str:
    """Check tensors of symbolic sizes that pass between delegates in device buffers, which have the maximum size."""
    model, inputs, program = _zigzag(subject, dynamic=True)
    loaded = load(subject, program)
    for size in SIZES:
        subject.trying(f"size {size}")
        sized = tuple(tensor.repeat(3, 1)[:size] * (1 + size / 8) for tensor in inputs)
        compare(subject, f"size {size}", SHAPES, outputs(loaded.forward(*sized)), eager(model, sized))
    return f"sizes {', '.join(map(str, SIZES))}"


def pending_executions(subject: BackendUnderTest) -> str:
    """Start a run in each of two sessions of a program, and wait for the runs in reverse order."""
    model, inputs, program = _zigzag(subject)
    first = load(subject, program)
    both = (first, first.new_session())
    for number in range(4):
        subject.trying(f"pending, run {number}")
        scaled = [tuple(tensor * (1 + number + index) for tensor in inputs) for index in range(2)]
        runs = [session.forward.start(*arguments) for session, arguments in zip(both, scaled, strict=True)]
        for index in (1, 0):
            got = outputs(runs[index].wait())
            compare(subject, f"pending, run {number}, session {index}", PENDING, got, eager(model, scaled[index]))
    return "2 sessions"


def resident_state(subject: BackendUnderTest) -> str:
    """Check mutable buffers that the runtime keeps in device memory from run to run, for all methods and sessions.

    Resetting, exporting and importing the state must read and write the content in device memory.
    """
    names = []
    for name, model, program in _state(subject):
        session, reference = load(subject, program), Eager(model)
        check_calls(subject, name, RESIDENT, session, reference)
        other = session.new_session()
        check_calls(subject, f"{name}, a new session", RESIDENT, other, Eager(model), STEPS[:3])
        state = session.export_state()
        check_calls(subject, f"{name}, after an export", RESIDENT, session, reference, [("one", 6), ("two", 7)])
        session.import_state(state)
        other.import_state(state)
        for what, importer in (("imported again", session), ("imported by another session", other)):
            again = Eager(model)
            for method, step in STEPS:
                again(method, step)
            check_calls(subject, f"{name}, {what}", BORDERS, importer, again, [("one", 8), ("two", 9)])
        session.reset()
        check_calls(subject, f"{name}, after a reset", BORDERS, session, Eager(model))
        names.append(name)
    return ", ".join(names)


def sessions_at_once(subject: BackendUnderTest) -> str:
    """Check that two sessions with state on the device can run at the same time."""
    names = []
    for name, model, program in _state(subject):
        subject.trying(f"{name}, two sessions on two threads")
        two_at_once(subject, name, model, load(subject, program, threads=2), RESIDENT)
        names.append(name)
    return ", ".join(names)


def copies(subject: BackendUnderTest) -> str:
    """Check the number of copies between host and device. A child process counts them: each copy calls `buffer_map`."""
    _, inputs, program = _zigzag(subject)
    path = subject.folder / "zigzag"
    path.with_suffix(".pte").write_bytes(program.buffer)
    np.savez(path.with_suffix(".npz"), *(tensor.numpy() for tensor in inputs))
    arguments = {
        "path": str(path),
        "options": subject.options_of_load,
        "library": str(subject.library),
    }
    texts = []
    subject.trying("copies in a run of two delegates")
    for counts in results(call("edgecore.conformance.checks.device:count_in_runs", arguments), subject.trying):
        if max(counts) > MAX_COPIES:
            raise Failed(f"a run of two delegates copies {max(counts)} times instead of {MAX_COPIES} times. {KINDS}")
        texts.append(f"{max(counts)} in a run of two delegates")
    for name, state_model, program in _state(subject):
        arguments = {"library": str(subject.library)}
        target = "edgecore.conformance.checks.device:count_in_session"
        limits = [len(state_model.inputs(method, step)) + 1 for method, step in STEPS]  # 1: the copy of the result
        for counts in in_child(subject, target, program, state_model, STEPS, **arguments):
            later = list(zip(counts, limits, strict=True))[1:]  # skip the first run: it also copies initial values
            if any(count > limit for count, limit in later):
                raise Failed(f"{name}: the steps copy {counts} times instead of {limits} times. {KINDS}")
            texts.append(f"{', '.join(map(str, counts))} in steps of {name}")
    return f"copies: {'; '.join(texts)}"


def count_in_runs(emit: Emit, path: str, options: Any, library: str) -> None:
    """Run a program three times, and emit the number of calls of `buffer_map` in each run."""
    from edgecore.conformance.workers.measure import arrays_of
    from edgecore.conformance.workers.table_patches import count_maps

    maps = count_maps(library)
    loaded = edgecore.load(Path(path).with_suffix(".pte"), options=options, trust=True)
    arrays = arrays_of(str(Path(path).with_suffix(".npz")))
    emit("result", _differences(maps, [lambda: loaded.forward(*arrays)] * 3))


def count_in_session(emit: Emit, program: str, options: Any, calls: list[Any], inputs: str, library: str) -> None:
    """Make the given calls in one session; for each call, emit how many calls of `buffer_map` it caused."""
    from edgecore.conformance.workers.table_patches import count_maps

    maps = count_maps(library)
    session, stored = edgecore.load(program, options=options, trust=True), Stored(inputs)
    emit("result", _differences(maps, [partial(stored, session, *arguments) for arguments in calls]))


def _differences(count: Callable[[], int], functions: list[Callable[[], Any]]) -> list[int]:
    """Call each function, and return by how much `count()` increased during each call."""
    changes = []
    for function in functions:
        before = count()
        function()
        changes.append(count() - before)
    return changes


class _Zigzag(nn.Module):
    """A model that becomes two delegates, because the backend does not support the operator `outside` between them.

    The first delegate computes the tensor `a` for the host and for the second delegate, and `c` for the second only.
    """

    def __init__(self, outside: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.outside = outside

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Compute in the first delegate, on the host, and in the second delegate."""
        a = x + y
        b, c = self.outside(a), a * x
        return c * b + a + x


_OUTSIDE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "aten.cumsum.default": lambda x: torch.cumsum(x, 1),
    "aten.erf.default": torch.erf,
    "aten.sin.default": torch.sin,
    "aten.tan.default": torch.tan,
    "aten.flip.default": lambda x: torch.flip(x, [1]),
}
"""Candidates for `_zigzag`, which uses the first operator that the backend does not support."""


def _zigzag(subject: BackendUnderTest, dynamic: bool = False) -> tuple[nn.Module, Inputs, Any]:
    """Return an instance of `_Zigzag`, its inputs, and the program, compiled to two delegates of the backend.

    Raises:
        Skipped: The backend has no device memory, or the model does not make two delegates.
    """
    _need_functions(subject)
    supported = {row.operator for row in subject.operators}
    outside = next((function for name, function in _OUTSIDE.items() if name not in supported), None)
    if outside is None:
        raise Skipped(f"it supports {', '.join(_OUTSIDE)}: none of them separates two delegates")
    key = ("zigzag", dynamic)
    if key not in subject.cache:
        subject.trying("compiling two delegates with an operator of the host between them")
        model, inputs = _Zigzag(outside).eval(), (torch.linspace(-1, 1, 16).reshape(2, 8), torch.ones(2, 8) / 2)
        rows = torch.export.Dim("rows", min=1, max=max(SIZES))
        shapes = ({0: rows}, {0: rows}) if dynamic else None
        subject.cache[key] = model, inputs, compiled(subject, model, inputs, dynamic_shapes=shapes)
    model, inputs, program = subject.cache[key]
    count = program.report().delegates.get(subject.backend_id, 0)
    if count < 2:
        raise Skipped(f"it makes {count} delegates, not two, of a model that adds and multiplies")
    return model, inputs, program


def _state(subject: BackendUnderTest) -> Iterator[tuple[str, Any, Any]]:
    """Yield (name, model, program) of each model with mutable buffers that the runtime stores and only delegates use.

    Raises:
        Skipped: The backend has no device memory, or in each model an operator on the host uses the buffers, too.
    """
    _need_functions(subject)
    has_model = False
    for name, model in STATE_MODELS.items():
        if ("resident", name) not in subject.cache:
            subject.trying(f"compiling {name}")
            subject.cache["resident", name] = model.compile(without_claims(subject))
        program = subject.cache["resident", name]
        if all(row.where == subject.backend_id for row in program.report().rows):
            has_model = True
            yield name, model, program
    if not has_model:
        raise Skipped(
            f"it does not support all operators of {' or '.join(STATE_MODELS)}: the host uses the buffers, too"
        )


def _need_functions(subject: BackendUnderTest) -> None:
    if missing := [name for name in NEEDED if name not in subject.declared.functions]:
        raise Skipped(f"it has no device memory: its library lacks {', '.join(missing)}")
