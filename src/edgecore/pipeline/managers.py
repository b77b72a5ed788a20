"""The two stages that users hold in their hands: an edge program, and the file made of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from torch.export import ExportedProgram

from edgecore import format as fmt
from edgecore.emit import ExternalConstants, emit, external_rule
from edgecore.emit.external import DEFAULT_FILE
from edgecore.ir.failures import failures_named
from edgecore.ir.program import copy_program
from edgecore.ir.verifier import verify
from edgecore.memory import MemoryPlan, MemoryPlanningPass
from edgecore.memory.shared_state import share_state
from edgecore.partition import PartitionDiagnostics, Partitioner, to_backend
from edgecore.passes.manager import PassManager
from edgecore.passes.pass_list import NamedPass, Pass, PassContext, PassList
from edgecore.passes.pipeline import EDGE_PASSES
from edgecore.pipeline.check_kernels import check_kernels
from edgecore.pipeline.preprocess import preprocess
from edgecore.pipeline.report import DelegationReport
from edgecore.pipeline.report_memory import arena_reports
from edgecore.pipeline.save import write_files


@dataclass(frozen=True)
class ExecutorchBackendConfig:
    """How `to_executorch` writes the file.

    `runtime` is the target runtime, `executorch-1.5` or `edgecore`; `passes` run before those of the stage `memory`. `external_constants` moves weights to `.ptd` files:
    True all of them to one, a name all to the file of that name, a mapping of patterns of qualified names each to the
    file of the first that matches (`{"*lora*": "adapter", "*": "base"}`), a function of the placeholder node to the file
    that it names, or None.
    """

    memory_planning_pass: MemoryPlanningPass = field(default_factory=MemoryPlanningPass)
    passes: Sequence[Pass | NamedPass] = ()
    runtime: str = fmt.EXECUTORCH_1_5
    external_constants: ExternalConstants = False


Observer = Callable[[str], Callable[[str, ExportedProgram], None] | None]
"""Gives, for a method, the function that is called with the name of each pass and the program after it; None for no calls."""


class EdgeProgramManager:
    """Edge programs by method name, as `to_edge` and `to_edge_transform_and_lower` return them.

    `transform` and `to_backend` return a new manager, as in ExecuTorch; this one stays as it is.
    """

    def __init__(
        self,
        programs: Mapping[str, ExportedProgram],
        *,
        constant_methods: Mapping[str, object] | None = None,
        diagnostics: Mapping[str, PartitionDiagnostics] | None = None,
        passes: PassList = EDGE_PASSES,
        observer: Observer = lambda method: None,
    ) -> None:
        self._programs = dict(programs)
        self._constant_methods = dict(constant_methods or {})
        self._diagnostics = dict(diagnostics or {})
        self._passes = passes
        self._observer = observer

    @property
    def methods(self) -> set[str]:
        """Names of the methods."""
        return set(self._programs)

    @property
    def config_methods(self) -> set[str]:
        """Names of the methods that only return a value."""
        return set(self._constant_methods)

    def exported_program(self, method_name: str = "forward") -> ExportedProgram:
        """Return the edge program of a method; it is not a copy.

        Raises:
            KeyError: There is no method of that name.

        Example:
            >>> edge.exported_program().graph_module.print_readable()
        """
        return self._programs[method_name]

    def transform(self, passes: Sequence[Pass | NamedPass]) -> EdgeProgramManager:
        """Apply passes to a copy of every method and verify the results. Weights are shared with this manager.

        Args:
            passes: Functions from program to program, or `PassBase` objects, in the order in which they run.

        Returns:
            A new manager; this one stays as it is.

        Raises:
            CompileError: A pass failed; the message names it.
            VerificationError: A result is not in the edge dialect.

        Example:
            >>> edge = edge.transform([edgecore.passes.narrow_integers])
        """
        changed = self._copy()
        for name, program in changed._programs.items():
            changed._programs[name] = PassManager(passes, after_pass=self._observer(name))(program)
            verify(changed._programs[name])
        return changed

    def to_backend(self, partitioner: Partitioner | Mapping[str, Partitioner]) -> EdgeProgramManager:
        """Delegate what a partitioner tags, in a copy of every method. Weights are shared with this manager.

        Operators that the partitioner would rather get undecomposed are decomposed already: pass partitioners to
        `to_edge_transform_and_lower` where that matters.

        Args:
            partitioner: One for all methods, or a mapping from names of methods; other methods stay as they are.

        Returns:
            A new manager; this one stays as it is.

        Raises:
            CompileError: The partitioner changed the program, or made a partition that is not convex.
            BackendError: The package of the backend is not installed or is broken.

        Warns:
            FallbackWarning: The partitioner or the backend failed; these operators stay outside.

        Example:
            >>> edge = edgecore.to_edge(exported).to_backend(XnnpackPartitioner())
        """
        changed = self._copy()
        for name, program in changed._programs.items():
            chosen = partitioner.get(name) if isinstance(partitioner, Mapping) else partitioner
            if chosen is not None:
                diagnostics = changed._diagnostics.setdefault(name, PartitionDiagnostics())
                changed._programs[name] = to_backend(program, chosen, preprocess, diagnostics)
        return changed

    def _copy(self) -> EdgeProgramManager:
        return EdgeProgramManager(
            {name: copy_program(program) for name, program in self._programs.items()},
            constant_methods=self._constant_methods,
            diagnostics={name: copy.deepcopy(one) for name, one in self._diagnostics.items()},
            passes=self._passes,
            observer=self._observer,
        )

    def report(self) -> DelegationReport:
        """Return which operators run on which backend, and why others do not; `print` shows it as a table.

        Example:
            >>> print(edge.report())
        """
        return DelegationReport.of(self._programs, self._diagnostics)

    def to_executorch(self, config: ExecutorchBackendConfig | None = None) -> ExecutorchProgramManager:
        """Run the last passes, plan the memory and make the file.

        The programs of this manager are edited: call it once, after everything else.

        Args:
            config: How to write the file; by default `ExecutorchBackendConfig()`.

        Returns:
            The finished program, still in memory.

        Raises:
            CompileError: An operator outside the delegates has no kernel in the target runtime, a pass failed, or the
                memory cannot be planned.

        Example:
            >>> edge.to_executorch(ExecutorchBackendConfig(runtime="edgecore")).save("model.pte")
        """
        config = config or ExecutorchBackendConfig()
        planned: dict[str, tuple[ExportedProgram, MemoryPlan]] = {}
        last = [one.bind(PassContext()) for one in self._passes.of_stage("memory")]
        for name, program in self._programs.items():
            final = PassManager([*config.passes, *last], after_pass=self._observer(name))(program)
            with failures_named(f"memory planning of method {name}"):
                planned[name] = (final, config.memory_planning_pass.run(final))
        planning = config.memory_planning_pass
        rule = external_rule(config.external_constants)
        with failures_named("writing the program"):
            shared = share_state(planned, planning.alignment) if planning.share_mutable_buffers else []
            check_kernels({name: program for name, (program, _) in planned.items()}, config.runtime)
            pte, data = emit(
                planned, runtime=config.runtime, constant_methods=self._constant_methods, rule=rule, shared_state=shared
            )
        report = replace(self.report(), memory=arena_reports(planned))
        return ExecutorchProgramManager(pte, data, report, self.methods, self.config_methods)


class ExecutorchProgramManager:
    """A finished program, still in memory: `pte`, and in `data` the `.ptd` files beside it by name."""

    def __init__(
        self,
        pte: fmt.PteFile,
        data: dict[str, fmt.PtdFile],
        report: DelegationReport,
        methods: set[str],
        config_methods: set[str],
    ) -> None:
        self.pte = pte
        self.data = data
        self.methods = methods
        self.config_methods = config_methods
        self._report = report

    @property
    def buffer(self) -> bytes:
        """The `.pte` as bytes, without the `.ptd` files; made anew at each access.

        Example:
            >>> edgecore.load(program.buffer).forward(x)
        """
        return fmt.write_pte(self.pte)

    @property
    def data_buffers(self) -> list[bytes]:
        """The `.ptd` files as bytes, in the order of `data`; made anew at each access."""
        return [fmt.write_ptd(data) for data in self.data.values()]

    def write_to_file(self, file: BinaryIO) -> None:
        """Write the `.pte` to an open binary file without joining its segments in memory.

        Args:
            file: A file that is open for writing bytes.

        Raises:
            OSError: The file cannot be written.

        Example:
            >>> with open("model.pte", "wb") as file:
            ...     program.write_to_file(file)
        """
        fmt.write_pte_to(self.pte, file)

    def write_tensor_data_to_file(self, outdir: str | Path) -> None:
        """Write the `.ptd` files to a folder, as `NAME.ptd`.

        Args:
            outdir: An existing folder.

        Raises:
            WriteError: A file cannot be written; then every file is as it was.

        Example:
            >>> program.write_tensor_data_to_file("weights")
        """
        write_files(self._data_writers({name: Path(outdir) / f"{name}.ptd" for name in self.data}))

    def save(self, path: str | Path) -> list[Path]:
        """Write the `.pte` and, beside it, its `.ptd` files; the one without a name is called after the `.pte`.

        Args:
            path: Path of the `.pte`, in an existing folder; a file of that name is replaced.

        Returns:
            The paths of the files that were written, the `.pte` first.

        Raises:
            WriteError: A file cannot be written; then every file is as it was.

        Example:
            >>> program.save("model.pte")
            [PosixPath('model.pte')]
        """
        path = Path(path)
        places = {
            name: path.with_suffix(".ptd") if name == DEFAULT_FILE else path.with_name(f"{name}.ptd")
            for name in self.data
        }
        write_files({**self._data_writers(places), path: self.write_to_file})
        return [path, *places.values()]

    def _data_writers(self, places: Mapping[str, Path]) -> dict[Path, Callable[[BinaryIO], object]]:
        return {place: partial(fmt.write_ptd_to, self.data[name]) for name, place in places.items()}

    def report(self) -> DelegationReport:
        """Return which operators run on which backend, and why others do not; `print` shows it as a table.

        Example:
            >>> print(program.report())
        """
        return self._report
