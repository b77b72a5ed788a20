"""The two stages that users hold in their hands: an edge program, and the file made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from torch.export import ExportedProgram

from edgecore import format as fmt
from edgecore.emit import emit
from edgecore.ir.verifier import verify
from edgecore.memory import MemoryPlan, MemoryPlanningPass
from edgecore.partition import Partitioner, Refusals, to_backend
from edgecore.passes.manager import Pass, PassManager
from edgecore.passes.separate_outputs import separate_outputs
from edgecore.pipeline.kernels import check_kernels
from edgecore.pipeline.preprocess import preprocess
from edgecore.pipeline.report import DelegationReport


@dataclass(frozen=True)
class ExecutorchBackendConfig:
    """How `to_executorch` writes the file.

    `runtime` is the profile; `passes` run before memory planning.
    """

    memory_planning_pass: MemoryPlanningPass = field(default_factory=MemoryPlanningPass)
    passes: Sequence[Pass] = ()
    runtime: str = fmt.EXECUTORCH_1_5


class EdgeProgramManager:
    """Edge programs by method name."""

    def __init__(
        self,
        programs: Mapping[str, ExportedProgram],
        *,
        constant_methods: Mapping[str, object] | None = None,
        refusals: Mapping[str, Refusals] | None = None,
    ) -> None:
        self._programs = dict(programs)
        self._constant_methods = dict(constant_methods or {})
        self._refusals = dict(refusals or {})

    @property
    def methods(self) -> set[str]:
        """Names of the methods."""
        return set(self._programs)

    @property
    def config_methods(self) -> set[str]:
        """Names of the methods that only return a value."""
        return set(self._constant_methods)

    def exported_program(self, method_name: str = "forward") -> ExportedProgram:
        """The edge program of a method."""
        return self._programs[method_name]

    def transform(self, passes: Sequence[Pass]) -> EdgeProgramManager:
        """Apply passes to every method; the result is verified."""
        for name, program in self._programs.items():
            self._programs[name] = PassManager(passes)(program)
            verify(self._programs[name])
        return self

    def to_backend(self, partitioner: Partitioner | Mapping[str, Partitioner]) -> EdgeProgramManager:
        """Delegate what the partitioner takes, in every method or in those that the mapping names."""
        for name, program in self._programs.items():
            chosen = partitioner.get(name) if isinstance(partitioner, Mapping) else partitioner
            if chosen is not None:
                refusals = self._refusals.setdefault(name, Refusals())
                self._programs[name] = to_backend(program, chosen, preprocess, refusals)
        return self

    def report(self) -> DelegationReport:
        """Which operators run where, and why."""
        return DelegationReport.of(self._programs, self._refusals)

    def to_executorch(self, config: ExecutorchBackendConfig | None = None) -> ExecutorchProgramManager:
        """Plan the memory and write the file. Raises `CompileError` if an operator has no kernel."""
        config = config or ExecutorchBackendConfig()
        planned: dict[str, tuple[ExportedProgram, MemoryPlan]] = {}
        for name, program in self._programs.items():
            final = separate_outputs(PassManager(config.passes)(program))
            planned[name] = (final, config.memory_planning_pass.run(final))
        check_kernels({name: program for name, (program, _) in planned.items()}, config.runtime)
        pte = emit(planned, runtime=config.runtime, constant_methods=self._constant_methods)
        return ExecutorchProgramManager(pte, self.report(), self.methods, self.config_methods)


class ExecutorchProgramManager:
    """A finished file, still in memory."""

    def __init__(self, pte: fmt.PteFile, report: DelegationReport, methods: set[str], config_methods: set[str]) -> None:
        self.pte = pte
        self.methods = methods
        self.config_methods = config_methods
        self._report = report

    @property
    def buffer(self) -> bytes:
        """The whole file."""
        return fmt.write_pte(self.pte)

    def write_to_file(self, file: BinaryIO) -> None:
        """Write the file to an open binary file without joining its segments in memory."""
        fmt.write_pte_to(self.pte, file)

    def save(self, path: str | Path) -> None:
        """Write the file; an existing one is replaced only when the new one is complete."""
        path = Path(path)
        partial = path.with_name(path.name + ".partial")
        with partial.open("wb") as file:
            self.write_to_file(file)
        partial.replace(path)

    def report(self) -> DelegationReport:
        """Which operators run where, and why; printable."""
        return self._report
