"""ExecuTorch's `to_edge`, `to_edge_transform_and_lower`, and the managers of programs that they return."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TextIO

from torch.export import ExportedProgram
from typing_extensions import Self

from edgecore import format as fmt
from edgecore.executorch.devtools.etrecord.record import ETRecord, delegate_outputs, instruction_maps, present_record
from edgecore.executorch.exir.config import EdgeCompileConfig, ExecutorchBackendConfig
from edgecore.executorch.exir.program_text import program_text
from edgecore.passes.pass_list import PassList
from edgecore.passes.pipeline import EDGE_PASSES
from edgecore.pipeline.finished_program import FinishedProgram
from edgecore.pipeline.lowering import (
    LoweredProgram,
    LowerOptions,
    PartitionerSpec,
    Programs,
    TransformPasses,
    lower,
    lower_to_edge,
)

DebugHandleMap = dict[str, dict[int, "int | list[int]"]]
DelegateMap = dict[str, dict[int, dict[str, Any]]]


class ExecutorchProgramManager(FinishedProgram):
    """The finished program that `to_executorch` returns, in memory."""

    def __init__(self, finished: FinishedProgram, etrecord: ETRecord | None = None) -> None:
        vars(self).update(vars(finished))
        self._etrecord = etrecord
        if etrecord is not None:
            etrecord.add_executorch_program(self)

    @property
    def executorch_program(self) -> fmt.Program:
        """The tables of the program under the schema's names. Weights and blobs are in the tables, not in segments."""
        return self.pte.inline()

    def dump_executorch_program(self, verbose: bool = False, out: TextIO | None = None) -> None:
        """Print the program: the instructions of each method and the arguments that they read and write.

        Args:
            verbose: Also print all values.
            out: Where to print; by default standard output.
        """
        print(program_text(self.pte.program, verbose), file=out or sys.stdout)

    @property
    def debug_handle_map(self) -> DebugHandleMap:
        """Method name -> index of an instruction -> debug handle, or list of handles, of the nodes that it computes."""
        return _by_index(self._maps()[0])

    @property
    def delegate_map(self) -> DelegateMap:
        """Method name -> instruction index of a delegate call -> backend id, and debug handles of the operations."""
        return _by_index(self._maps()[1])

    @property
    def instruction_id_to_num_outs_map(self) -> dict[str, dict[int, int]]:
        """Method name -> instruction index of a delegate call -> the number of outputs of the call."""
        return _by_index(self._maps()[2])

    @property
    def delegate_outputs(self) -> dict[str, list[int]]:
        """Method name -> number of outputs of each delegate call."""
        return delegate_outputs(self.programs)

    def _maps(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        return instruction_maps(self.pte, self.delegate_outputs)

    def get_etrecord(self) -> ETRecord:
        """Return the record for ExecuTorch's developer tools.

        Raises:
            CompileError: The programs were not lowered with `generate_etrecord=True`.

        Example:
            >>> program.get_etrecord().save("model.etrecord")
        """
        return present_record(self._etrecord)


class EdgeProgramManager(LoweredProgram):
    """The edge programs of all methods, as `to_edge` and `to_edge_transform_and_lower` return them.

    `transform` and `to_backend` return a new manager and do not change this one, as in ExecuTorch.
    """

    _etrecord: ETRecord | None = None

    @classmethod
    def of(cls, lowered: LoweredProgram) -> Self:
        """Return a manager that takes over the programs of `lowered`; do not use `lowered` any more."""
        manager = cls.__new__(cls)
        vars(manager).update(vars(lowered))
        if manager._etrecord is None and lowered.kept is not None:
            manager._etrecord = ETRecord(lowered.kept.exported, lowered.kept.edge)
        return manager

    def get_etrecord(self) -> ETRecord:
        """Return the record of the edge programs, without a finished program.

        Raises:
            CompileError: The programs were not lowered with `generate_etrecord=True`.
        """
        return present_record(self._etrecord)

    @property
    def methods(self) -> set[str]:
        """Names of the methods."""
        return set(self.programs)

    @property
    def config_methods(self) -> set[str]:
        """Names of the constant methods, which only return a value."""
        return set(self.constant_methods)

    def exported_program(self, method_name: str = "forward") -> ExportedProgram:
        """Return the edge program of a method (no copy).

        Args:
            method_name: The name of the method.

        Raises:
            KeyError: There is no method of that name.

        Example:
            >>> edge.exported_program().graph_module.print_readable()
        """
        return self.programs[method_name]

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return a copy that shares the weights and preserves the node names; torch's own copy may change the names."""
        return self.copy()

    def to_executorch(self, config: ExecutorchBackendConfig | None = None) -> ExecutorchProgramManager:
        """Run the last passes, plan the memory and make the file.

        This changes the programs of this manager, so call it only once, as the last method.

        Args:
            config: The settings; by default `ExecutorchBackendConfig()`.

        Returns:
            The finished program, in memory.

        Raises:
            CompileError: An operator that is not delegated has no kernel in the target runtime, a pass failed, the
                memory cannot be planned, or an alignment is not a power of two.

        Example:
            >>> edge.to_executorch(ExecutorchBackendConfig(runtime="edgecore")).save("model.pte")
        """
        finished = self.finish((config or ExecutorchBackendConfig()).finish_options())
        return ExecutorchProgramManager(finished, None if self._etrecord is None else self._etrecord.copy())


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
        generate_etrecord: Keep copies of the programs, which share the weights, for `get_etrecord`.

    Returns:
        A manager of functional programs with dense tensors; inputs and outputs keep their shapes and dtypes.

    Raises:
        CompileError: A pass failed; or an operator is not in the edge dialect and torch has no decomposition for it; or
            a dtype or layout is not in the dialect.

    Example:
        >>> edge = edgecore.to_edge(torch.export.export(model, (torch.randn(1, 3, 224, 224),)))
        >>> edge.to_executorch().save("model.pte")
    """
    config = compile_config or EdgeCompileConfig()
    options = LowerOptions(
        passes=passes,
        constant_methods=constant_methods,
        allowed=config.allowed,
        preserved=config.preserve_ops,
        keep_programs=generate_etrecord,
    )
    return EdgeProgramManager.of(lower_to_edge(programs, options))


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
    (`ops_to_not_decompose`) is still decomposed in two cases: earlier partitioners tag all its parts, or no partitioner
    tags the operator. If a backend fails to compile a partition, the next partitioners may tag its operators. A mutable
    buffer that a partitioner claims becomes the backend's state if only partitions of this backend use it, in all
    methods; for other buffers, the report gives the reason.

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
        generate_etrecord: Keep copies of the programs, which share the weights, for `get_etrecord`.

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
    config = compile_config or EdgeCompileConfig()
    options = LowerOptions(
        passes=passes,
        transform_passes=transform_passes,
        constant_methods=constant_methods,
        allowed=config.allowed,
        preserved=config.preserve_ops,
        keep_programs=generate_etrecord,
    )
    return EdgeProgramManager.of(lower(programs, partitioner, options))


def _by_index(maps: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[int, Any]]:
    return {method: {int(index): value for index, value in by_index.items()} for method, by_index in maps.items()}
