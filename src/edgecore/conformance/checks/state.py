"""Check mutable buffers that a backend keeps for each session: sessions, reset, export, import, failed runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import edgecore
from edgecore import format as fmt
from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.programs import load, outputs
from edgecore.conformance.samples.state_models import (
    STATE_MODELS,
    STEPS,
    Calls,
    Eager,
    StateModel,
    Stored,
    check_calls,
    compare,
    in_child,
    read_results,
    save_results,
    two_at_once,
    without_claims,
)
from edgecore.errors import EdgecoreError

Emit = Callable[[str, Any], None]

IN_PROCESS = {
    "threads": "edgecore-run makes one call at a time",
    "failed run": "the check replaces a function of the library in its process",
    "pending executions": "edgecore-run waits for each call",
}
"""Name of a check -> the reason that the check needs the runtime in this process and cannot use edgecore-run."""

INITIAL = (
    "instance_create must give a buffer that the set does not have yet its initial values, and must not change a "
    "buffer that the set has."
)
SEPARATE = "Keep mutable buffers in the state set only, not in the driver, program, delegate or instance."
RESET = "reset must give all buffers of the set their initial values."
PORTABLE = "export_state must write the whole content in row-major order without padding; import_state must read it."
SHARED = "Delegates that name the same buffer must use the same memory of the set."
PENDING = "Complete a pending execution only after the new content of the buffers is in the state set."
EXTERNAL = (
    "Ask host->named_data for the qualified name of the buffer before you use initial values of the blob; preprocess "
    "must return the initial values as named data under this name."
)


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """Yield the checks of the group `state`."""
    for name, function in (
        ("initial values", initial_values),
        ("sessions", sessions),
        ("threads", threads),
        ("reset", reset),
        ("export and import", export_and_import),
        ("damaged states", damaged_states),
        ("failed run", failed_run),
        ("methods", methods),
        ("initial values in a .ptd", initial_values_outside),
        ("pending executions", pending_executions),
    ):
        yield Check(f"state/{name}", function, seconds=120, needs_run=True, in_process=IN_PROCESS.get(name, ""))


def initial_values(subject: BackendUnderTest) -> str:
    """Check that each session starts with the initial values, regardless of earlier sessions."""
    for name, model, program in _claimed(subject):
        first = load(subject, program)
        check_calls(subject, f"{name}, first session", INITIAL, first, Eager(model))
        check_calls(subject, f"{name}, a new session", INITIAL, first.new_session(), Eager(model))
        check_calls(subject, f"{name}, loaded again", INITIAL, load(subject, program), Eager(model))
    return _names(subject)


def sessions(subject: BackendUnderTest) -> str:
    """Check that three sessions that run alternately do not see each other's buffers."""
    for name, model, program in _claimed(subject):
        first = load(subject, program)
        pairs = [(session, Eager(model)) for session in (first, first.new_session(), load(subject, program))]
        for number, step in enumerate(STEPS):
            for index, (session, reference) in enumerate(pairs):
                if number >= index:  # start the sessions at different steps
                    check_calls(subject, f"{name}, session {index}", SEPARATE, session, reference, [step])
    return f"3 sessions in turn: {_names(subject)}"


def threads(subject: BackendUnderTest) -> str:
    """Check that two sessions can run at the same time."""
    for name, _, program in _claimed(subject):
        subject.trying(f"{name}, two sessions on two threads")
        two_at_once(subject, name, STATE_MODELS[name], load(subject, program, threads=2), SEPARATE)
    return f"2 sessions at once: {_names(subject)}"


def reset(subject: BackendUnderTest) -> str:
    """Check that runs after a reset give the results of the first runs."""
    for name, model, program in _claimed(subject):
        session = load(subject, program)
        check_calls(subject, name, INITIAL, session, Eager(model))
        for round_ in range(2):
            session.reset()
            check_calls(subject, f"{name}, after reset {round_ + 1}", RESET, session, Eager(model))
    return _names(subject)


def export_and_import(subject: BackendUnderTest) -> str:
    """Check that a session can continue from a state that another process exported.

    Also import the state into a program whose buffers the runtime keeps, not the backend; then import the state of that
    program back.
    """
    for name, model, program in _claimed(subject):
        reference, middle = Eager(model), len(STEPS) // 2
        state = b""
        for part, calls in enumerate((STEPS[:middle], STEPS[middle:])):
            what = f"{name}, {'in the process that exports' if part == 0 else 'in another process after the import'}"
            subject.trying(what)
            rows, state = _in_another_process(subject, program, model, calls, state)
            for (method, step), row in zip(calls, rows, strict=True):
                compare(subject, f"{what}, step {step}", PORTABLE, row, reference(method, step))
        plain = load(subject, model.compile(without_claims(subject)))
        plain.import_state(state)
        more: Calls = [("two", 6), ("one", 7)]
        check_calls(subject, f"{name}, imported where the backend keeps no state", PORTABLE, plain, reference, more)
        session = load(subject, program)
        session.import_state(plain.export_state())
        check_calls(subject, f"{name}, imported from there", PORTABLE, session, reference)
    return _names(subject)


def _in_another_process(
    subject: BackendUnderTest, program: Any, model: StateModel, calls: Calls, state: bytes
) -> tuple[list[list[torch.Tensor]], bytes]:
    """In another process, import `state` unless it is empty, make `calls`, return their results and the final state."""
    if subject.runner is not None:
        session = load(subject, program)
        if state:
            session.import_state(state)
        rows = [outputs(session[method](*model.inputs(method, step))) for method, step in calls]
        return rows, session.export_state()
    start, end, got = (subject.folder / name for name in ("start.state", "end.state", "results.npz"))
    start.write_bytes(state)
    target = "edgecore.conformance.checks.state:run_session"
    list(in_child(subject, target, program, model, calls, results=str(got), start=str(start), end=str(end)))
    return read_results(got), end.read_bytes()


def run_session(
    emit: Emit, program: str, options: Any, calls: list[Any], inputs: str, results: str, start: str, end: str
) -> None:
    """Import the state in the file `start` unless it is empty, make the calls, and write results and state to files."""
    emit("input", "a session in a process of its own")
    session, stored = edgecore.load(program, options=options, trust=True), Stored(inputs)
    if state := Path(start).read_bytes():
        session.import_state(state)
    save_results(results, [stored(session, method, step) for method, step in calls])
    Path(end).write_bytes(session.export_state())


def damaged_states(subject: BackendUnderTest) -> str:
    """Check that importing a truncated, altered or foreign state raises an error and changes nothing."""
    count = 0
    for name, model, program in _claimed(subject):
        session, reference = load(subject, program), Eager(model)
        check_calls(subject, name, INITIAL, session, reference, STEPS[:2])
        state = session.export_state()
        other = next(other for key, other in STATE_MODELS.items() if key != name)
        foreign = load(subject, other.compile(subject.backend)).export_state()
        altered = bytearray(state)
        altered[len(state) // 2] ^= 1
        tries = {"empty": b"", "truncated": state[:-8], "altered": bytes(altered), "of another model": foreign}
        for kind, bad in tries.items():
            subject.trying(f"{name}, a state that is {kind}")
            try:
                session.import_state(bad)
            except EdgecoreError:
                count += 1
                continue
            raise Failed(
                f"{name}: a state that is {kind} is imported. state_describe must name each buffer as the model does, "
                "with its dtype and shape."
            )
        check_calls(subject, f"{name}, after imports that were refused", PORTABLE, session, reference, STEPS[2:])
    return f"{count} refused: {_names(subject)}"


def failed_run(subject: BackendUnderTest) -> str:
    """Check that a failed run makes the state unusable, and that a reset or an import makes it usable again.

    In a child process the suite replaces the library's `execute` by a function that calls the original `execute` and
    then reports a failure.
    """
    for name, model, program in _claimed(subject):
        subject.trying(f"{name}, a run that fails")
        got = subject.folder / "results.npz"
        calls = [("one", 0), ("one", 2)]
        arguments = {"library": str(subject.library), "results": str(got)}
        target = "edgecore.conformance.checks.state:fail_runs"
        for problem in in_child(subject, target, program, model, calls, **arguments):
            raise Failed(f"{name}: {problem}")
        first, again, imported = read_results(got)
        reference = Eager(model)
        want = reference("one", 0)
        compare(subject, f"{name}, first run", INITIAL, first, want)
        compare(subject, f"{name}, first run after a failed run and a reset", RESET, again, want)
        text = f"{name}, after a failed run and an import"
        compare(subject, text, PORTABLE, imported, reference("one", 2))
    return _names(subject)


def fail_runs(
    emit: Emit, program: str, options: Any, calls: list[Any], inputs: str, library: str, results: str
) -> None:
    """Run, fail, reset, run, fail, import, run. Write the results to a file, and emit calls that wrongly succeed."""
    from edgecore.conformance.workers.table_patches import fail_executions

    emit("input", "executions that fail")
    fail = fail_executions(library)
    session, stored = edgecore.load(program, options=options, trust=True), Stored(inputs)
    (first, second), rows = calls, []
    for recovery in ("reset", "import"):
        rows.append(stored(session, *first))
        state = session.export_state()
        for failing in (True, False):
            fail(failing)
            with contextlib.suppress(EdgecoreError):
                stored(session, *second)
                emit("result", "a run that failed counts as done" if failing else "the state of a failed run is used")
        if recovery == "reset":
            session.reset()
        else:
            session.import_state(state)
            rows.append(stored(session, *second))
    save_results(results, rows)


def methods(subject: BackendUnderTest) -> str:
    """Check that two methods share a buffer, but do not share it if the file is loaded with share_state=False."""
    for name, model, program in _claimed(subject):
        turns: Calls = [("one" if step % 2 else "two", step) for step in range(6)]
        check_calls(subject, f"{name}, methods in turn", SHARED, load(subject, program), Eager(model), turns)
        apart = load(subject, program, share_state=False)
        for method in ("one", "two"):
            own = [(method, step) for step in range(3)]
            check_calls(subject, f"{name}, method {method} alone", SEPARATE, apart, Eager(model), own)
    return _names(subject)


def initial_values_outside(subject: BackendUnderTest) -> str:
    """Check that buffers take initial values from the loaded `.ptd`, even if compiling wrote other values."""
    for name, model, _ in _claimed(subject):
        subject.trying(f"{name}, initial values in a .ptd")
        files = [model.compile(subject.backend, offset, external_data="state") for offset in (0, 0.5)]
        if not all(file.data for file in files):
            raise Failed(f"{name}: external_data puts nothing into a .ptd file. {EXTERNAL}")
        for offset, file in zip((0, 0.5), files, strict=True):
            data = [fmt.write_ptd(weights) for weights in file.data.values()]
            session = load(subject, files[0], data=data)
            check_calls(subject, f"{name}, a .ptd with other values", EXTERNAL, session, Eager(model, offset))
    return _names(subject)


def pending_executions(subject: BackendUnderTest) -> str:
    """Check runs that are started and awaited later, in two sessions at once; export the state in between."""
    for name, model, program in _claimed(subject):
        first = load(subject, program)
        pairs = [(session, Eager(model)) for session in (first, first.new_session())]
        for method, step in STEPS:
            subject.trying(f"{name}, pending, step {step}")
            runs = [session[method].start(*model.inputs(method, step)) for session, _ in pairs]
            for run, (session, reference) in zip(reversed(runs), reversed(pairs), strict=True):
                got = outputs(run.wait())
                compare(subject, f"{name}, pending, step {step}", PENDING, got, reference(method, step))
                session.import_state(session.export_state())
    return f"2 sessions: {_names(subject)}"


def _claimed(subject: BackendUnderTest) -> Iterator[tuple[str, StateModel, Any]]:
    """Yield the models whose buffers the backend keeps, each with its compiled program.

    Raises:
        Skipped: The backend keeps no state.
    """
    # A runner (an external command) may have the library only on a device; do not skip the check then, because the
    # library's functions are unknown.
    is_known = bool(subject.declared.functions) or subject.runner is None
    if is_known and "state_set_create" not in subject.declared.functions:
        raise Skipped(
            "it keeps no state: its library has no functions for state sets, so mutable buffers are arguments of its "
            "delegates"
        )
    if "state" not in subject.cache:
        subject.cache["state"] = {}
        for name, model in STATE_MODELS.items():
            subject.trying(f"compiling {name}")
            subject.cache["state"][name] = model.compile(subject.backend)
    programs = subject.cache["state"]
    kept = {name: program for name, program in programs.items() if _keeps_all(subject, program)}
    if not kept:
        reasons = {text for program in programs.values() for row in program.report().buffers for _, text in row.reasons}
        why = "; ".join(sorted(reasons)) or "its partitioner claims none"
        raise Skipped(f"it keeps no buffer of the suite's models ({', '.join(STATE_MODELS)}): {why}")
    yield from ((name, STATE_MODELS[name], program) for name, program in kept.items())


def _keeps_all(subject: BackendUnderTest, program: Any) -> bool:
    rows = program.report().buffers
    return bool(rows) and all(row.where == subject.backend_id for row in rows)


def _names(subject: BackendUnderTest) -> str:
    return ", ".join(name for name, _, _ in _claimed(subject))
