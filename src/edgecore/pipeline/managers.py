"""`EdgeProgramManager` for the edge programs of all methods, and `ExecutorchProgramManager` for the finished file."""

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
from edgecore.errors import CompileError, FormatError
from edgecore.ir.delegate import is_delegate_call
from edgecore.ir.failures import failures_named
from edgecore.ir.program import copy_program
from edgecore.ir.verifier import verify
from edgecore.memory import MemoryPlan, MemoryPlanningPass
from edgecore.memory.shared_state import share_state
from edgecore.partition import PartitionDiagnostics, Partitioner, held_buffers, to_backend
from edgecore.passes.manager import PassManager
from edgecore.passes.pass_list import NamedPass, Pass, PassContext, PassList
from edgecore.passes.pipeline import EDGE_PASSES
from edgecore.pipeline.check_kernels import check_kernels
from edgecore.pipeline.etrecord import ETRecord
from edgecore.pipeline.preprocess import link, preprocess
from edgecore.pipeline.report import DelegationReport
from edgecore.pipeline.report_memory import arena_reports
from edgecore.pipeline.save import write_files


@dataclass(frozen=True)
class ExecutorchBackendConfig:
    """Settings of `EdgeProgramManager.to_executorch`.

    Attributes:
        memory_planning_pass: The pass that places tensors in arenas.
        passes: Passes that run before those of the stage `memory`.
        runtime: The target runtime: `executorch-1.5` or `edgecore`.
        external_constants: The weights to store in `.ptd` files. True: all of them, in one file. A name: all of them,
            in the file of that name. A mapping from patterns of qualified names to file names, where the first pattern
            that matches counts: `{"*lora*": "adapter", "*": "base"}`. A function that gets the placeholder node of a
            weight and returns a file name, or None to store the weight in the `.pte`.
        segment_alignment: Alignment of each segment in the files, in bytes: a power of two of at least 128. 4096 or more
            lets a runtime map, lock or read by DMA one segment on its own.
        constant_tensor_alignment: Minimum alignment of constant tensors in the files, in bytes: a power of two of at
            least 16. None for 16.
    """

    memory_planning_pass: MemoryPlanningPass = field(default_factory=MemoryPlanningPass)
    passes: Sequence[Pass | NamedPass] = ()
    runtime: str = fmt.EXECUTORCH_1_5
    external_constants: ExternalConstants = False
    segment_alignment: int = fmt.DEFAULT_ALIGNMENTS.segment
    constant_tensor_alignment: int | None = None

    def alignments(self) -> fmt.Alignments:
        """Return the alignments of segments and constants.

        Raises:
            CompileError: A number is no power of two, or too small.
        """
        constant = self.constant_tensor_alignment
        try:
            return fmt.Alignments(
                self.segment_alignment, fmt.DEFAULT_ALIGNMENTS.constant if constant is None else constant
            )
        except FormatError as error:
            raise CompileError(str(error)) from None


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
    ) -> None:
        self._programs = dict(programs)
        self._constant_methods = dict(constant_methods or {})
        self._diagnostics = dict(diagnostics or {})
        self._passes = passes
        self._observer = observer
        self._etrecord = etrecord

    def get_etrecord(self) -> ETRecord:
        """Return the record of the edge programs, without a finished program.

        Raises:
            CompileError: The programs were not lowered with `generate_etrecord=True`.
        """
        return _present(self._etrecord)

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

    def transform(self, passes: Sequence[Pass | NamedPass]) -> EdgeProgramManager:
        """Apply passes to a copy of every method, and verify the results.

        The copies share their weights with this manager.

        Args:
            passes: Functions from program to program, or `PassBase` objects, in the order in which they run.

        Returns:
            A new manager; this one does not change.

        Raises:
            CompileError: A pass failed, or its result is not in the edge dialect; the message names the pass.

        Example:
            >>> edge = edge.transform([edgecore.passes.narrow_integers])
        """
        changed = self._copy()
        for name, program in changed._programs.items():
            changed._programs[name] = PassManager(passes, after_pass=self._observer(name))(program)
            verify(changed._programs[name])
        return changed

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
        changed = self._copy()
        chosen = partitioner if isinstance(partitioner, Mapping) else dict.fromkeys(changed._programs, partitioner)
        partitioners = {name: chosen[name] for name in changed._programs if name in chosen}
        for name in partitioners:
            changed._diagnostics.setdefault(name, PartitionDiagnostics())
        changed._programs = to_backend(changed._programs, partitioners, preprocess, changed._diagnostics, link=link)
        return changed

    def _copy(self) -> EdgeProgramManager:
        return EdgeProgramManager(
            {name: copy_program(program) for name, program in self._programs.items()},
            constant_methods=self._constant_methods,
            diagnostics={name: copy.deepcopy(diagnostics) for name, diagnostics in self._diagnostics.items()},
            passes=self._passes,
            observer=self._observer,
            etrecord=self._etrecord,
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
        alignments = config.alignments()
        planned: dict[str, tuple[ExportedProgram, MemoryPlan]] = {}
        memory_passes = [named.bind(PassContext()) for named in self._passes.of_stage("memory")]
        for name, program in self._programs.items():
            final = PassManager([*config.passes, *memory_passes], after_pass=self._observer(name))(program)
            with failures_named(f"memory planning of method {name}"):
                planned[name] = (final, config.memory_planning_pass.run(final))
        planning = config.memory_planning_pass
        rule = external_rule(config.external_constants)
        with failures_named("writing the program"):
            shared = set[str]()
            if planning.share_mutable_buffers:
                held = (name for program, _ in planned.values() for name in held_buffers(program))
                shared = {*share_state(planned, planning.alignment), *held}
            check_kernels({name: program for name, (program, _) in planned.items()}, config.runtime)
            pte, data = emit(
                planned,
                runtime=config.runtime,
                constant_methods=self._constant_methods,
                rule=rule,
                shared_state=sorted(shared),
                alignments=alignments,
            )
        report = replace(self.report(), memory=arena_reports(planned))
        finished = ExecutorchProgramManager(pte, data, report, self.methods, self.config_methods)
        finished.delegate_outputs = {name: _delegate_outputs(one) for name, (one, _) in planned.items()}
        if self._etrecord is not None:
            finished._etrecord = self._etrecord.copy()
            finished._etrecord.add_executorch_program(finished)
        return finished


def _delegate_outputs(program: ExportedProgram) -> list[int]:
    """Return the number of outputs of each call of a delegate."""
    return [len(node.meta["val"]) for node in program.graph.nodes if is_delegate_call(node)]


def _present(record: ETRecord | None) -> ETRecord:
    if record is None:
        raise CompileError(
            "there is no ETRecord; pass generate_etrecord=True to compile, to_edge or to_edge_transform_and_lower"
        )
    return record


class ExecutorchProgramManager:
    """A finished program in memory.

    Attributes:
        pte: The `.pte` file.
        data: The `.ptd` files with weights of the program, by file name without `.ptd`.
        methods: Names of the methods.
        config_methods: Names of the constant methods, which only return a value.
        delegate_outputs: Number of outputs of each call of a delegate, by method.
    """

    def __init__(
        self,
        pte: fmt.PteFile,
        data: dict[str, fmt.PtdFile],
        report: DelegationReport,
        methods: set[str],
        config_methods: set[str],
    ) -> None:
        self._etrecord: ETRecord | None = None
        self.delegate_outputs: dict[str, list[int]] = {}
        self.pte = pte
        self.data = data
        self.methods = methods
        self.config_methods = config_methods
        self._report = report

    @property
    def buffer(self) -> bytes:
        """The `.pte` as bytes, without the `.ptd` files. Each access builds new bytes.

        Example:
            >>> edgecore.load(program.buffer).forward(x)
        """
        return fmt.write_pte(self.pte)

    @property
    def data_buffers(self) -> list[bytes]:
        """The `.ptd` files as bytes, in the order of `data`. Each access builds new bytes."""
        return [fmt.write_ptd(data) for data in self.data.values()]

    def write_to_file(self, file: BinaryIO) -> None:
        """Write the `.pte` to an open binary file without a copy of its segments in memory.

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
            WriteError: A file cannot be written; then no existing file has changed.

        Example:
            >>> program.write_tensor_data_to_file("weights")
        """
        write_files(self._data_writers({name: Path(outdir) / f"{name}.ptd" for name in self.data}))

    def save(self, path: str | Path) -> list[Path]:
        """Write the `.pte`, and its `.ptd` files into the same folder.

        A `.ptd` file for which no name was chosen gets the name of the `.pte`.

        Args:
            path: The path of the `.pte`, in an existing folder; an existing file is replaced.

        Returns:
            The paths of all files, the `.pte` first.

        Raises:
            WriteError: A file cannot be written; then no existing file has changed.

        Example:
            >>> program.save("model.pte")
            [PosixPath('model.pte')]
        """
        path = Path(path)
        data_paths = {
            name: path.with_suffix(".ptd") if name == DEFAULT_FILE else path.with_name(f"{name}.ptd")
            for name in self.data
        }
        write_files({**self._data_writers(data_paths), path: self.write_to_file})
        return [path, *data_paths.values()]

    def _data_writers(self, paths: Mapping[str, Path]) -> dict[Path, Callable[[BinaryIO], object]]:
        return {path: partial(fmt.write_ptd_to, self.data[name]) for name, path in paths.items()}

    def get_etrecord(self) -> ETRecord:
        """Return the record for ExecuTorch's developer tools.

        Raises:
            CompileError: The programs were not lowered with `generate_etrecord=True`.

        Example:
            >>> program.get_etrecord().save("model.etrecord")
        """
        return _present(self._etrecord)

    def report(self) -> DelegationReport:
        """Return the delegation report: the backend that runs each operator, and why others are not delegated.

        Example:
            >>> print(program.report())
        """
        return self._report
