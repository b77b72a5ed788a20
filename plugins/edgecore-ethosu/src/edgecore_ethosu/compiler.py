"""The compiler of the Ethos-U backend, which `edgecore.compile` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from torch.export import ExportedProgram

from edgecore.errors import CompileError, FormatError
from edgecore.plugin import BlobGraph, CompileSpec, OperatorSupport, PreprocessResult, Problem, RecipeSupport
from edgecore.sdk import Partitioner
from edgecore_ethosu import lowering, native_library, simulator_library
from edgecore_ethosu.blob import describe_blob, read_blob, tosa_key
from edgecore_ethosu.layers import most_expensive
from edgecore_ethosu.options import EthosUOptions
from edgecore_ethosu.partitioner import EthosUPartitioner
from edgecore_ethosu.preprocess import EthosUResult, preprocess
from edgecore_ethosu.vela import INSTALL, VelaReport, check_version
from edgecore_tosa.blob_graph import blob_graph
from edgecore_tosa.graph import Graph

_NAMES = {"Sram": "SRAM", "Dram": "DRAM", "OnChipFlash": "weights in SRAM", "OffChipFlash": "flash"}


class EthosUCompiler:
    """Implements protocols of `edgecore.plugin`: recipes, targets, reports, and readers of blobs and of their graphs."""

    Options = EthosUOptions

    def partitioner(self, options: BaseModel, *, runtime: str) -> Partitioner:
        """Make the partitioner for `options`, which are `EthosUOptions`. The target runtime makes no difference."""
        return EthosUPartitioner(EthosUOptions.model_validate(options.model_dump()))

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition into a blob."""
        return preprocess(program, specs)

    def operator_support(self) -> Sequence[OperatorSupport]:
        """List the supported operators with their dtypes and constraints, for the default target."""
        return self.operator_support_with(EthosUOptions())

    def operator_support_with(self, options: BaseModel) -> Sequence[OperatorSupport]:
        """List the supported operators of the target in `options`, which are `EthosUOptions`."""
        return lowering.operator_table(EthosUOptions.model_validate(options.model_dump()).target).support()

    def verify_blob(self, blob: bytes, named_data: Mapping[str, Any], *, runtime: str) -> Sequence[str]:
        """List the errors of a blob. The target runtime makes no difference."""
        try:
            read_blob(blob)
        except FormatError as error:
            return [str(error)]
        return []

    def describe_blob(self, blob: bytes, named_data: Mapping[str, Any]) -> Sequence[str]:
        """Return lines with sizes, inputs and outputs of a blob, for `edgecore inspect --blobs`."""
        key = tosa_key(blob)
        stored = f"TOSA graph: in the file as {key}" if key in named_data else "TOSA graph: not in the file"
        return [*describe_blob(blob), stored]

    def blob_graph(self, blob: bytes, named_data: Mapping[str, Any]) -> BlobGraph:
        """Return the operators of the TOSA graph that the file stores for a blob, for the graph view.

        Raises:
            FormatError: The file has no TOSA graph for the blob, or it is damaged.
        """
        key = tosa_key(blob)
        if key not in named_data:
            raise FormatError(f"the file has no TOSA graph with the key {key}")
        return blob_graph(Graph.from_bytes(named_data[key].data))

    def recipes(self) -> Mapping[str, RecipeSupport]:
        """Return the recipes of `edgecore.compile(quantize=...)`.

        - `int8`: everything of int8, with ranges from calibration.
        - `int16x8`: activations of int16 and weights of int8.
        """
        from edgecore_tosa.recipes import RECIPES

        return RECIPES

    def report_lines(self, results: Sequence[PreprocessResult]) -> Sequence[str]:
        """Return lines for each delegate: Vela's estimates of cycles, time and memory, and where most cycles go."""
        lines = []
        for index, result in enumerate(results):
            if isinstance(result, EthosUResult) and result.report is not None:
                lines.append(f"delegate {index}: {result.target}, {_estimates(result.report)}")
                lines += [f"delegate {index}: {line}" for line in most_expensive(result.layers)]
        return lines

    def check(self) -> Sequence[Problem]:
        """Report if the native library of the delegate, the simulator or Vela is missing."""
        problems = []
        if not Path(native_library()).is_file():
            remedy = "pip install --force-reinstall --no-deps edgecore-ethosu"
            problems.append(Problem(f"the delegate's library {native_library()} is missing", remedy))
        if simulator_library() is None:
            problems.append(Problem("the TOSA simulator is not installed", "pip install edgecore-tosa"))
        try:
            check_version()
        except CompileError as error:
            problems.append(Problem(str(error).removesuffix(f": {INSTALL}"), INSTALL))
        return problems


def _estimates(report: VelaReport) -> str:
    memories = ", ".join(
        f"{_NAMES[name]} {use.peak:,} bytes ({use.transferred:,} read and written)"
        for name, use in report.memories.items()
    )
    return (
        f"NPU operations {report.npu_operators}, CPU operations 0, {report.total_cycles:,} cycles "
        f"({report.npu_cycles:,} of the NPU), {report.milliseconds:.3g} ms, {memories}"
    )
