"""`LoweredProgram`: the edge programs of all methods."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from torch.export import ExportedProgram
from typing_extensions import Self

from edgecore.emit import emit, external_rule
from edgecore.errors import CompileError
from edgecore.ir.dialect.verifier import verify
from edgecore.ir.failures import failures_named
from edgecore.ir.program.completion import complete_program
from edgecore.ir.program.copying import copy_program
from edgecore.ir.torch_compat import OpOverload
from edgecore.memory import MemoryPlan
from edgecore.memory.shared_state import share_state
from edgecore.partition import PartitionDiagnostics, Partitioner, held_buffers, to_backend
from edgecore.passes.manager import PassManager
from edgecore.passes.pass_list import NamedPass, Pass, PassContext, PassList
from edgecore.passes.pipeline import EDGE_PASSES
from edgecore.pipeline.finished_program import FinishedProgram, KeptPrograms
from edgecore.pipeline.lowering.check_kernels import check_kernels
from edgecore.pipeline.lowering.methods import check_methods
from edgecore.pipeline.lowering.options import FinishOptions
from edgecore.pipeline.preprocess import link, preprocess
from edgecore.pipeline.report.delegation import DelegationReport
from edgecore.pipeline.report.memory import arena_reports

Observer = Callable[[str], Callable[[str, ExportedProgram], None] | None]
"""A function that takes the name of a method and returns a callback, or None.

The callback is called after each pass, with the name of the pass and the program.
"""


class LoweredProgram:
    """The edge programs of all methods, with delegate calls; the result of `lower` and `lower_to_edge`.

    `transform` and `to_backend` return a new object and do not change this one.

    Attributes:
        programs: The edge program of each method.
        constant_methods: Methods that only return a constant.
        kept: The programs before delegation; None unless `LowerOptions.keep_programs` is set.
    """

    def __init__(
        self,
        programs: Mapping[str, ExportedProgram],
        *,
        constant_methods: Mapping[str, object] | None = None,
        diagnostics: Mapping[str, PartitionDiagnostics] | None = None,
        passes: PassList = EDGE_PASSES,
        observer: Observer = lambda method: None,
        allowed: Collection[OpOverload] = (),
        kept: KeptPrograms | None = None,
    ) -> None:
        self.programs = dict(programs)
        self.constant_methods = dict(constant_methods or {})
        if twice := sorted(self.programs.keys() & self.constant_methods):
            raise CompileError(f"the constant method {twice[0]!r} has the name of a method of the model; rename it")
        self.kept = kept
        self._diagnostics = dict(diagnostics or {})
        self._passes = passes
        self._observer = observer
        self._allowed = allowed

    def transform(self, passes: Sequence[Pass | NamedPass] | Mapping[str, Sequence[Pass | NamedPass]]) -> Self:
        """Apply passes to a copy of every method, and verify the results.

        The copies share their weights with this object.

        Args:
            passes: Functions that take and return a program, or `PassBase` objects, in the order in which they run; or
                a mapping from names of methods to such passes.

        Returns:
            A new object; this one does not change.

        Raises:
            CompileError: A pass failed, or its result is not in the edge dialect; the message names the pass.

        Example:
            >>> edge = edge.transform([edgecore.passes.narrow_integers])
        """
        check_methods(passes, self.programs, "transform")
        changed = self.copy()
        changed._complete()
        for name, program in changed.programs.items():
            of_method = passes.get(name, ()) if isinstance(passes, Mapping) else passes
            changed.programs[name] = self._pass_manager(name, of_method)(program)
            verify(changed.programs[name], self._allowed)
        return changed

    def _pass_manager(self, method: str, passes: Sequence[Pass | NamedPass]) -> PassManager:
        """Make the manager for passes over a method. Its verifier also allows the user's own operators."""
        check = partial(verify, preserved=self._allowed)
        return PassManager(passes, check_program=check, after_pass=self._observer(method))

    def to_backend(self, partitioner: Partitioner | Mapping[str, Partitioner]) -> Self:
        """Delegate the operators that a partitioner tags, in a copy of every method.

        The copies share their weights with this object. Operators that the partitioner asks not to decompose
        (`ops_to_not_decompose`) are already decomposed here; use `to_edge_transform_and_lower` to preserve them.

        Args:
            partitioner: A partitioner for all methods, or a mapping from names of methods to partitioners; methods that
                the mapping lacks are not delegated.

        Returns:
            A new object; this one does not change.

        Raises:
            CompileError: The partitioner changed the program, or made a partition that is not convex.
            BackendError: The package of the backend is not installed or is broken.

        Warns:
            FallbackWarning: The partitioner or the backend failed; edgecore's kernels run these operators.

        Example:
            >>> edge = edgecore.to_edge(exported).to_backend(XnnpackPartitioner())
        """
        check_methods(partitioner, self.programs, "to_backend")
        changed = self.copy()
        changed._complete()
        chosen = partitioner if isinstance(partitioner, Mapping) else dict.fromkeys(changed.programs, partitioner)
        partitioners = {name: chosen[name] for name in changed.programs if name in chosen}
        for name in partitioners:
            changed._diagnostics.setdefault(name, PartitionDiagnostics())
        changed.programs = to_backend(changed.programs, partitioners, preprocess, changed._diagnostics, link=link)
        return changed

    def _complete(self) -> None:
        """Compute the `val`s of nodes that lack them, because the user may have edited the graphs."""
        for name, program in self.programs.items():
            complete_program(program, f"method {name}")

    def copy(self) -> Self:
        """Return a copy that shares the weights with this object."""
        made = copy.copy(self)
        made.programs = {name: copy_program(program) for name, program in self.programs.items()}
        made._diagnostics = {name: copy.deepcopy(diagnostics) for name, diagnostics in self._diagnostics.items()}
        return made

    def report(self) -> DelegationReport:
        """Return the delegation report: the backend that runs each operator, and why others are not delegated.

        Example:
            >>> print(edge.report())
        """
        return DelegationReport.of(self.programs, self._diagnostics)

    def finish(self, options: FinishOptions | None = None) -> FinishedProgram:
        """Run the last passes, plan the memory and make the file.

        This changes the programs of this object, so call it only once, as the last method.

        Args:
            options: The settings; by default `FinishOptions()`.

        Returns:
            The finished program, in memory.

        Raises:
            CompileError: An operator that is not delegated has no kernel in the target runtime, a pass failed, or the
                memory cannot be planned.
        """
        options = options or FinishOptions()
        self._complete()
        check_methods(options.planning, self.programs, "memory_planning_pass")
        planned = self._planned(options)
        rule = external_rule(options.external_constants)
        with failures_named("writing the program"):
            shared = _shared_buffers(planned, options)
            check_kernels({name: program for name, (program, _) in planned.items()}, options.runtime)
            pte, data = emit(
                planned,
                runtime=options.runtime,
                constant_methods=self.constant_methods,
                rule=rule,
                shared_state=shared,
                alignments=options.alignments,
            )
        rule.check()
        report = replace(self.report(), memory=arena_reports(planned))
        programs = {name: program for name, (program, _) in planned.items()}
        return FinishedProgram(pte, data, report, programs, set(self.constant_methods), self.kept)

    def _planned(self, options: FinishOptions) -> dict[str, tuple[ExportedProgram, MemoryPlan]]:
        planned: dict[str, tuple[ExportedProgram, MemoryPlan]] = {}
        memory_passes = [named.bind(PassContext()) for named in self._passes.of_stage("memory")]
        for name, program in self.programs.items():
            final = self._pass_manager(name, [*options.passes, *memory_passes])(program)
            with failures_named(f"memory planning of method {name}"):
                planned[name] = (final, options.planning_of(name).plan(final))
        return planned


def _shared_buffers(planned: Mapping[str, tuple[ExportedProgram, MemoryPlan]], options: FinishOptions) -> list[str]:
    """Place each mutable buffer that methods share at the same position in all memory plans; return their names."""
    sharing = {name: plan for name, plan in planned.items() if options.planning_of(name).share_mutable_buffers}
    if not sharing:
        return []
    held = (name for program, _ in sharing.values() for name in held_buffers(program))
    alignment = max(options.planning_of(name).alignment for name in sharing)
    return sorted({*share_state(sharing, alignment), *held})
