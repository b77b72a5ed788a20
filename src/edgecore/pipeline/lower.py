"""`to_edge` and `to_edge_transform_and_lower`: from an exported program to an edge program with delegates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.control_flow import all_calls
from edgecore.ir.failures import failures_named
from edgecore.ir.graph import operator_name
from edgecore.ir.program import copy_program
from edgecore.ir.verifier import verify
from edgecore.partition import Partitioner, Refusals, to_backend
from edgecore.passes.claim_constants import claim_constants
from edgecore.passes.cleanup import remove_identities
from edgecore.passes.common_subexpressions import merge_common_subexpressions
from edgecore.passes.decompose import Keep, decompose, no_keep
from edgecore.passes.fold_constants import fold_constants
from edgecore.passes.functionalize import functionalize
from edgecore.passes.fuse_batch_norm import fuse_batch_norm
from edgecore.passes.integer_products import rewrite_integer_products
from edgecore.passes.keep_state import keep_state
from edgecore.passes.manager import Pass, PassManager, ProgramPass
from edgecore.passes.merge_views import merge_views
from edgecore.passes.torchao import rewrite_torchao
from edgecore.passes.trim_kernels import trim_kernels
from edgecore.passes.unify_sizes import unify_sizes
from edgecore.passes.volumes import is_volume_convolution
from edgecore.pipeline.managers import EdgeProgramManager
from edgecore.pipeline.preprocess import preprocess

Programs = ExportedProgram | Mapping[str, ExportedProgram]
PartitionerSpec = Sequence[Partitioner] | Mapping[str, Sequence[Partitioner]] | None


def to_edge(programs: Programs, *, constant_methods: Mapping[str, object] | None = None) -> EdgeProgramManager:
    """The edge dialect of one program (method `forward`) or of several; the given programs stay as they are.

    Raises `VerificationError` for an operator that torch cannot decompose into the dialect.
    """
    edge = {name: _to_edge(program, lambda edge: no_keep) for name, program in _functional(programs).items()}
    for program in edge.values():
        verify(program)
    return EdgeProgramManager(edge, constant_methods=constant_methods)


def to_edge_transform_and_lower(
    programs: Programs,
    *,
    transform_passes: Sequence[Pass] = (),
    partitioner: PartitionerSpec = None,
    constant_methods: Mapping[str, object] | None = None,
) -> EdgeProgramManager:
    """`to_edge`, then each partitioner in turn takes what it can; a mapping gives each method its own.

    Operators that a partitioner asks for whole (`ops_to_not_decompose`) are decomposed only if nobody takes them. What a
    backend fails on goes to the next one or stays outside, with a `FallbackWarning`.
    """
    return lower(programs, transform_passes, partitioner, constant_methods)


def lower(
    programs: Programs,
    transform_passes: Sequence[Pass] = (),
    partitioner: PartitionerSpec = None,
    constant_methods: Mapping[str, object] | None = None,
    required: Sequence[Partitioner] = (),
) -> EdgeProgramManager:
    """`to_edge_transform_and_lower`, where a failure of one of the partitioners that are `required` is a `CompileError`."""
    edge, refusals = {}, {}
    for name, functional in _functional(programs).items():
        partitioners = list(
            (partitioner or {}).get(name, ()) if isinstance(partitioner, Mapping) else partitioner or ()
        )
        refusals[name] = Refusals()
        keep_of = partial(_keep, partitioners=partitioners, refusals=refusals[name], required=required)
        program = PassManager(transform_passes)(_to_edge(functional, keep_of))
        for one in partitioners:
            program = to_backend(program, one, preprocess, refusals[name], one in required)
        edge[name] = _decompose_rest(program, refusals[name])
        _number(edge[name])
        verify(edge[name])
    return EdgeProgramManager(edge, constant_methods=constant_methods, refusals=refusals)


def _functional(programs: Programs) -> dict[str, ExportedProgram]:
    """Functional copies of the programs by method name."""
    methods = {"forward": programs} if isinstance(programs, ExportedProgram) else dict(programs)
    functional = {name: _apply(_CAPTURED, copy_program(exported)) for name, exported in methods.items()}
    with failures_named("the pass keep_state"):
        keep_state(functional)
    return functional


_CAPTURED: tuple[ProgramPass, ...] = (claim_constants, functionalize, rewrite_torchao, rewrite_integer_products)
"""The passes over a program as torch.export gives it."""

_CLEANED: tuple[ProgramPass, ...] = (
    remove_identities, merge_views, merge_common_subexpressions, unify_sizes, fold_constants, fuse_batch_norm, trim_kernels,
)  # fmt: skip
"""The passes over a decomposed program."""


def _apply(passes: Sequence[ProgramPass], program: ExportedProgram) -> ExportedProgram:
    for transform in passes:
        with failures_named(f"the pass {transform.__name__}"):
            program = transform(program)
    return program


def _to_edge(program: ExportedProgram, keep_of: Callable[[ExportedProgram], Keep]) -> ExportedProgram:
    """The edge dialect, but for what a partitioner wants whole; convolutions of volumes stay so until norms are fused."""
    keep = keep_of(program)
    program = _apply(_CLEANED, _decomposed(program, lambda node: is_volume_convolution(node) or keep(node)))
    if _has_volumes(program):
        program = _apply(_CLEANED, _decomposed(program, keep_of(program)))
    _number(program)
    return program


def _has_volumes(program: ExportedProgram) -> bool:
    return any(map(is_volume_convolution, all_calls(program.graph_module)))


def _decomposed(program: ExportedProgram, keep: Keep = no_keep) -> ExportedProgram:
    with failures_named("the pass decompose"):
        return decompose(program, keep)


def _keep(
    program: ExportedProgram, partitioners: Sequence[Partitioner], refusals: Refusals, required: Sequence[Partitioner]
) -> Keep:
    """Whether some partitioner wants a node whole. One that fails on the question does not."""
    wanted: dict[OpOverload, list[tuple[Partitioner, Keep]]] = {}
    failed: set[tuple[str, str]] = set()

    def fall_back(partitioner: Partitioner, task: str, error: Exception) -> None:
        name = type(partitioner).__name__
        if (name, str(error)) not in failed:  # once for all calls of the same kind
            failed.add((name, str(error)))
            refusals.fall_back(name, task, [], error, partitioner in required)

    for partitioner in partitioners:
        try:
            operators, condition = partitioner.ops_to_not_decompose(program)
        except Exception as error:
            fall_back(partitioner, "to say which operators it wants whole", error)
            continue
        for operator in operators:
            wanted.setdefault(operator, []).append((partitioner, condition or (lambda node: True)))

    def keep(node: Node) -> bool:
        for partitioner, condition in wanted.get(node.target, []) if isinstance(node.target, OpOverload) else []:
            try:
                if condition(node):
                    return True
            except Exception as error:
                fall_back(partitioner, f"to say whether it wants {operator_name(node.target)} whole", error)
        return False

    return keep


def _decompose_rest(program: ExportedProgram, refusals: Refusals) -> ExportedProgram:
    """Decompose what stayed whole for a partitioner that left it after all; the parts inherit the reasons."""
    for node in all_calls(program.graph_module):
        node.meta["refused"] = [
            (backend, f"part of {operator_name(node.target)}: {reason}")
            for backend, reason in refusals.by_node.get(node.name, ())
        ]
    program = _apply(_CLEANED if _has_volumes(program) else [remove_identities], _decomposed(program))
    for node in all_calls(program.graph_module):
        inherited = node.meta.pop("refused", [])
        if inherited:
            refusals.by_node.setdefault(node.name, inherited)
    return program


def _number(program: ExportedProgram) -> None:
    """Give every call node without one a debug handle: a number that survives into blobs, files and profiles."""
    nodes = all_calls(program.graph_module)
    known = [node.meta["debug_handle"] for node in nodes if isinstance(node.meta.get("debug_handle"), int)]
    handle = max(known, default=0)
    for node in nodes:
        if "debug_handle" not in node.meta:
            handle += 1
            node.meta["debug_handle"] = handle
