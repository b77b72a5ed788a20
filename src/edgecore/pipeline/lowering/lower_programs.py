"""Lower exported programs to edge programs, and delegate parts of them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.dialect.dense_tensors import check_dense
from edgecore.ir.dialect.func_transforms import check_transforms
from edgecore.ir.dialect.verifier import verify
from edgecore.ir.graph import all_calls, operator_name
from edgecore.ir.program.completion import complete_program
from edgecore.ir.program.copying import copy_program
from edgecore.ir.program.outputs import written_buffers
from edgecore.ir.torch_compat import OpOverload
from edgecore.partition import PartitionDiagnostics, Partitioner, to_backend
from edgecore.passes.decompose import (
    REWRITES,
    Preserve,
    Rewrite,
    before_backends,
    is_volume_convolution,
)
from edgecore.passes.manager import PassManager, check_structure
from edgecore.passes.pass_list import NamedPass, Pass, PassContext, Stage
from edgecore.pipeline.finished_program import KeptPrograms
from edgecore.pipeline.lowering.lowered_program import LoweredProgram
from edgecore.pipeline.lowering.methods import (
    PartitionerSpec,
    Programs,
    check_methods,
    partitioners_by_method,
    programs_by_method,
)
from edgecore.pipeline.lowering.options import LowerOptions
from edgecore.pipeline.lowering.whole_operators import WholeOperators
from edgecore.pipeline.lowering.whole_program import place_lowered_modules
from edgecore.pipeline.preprocess import link, preprocess
from edgecore.progress import task


def lower_to_edge(programs: Programs, options: LowerOptions | None = None) -> LoweredProgram:
    """Lower exported programs to the edge dialect, without a backend.

    Args:
        programs: A program, which becomes the method `forward`, or a mapping from names of methods to programs. The
            programs are copied, not changed.
        options: The settings; the settings of partitioners are ignored.

    Raises:
        CompileError: A pass failed, or an operator has no decomposition into the edge dialect, or a dtype or layout is
            not in the dialect.
    """
    lowering = _Lowering(options or LowerOptions())
    edge = {}
    for name, program in lowering.exported(programs).items():
        edge[name] = lowering.to_edge(name, program, lowering.context(REWRITES), lambda program: lowering.is_preserved)
        verify(edge[name], lowering.options.allowed)
    return lowering.lowered(edge, {}, lowering.keep(programs, edge))


@contextmanager
def _garbage_of_this_call() -> Iterator[None]:
    """Restrict the garbage collector to objects that the `with` block creates; earlier models stay alive anyway.

    Without this, Python's full collections take a third of the time of lowering.
    """
    if gc.get_freeze_count():  # an enclosing call or the application has frozen objects, which must stay frozen
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def lower(
    programs: Programs, partitioner: PartitionerSpec = None, options: LowerOptions | None = None
) -> LoweredProgram:
    """Lower exported programs to the edge dialect, and delegate the operators that the partitioners tag.

    The partitioners run one after another, each over all methods. An operator that a partitioner asks not to decompose
    (`ops_to_not_decompose`) is still decomposed in two cases: earlier partitioners tag all its parts, or no partitioner
    tags the operator. If a backend fails to compile a partition, later partitioners may tag its operators. A mutable
    buffer that a partitioner claims becomes the backend's state if only partitions of this backend use it, in all
    methods; for other buffers, the report gives the reason.

    Args:
        programs: A program, which becomes the method `forward`, or a mapping from names of methods to programs. The
            programs are copied, not changed.
        partitioner: Partitioners in order of priority, or a mapping from names of methods to such lists.
        options: The settings.

    Raises:
        CompileError: A pass failed; an operator that is not delegated has no decomposition into the edge dialect; a
            partitioner changed the program or made a partition that is not convex; or a required partitioner failed.
        BackendError: The package of a backend is not installed or is broken.

    Warns:
        FallbackWarning: A partitioner or a backend failed; other backends or edgecore's kernels run these operators.
    """
    with _garbage_of_this_call():
        lowering = _Lowering(options or LowerOptions())
        exported = lowering.exported(programs)
        chosen = partitioners_by_method(partitioner, exported)
        edge, diagnostics = lowering.to_edge_for_partitioners(exported, chosen)
        kept = lowering.keep(programs, edge)
        edge = lowering.delegate(edge, chosen, diagnostics)
        for name, program in edge.items():
            edge[name] = lowering.decompose_undelegated(name, program, diagnostics[name])
            add_debug_handles(edge[name])
            verify(edge[name], lowering.options.allowed)
        return lowering.lowered(edge, diagnostics, kept)


class _Lowering:
    """Runs the passes of each stage, for one call of `lower` or `lower_to_edge`."""

    def __init__(self, options: LowerOptions) -> None:
        self.options = options
        self.is_single = True  # `exported` sets this to False if there are several methods

    def context(self, rewrites: Mapping[OpOverload, Rewrite]) -> PassContext:
        """Return a context for the passes over one method; it also allows the operators in `options.allowed`."""
        return PassContext(preserved=set(self.options.allowed), rewrites=rewrites)

    def is_preserved(self, node: Node) -> bool:
        """Return True if the user asked not to decompose the operator of a node."""
        return node.target in self.options.preserved

    def lowered(
        self,
        edge: Mapping[str, ExportedProgram],
        diagnostics: Mapping[str, PartitionDiagnostics],
        kept: KeptPrograms | None,
    ) -> LoweredProgram:
        """Make the result of `lower` or `lower_to_edge` from the edge programs and the diagnostics of partitioners."""
        return LoweredProgram(
            edge,
            constant_methods=self.options.constant_methods,
            diagnostics=diagnostics,
            passes=self.options.passes,
            observer=self.observer,
            allowed=self.options.allowed,
            kept=kept,
        )

    def keep(self, programs: Programs, edge: Mapping[str, ExportedProgram]) -> KeptPrograms | None:
        """Return the programs that the result keeps; None if the options do not ask for them."""
        if not self.options.keep_programs:
            return None
        copies = {name: copy_program(program) for name, program in edge.items()}
        return KeptPrograms(programs_by_method(programs), copies)

    def observer(self, method: str) -> Callable[[str, ExportedProgram], None] | None:
        """Return the function that `PassManager` calls after each pass over a method; None if graphs are not dumped."""
        return self.options.dump.observer(method, self.is_single) if self.options.dump is not None else None

    def dump_step(self, method: str, step: str, program: ExportedProgram) -> None:
        """If there is a dump folder, write the graph to it after a step that is not a pass, such as partitioning."""
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

        With `edge` the program must be in the edge dialect, apart from preserved operators. Otherwise only the
        structure of the graph is checked.
        """
        bound = [item.bind(context) if isinstance(item, NamedPass) else item for item in passes]
        check = partial(verify, preserved=context.preserved) if edge else check_structure
        return PassManager(bound, check_program=check, after_pass=self.observer(method))(program)

    def exported(self, programs: Programs) -> dict[str, ExportedProgram]:
        """Copy the programs, and run the passes of the stages `exported` and `methods` on the copies."""
        by_name = programs_by_method(programs)
        self.is_single = len(by_name) == 1
        methods = {}
        for name, program in by_name.items():
            check_dense(program)
            check_transforms(program)
            self.dump_step(name, "exported", program)
            passes = self.options.passes.of_stage("exported")
            copied = copy_program(program)
            complete_program(copied, f"method {name}")  # compute missing `val`s: the user may have edited the graph
            methods[name] = self.apply(name, copied, passes, PassContext(), edge=False)
        written = {name for program in methods.values() for name in written_buffers(program)}
        context = PassContext(written_buffers=frozenset(written))
        passes = self.options.passes.of_stage("methods")
        return {name: self.apply(name, program, passes, context, edge=False) for name, program in methods.items()}

    def to_edge(
        self,
        method: str,
        program: ExportedProgram,
        context: PassContext,
        preserve_for: Callable[[ExportedProgram], Preserve],
    ) -> ExportedProgram:
        """Run the passes of the stage `edge`, once or twice.

        The first run preserves 3-d convolutions, so that batch norms are fused into them. If there are 3-d
        convolutions, a second run decomposes those that no partitioner asks to preserve.
        """

        def preserve_volumes_for(program: ExportedProgram) -> Preserve:
            preserve = preserve_for(program)
            return lambda node: is_volume_convolution(node) or preserve(node)

        passes = self.options.passes.of_stage("edge")
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

    def to_edge_for_partitioners(
        self, exported: Mapping[str, ExportedProgram], chosen: Mapping[str, Sequence[Partitioner]]
    ) -> tuple[dict[str, ExportedProgram], dict[str, PartitionDiagnostics]]:
        """Run the stage `edge` and the user's passes; keep operators that a partitioner asks not to decompose."""
        options = self.options
        check_methods(options.transform_passes, exported, "transform_passes")
        edge, diagnostics = {}, {}
        for name, program in exported.items():
            # Rewrites for edgecore's kernels wait until after delegation: they would replace operators whose parts a
            # backend may support.
            context = self.context(before_backends(options.rewrites) if chosen[name] else options.rewrites)
            diagnostics[name] = PartitionDiagnostics()
            whole = WholeOperators(chosen[name], context.preserved, diagnostics[name], options.required)
            passes = options.transform_passes
            own_passes = passes.get(name, ()) if isinstance(passes, Mapping) else passes
            edge[name] = self.to_edge_for_backends(name, program, context, whole, own_passes)
        return edge, diagnostics

    def delegate(
        self,
        edge: dict[str, ExportedProgram],
        chosen: Mapping[str, Sequence[Partitioner]],
        diagnostics: dict[str, PartitionDiagnostics],
    ) -> dict[str, ExportedProgram]:
        """Let the partitioners delegate nodes to their backends, one after another by priority, each in all methods."""
        for priority in range(max(map(len, chosen.values()), default=0)):
            partitioners = {
                name: of_method[priority] for name, of_method in chosen.items() if priority < len(of_method)
            }
            names = dict.fromkeys(type(partitioner).__name__ for partitioner in partitioners.values())
            with task(f"delegating by {', '.join(names)}"):
                edge = to_backend(
                    edge,
                    partitioners,
                    preprocess,
                    diagnostics,
                    required=self.options.required,
                    skip_mutable_buffer=self.options.skip_mutable_buffer,
                    link=link,
                )
            for name, partitioner in partitioners.items():
                self.dump_step(name, f"partition_{type(partitioner).__name__}", edge[name])
        return edge

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
        """Run the stage `edge` and the user's passes; if a backend asks for fewer decompositions, run both again."""
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

        The new operators inherit the reasons why the partitioners did not tag the preserved operator.
        """
        for node in all_calls(program.graph_module):
            node.meta["unsupported_reasons"] = [
                (backend, f"part of {operator_name(node.target)}: {reason}")
                for backend, reason in diagnostics.by_node.get(node.name, ())
            ]
        stage: Stage = "edge" if _has_volumes(program) else "undelegated"
        context = self.context(self.options.rewrites)
        context.preserve_for = lambda program: self.is_preserved
        program = self.apply(method, program, self.options.passes.of_stage(stage), context)
        for node in all_calls(program.graph_module):
            inherited = node.meta.pop("unsupported_reasons", [])
            if inherited:
                diagnostics.by_node.setdefault(node.name, inherited)
        return program


def _has_volumes(program: ExportedProgram) -> bool:
    return any(map(is_volume_convolution, all_calls(program.graph_module)))


def add_debug_handles(program: ExportedProgram) -> None:
    """Give a debug handle (a number) to each call node that has none.

    Delegate blobs, `.pte` files and traces refer to nodes by these handles.
    """
    nodes = all_calls(program.graph_module)
    existing = [node.meta.get("debug_handle", []) for node in nodes]
    handle = max(
        (number for handles in existing for number in (handles if isinstance(handles, list) else [handles])), default=0
    )
    for node in nodes:
        if "debug_handle" not in node.meta:
            handle += 1
            node.meta["debug_handle"] = handle
