"""`FinishedProgram`: the files of a program, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from torch.export import ExportedProgram

from edgecore import format as fmt
from edgecore.emit.external import DEFAULT_FILE
from edgecore.files import write_files
from edgecore.pipeline.report.delegation import DelegationReport


@dataclass(frozen=True)
class KeptPrograms:
    """The programs before delegation, for an ETRecord.

    Attributes:
        exported: The exported program of each method, as the caller passed it.
        edge: A copy of the edge program of each method; the copy shares the weights of the program.
    """

    exported: Mapping[str, ExportedProgram]
    edge: Mapping[str, ExportedProgram]


class FinishedProgram:
    """A finished program, in memory.

    Attributes:
        pte: The `.pte` file.
        data: The `.ptd` files with weights of the program, by file name without `.ptd`.
        programs: The final program of each method, from which the file was made.
        config_methods: Names of the constant methods, which only return a value.
        kept: The programs before delegation; None unless `LowerOptions.keep_programs` is set.
    """

    def __init__(
        self,
        pte: fmt.PteFile,
        data: dict[str, fmt.PtdFile],
        report: DelegationReport,
        programs: dict[str, ExportedProgram],
        config_methods: set[str],
        kept: KeptPrograms | None = None,
    ) -> None:
        self.pte = pte
        self.data = data
        self.programs = programs
        self.config_methods = config_methods
        self.kept = kept
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
        # Data that a kernel and a delegate share is stored only once; for example, an embedding and the output layer
        # may share a weight.
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

        The program is in the edge dialect, but the file calls the out variants of its operators. `node.meta["spec"]`
        has the place of each tensor in the memory plan.

        Args:
            method_name: The name of the method.

        Raises:
            KeyError: There is no method of that name.
        """
        return self.programs[method_name]

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
            WriteError: A file cannot be written. All existing files are then unchanged.

        Example:
            >>> program.write_tensor_data_to_file("weights")
        """
        write_files(self._data_writers({name: Path(outdir) / f"{name}.ptd" for name in self.data}))

    def save(self, path: str | Path) -> list[Path]:
        """Write the `.pte`, and its `.ptd` files into the same folder.

        A `.ptd` file for which the caller chose no name has the name of the `.pte`.

        Args:
            path: The path of the `.pte`, in an existing folder; an existing file is replaced.

        Returns:
            The paths of all files, the `.pte` first.

        Raises:
            WriteError: A file cannot be written. All existing files are then unchanged.

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

    def report(self) -> DelegationReport:
        """Return the delegation report: the backend that runs each operator, and why others are not delegated.

        Example:
            >>> print(program.report())
        """
        return self._report
