"""Check the backend's partitioner and compiler.

The partitioner must change nothing but tags, be deterministic, and give a reason for each operator that it does not
tag. The compiler must return the debug handles of all operators of a partition, and equal blobs for equal input.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.conformance.check import BackendUnderTest, Check, Failed
from edgecore.conformance.checks.networks import delegated
from edgecore.conformance.programs import network, network_model
from edgecore.conformance.samples.network_models import NETWORKS
from edgecore.conformance.workers.process import call, results
from edgecore.ir.delegate import delegates
from edgecore.ir.dialect.edge_operators import SYMBOLIC
from edgecore.ir.graph import describe
from edgecore.partition import Partitioner
from edgecore.partition.protocol import TAG
from edgecore.pipeline.lowering import LoweredProgram, lower, lower_to_edge


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """Yield the checks of the group `partitioner`."""
    yield Check("partitioner/only tags", only_tags)
    yield Check("partitioner/deterministic", deterministic)
    yield Check("partitioner/reasons", reasons)
    yield Check("partitioner/debug handles", debug_handles)
    yield Check("partitioner/reproducible blobs", reproducible)


def only_tags(subject: BackendUnderTest) -> str:
    """Check that the partitioner sets tags, but changes neither the graph nor other metadata nor weights."""
    for name in NETWORKS:
        subject.trying(name)
        program = _edge(subject, name)
        before = _fingerprint(program)
        result = _partitioner(subject).partition(program)
        if result.tagged_exported_program is not program:
            raise Failed(f"{name}: partition() must return the program that it got, not another one")
        after = _fingerprint(program)
        for key in sorted(before.keys() | after.keys()):
            if before.get(key) != after.get(key):
                raise Failed(f"{name}: it changed {key}; a partitioner may only set node.meta[{TAG!r}]")
        unknown = {node.meta[TAG] for node in program.graph.nodes if TAG in node.meta} - result.partition_tags.keys()
        if unknown:
            raise Failed(f"{name}: it uses the tags {', '.join(sorted(unknown))}, which partition_tags does not define")
    return ", ".join(NETWORKS)


def deterministic(subject: BackendUnderTest) -> str:
    """Check that partitioning the same program twice gives the same tags and reasons."""
    for name in NETWORKS:
        subject.trying(name)
        first, second = _tags(subject, name), _tags(subject, name)
        if first != second:
            node = next(key for key in sorted(first.keys() | second.keys()) if first.get(key) != second.get(key))
            raise Failed(f"{name}: {node} is {first.get(node)} the first time and {second.get(node)} the second time")
    return ", ".join(NETWORKS)


def reasons(subject: BackendUnderTest) -> str:
    """Check that the partitioner returns a reason for every operator that it does not tag."""
    untagged = 0
    for name in NETWORKS:
        subject.trying(name)
        program = _edge(subject, name)
        result = _partitioner(subject).partition(program)
        reason_of = {unsupported.node: unsupported.reason for unsupported in result.unsupported_nodes}
        for node in program.graph.nodes:
            if node.op != "call_function" or TAG in node.meta or not _is_computation(node):
                continue
            untagged += 1
            if not reason_of.get(node.name, "").strip():
                raise Failed(
                    f"{name}: {describe(node)} is not tagged, without a reason in PartitionResult.unsupported_nodes"
                )
    return f"{untagged} operators not tagged, each with a reason"


def debug_handles(subject: BackendUnderTest) -> str:
    """Check that `debug_handle_map` contains the handle of every operator of the partition, and no other handles."""
    name, _, _, _ = delegated(subject)
    count = 0
    for node, module in delegates(lowered(subject, name).programs["forward"]):
        handles = set(node.meta["debug_handle"])
        mapped = {handle for row in module.result.debug_handle_map.values() for handle in row}
        if not mapped:
            raise Failed(f"{name}: debug_handle_map is empty; profiles could not name the operators of a delegate")
        if foreign := mapped - handles:
            raise Failed(
                f"{name}: debug_handle_map names the handles {sorted(foreign)}, which the partition does not have"
            )
        if missing := handles - mapped:
            operators = [
                str(inner.target)
                for inner in module.original_module.graph.nodes
                if inner.meta.get("debug_handle") in missing and inner.target is not operator.getitem
            ]
            if operators:
                raise Failed(f"{name}: debug_handle_map lacks the handles of {', '.join(operators[:5])}")
        count += len(mapped)
    return f"{count} handles in {name}"


def reproducible(subject: BackendUnderTest) -> str:
    """Check that blobs are equal if they are compiled twice, and in a process with another PYTHONHASHSEED."""
    first, second = _digests(subject, subject.trying), _digests(subject, subject.trying)
    settings = {"backend": subject.name, "options": dict(subject.options)}
    target = "edgecore.conformance.checks.partitioner:digests_elsewhere"
    elsewhere = results(call(target, settings, environment={"PYTHONHASHSEED": "4711"}), subject.trying)[0]
    for other, where in ((second, "the second time"), (elsewhere, "in another process, with another PYTHONHASHSEED")):
        for key in sorted(first.keys() | other.keys()):
            if first.get(key) != other.get(key):
                raise Failed(f"{key} has other bytes {where}; equal input must give equal bytes")
    return f"{len(first)} blobs and named data are equal"


def digests_elsewhere(emit: Callable[[str, Any], None], backend: str, options: dict[str, Any]) -> None:
    """Emit the digests of the backend's blobs and named data for all networks. Runs in a child process."""
    emit("input", "another process")
    from edgecore.conformance.check import Declared
    from edgecore.plugin import registry

    info = registry.find_by_name(backend)
    compiler = registry.load_compiler(info)
    subject = BackendUnderTest(backend, info, compiler, "", options, {}, True, None, None, Path(), None, Declared())
    emit("result", _digests(subject, lambda name: emit("input", f"{name} in another process")))


def _digests(subject: BackendUnderTest, trying: Callable[[str], None]) -> dict[str, str]:
    """Return the digest of each blob and each named-data entry; call `trying` with the name of each network first."""
    digests = {}
    for name in NETWORKS:
        trying(name)
        for index, (_, module) in enumerate(delegates(lowered(subject, name).programs["forward"])):
            digests[f"blob {index} of {name}"] = hashlib.sha256(module.result.blob).hexdigest()
            for key, blob in module.result.named_data.items():
                digests[f"named data {key} of {name}"] = hashlib.sha256(blob.data).hexdigest()
    return digests


def _partitioner(subject: BackendUnderTest) -> Partitioner:
    options = subject.compiler.Options(**subject.options)
    return subject.compiler.partitioner(options, runtime="executorch-1.5")


def _exported(subject: BackendUnderTest, name: str) -> ExportedProgram:
    model, inputs = network_model(subject, name)
    return torch.export.export(model, inputs)


def _edge(subject: BackendUnderTest, name: str) -> ExportedProgram:
    return lower_to_edge(_exported(subject, name)).programs["forward"]


def lowered(subject: BackendUnderTest, name: str) -> LoweredProgram:
    """Lower the network `name` with the backend's partitioner."""
    network(subject, name)  # compile the network first, because an error of `compile` is clearer than one of `lower`
    return lower(_exported(subject, name), [_partitioner(subject)])


def _tags(subject: BackendUnderTest, name: str) -> dict[str, str]:
    program = _edge(subject, name)
    result = _partitioner(subject).partition(program)
    untagged = {unsupported.node: f"not tagged: {unsupported.reason}" for unsupported in result.unsupported_nodes}
    return untagged | {node.name: f"tagged {node.meta[TAG]}" for node in program.graph.nodes if TAG in node.meta}


def _fingerprint(program: ExportedProgram) -> dict[str, Any]:
    parts: dict[str, Any] = {"the order of nodes": [node.name for node in program.graph.nodes]}
    for node in program.graph.nodes:
        parts[describe(node)] = (node.op, str(node.target), f"{node.args}{node.kwargs}")
        parts[f"the metadata of {describe(node)}"] = sorted(key for key in node.meta if key != TAG)
    for name, tensor in program.state_dict.items():
        parts[f"the weight {name}"] = hashlib.sha256(tensor.detach().contiguous().numpy().tobytes()).hexdigest()
    return parts


def _is_computation(node: Node) -> bool:
    is_size = node.target in SYMBOLIC or node.target is torch.ops.aten.sym_size.int
    return node.target is not operator.getitem and not is_size
