"""Check a backend's threads, memory and handling of untrusted blobs against what its native library declares.

Also check that the backend accesses only memory inside its buffers, that traces contain events for its calls and
operations, and that the graphs of its blobs are valid.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from edgecore import format as fmt
from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.checks.lifetime import write_files
from edgecore.conformance.checks.networks import delegated
from edgecore.conformance.programs import load
from edgecore.conformance.samples.network_models import Inputs
from edgecore.conformance.workers.process import call, results
from edgecore.devtools import Trace
from edgecore.devtools.graph import stored_graph
from edgecore.errors import EdgecoreError
from edgecore.plugin import BlobGraph, BlobGraphReader

THREADS = {"HOST_THREADS", "OWN_THREADS", "NO_THREADS", "VENDOR_THREADS"}
"""Flags that say which threads a backend computes in; each backend declares exactly one of them."""

MAX_IDLE_LOAD = 0.15
"""Maximum processor load of a loaded program while nothing calls it; 1 means one busy core."""


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """Yield the checks of the group `declarations`."""
    counted = "threads are counted in the process that runs"
    yield Check("declarations/threads", threads, needs_run=True, in_process=counted)
    yield Check(
        "declarations/memory", memory, needs_run=True, in_process="edgecore-run does not print what was allocated"
    )
    guarded = "inputs and outputs lie at chosen addresses of the process that runs"
    yield Check("declarations/buffers", buffers, needs_run=True, in_process=guarded)
    yield Check("declarations/trust", trust, needs_run=True)
    yield Check("declarations/profile events", profile_events, needs_run=True)
    yield Check("declarations/blob graph", blob_graph)


def threads(subject: BackendUnderTest) -> str:
    """Check the backend's threads in a process that loads, runs and destroys a program with threads=1.

    Only a backend that declares OWN_THREADS or VENDOR_THREADS may start threads while the program runs. After the
    program is destroyed, all of them must have ended, except with VENDOR_THREADS (the checks `lifetime/...` ensure that
    their number does not grow). Between calls, no thread may busy-wait.
    """
    if not sys.platform.startswith("linux"):
        raise Skipped("the check needs /proc")
    files = write_files(subject)
    arguments = {key: files[key] for key in ("program", "inputs", "options")}
    counts = results(call("edgecore.conformance.workers.measure:threads_during", arguments), subject.trying)[0]
    declared = next(iter(subject.declared.flags & THREADS), "nothing")
    before, peak, after = counts["before"], counts["peak"], counts["after"]
    if declared not in ("OWN_THREADS", "VENDOR_THREADS") and peak > before:
        raise Failed(
            f"it declares {declared}, but with threads=1 there are {peak - before} more threads while it executes"
        )
    if after > before and declared != "VENDOR_THREADS":
        raise Failed(f"it declares {declared}, and {after - before} threads are left after the model is destroyed")
    if counts["busy"] > MAX_IDLE_LOAD * 0.3:  # processor seconds that the process used in 0.3 s without a call
        raise Failed(f"it declares {declared}, and uses {counts['busy'] / 0.3:.0%} of a processor between calls")
    return f"{declared}: {peak - before} more while executing with threads=1, {max(after - before, 0) or 'none'} left"


def memory(subject: BackendUnderTest) -> str:
    """Run a network, and report how many bytes its delegates declare and how many they allocate.

    The check does not compare the two numbers: the runtime raises an error if a delegate allocates more than it
    declared.
    """
    name, _, _, program = delegated(subject)
    meta = fmt.get_meta(program.pte)
    method = meta.method("forward") if meta else None
    if method is None:
        raise Failed(f"{name}: the file has no metadata about its delegates")
    needs = [need for delegate in method.delegates for need in delegate.memory]
    declared = sum(need.bytes for need in needs)
    used = load(subject, program).forward.delegate_bytes
    own = ", and memory of its own heap (OWN_HEAP)" if "OWN_HEAP" in subject.declared.flags else ""
    return f"{name}: {declared:,} bytes declared, {used:,} allocated{own}"


def buffers(subject: BackendUnderTest) -> str:
    """Check that the backend accesses no memory outside of its inputs and outputs.

    The results must also be correct for unaligned inputs, and for an output that lies in the memory of an input, unless
    the runtime rejects such an output.
    """
    files = write_files(subject)
    arguments = {key: files[key] for key in ("program", "inputs", "outputs", "options")}
    problems = results(call("edgecore.conformance.workers.measure:guarded", arguments), subject.trying)
    if problems:
        raise Failed(problems[0])
    staging = load(subject, delegated(subject)[3]).forward.staging_bytes
    return f"no access outside of the declared buffers; {staging:,} bytes of copies with aligned inputs"


def trust(subject: BackendUnderTest) -> str:
    """Check that the runtime rejects a changed blob if the backend declares NEEDS_TRUSTED_BLOBS."""
    if not subject.declared.flags:
        raise Skipped("the library for this machine, which would declare it, does not load")
    if "NEEDS_TRUSTED_BLOBS" not in subject.declared.flags:
        return "VALIDATES_BLOBS: see the group blobs"
    _, _, inputs, program = delegated(subject)
    pte = fmt.read_pte(program.buffer)
    pte.delegate_blobs[0] = bytes(pte.delegate_blobs[0]) + b"\0"
    path = subject.folder / "untrusted.pte"
    path.write_bytes(fmt.write_pte(pte))
    if subject.runner is not None:
        error = _error_without_trust(subject, path.read_bytes(), inputs)
    else:
        arguments = {"program": str(path), "options": write_files(subject)["options"]}
        error = results(call("edgecore.conformance.workers.measure:trusts", arguments), subject.trying)[0]
    if not error:
        raise Failed("a file whose blob was changed loads without trust=True, although it declares NEEDS_TRUSTED_BLOBS")
    return f"NEEDS_TRUSTED_BLOBS: {error}"


def _error_without_trust(subject: BackendUnderTest, file: bytes, inputs: Inputs) -> str:
    """Load a file by the command `subject.runner` with trust=False. Return the error message; empty if it loads."""
    try:
        load(subject, file, trust=False).forward(*inputs)
    except EdgecoreError as error:
        return str(error)
    return ""


def profile_events(subject: BackendUnderTest) -> str:
    """Check that the trace of a run contains its delegate calls, and that operations in the trace lead to nodes of the
    model.

    Single events may lead to no node, because a blob may have additional operations, such as layout copies. If a
    backend reports a whole delegate as one operation, no event needs to lead to a node.
    """
    name, _, inputs, program = delegated(subject)
    model = load(subject, program, trace=True)
    model.forward(*inputs)
    path = subject.folder / "run.etdp"
    model.write_trace(path)
    trace = Trace.read(path, program=program.buffer)
    events = [event for run in trace.runs for event in run.events]
    if not any(event.kind == "delegate" for event in events):
        raise Failed(f"{name}: the trace of a run has no event DELEGATE_CALL")
    inside = [event for event in events if event.kind == "operation"]
    several = len({event.operation for event in inside}) > 1
    if several and not any(event.origins for event in inside):
        raise Failed(
            f"{name}: events are named {', '.join(sorted({event.kernel for event in inside})[:3])}, which are no "
            "operations of debug_handle_map; an event ends with the key of its operation in brackets: 'Conv2d [3]'"
        )
    return f"{len(inside)} events in delegates"


def blob_graph(subject: BackendUnderTest) -> str:
    """Check that the graph of each blob is in execution order, and has the operations of `debug_handle_map` as nodes.

    An operation of `debug_handle_map` with the handles of all nodes stands for the whole partition, so the graph does
    not need a node for it.
    """
    name, _, _, program = delegated(subject)
    pte = fmt.read_pte(program.buffer)
    meta = fmt.get_meta(pte)
    reader = subject.compiler if isinstance(subject.compiler, BlobGraphReader) else None
    count = graphs = 0
    for plan in pte.program.execution_plan:
        metas = ((meta and meta.method(plan.name)) or fmt.MethodMeta()).delegates
        for delegate, facts in zip(plan.delegates, metas, strict=False):
            graph = stored_graph(facts)
            if graph is None and reader is not None:
                graph = reader.blob_graph(bytes(pte.delegate_blob(delegate)), pte.named_data)
            if graph is not None:
                _check_graph(name, graph, facts)
                graphs += 1
                count += len(graph.nodes)
    if not graphs:
        raise Skipped("its compiler has no blob_graph, and its results no graph")
    return f"{count} operations"


def _check_graph(name: str, graph: BlobGraph, facts: fmt.DelegateMeta) -> None:
    known, keys = set(graph.inputs), set()
    for node in graph.nodes:
        if not known.issuperset(node.inputs):
            missing = sorted(set(node.inputs) - known)
            raise Failed(f"{name}: {node.name} {node.operation} reads {missing}, which nothing before it computes")
        known.update(node.outputs)
        keys.add(node.operation)
    if len(keys) < len(graph.nodes):
        raise Failed(f"{name}: several nodes of the blob's graph have the same operation")
    if not known.issuperset(graph.outputs):
        raise Failed(f"{name}: nothing computes the outputs {sorted(set(graph.outputs) - known)}")
    all_handles = {handle for operation in facts.operations for handle in operation.handles}
    lost = {row.name or row.id for row in facts.operations if set(row.handles) != all_handles} - keys
    if lost:
        raise Failed(f"{name}: the blob's graph lacks the operations {sorted(map(str, lost))[:5]}")
