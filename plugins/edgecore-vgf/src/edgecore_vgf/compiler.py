"""The compiler of the VGF backend, which `edgecore.compile` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgecore.errors import CompileError
from edgecore.plugin import PreprocessResult, Problem
from edgecore_tosa.compiler import LoweredPartition, TosaCompiler
from edgecore_vgf.converter import INSTALL, converter_program
from edgecore_vgf.lowering import VgfResult, compile_graph
from edgecore_vgf.options import VgfOptions
from edgecore_vgf.vgf import Vgf, describe_vgf, read_vgf


class VgfCompiler(TosaCompiler[VgfOptions]):
    """The compiler: it converts TOSA graphs to VGF files, which are its blobs, and reads and checks blobs."""

    Options = VgfOptions
    name = "vgf"
    backend_id = "VgfBackend"

    def compile_graph(self, partition: LoweredPartition, options: VgfOptions) -> PreprocessResult:
        """Convert the TOSA graph of a partition into a blob."""
        return compile_graph(partition, options)

    def read_blob(self, blob: bytes) -> Vgf:
        """Read and check a blob."""
        return read_vgf(blob)

    def check(self) -> Sequence[Problem]:
        """Report if Arm's model converter is missing or has an untested version."""
        try:
            converter_program()
        except CompileError as error:
            return [Problem(str(error).partition(": pip install")[0], INSTALL)]
        return []

    def describe_blob(self, blob: bytes, named_data: Mapping[str, Any]) -> Sequence[str]:
        """Return lines with the graph, inputs, outputs and constants of a blob, for `edgecore inspect --blobs`."""
        return describe_vgf(blob)

    def report_lines(self, results: Sequence[PreprocessResult]) -> Sequence[str]:
        """Return a line for each delegate with the sizes of its SPIR-V graph and its constants."""
        lines = []
        for index, result in enumerate(results):
            if isinstance(result, VgfResult) and result.vgf is not None:
                constants = sum(tensor.size for tensor in result.vgf.constants)
                lines.append(
                    f"delegate {index}: VGF {result.vgf.version}, {result.vgf.code_size:,} bytes of SPIR-V, "
                    f"{len(result.vgf.constants)} constants of {constants:,} bytes"
                )
        return lines
