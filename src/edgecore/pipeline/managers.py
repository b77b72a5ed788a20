"""The two stages that users hold in their hands: an edge program, and the file made of it."""

from __future__ import annotations

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
from edgecore.ir.verifier import verify
from edgecore.memory import MemoryPlan, MemoryPlanningPass
from edgecore.memory.shared_state import share_state
from edgecore.partition import Partitioner, Refusals, to_backend
from edgecore.passes.manager import Pass, PassManager
from edgecore.passes.packed_weights import pack_weights
from edgecore.passes.separate_outputs import separate_outputs
from edgecore.pipeline.kernels import check_kernels
from edgecore.pipeline.preprocess import preprocess
from edgecore.pipeline.report import DelegationReport
from edgecore.pipeline.report_memory import arena_reports
from edgecore.pipeline.save import write_files


@dataclass(frozen=True)
class ExecutorchBackendConfig:
    """How `to_executorch` writes the file.

    `runtime` is the profile; `passes` run before memory planning. `external_constants` moves weights to `.ptd` files:
    True all of them to one, a name all to the file of that name, a mapping of patterns of qualified names each to the
    file of the first that matches (`{"*lora*": "adapter", "*": "base"}`), a function of the placeholder node to the file
    that it names, or None.
    """

    memory_planning_pass: MemoryPlanningPass = field(default_factory=MemoryPlanningPass)
    passes: Sequence[Pass] = ()
    runtime: str = fmt.EXECUTORCH_1_5
    external_constants: ExternalConstants = False


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
            transformed = PassManager(config.passes)(program)
            with failures_named(f"memory planning of method {name}"):
                final = separate_outputs(pack_weights(transformed))
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
    """A finished program, still in memory: the `.pte`, and in `data` the `.ptd` files beside it by name."""

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
        """The `.pte` as bytes, without the `.ptd` files."""
        return fmt.write_pte(self.pte)

    @property
    def data_buffers(self) -> list[bytes]:
        """The `.ptd` files as bytes."""
        return [fmt.write_ptd(data) for data in self.data.values()]

    def write_to_file(self, file: BinaryIO) -> None:
        """Write the `.pte` to an open binary file without joining its segments in memory."""
        fmt.write_pte_to(self.pte, file)

    def write_tensor_data_to_file(self, outdir: str | Path) -> None:
        """Write the `.ptd` files to a folder. Raises `WriteError`; then every file is as it was."""
        write_files(self._data_writers({name: Path(outdir) / f"{name}.ptd" for name in self.data}))

    def save(self, path: str | Path) -> list[Path]:
        """Write the `.pte` and, beside it, its `.ptd` files; the one without a name is called after the `.pte`.

        Returns what was written, the `.pte` first. Raises `WriteError`; then every file is as it was.
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
        """Which operators run where, and why; printable."""
        return self._report
