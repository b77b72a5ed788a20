"""Delegation: replace each partition (the nodes with one tag) by a node that calls a compiled delegate."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.errors import BackendError, CompileError
from edgecore.ir.delegate import LoweredBackendModule, is_delegate_call
from edgecore.ir.failures import text_of
from edgecore.ir.graph import calls, describe, edit
from edgecore.ir.program.constants import Constants
from edgecore.ir.program.copying import copy_program
from edgecore.ir.program.mutable_state import mutable_buffers, remove_buffers
from edgecore.partition.claims import settle_claims
from edgecore.partition.control_flow_bodies import body_programs, drop_unread_captures, name_apart
from edgecore.partition.extract import extract, replace_by_call
from edgecore.partition.fallback import PartitionDiagnostics, counted
from edgecore.partition.link import Link, link_delegates
from edgecore.partition.protocol import (
    REFUSED,
    TAG,
    DelegationSpec,
    LayoutReason,
    Partitioner,
    PartitionResult,
    UnsupportedNode,
    check_partitioner,
)
from edgecore.passes.library.make_contiguous import make_contiguous
from edgecore.plugin import CompileSpec, PreprocessResult
from edgecore.progress import track

Preprocess = Callable[[str, ExportedProgram, Sequence[CompileSpec]], tuple[PreprocessResult, tuple[str, str]]]
"""A function that compiles a partition with its backend.

The function takes the backend id, the partition and the compile specs of the partition. It returns the result of the
backend, and (name, version) of the package that compiled the partition.
"""


def to_backend(
    programs: Mapping[str, ExportedProgram],
    partitioners: Mapping[str, Partitioner],
    preprocess: Preprocess,
    diagnostics: Mapping[str, PartitionDiagnostics],
    *,
    required: Collection[Partitioner] = (),
    skip_mutable_buffer: Collection[Partitioner] = (),
    link: Link | None = None,
) -> dict[str, ExportedProgram]:
    """Delegate the nodes that a partitioner tags, in all methods and in their branches and loop bodies.

    Each branch or loop body is passed to the partitioner as a program, in which captured constants are constants.

    All methods are partitioned before any partition is compiled, because a mutable buffer is inside the backend either
    in all methods that use it or in none.

    If the partitioner, its check of a node, or `preprocess` raises an exception, the affected nodes are not delegated,
    and a `FallbackWarning` names the backend, the operator and its source line. If `preprocess` fails on a partition
    that holds mutable buffers, the backend must not hold them, and the methods are partitioned again.

    Args:
        programs: All methods. They are edited in place, or copied if a partitioner claims mutable buffers.
        partitioners: Method name -> its partitioner; methods without a partitioner may be missing.
        preprocess: Compiles a partition.
        diagnostics: Method name -> object that collects the reasons why nodes are not delegated.
        required: Partitioners whose failure raises a `CompileError` instead of a warning.
        skip_mutable_buffer: Partitioners whose claims are refused.
        link: Makes the final results of the partitions of a backend that has two or more; None to skip this step.

    Returns:
        The edited methods.

    Raises:
        CompileError: A partitioner changed the program, used a tag that it does not define, claimed something
            other than a mutable buffer, or made a partition that is not convex; or a value of `partitioners` is not a
            partitioner.
    """
    for partitioner in partitioners.values():
        check_partitioner(partitioner)
    refused = {
        buffer.name: "skip_mutable_buffer is set"
        for method, partitioner in partitioners.items()
        if partitioner in skip_mutable_buffer
        for buffer in mutable_buffers(programs[method])
    }
    while True:
        answers = {method: _ask(programs[method], chosen, refused) for method, chosen in partitioners.items()}
        claims = settle_claims(programs, {method: answer.result for method, answer in answers.items()}, refused)
        refused |= claims.refused
        if claims.refused:
            _drop_tags(programs)
            continue
        edited = {method: copy_program(program) if claims.granted else program for method, program in programs.items()}
        partitions = {method: _partitions(edited[method], answer) for method, answer in answers.items()}
        _drop_tags(programs)
        failure = _delegate_holders(edited, partitions, claims.granted, preprocess)
        if failure is None:
            break
        partition, is_required = failure.partition, partitioners[failure.method] in required
        diagnostics[failure.method].refuse(
            partition.spec.backend_id, failure.held, partition.nodes, failure.error, is_required
        )
        refused |= dict.fromkeys(failure.held, f"the backend failed with it inside: {text_of(failure.error)}")
    results = {id(partitioner): list[PartitionResult | None]() for partitioner in partitioners.values()}
    for method, answer in answers.items():
        of_partitioner = results[id(partitioners[method])]
        of_partitioner.append(answer.result)
        is_required = partitioners[method] in required
        _note_answer(edited[method], answer, refused, diagnostics[method], is_required)
        _delegate_all(edited[method], partitions[method], preprocess, diagnostics[method], is_required)
        if answer.result is not None:
            partitions[method] += _delegate_in_bodies(
                edited[method], partitioners[method], preprocess, diagnostics[method], is_required, of_partitioner
            )
    for of_partitioner in results.values():
        _warn_if_all_do(of_partitioner)
    if link is not None:
        modules = {
            method: [partition.module for partition in of_method if partition.module is not None]
            for method, of_method in partitions.items()
        }
        link_delegates(modules, link, diagnostics, [method for method in modules if partitioners[method] in required])
    for method, program in edited.items():
        if claims.granted:
            remove_buffers(program, claims.granted)
        if partitions.get(method):
            Constants(program).drop_unused()
    return edited


def _delegate_in_bodies(
    program: ExportedProgram,
    partitioner: Partitioner,
    preprocess: Preprocess,
    diagnostics: PartitionDiagnostics,
    required: bool,
    results: list[PartitionResult | None],
) -> list[_Partition]:
    """Pass branches and loop bodies to the partitioner as programs, and delegate the nodes that it tags.

    Appends the partitioner's results for these programs to `results`.
    """
    delegated: list[_Partition] = []
    name_apart(program)
    for body in body_programs(program):
        _drop_tags({"": body})  # drop tags of partitioners that also tagged branches and loops of the method
        answer = _ask(body, partitioner, {})
        results.append(answer.result)
        _note_answer(body, answer, {}, diagnostics, required)
        partitions = _partitions(body, answer)
        _delegate_all(body, partitions, preprocess, diagnostics, required)
        delegated += partitions
    if delegated:
        drop_unread_captures(program)
    return delegated


def _warn_if_all_do(results: Sequence[PartitionResult | None]) -> None:
    """Issue the partitioner's warning if its results for all methods, branches and loop bodies have a warning."""
    warned = [result.warning for result in results if result is not None and result.warning]
    if warned and len(warned) == len(results):
        warnings.warn(warned[0], stacklevel=3)


def _delegate_all(
    program: ExportedProgram,
    partitions: Sequence[_Partition],
    preprocess: Preprocess,
    diagnostics: PartitionDiagnostics,
    required: bool,
) -> None:
    """Delegate the partitions that are not delegated yet; leave a partition unchanged if the backend fails on it."""
    for partition in track(partitions, "compiling partitions"):
        error = None if partition.module is not None else _delegate(program, partition, (), preprocess)
        if error is not None:
            task = f"to compile a partition of {counted(partition.nodes)}"
            diagnostics.fall_back(partition.spec.backend_id, task, partition.nodes, error, required)


@dataclass
class _Answer:
    """The result of a partitioner for one method, or the exception that it raised."""

    name: str
    result: PartitionResult | None
    error: Exception | None


@dataclass
class _Partition:
    """A partition: the nodes with one tag; after the delegation, also the delegate that replaces them."""

    tag: str
    spec: DelegationSpec
    nodes: list[Node] = field(default_factory=list)
    module: LoweredBackendModule | None = None


@dataclass
class _Failure:
    """A failure of `preprocess` on a partition whose backend was to keep the state of the buffers `held`."""

    method: str
    partition: _Partition
    held: list[str]
    error: Exception


def _ask(program: ExportedProgram, partitioner: Partitioner, refused: Mapping[str, str]) -> _Answer:
    """Call the partitioner. After a refusal because of a layout, make all values contiguous and call it again.

    Raises:
        CompileError: The partitioner changed the program, or used a tag that it does not define.
    """
    answer = _ask_once(program, partitioner, refused)
    refusals = answer.result.unsupported_nodes if answer.result is not None else ()
    if not any(isinstance(refusal.reason, LayoutReason) for refusal in refusals):
        return answer
    _drop_tags({"": program})
    make_contiguous(program)
    return _ask_once(program, partitioner, refused)


def _ask_once(program: ExportedProgram, partitioner: Partitioner, refused: Mapping[str, str]) -> _Answer:
    """Mark the buffers that the partitioner must not claim, and call the partitioner.

    Raises:
        CompileError: The partitioner changed the program, or used a tag that it does not define.
    """
    before = _fingerprint(program)
    marked = [buffer for buffer in mutable_buffers(program) if buffer.name in refused]
    for buffer in marked:
        buffer.node.meta[REFUSED] = refused[buffer.name]
    name = type(partitioner).__name__
    result, failure = None, None
    try:
        returned = partitioner.partition(program)
        if not isinstance(returned, PartitionResult):
            raise TypeError(f"partition gave a {type(returned).__name__}, not a PartitionResult")
        if not isinstance(returned.partition_tags, Mapping):
            kind = type(returned.partition_tags).__name__
            raise TypeError(f"partition_tags is a {kind}, not a mapping from tags to DelegationSpecs")
        result = returned
    except Exception as error:
        failure = error
    is_same = result is None or result.tagged_exported_program is program
    if not is_same or _fingerprint(program) != before:
        raise CompileError(f"{name} changed the program; a partitioner may only tag nodes") from failure
    for buffer in marked:
        del buffer.node.meta[REFUSED]
    for node in program.graph.nodes:
        tag = None if result is None else node.meta.get(TAG)
        if tag is None or node.op != "call_function":
            node.meta.pop(TAG, None)
        elif tag not in result.partition_tags:  # type: ignore[union-attr]
            raise CompileError(f"{name} tagged {describe(node)} {tag!r}, which it does not define")
    return _Answer(name, result, failure)


def _drop_tags(programs: Mapping[str, ExportedProgram]) -> None:
    for program in programs.values():
        for node in program.graph.nodes:
            node.meta.pop(TAG, None)


def _partitions(program: ExportedProgram, answer: _Answer) -> list[_Partition]:
    """Group the tagged nodes by tag, and remove the tags. Nodes that belong to several partitions are copied first."""
    if answer.result is not None and answer.result.copied_nodes:
        _copy_nodes(program, answer.result.copied_nodes)
    partitions: dict[str, _Partition] = {}
    for node in program.graph.nodes:
        tag = node.meta.pop(TAG, None)
        if tag is not None and answer.result is not None:
            new = _Partition(tag, answer.result.partition_tags[tag])
            partitions.setdefault(tag, new).nodes.append(node)
    return list(partitions.values())


def _copy_nodes(program: ExportedProgram, copied: Mapping[str, Sequence[str]]) -> None:
    """Copy each node of `copied` for every further partition that reads the node.

    A node is copied after its users, so that the copy of the node also becomes the input of the users' copies.
    """
    with edit(program) as graph_module:
        for node in reversed([node for node in graph_module.graph.nodes if node.name in copied]):
            for tag in copied[node.name]:
                with graph_module.graph.inserting_after(node):
                    copy = graph_module.graph.node_copy(node)
                copy.meta = {**node.meta, TAG: tag}
                for user in list(node.users):
                    if user.meta.get(TAG) == tag:
                        user.replace_input_with(node, copy)


def _note_answer(
    program: ExportedProgram,
    answer: _Answer,
    refused: Mapping[str, str],
    diagnostics: PartitionDiagnostics,
    required: bool,
) -> None:
    """Add to `diagnostics` why nodes are not delegated, and why mutable buffers stay outside of the backend."""
    if answer.result is None:
        assert answer.error is not None
        nodes = [node for node in calls(program.graph_module) if not is_delegate_call(node)]
        diagnostics.fall_back(answer.name, "to choose operators", nodes, answer.error, required)
        return
    backend_ids = {spec.backend_id for spec in answer.result.partition_tags.values()}
    backend = ", ".join(sorted(backend_ids)) or answer.name
    _note_unsupported_nodes(program, answer.result.unsupported_nodes, backend, diagnostics, required)
    for buffer in mutable_buffers(program):
        if buffer.name in refused:
            diagnostics.add_buffer(buffer.name, backend, refused[buffer.name])


def _note_unsupported_nodes(
    program: ExportedProgram,
    unsupported_nodes: Sequence[UnsupportedNode],
    backend: str,
    diagnostics: PartitionDiagnostics,
    required: bool,
) -> None:
    """Add to `diagnostics` the reasons why nodes are not delegated.

    If a backend's check raises the same exception for several calls of an operator, this counts as one failure.
    """
    by_name = {node.name: node for node in program.graph.nodes}
    failed: dict[tuple[Any, str], list[tuple[Node, Exception]]] = {}
    for unsupported in unsupported_nodes:
        node = by_name.get(unsupported.node)
        if unsupported.error is None or node is None:
            diagnostics.add(unsupported.node, backend, unsupported.reason)
        else:
            failed.setdefault((node.target, str(unsupported.error)), []).append((node, unsupported.error))
    for failures in failed.values():
        nodes = [node for node, _ in failures]
        diagnostics.fall_back(backend, f"to examine {counted(nodes)}", nodes, failures[0][1], required)


def _fingerprint(program: ExportedProgram) -> list[tuple[str, str, str, str]]:
    return [(node.name, node.op, str(node.target), f"{node.args}{node.kwargs}") for node in program.graph.nodes]


def _check_convex(tag: str, nodes: list[Node]) -> None:
    """Raise `CompileError` if a path leaves the partition and enters it again."""
    inside = set(nodes)
    downstream: set[Node] = set()  # nodes outside of the partition that depend on the partition
    last = nodes[-1]
    node = nodes[0]
    while node is not last:
        node = node.next
        sources = node.all_input_nodes
        if node not in inside and any(source in inside or source in downstream for source in sources):
            downstream.add(node)
        elif node in inside and any(source in downstream for source in sources):
            raise CompileError(f"partition {tag} is not convex: a path leaves it and comes back at {describe(node)}")


def _delegate_holders(
    programs: Mapping[str, ExportedProgram],
    partitions: Mapping[str, list[_Partition]],
    granted: Collection[str],
    preprocess: Preprocess,
) -> _Failure | None:
    """Delegate partitions that keep the state of mutable buffers, in all methods; return the first failure or None."""
    for method, of_method in partitions.items():
        uses = [(buffer.name, buffer.uses) for buffer in mutable_buffers(programs[method]) if buffer.name in granted]
        for partition in of_method:
            held = [name for name, nodes in uses if not set(nodes).isdisjoint(partition.nodes)]
            if held:
                error = _delegate(programs[method], partition, held, preprocess)
                if error is not None:
                    return _Failure(method, partition, held, error)
    return None


def _delegate(
    program: ExportedProgram, partition: _Partition, held: Collection[str], preprocess: Preprocess
) -> Exception | None:
    """Compile a partition and replace it by a call; if the backend fails, change nothing and return the exception."""
    _check_convex(partition.tag, partition.nodes)
    spec = partition.spec
    extracted = extract(program, partition.nodes, held, constants_as_inputs=spec.constants_as_inputs)
    try:
        result, distribution = preprocess(spec.backend_id, extracted.program, spec.compile_specs)
        if not isinstance(result, PreprocessResult):
            raise TypeError(f"preprocess gave a {type(result).__name__}, not a PreprocessResult")
    except BackendError:
        raise  # do not fall back: the cause is a missing or broken backend, not the partition
    except Exception as error:
        return error
    module = LoweredBackendModule(spec.backend_id, result, spec.compile_specs, extracted.program, distribution)
    replace_by_call(program, partition.nodes, extracted, module)
    partition.module = module
    return None
