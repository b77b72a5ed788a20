"""`to_edge` and `to_edge_transform_and_lower`: from an exported program to an edge program with delegates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.control_flow import all_calls
from edgecore.ir.graph import operator_name
from edgecore.ir.program import copy_program
from edgecore.ir.verifier import verify
from edgecore.partition import Partitioner, Refusals, to_backend
from edgecore.passes.cleanup import remove_identities
from edgecore.passes.common_subexpressions import merge_common_subexpressions
from edgecore.passes.decompose import Keep, decompose
from edgecore.passes.fold_constants import fold_constants
from edgecore.passes.functionalize import functionalize
from edgecore.passes.fuse_batch_norm import fuse_batch_norm
from edgecore.passes.integer_products import rewrite_integer_products
from edgecore.passes.keep_state import keep_state
from edgecore.passes.manager import Pass, PassManager
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
    edge = {name: _to_edge(program, []) for name, program in _functional(programs).items()}
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

    Operators that a partitioner asks for whole (`ops_to_not_decompose`) are decomposed only if nobody takes them.
    """
    edge, refusals = {}, {}
    for name, functional in _functional(programs).items():
        partitioners = list(
            (partitioner or {}).get(name, ()) if isinstance(partitioner, Mapping) else partitioner or ()
        )
        program = PassManager(transform_passes)(_to_edge(functional, partitioners))
        refusals[name] = Refusals()
        for one in partitioners:
            program = to_backend(program, one, preprocess, refusals[name])
        edge[name] = _decompose_rest(program, refusals[name])
        _number(edge[name])
        verify(edge[name])
    return EdgeProgramManager(edge, constant_methods=constant_methods, refusals=refusals)


def _functional(programs: Programs) -> dict[str, ExportedProgram]:
    """Functional copies of the programs by method name."""
    methods = {"forward": programs} if isinstance(programs, ExportedProgram) else dict(programs)
    functional = {name: _from_torchao(functionalize(copy_program(exported))) for name, exported in methods.items()}
    keep_state(functional)
    return functional


def _from_torchao(program: ExportedProgram) -> ExportedProgram:
    return rewrite_integer_products(rewrite_torchao(program))


def _to_edge(program: ExportedProgram, partitioners: Sequence[Partitioner]) -> ExportedProgram:
    """The edge dialect, but for what a partitioner wants whole; a convolution of volumes is whole until it took its norm."""
    keep = _keep(program, partitioners)
    program = _decomposed(program, lambda node: is_volume_convolution(node) or keep(node))
    program = trim_kernels(fuse_batch_norm(program))
    if _has_volumes(program):
        program = _decomposed(program, _keep(program, partitioners))
    _number(program)
    return program


def _has_volumes(program: ExportedProgram) -> bool:
    return any(map(is_volume_convolution, all_calls(program.graph_module)))


def _decomposed(program: ExportedProgram, keep: Keep = lambda node: False) -> ExportedProgram:
    program = merge_common_subexpressions(merge_views(remove_identities(decompose(program, keep))))
    return fold_constants(unify_sizes(program))


def _keep(program: ExportedProgram, partitioners: Sequence[Partitioner]) -> Keep:
    """Whether some partitioner wants a node whole."""
    wanted: dict[OpOverload, list[Keep]] = {}
    for partitioner in partitioners:
        operators, condition = partitioner.ops_to_not_decompose(program)
        for operator in operators:
            wanted.setdefault(operator, []).append(condition or (lambda node: True))

    def keep(node: Node) -> bool:
        conditions = wanted.get(node.target, []) if isinstance(node.target, OpOverload) else []
        return any(condition(node) for condition in conditions)

    return keep


def _decompose_rest(program: ExportedProgram, refusals: Refusals) -> ExportedProgram:
    """Decompose what stayed whole for a partitioner that left it after all; the parts inherit the reasons."""
    for node in all_calls(program.graph_module):
        node.meta["refused"] = [
            (backend, f"part of {operator_name(node.target)}: {reason}")
            for backend, reason in refusals.by_node.get(node.name, ())
        ]
    program = _decomposed(program) if _has_volumes(program) else remove_identities(decompose(program))
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
