"""`to_edge` and `to_edge_transform_and_lower`: lower exported programs to edge programs, and delegate parts of them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.complete import complete_program
from edgecore.ir.dense_tensors import check_dense
from edgecore.ir.func_transforms import check_transforms
from edgecore.ir.graph import all_calls, operator_name
from edgecore.ir.program import copy_program
from edgecore.ir.verifier import verify
from edgecore.ir.written import written_buffers
from edgecore.partition import PartitionDiagnostics, Partitioner, to_backend
from edgecore.passes.decompose import (
    REWRITES,
    Preserve,
    Rewrite,
    before_backends,
    is_volume_convolution,
)
from edgecore.passes.manager import PassManager, check_structure
from edgecore.passes.pass_list import NamedPass, Pass, PassContext, PassList, Stage
from edgecore.passes.pipeline import EDGE_PASSES
from edgecore.pipeline.config import EdgeCompileConfig
from edgecore.pipeline.etrecord import ETRecord
from edgecore.pipeline.managers import EdgeProgramManager
from edgecore.pipeline.methods import (
    PartitionerSpec,
    Programs,
    check_methods,
    partitioners_by_method,
    programs_by_method,
)
from edgecore.pipeline.pass_dump import PassDump
from edgecore.pipeline.preprocess import link, preprocess
from edgecore.pipeline.whole_operators import WholeOperators
from edgecore.pipeline.whole_program import place_lowered_modules

TransformPasses = Sequence[Pass | NamedPass] | Mapping[str, Sequence[Pass | NamedPass]]


def to_edge(
    programs: Programs,
    *,
    constant_methods: Mapping[str, object] | None = None,
    passes: PassList = EDGE_PASSES,
    compile_config: EdgeCompileConfig | None = None,
    generate_etrecord: bool = False,
) -> EdgeProgramManager:
    """Lower exported programs to the edge dialect, without a backend.

    Args:
        programs: A program, which becomes the method `forward`, or a mapping from names of methods to programs. The
            programs are copied, not changed.
        constant_methods: Additional methods without inputs that return a constant, as a mapping from the name of the
            method to the constant: a number, string, tensor, or a list of these.
        passes: The passes to run: `edgecore.passes.EDGE_PASSES`, or a list made from it with `insert_before`,
            `insert_after`, `replace` and `skip`.
        compile_config: Operators that stay as they are; see `EdgeCompileConfig`.
        generate_etrecord: Keep the programs for `get_etrecord`, a copy without weights of their own.

    Returns:
        A manager of functional programs with dense tensors; inputs and outputs keep their shapes and dtypes.

    Raises:
        CompileError: A pass failed; or an operator is not in the edge dialect and torch has no decomposition for it; or
            a dtype or layout is not in the dialect.

    Example:
        >>> edge = edgecore.to_edge(torch.export.export(model, (torch.randn(1, 3, 224, 224),)))
        >>> edge.to_executorch().save("model.pte")
    """
    lowering = _Lowering(passes, config=compile_config)
    edge = {}
    for name, program in lowering.exported(programs).items():
        edge[name] = lowering.to_edge(name, program, lowering.context(), lambda program: lowering.is_preserved)
        verify(edge[name], lowering.config.allowed)
    record = ETRecord(programs, _copies(edge)) if generate_etrecord else None
    return EdgeProgramManager(
        edge, constant_methods=constant_methods, passes=passes, observer=lowering.observer, etrecord=record,
        allowed=lowering.config.allowed,
    )  # fmt: skip


def _copies(programs: Mapping[str, ExportedProgram]) -> dict[str, ExportedProgram]:
    return {name: copy_program(program) for name, program in programs.items()}


def to_edge_transform_and_lower(
    programs: Programs,
    *,
    transform_passes: TransformPasses = (),
    partitioner: PartitionerSpec = None,
    constant_methods: Mapping[str, object] | None = None,
    passes: PassList = EDGE_PASSES,
    compile_config: EdgeCompileConfig | None = None,
    generate_etrecord: bool = False,
) -> EdgeProgramManager:
    """Lower exported programs to the edge dialect, and delegate the operators that the partitioners tag.

    The partitioners run one after another, each over all methods. An operator that a partitioner asks not to decompose
    (`ops_to_not_decompose`) is decomposed only if partitioners before it tag all its parts, or if no partitioner tags
    it. If a backend fails to compile a partition, the next partitioners may tag its operators. A mutable buffer that a
    partitioner claims is the backend's state if only partitions of the backend use it, in all methods; the report names
    the reason for others.

    Args:
        programs: A program, which becomes the method `forward`, or a mapping from names of methods to programs. The
            programs are copied, not changed.
        transform_passes: Additional passes, which run after the stage `edge` and before the first partitioner; or a
            mapping from names of methods to such passes.
        partitioner: Partitioners in order of priority, or a mapping from names of methods to such lists.
        constant_methods: Additional methods without inputs that return a constant, as a mapping from the name of the
            method to the constant: a number, string, tensor, or a list of these.
        passes: The passes to run: `edgecore.passes.EDGE_PASSES`, or a list made from it with `insert_before`,
            `insert_after`, `replace` and `skip`.
        compile_config: Operators that stay as they are unless a backend takes them; see `EdgeCompileConfig`.
        generate_etrecord: Keep the programs for `get_etrecord`, a copy without weights of their own.

    Returns:
        A manager of programs with delegate calls; inputs and outputs keep their shapes and dtypes.

    Raises:
        CompileError: A pass failed; or an operator that is not delegated is not in the edge dialect, and torch has no
            decomposition for it; or a partitioner changed the program or made a partition that is not convex.
        BackendError: The package of a backend is not installed or is broken.

    Warns:
        FallbackWarning: A partitioner or a backend failed; other backends or edgecore's kernels run these operators.

    Example:
        >>> from edgecore_xnnpack.partitioner import XnnpackPartitioner
        >>> exported = torch.export.export(model, inputs)
        >>> edge = edgecore.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
        >>> print(edge.report())
    """
    return lower(
        programs, transform_passes, partitioner, constant_methods, passes=passes, generate_etrecord=generate_etrecord,
        compile_config=compile_config,
    )  # fmt: skip


@contextmanager
def _garbage_of_this_call() -> Iterator[None]:
    """Let the garbage collector visit only objects that are created inside: a model and its modules stay alive.

    Without this, Python's full collections take a third of the time of lowering.
    """
    if gc.get_freeze_count():  # by the application, or by a call around this one
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def lower(
    programs: Programs,
    transform_passes: TransformPasses = (),
    partitioner: PartitionerSpec = None,
    constant_methods: Mapping[str, object] | None = None,
    required: Sequence[Partitioner] = (),
    skip_mutable_buffer: Sequence[Partitioner] = (),
    passes: PassList = EDGE_PASSES,
    dump: PassDump | None = None,
    rewrites: Mapping[OpOverload, Rewrite] = REWRITES,
    generate_etrecord: bool = False,
    compile_config: EdgeCompileConfig | None = None,
) -> EdgeProgramManager:
    """Run `to_edge_transform_and_lower`; a failure of a partitioner in `required` is an error instead of a warning.

    Claims of partitioners in `skip_mutable_buffer` are refused. `dump` writes the graph after each pass. `rewrites` are
    those of the target runtime for operators that no backend gets.
    """
    with _garbage_of_this_call():
        lowering = _Lowering(passes, dump, rewrites, compile_config)
        edge, diagnostics = {}, {}
        exported = lowering.exported(programs)
        check_methods(transform_passes, exported, "transform_passes")
        chosen = partitioners_by_method(partitioner, exported)
        for name, program in exported.items():
            # A backend may support the operators of a decomposition, so with backends `rewrites` must wait for the rest.
            context = lowering.context(before_backends(rewrites) if chosen[name] else rewrites)
            diagnostics[name] = PartitionDiagnostics()
            whole = WholeOperators(chosen[name], context.preserved, diagnostics[name], required)
            extra = transform_passes.get(name, ()) if isinstance(transform_passes, Mapping) else transform_passes
            edge[name] = lowering.to_edge_for_backends(name, program, context, whole, extra)
        record = ETRecord(programs, _copies(edge)) if generate_etrecord else None
        for priority in range(max(map(len, chosen.values()), default=0)):
            partitioners = {
                name: of_method[priority] for name, of_method in chosen.items() if priority < len(of_method)
            }
            edge = to_backend(
                edge,
                partitioners,
                preprocess,
                diagnostics,
                required=required,
                skip_mutable_buffer=skip_mutable_buffer,
                link=link,
            )
            for name, one_partitioner in partitioners.items():
                lowering.dump_step(name, f"partition_{type(one_partitioner).__name__}", edge[name])
        for name, lowered in edge.items():
            edge[name] = lowering.decompose_undelegated(name, lowered, diagnostics[name])
            add_debug_handles(edge[name])
            verify(edge[name], lowering.config.allowed)
        return EdgeProgramManager(
            edge, constant_methods=constant_methods, diagnostics=diagnostics, passes=passes, observer=lowering.observer,
            etrecord=record, allowed=lowering.config.allowed,
        )  # fmt: skip


class _Lowering:
    """Runs the passes of each stage, for one call of `to_edge` or `to_edge_transform_and_lower`."""

    def __init__(
        self,
        passes: PassList,
        dump: PassDump | None = None,
        rewrites: Mapping[OpOverload, Rewrite] = REWRITES,
        config: EdgeCompileConfig | None = None,
    ) -> None:
        self.passes = passes
        self.dump = dump
        self.rewrites = rewrites
        self.config = config or EdgeCompileConfig()
        self.is_single = True  # True if there is only one method; set by `exported`

    def context(self, rewrites: Mapping[OpOverload, Rewrite] = REWRITES) -> PassContext:
        """Return a context for the passes over one method, in which the user's operators are allowed."""
        return PassContext(preserved=set(self.config.allowed), rewrites=rewrites)

    def is_preserved(self, node: Node) -> bool:
        """Return True if the user asked not to decompose the operator of a node."""
        return node.target in self.config.preserve_ops

    def observer(self, method: str) -> Callable[[str, ExportedProgram], None] | None:
        """Return the function that `PassManager` calls after each pass over a method; None if nothing is dumped."""
        return self.dump.observer(method, self.is_single) if self.dump is not None else None

    def dump_step(self, method: str, step: str, program: ExportedProgram) -> None:
        """Dump a program after a step that is not a pass."""
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
        """Run passes over a method, and check the program after each.

        With `edge` the program must be in the edge dialect, apart from preserved operators; otherwise only the
        structure of the graph is checked.
        """
        bound = [item.bind(context) if isinstance(item, NamedPass) else item for item in passes]
        check = partial(verify, preserved=context.preserved) if edge else check_structure
        return PassManager(bound, check_program=check, after_pass=self.observer(method))(program)

    def exported(self, programs: Programs) -> dict[str, ExportedProgram]:
        """Copy the programs and run the stages `exported` and `methods`."""
        by_name = programs_by_method(programs)
        self.is_single = len(by_name) == 1
        methods = {}
        for name, program in by_name.items():
            check_dense(program)
            check_transforms(program)
            self.dump_step(name, "exported", program)
            passes = self.passes.of_stage("exported")
            copied = copy_program(program)
            complete_program(copied, f"method {name}")  # the user may have edited its graph
            methods[name] = self.apply(name, copied, passes, PassContext(), edge=False)
        written = {name for program in methods.values() for name in written_buffers(program)}
        context = PassContext(written_buffers=frozenset(written))
        passes = self.passes.of_stage("methods")
        return {name: self.apply(name, program, passes, context, edge=False) for name, program in methods.items()}

    def to_edge(
        self,
        method: str,
        program: ExportedProgram,
        context: PassContext,
        preserve_for: Callable[[ExportedProgram], Preserve],
    ) -> ExportedProgram:
        """Run the stage `edge`.

        The first run preserves 3-d convolutions, so that batch norms are fused into them. If the program has 3-d
        convolutions, a second run decomposes those that no partitioner asks to preserve.
        """

        def preserve_volumes_for(program: ExportedProgram) -> Preserve:
            preserve = preserve_for(program)
            return lambda node: is_volume_convolution(node) or preserve(node)

        passes = self.passes.of_stage("edge")
        names = [named.name for named in passes]
        start = names.index("decompose") if "decompose" in names else 0
        context.preserve_for = preserve_volumes_for
        program = self.apply(method, program, passes[:start], context, edge=False)
        program = self.apply(method, program, passes[start:], context)
        if _has_volumes(program):
            context.preserve_for = preserve_for
            program = self.apply(method, program, passes, context)
        place_lowered_modules(program)
        add_debug_handles(program)
        return program

    def _preserve_for(self, whole: WholeOperators, program: ExportedProgram) -> Preserve:
        preserve = whole.preserve_for(program)
        return lambda node: self.is_preserved(node) or preserve(node)

    def to_edge_for_backends(
        self,
        method: str,
        program: ExportedProgram,
        context: PassContext,
        whole: WholeOperators,
        transform_passes: Sequence[Pass | NamedPass],
    ) -> ExportedProgram:
        """Run the stage `edge`, then the user's passes; once more if that decomposed calls that must stay whole."""
        for copy in (copy_program(program), program):
            lowered = self.to_edge(method, copy, context, partial(self._preserve_for, whole))
            lowered = self.apply(method, lowered, transform_passes, context)
            if not whole.keep_untaken(lowered):
                break
        return lowered

    def decompose_undelegated(
        self, method: str, program: ExportedProgram, diagnostics: PartitionDiagnostics
    ) -> ExportedProgram:
        """Decompose operators that were preserved for a partitioner, but not delegated.

        The operators of the decomposition inherit the reasons why the partitioners did not tag the preserved operator.
        """
        for node in all_calls(program.graph_module):
            node.meta["unsupported_reasons"] = [
                (backend, f"part of {operator_name(node.target)}: {reason}")
                for backend, reason in diagnostics.by_node.get(node.name, ())
            ]
        stage: Stage = "edge" if _has_volumes(program) else "undelegated"
        context = self.context(self.rewrites)
        context.preserve_for = lambda program: self.is_preserved
        program = self.apply(method, program, self.passes.of_stage(stage), context)
        for node in all_calls(program.graph_module):
            inherited = node.meta.pop("unsupported_reasons", [])
            if inherited:
                diagnostics.by_node.setdefault(node.name, inherited)
        return program


def _has_volumes(program: ExportedProgram) -> bool:
    return any(map(is_volume_convolution, all_calls(program.graph_module)))


def add_debug_handles(program: ExportedProgram) -> None:
    """Give a debug handle, a number, to each call node without one.

    Delegate blobs, `.pte` files and traces refer to nodes by these handles.
    """
    nodes = all_calls(program.graph_module)
    existing = [node.meta.get("debug_handle", []) for node in nodes]
    handle = max(
        (one for handles in existing for one in (handles if isinstance(handles, list) else [handles])), default=0
    )
    for node in nodes:
        if "debug_handle" not in node.meta:
            handle += 1
            node.meta["debug_handle"] = handle
