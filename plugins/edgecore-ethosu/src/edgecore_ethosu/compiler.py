"""The compiler of the Ethos-U backend, which `edgecore.compile` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgecore.errors import CompileError, FormatError
from edgecore.plugin import BlobGraph, PreprocessResult, Problem
from edgecore_ethosu import backend
from edgecore_ethosu.blob import VelaProgram, describe_blob, read_blob, tosa_key
from edgecore_ethosu.lowering import EthosUResult, compile_graph
from edgecore_ethosu.options import EthosUOptions
from edgecore_ethosu.vela.compile import INSTALL, VelaReport, check_version
from edgecore_ethosu.vela.layers import most_expensive
from edgecore_tosa.compiler import LoweredPartition, TosaCompiler
from edgecore_tosa.graph import Graph
from edgecore_tosa.graph.blob_graph import blob_graph

_NAMES = {"Sram": "SRAM", "Dram": "DRAM", "OnChipFlash": "weights in SRAM", "OffChipFlash": "flash"}


class EthosUCompiler(TosaCompiler[EthosUOptions]):
    """Compiles TOSA graphs with Vela, and reads the resulting blobs and the TOSA graphs stored for them."""

    Options = EthosUOptions
    name = "ethosu"
    backend_id = "EthosUBackend"

    def compile_graph(self, partition: LoweredPartition, options: EthosUOptions) -> PreprocessResult:
        """Compile the TOSA graph of a partition into a blob."""
        return compile_graph(partition, options)

    def read_blob(self, blob: bytes) -> VelaProgram:
        """Read and check a blob."""
        return read_blob(blob)

    def check(self) -> Sequence[Problem]:
        """Report if the TOSA simulator or Vela is not installed."""
        problems = []
        if backend.simulator_library() is None:
            problems.append(Problem("the TOSA simulator is not installed", "pip install edgecore-tosa"))
        try:
            check_version()
        except CompileError as error:
            problems.append(Problem(str(error).removesuffix(f": {INSTALL}"), INSTALL))
        return problems

    def describe_blob(self, blob: bytes, named_data: Mapping[str, Any]) -> Sequence[str]:
        """Return lines with a blob's sizes, inputs, outputs and TOSA graph's key, for `edgecore inspect --blobs`."""
        key = tosa_key(blob)
        stored = f"TOSA graph: in the file as {key}" if key in named_data else "TOSA graph: not in the file"
        return [*describe_blob(blob), stored]

    def blob_graph(self, blob: bytes, named_data: Mapping[str, Any]) -> BlobGraph:
        """Return the operators of the TOSA graph from which a blob was compiled, for the graph view.

        Raises:
            FormatError: The `.pte` has no TOSA graph for the blob, or the graph is damaged.
        """
        key = tosa_key(blob)
        if key not in named_data:
            raise FormatError(f"the file has no TOSA graph with the key {key}")
        return blob_graph(Graph.from_bytes(named_data[key].data))

    def report_lines(self, results: Sequence[PreprocessResult]) -> Sequence[str]:
        """Return lines per delegate: Vela's estimates of cycles, time and memory; the nodes with the most cycles."""
        lines = []
        for index, result in enumerate(results):
            if isinstance(result, EthosUResult) and result.report is not None:
                lines.append(f"delegate {index}: {result.target}, {_estimates(result.report)}")
                lines += [f"delegate {index}: {line}" for line in most_expensive(result.layers)]
        return lines


def _estimates(report: VelaReport) -> str:
    memories = ", ".join(
        f"{_NAMES[name]} {use.peak:,} bytes ({use.transferred:,} read and written)"
        for name, use in report.memories.items()
    )
    return (
        f"NPU operations {report.npu_operators}, CPU operations 0, {report.total_cycles:,} cycles "
        f"({report.npu_cycles:,} of the NPU), {report.milliseconds:.3g} ms, {memories}"
    )
