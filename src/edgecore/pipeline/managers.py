"""`EdgeProgramManager`, the edge programs of all methods."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from torch._ops import OpOverload
from torch.export import ExportedProgram

from edgecore.emit import emit, external_rule
from edgecore.errors import CompileError
from edgecore.ir.complete import complete_program
from edgecore.ir.failures import failures_named
from edgecore.ir.program import copy_program
from edgecore.ir.verifier import verify
from edgecore.memory import MemoryPlan
from edgecore.memory.shared_state import share_state
from edgecore.partition import PartitionDiagnostics, Partitioner, held_buffers, to_backend
from edgecore.passes.manager import PassManager
from edgecore.passes.pass_list import NamedPass, Pass, PassContext, PassList
from edgecore.passes.pipeline import EDGE_PASSES
from edgecore.pipeline.check_kernels import check_kernels
from edgecore.pipeline.config import ExecutorchBackendConfig
from edgecore.pipeline.etrecord import ETRecord
from edgecore.pipeline.executorch_program import ExecutorchProgramManager, present_record
from edgecore.pipeline.methods import check_methods
from edgecore.pipeline.preprocess import link, preprocess
from edgecore.pipeline.report import DelegationReport
from edgecore.pipeline.report_memory import arena_reports

Observer = Callable[[str], Callable[[str, ExportedProgram], None] | None]
"""Type of a function that gets the name of a method and returns a callback, or None.

The callback is called after each pass, with the name of the pass and the program.
"""


class EdgeProgramManager:
    """The edge programs of all methods, as `to_edge` and `to_edge_transform_and_lower` return them.

    `transform` and `to_backend` return a new manager and do not change this one, as in executorch.
    """

    def __init__(
        self,
        programs: Mapping[str, ExportedProgram],
        *,
        constant_methods: Mapping[str, object] | None = None,
        diagnostics: Mapping[str, PartitionDiagnostics] | None = None,
        passes: PassList = EDGE_PASSES,
        observer: Observer = lambda method: None,
        etrecord: ETRecord | None = None,
        allowed: Collection[OpOverload] = (),
    ) -> None:
        self._programs = dict(programs)
        self._constant_methods = dict(constant_methods or {})
        if twice := sorted(self._programs.keys() & self._constant_methods):
            raise CompileError(f"the constant method {twice[0]!r} has the name of a method of the model; rename it")
        self._diagnostics = dict(diagnostics or {})
        self._passes = passes
        self._observer = observer
        self._etrecord = etrecord
        self._allowed = allowed

    def get_etrecord(self) -> ETRecord:
        """Return the record of the edge programs, without a finished program.

        Raises:
            CompileError: The programs were not lowered with `generate_etrecord=True`.
        """
        return present_record(self._etrecord)

    @property
    def methods(self) -> set[str]:
        """Names of the methods."""
        return set(self._programs)

    @property
    def config_methods(self) -> set[str]:
        """Names of the constant methods, which only return a value."""
        return set(self._constant_methods)

    def exported_program(self, method_name: str = "forward") -> ExportedProgram:
        """Return the edge program of a method, not a copy.

        Args:
            method_name: The name of the method.

        Raises:
            KeyError: There is no method of that name.

        Example:
            >>> edge.exported_program().graph_module.print_readable()
        """
        return self._programs[method_name]

    def transform(
        self, passes: Sequence[Pass | NamedPass] | Mapping[str, Sequence[Pass | NamedPass]]
    ) -> EdgeProgramManager:
        """Apply passes to a copy of every method, and verify the results.

        The copies share their weights with this manager.

        Args:
            passes: Functions from program to program, or `PassBase` objects, in the order in which they run; or a
                mapping from names of methods to such passes.

        Returns:
            A new manager; this one does not change.

        Raises:
            CompileError: A pass failed, or its result is not in the edge dialect; the message names the pass.

        Example:
            >>> edge = edge.transform([edgecore.passes.narrow_integers])
        """
        check_methods(passes, self._programs, "transform")
        changed = self._copy()
        changed._complete()
        for name, program in changed._programs.items():
            of_method = passes.get(name, ()) if isinstance(passes, Mapping) else passes
            changed._programs[name] = self._pass_manager(name, of_method)(program)
            verify(changed._programs[name], self._allowed)
        return changed

    def _pass_manager(self, method: str, passes: Sequence[Pass | NamedPass]) -> PassManager:
        """Make the manager of passes over a method, which allows the operators that the user chose."""
        check = partial(verify, preserved=self._allowed)
        return PassManager(passes, check_program=check, after_pass=self._observer(method))

    def to_backend(self, partitioner: Partitioner | Mapping[str, Partitioner]) -> EdgeProgramManager:
        """Delegate the operators that a partitioner tags, in a copy of every method.

        The copies share their weights with this manager. Operators that the partitioner asks not to decompose
        (`ops_to_not_decompose`) are already decomposed here; use `to_edge_transform_and_lower` to preserve them.

        Args:
            partitioner: One partitioner for all methods, or a mapping from names of methods to partitioners; methods
                that the mapping lacks are not delegated.

        Returns:
            A new manager; this one does not change.

        Raises:
            CompileError: The partitioner changed the program, or made a partition that is not convex.
            BackendError: The package of the backend is not installed or is broken.

        Warns:
            FallbackWarning: The partitioner or the backend failed; edgecore's kernels run these operators.

        Example:
            >>> edge = edgecore.to_edge(exported).to_backend(XnnpackPartitioner())
        """
        check_methods(partitioner, self._programs, "to_backend")
        changed = self._copy()
        changed._complete()
        chosen = partitioner if isinstance(partitioner, Mapping) else dict.fromkeys(changed._programs, partitioner)
        partitioners = {name: chosen[name] for name in changed._programs if name in chosen}
        for name in partitioners:
            changed._diagnostics.setdefault(name, PartitionDiagnostics())
        changed._programs = to_backend(changed._programs, partitioners, preprocess, changed._diagnostics, link=link)
        return changed

    def _complete(self) -> None:
        """Complete the graphs, which the user may have edited."""
        for name, program in self._programs.items():
            complete_program(program, f"method {name}")

    def __deepcopy__(self, memo: dict[int, object]) -> EdgeProgramManager:
        """Return a copy that shares its weights; torch's copy of a graph may rename nodes."""
        return self._copy()

    def _copy(self) -> EdgeProgramManager:
        return EdgeProgramManager(
            {name: copy_program(program) for name, program in self._programs.items()},
            constant_methods=self._constant_methods,
            diagnostics={name: copy.deepcopy(diagnostics) for name, diagnostics in self._diagnostics.items()},
            passes=self._passes,
            observer=self._observer,
            etrecord=self._etrecord,
            allowed=self._allowed,
        )

    def report(self) -> DelegationReport:
        """Return the delegation report: the backend that runs each operator, and why others are not delegated.

        Example:
            >>> print(edge.report())
        """
        return DelegationReport.of(self._programs, self._diagnostics)

    def to_executorch(self, config: ExecutorchBackendConfig | None = None) -> ExecutorchProgramManager:
        """Run the last passes, plan the memory and make the file.

        This changes the programs of this manager, so call it only once, as the last method.

        Args:
            config: The settings; by default `ExecutorchBackendConfig()`.

        Returns:
            The finished program, in memory.

        Raises:
            CompileError: An operator that is not delegated has no kernel in the target runtime, a pass failed, the
                memory cannot be planned, or an alignment is no power of two.

        Example:
            >>> edge.to_executorch(ExecutorchBackendConfig(runtime="edgecore")).save("model.pte")
        """
        config = config or ExecutorchBackendConfig()
        self._complete()
        alignments = config.alignments()
        check_methods(config.memory_planning_pass, self._programs, "memory_planning_pass")
        planned: dict[str, tuple[ExportedProgram, MemoryPlan]] = {}
        memory_passes = [named.bind(PassContext()) for named in self._passes.of_stage("memory")]
        for name, program in self._programs.items():
            final = self._pass_manager(name, [*config.passes, *memory_passes])(program)
            with failures_named(f"memory planning of method {name}"):
                planned[name] = (final, config.planning_of(name).plan(final))
        rule = external_rule(config.external_constants)
        with failures_named("writing the program"):
            shared = set[str]()
            sharing = {name: one for name, one in planned.items() if config.planning_of(name).share_mutable_buffers}
            if sharing:
                held = (name for program, _ in sharing.values() for name in held_buffers(program))
                alignment = max(config.planning_of(name).alignment for name in sharing)
                shared = {*share_state(sharing, alignment), *held}
            check_kernels({name: program for name, (program, _) in planned.items()}, config.runtime)
            pte, data = emit(
                planned,
                runtime=config.runtime,
                constant_methods=self._constant_methods,
                rule=rule,
                shared_state=sorted(shared),
                alignments=alignments,
            )
        rule.check()
        report = replace(self.report(), memory=arena_reports(planned))
        programs = {name: program for name, (program, _) in planned.items()}
        finished = ExecutorchProgramManager(pte, data, report, programs, self.config_methods)
        if self._etrecord is not None:
            finished._etrecord = self._etrecord.copy()
            finished._etrecord.add_executorch_program(finished)
        return finished
