"""`to_edge` and `to_edge_transform_and_lower`: from an exported program to an edge program with delegates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.graph import all_calls, operator_name
from edgecore.ir.program import copy_program
from edgecore.ir.verifier import verify
from edgecore.partition import PartitionDiagnostics, Partitioner, to_backend
from edgecore.passes.decompose import Preserve, is_volume_convolution, preserve_nothing
from edgecore.passes.manager import PassManager, check_structure
from edgecore.passes.pass_list import NamedPass, Pass, PassContext, PassList, Stage
from edgecore.passes.pipeline import EDGE_PASSES
from edgecore.pipeline.managers import EdgeProgramManager
from edgecore.pipeline.pass_dump import PassDump
from edgecore.pipeline.preprocess import preprocess

Programs = ExportedProgram | Mapping[str, ExportedProgram]
PartitionerSpec = Sequence[Partitioner] | Mapping[str, Sequence[Partitioner]] | None


def to_edge(
    programs: Programs,
    *,
    constant_methods: Mapping[str, object] | None = None,
    passes: PassList = EDGE_PASSES,
) -> EdgeProgramManager:
    """Lower exported programs to the edge dialect, without a backend.

    Args:
        programs: One program, which becomes the method `forward`, or a mapping from names of methods to programs. They stay
            as they are.
        constant_methods: Methods without inputs that return a value, by name: numbers, strings, tensors, lists of these.
        passes: The passes to run, `edgecore.passes.EDGE_PASSES` or a list made from it with `insert_before`, `insert_after`,
            `replace` and `skip`.

    Returns:
        A manager of functional programs whose tensors are dense and have the shapes and dtypes of the exported ones.

    Raises:
        VerificationError: An operator is not in the edge dialect and torch has no decomposition for it, or a dtype or
            layout is not in the dialect.
        CompileError: A pass failed.

    Example:
        >>> edge = edgecore.to_edge(torch.export.export(model, (torch.randn(1, 3, 224, 224),)))
        >>> edge.to_executorch().save("model.pte")
    """
    lowering = _Lowering(passes)
    edge = {}
    for name, program in lowering.exported(programs).items():
        edge[name] = lowering.to_edge(name, program, PassContext(), lambda program: preserve_nothing)
        verify(edge[name])
    return EdgeProgramManager(edge, constant_methods=constant_methods, passes=passes, observer=lowering.observer)


def to_edge_transform_and_lower(
    programs: Programs,
    *,
    transform_passes: Sequence[Pass | NamedPass] = (),
    partitioner: PartitionerSpec = None,
    constant_methods: Mapping[str, object] | None = None,
    passes: PassList = EDGE_PASSES,
) -> EdgeProgramManager:
    """Lower exported programs to the edge dialect and delegate what the partitioners tag, one partitioner after another.

    Operators that a partitioner asks not to decompose (`ops_to_not_decompose`) are decomposed only if no partitioner tags
    them. What a backend fails on goes to the next one or stays outside.

    Args:
        programs: One program, which becomes the method `forward`, or a mapping from names of methods to programs. They stay
            as they are.
        transform_passes: Further passes, which run between the passes of the stage `edge` and the first partitioner.
        partitioner: Partitioners in order of priority, or a mapping from names of methods to such lists.
        constant_methods: Methods without inputs that return a value, by name: numbers, strings, tensors, lists of these.
        passes: The passes to run, `edgecore.passes.EDGE_PASSES` or a list made from it with `insert_before`, `insert_after`,
            `replace` and `skip`.

    Returns:
        A manager of programs with delegate calls; inputs and results have the shapes and dtypes of the exported ones.

    Raises:
        VerificationError: An operator that stays outside is not in the edge dialect and torch has no decomposition for it.
        CompileError: A pass failed, or a partitioner changed the program or made a partition that is not convex.
        BackendError: The package of a backend is not installed or is broken.

    Warns:
        FallbackWarning: A partitioner or a backend failed; other backends or the kernels run these operators.

    Example:
        >>> from edgecore_xnnpack.partitioner import XnnpackPartitioner
        >>> exported = torch.export.export(model, inputs)
        >>> edge = edgecore.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
        >>> print(edge.report())
    """
    return lower(programs, transform_passes, partitioner, constant_methods, passes=passes)


def lower(
    programs: Programs,
    transform_passes: Sequence[Pass | NamedPass] = (),
    partitioner: PartitionerSpec = None,
    constant_methods: Mapping[str, object] | None = None,
    required: Sequence[Partitioner] = (),
    passes: PassList = EDGE_PASSES,
    dump: PassDump | None = None,
) -> EdgeProgramManager:
    """`to_edge_transform_and_lower`, where a failure of one of the partitioners that are `required` is a `CompileError`,
    and `dump` writes the graph after each pass.
    """
    lowering = _Lowering(passes, dump)
    edge, diagnostics = {}, {}
    for name, program in lowering.exported(programs).items():
        partitioners = list(
            (partitioner or {}).get(name, ()) if isinstance(partitioner, Mapping) else partitioner or ()
        )
        context, diagnostics[name] = PassContext(), PartitionDiagnostics()
        preserve_for = partial(
            _preserve_for,
            partitioners=partitioners,
            preserved=context.preserved,
            diagnostics=diagnostics[name],
            required=required,
        )
        lowered = lowering.to_edge(name, program, context, preserve_for)
        lowered = lowering.apply(name, lowered, transform_passes, context)
        for one in partitioners:
            lowered = to_backend(lowered, one, preprocess, diagnostics[name], one in required)
            lowering.note(name, f"partition_{type(one).__name__}", lowered)
        edge[name] = lowering.decompose_undelegated(name, lowered, diagnostics[name])
        _number(edge[name])
        verify(edge[name])
    return EdgeProgramManager(
        edge, constant_methods=constant_methods, diagnostics=diagnostics, passes=passes, observer=lowering.observer
    )


class _Lowering:
    """The stages of one call of `to_edge` or `to_edge_transform_and_lower`, with its list of passes."""

    def __init__(self, passes: PassList, dump: PassDump | None = None) -> None:
        self.passes = passes
        self.dump = dump
        self.is_alone = True

    def observer(self, method: str) -> Callable[[str, ExportedProgram], None] | None:
        """The function that `PassManager` calls after each pass over a method."""
        return self.dump.observer(method, self.is_alone) if self.dump is not None else None

    def note(self, method: str, step: str, program: ExportedProgram) -> None:
        """Dump a program after a step that is no pass."""
        after = self.observer(method)
        if after is not None:
            after(step, program)

    def apply(
        self,
        method: str,
        program: ExportedProgram,
        passes: Sequence[Pass | NamedPass],
        context: PassContext,
        *,
        edge: bool = True,
    ) -> ExportedProgram:
        """Run passes over a method; with `edge`, what follows each must be in the edge dialect, but for preserved operators."""
        bound = [one.bind(context) if isinstance(one, NamedPass) else one for one in passes]
        check = partial(verify, preserved=context.preserved) if edge else check_structure
        return PassManager(bound, check_program=check, after_pass=self.observer(method))(program)

    def exported(self, programs: Programs) -> dict[str, ExportedProgram]:
        """Copy the programs and run the stages `exported` and `methods`."""
        given = {"forward": programs} if isinstance(programs, ExportedProgram) else dict(programs)
        self.is_alone = len(given) == 1
        methods = {}
        for name, program in given.items():
            self.note(name, "exported", program)
            first = self.passes.of_stage("exported")
            methods[name] = self.apply(name, copy_program(program), first, PassContext(), edge=False)
        written = {name for program in methods.values() for name in program.graph_signature.buffers_to_mutate.values()}
        context = PassContext(written_buffers=frozenset(written))
        shared = self.passes.of_stage("methods")
        return {name: self.apply(name, program, shared, context, edge=False) for name, program in methods.items()}

    def to_edge(
        self,
        method: str,
        program: ExportedProgram,
        context: PassContext,
        preserve_for: Callable[[ExportedProgram], Preserve],
    ) -> ExportedProgram:
        """Run the stage `edge`; twice for a program with 3-d convolutions, which the first round preserves."""

        def preserve_volumes_for(program: ExportedProgram) -> Preserve:
            preserve = preserve_for(program)
            return lambda node: is_volume_convolution(node) or preserve(node)

        passes = self.passes.of_stage("edge")
        names = [one.name for one in passes]
        start = names.index("decompose") if "decompose" in names else 0
        context.preserve_for = preserve_volumes_for
        program = self.apply(method, program, passes[:start], context, edge=False)
        program = self.apply(method, program, passes[start:], context)
        if _has_volumes(program):
            context.preserve_for = preserve_for
            program = self.apply(method, program, passes, context)
        _number(program)
        return program

    def decompose_undelegated(
        self, method: str, program: ExportedProgram, diagnostics: PartitionDiagnostics
    ) -> ExportedProgram:
        """Decompose what was preserved for a partitioner that left it after all; the parts inherit the reasons."""
        for node in all_calls(program.graph_module):
            node.meta["unsupported_reasons"] = [
                (backend, f"part of {operator_name(node.target)}: {reason}")
                for backend, reason in diagnostics.by_node.get(node.name, ())
            ]
        stage: Stage = "edge" if _has_volumes(program) else "undelegated"
        program = self.apply(method, program, self.passes.of_stage(stage), PassContext())
        for node in all_calls(program.graph_module):
            inherited = node.meta.pop("unsupported_reasons", [])
            if inherited:
                diagnostics.by_node.setdefault(node.name, inherited)
        return program


def _has_volumes(program: ExportedProgram) -> bool:
    return any(map(is_volume_convolution, all_calls(program.graph_module)))


def _preserve_for(
    program: ExportedProgram,
    partitioners: Sequence[Partitioner],
    preserved: set[OpOverload],
    diagnostics: PartitionDiagnostics,
    required: Sequence[Partitioner],
) -> Preserve:
    """Return a predicate: some partitioner asks not to decompose the node. One that fails on the question does not.

    The operators that partitioners list are added to `preserved`.
    """
    wanted: dict[OpOverload, list[tuple[Partitioner, Preserve]]] = {}
    failed: set[tuple[str, str]] = set()

    def fall_back(partitioner: Partitioner, task: str, error: Exception) -> None:
        name = type(partitioner).__name__
        if (name, str(error)) not in failed:  # once for all calls of the same kind
            failed.add((name, str(error)))
            diagnostics.fall_back(name, task, [], error, partitioner in required)

    for partitioner in partitioners:
        try:
            operators, condition = partitioner.ops_to_not_decompose(program)
        except Exception as error:
            fall_back(partitioner, "to say which operators it wants whole", error)
            continue
        for operator in operators:
            preserved.add(operator)
            wanted.setdefault(operator, []).append((partitioner, condition or (lambda node: True)))

    def preserve(node: Node) -> bool:
        for partitioner, condition in wanted.get(node.target, []) if isinstance(node.target, OpOverload) else []:
            try:
                if condition(node):
                    return True
            except Exception as error:
                fall_back(partitioner, f"to say whether it wants {operator_name(node.target)} whole", error)
        return False

    return preserve


def _number(program: ExportedProgram) -> None:
    """Give every call node without one a debug handle: a number that survives into blobs, files and traces."""
    nodes = all_calls(program.graph_module)
    known = [node.meta["debug_handle"] for node in nodes if isinstance(node.meta.get("debug_handle"), int)]
    handle = max(known, default=0)
    for node in nodes:
        if "debug_handle" not in node.meta:
            handle += 1
            node.meta["debug_handle"] = handle
