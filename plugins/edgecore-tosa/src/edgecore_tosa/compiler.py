"""Define the base class of compilers for TOSA devices: it lowers a partition to TOSA, which the backend compiles."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from torch.export import ExportedProgram

from edgecore.plugin import CompileSpec, OperatorSupport, PreprocessResult, Problem, RecipeSupport
from edgecore.sdk import Partitioner
from edgecore_tosa.graph import Graph
from edgecore_tosa.lowering import lower
from edgecore_tosa.operators import table_of
from edgecore_tosa.options import TosaOptions
from edgecore_tosa.partitioner import TosaPartitioner

T = TypeVar("T", bound=TosaOptions)

_HASH_DIGITS = 12


@dataclass(frozen=True)
class LoweredPartition:
    """A partition, lowered to a TOSA graph.

    Attributes:
        program: The partition.
        graph: The TOSA graph.
        tosa: The TOSA graph as a flatbuffer.
        folder: Folder for intermediate files, which already contains `graph.tosa`; None to keep no files.
    """

    program: ExportedProgram
    graph: Graph
    tosa: bytes
    folder: Path | None


class TosaCompiler(ABC, Generic[T]):
    """Base class of compilers for TOSA devices, with the protocols of `edgecore.plugin` for compilers and recipes.

    A backend derives its compiler from this class, sets the class attributes and implements the abstract methods. It
    may add methods of further protocols, such as reports.
    """

    Options: type[T]
    name: ClassVar[str]
    """The backend's name, such as `vgf`; its package is `edgecore-NAME`."""
    backend_id: ClassVar[str]
    """The backend's id in the file, such as `VgfBackend`."""

    @abstractmethod
    def compile_graph(self, partition: LoweredPartition, options: T) -> PreprocessResult:
        """Compile the TOSA graph of a partition into a blob.

        Raises:
            CompileError: The backend's tool is missing, or cannot compile the graph.
        """

    @abstractmethod
    def read_blob(self, blob: bytes) -> object:
        """Read and check a blob of this backend.

        Raises:
            FormatError: The blob is damaged.
        """

    @abstractmethod
    def check(self) -> Sequence[Problem]:
        """List the problems that prevent compiling, such as missing third-party packages."""

    def partitioner(self, options: T, *, runtime: str) -> Partitioner:
        """Make the partitioner; it is the same for each target `runtime`."""
        return TosaPartitioner(self.backend_id, options)

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition into a blob.

        Raises:
            CompileError: The backend cannot compile the partition.
        """
        options = self.Options.from_specs(specs)
        graph = lower(program, options.spec)
        tosa = graph.to_bytes()
        folder = self._artifact_folder(options, tosa)
        if folder is not None:
            (folder / "graph.tosa").write_bytes(tosa)  # kept even if the compilation fails
        return self.compile_graph(LoweredPartition(program, graph, tosa, folder), options)

    def operator_support(self) -> Sequence[OperatorSupport]:
        """List the supported operators with their dtypes and constraints, for the default target."""
        return table_of(self.Options().spec).support()

    def operator_support_with(self, options: T) -> Sequence[OperatorSupport]:
        """List the supported operators with their dtypes and constraints, for the target in `options`."""
        return table_of(options.spec).support()

    def verify_blob(self, blob: bytes, named_data: Mapping[str, Any], *, runtime: str) -> Sequence[str]:
        """Check a blob: raise FormatError if it is damaged. The check is the same for each target `runtime`."""
        self.read_blob(blob)
        return []

    def recipes(self) -> Mapping[str, RecipeSupport]:
        """Return the recipes of `edgecore.compile(quantize=...)`.

        - `int8`: int8 activations and weights, with ranges from calibration.
        - `int16x8`: int16 activations and int8 weights.
        """
        from edgecore_tosa.recipes import RECIPES

        return RECIPES

    def _artifact_folder(self, options: T, tosa: bytes) -> Path | None:
        """Create and return the folder for a delegate's intermediate files; None if the options keep no files.

        The folder's name is `NAME-HASH`: the name of the backend and a hash of the TOSA graph.
        """
        parent = options.dump_intermediate_artifacts_to
        if parent is None:
            return None
        folder = Path(parent).expanduser() / f"{self.name}-{hashlib.sha256(tosa).hexdigest()[:_HASH_DIGITS]}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder
