"""`ExecutorchProgramManager`, the finished program in memory."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from torch.export import ExportedProgram

from edgecore import format as fmt
from edgecore.emit.external import DEFAULT_FILE
from edgecore.errors import CompileError
from edgecore.ir.delegate import delegates
from edgecore.pipeline.etrecord import ETRecord, Maps, instruction_maps
from edgecore.pipeline.program_text import program_text
from edgecore.pipeline.report import DelegationReport
from edgecore.pipeline.save import write_files

DebugHandleMap = dict[str, dict[int, "int | list[int]"]]
DelegateMap = dict[str, dict[int, dict[str, Any]]]


class ExecutorchProgramManager:
    """A finished program in memory.

    Attributes:
        pte: The `.pte` file.
        data: The `.ptd` files with weights of the program, by file name without `.ptd`.
        programs: The final program of each method, from which the file was made.
        config_methods: Names of the constant methods, which only return a value.
    """

    def __init__(
        self,
        pte: fmt.PteFile,
        data: dict[str, fmt.PtdFile],
        report: DelegationReport,
        programs: dict[str, ExportedProgram],
        config_methods: set[str],
    ) -> None:
        self._etrecord: ETRecord | None = None
        self.pte = pte
        self.data = data
        self.programs = programs
        self.config_methods = config_methods
        self._report = report

    def __repr__(self) -> str:
        """Describe the methods, their delegates and operators, and the bytes of weights and blobs in all files."""
        methods = []
        for plan in self.pte.program.execution_plan:
            delegates = Counter(delegate.id for delegate in plan.delegates)
            parts = [f"{count} x {backend}" for backend, count in delegates.items()]
            calls = sum(
                isinstance(step.instr_args, fmt.KernelCall) for chain in plan.chains for step in chain.instructions
            )
            parts += [f"{calls} x kernel"] if calls else []
            methods.append(f"{plan.name}: {', '.join(parts) or 'nothing to compute'}")
        named = {id(blob.data): blob.data for key, blob in self.pte.named_data.items() if key != fmt.META_KEY}
        external = (entry.data for file in self.data.values() for entry in file.entries.values())
        data = [*self.pte.constants, *self.pte.mutable, *self.pte.delegate_blobs, *named.values(), *external]
        # A file stores once what a kernel and a delegate both have, such as the weight of an embedding and an output layer.
        lengths = Counter(memoryview(part).nbytes for part in data)
        contents = {
            (length, sha256(part).digest() if lengths[length] > 1 else b"")
            for part in data
            if (length := memoryview(part).nbytes)
        }
        size = sum(length for length, _ in contents)
        return f"<edgecore.{type(self).__name__} {'; '.join(methods)}; {size:,} bytes of weights and blobs>"

    @property
    def methods(self) -> set[str]:
        """Names of the methods."""
        return set(self.programs)

    def exported_program(self, method_name: str = "forward") -> ExportedProgram:
        """Return the final program of a method, not a copy.

        It is in the edge dialect: the file calls the out variants of its operators. `node.meta["spec"]` has the place
        of each tensor in the memory plan.

        Args:
            method_name: The name of the method.

        Raises:
            KeyError: There is no method of that name.
        """
        return self.programs[method_name]

    @property
    def executorch_program(self) -> fmt.Program:
        """The tables of the program, as the schema names them, before weights and blobs move to segments of the file."""
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
        """Method name -> index of an instruction -> debug handle of the node that it computes, or a list of these."""
        return _by_index(self._maps()[0])

    @property
    def delegate_map(self) -> DelegateMap:
        """Method name -> index of the call of a delegate -> its backend id and the debug handles of its operations."""
        return _by_index(self._maps()[1])

    @property
    def instruction_id_to_num_outs_map(self) -> dict[str, dict[int, int]]:
        """Method name -> index of the call of a delegate -> its number of outputs."""
        return _by_index(self._maps()[2])

    @property
    def delegate_outputs(self) -> dict[str, list[int]]:
        """Method name -> number of outputs of each call of a delegate."""
        return {
            name: [len(node.meta["val"]) for node, _ in delegates(program)] for name, program in self.programs.items()
        }

    def _maps(self) -> Maps:
        return instruction_maps(self.pte, self.delegate_outputs)

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
        return present_record(self._etrecord)

    def report(self) -> DelegationReport:
        """Return the delegation report: the backend that runs each operator, and why others are not delegated.

        Example:
            >>> print(program.report())
        """
        return self._report


def _by_index(maps: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[int, Any]]:
    return {method: {int(index): value for index, value in one.items()} for method, one in maps.items()}


def present_record(record: ETRecord | None) -> ETRecord:
    """Return `record`, or raise a `CompileError` if there is none."""
    if record is None:
        raise CompileError(
            "there is no ETRecord; pass generate_etrecord=True to compile, to_edge or to_edge_transform_and_lower"
        )
    return record
