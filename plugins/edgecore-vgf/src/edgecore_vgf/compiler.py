"""The compiler of the VGF backend, which `edgecore.compile` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from torch.export import ExportedProgram

from edgecore.errors import CompileError, FormatError
from edgecore.plugin import CompileSpec, OperatorSupport, PreprocessResult, Problem, RecipeSupport
from edgecore.sdk import Partitioner
from edgecore_vgf import lowering, native_library
from edgecore_vgf.converter import INSTALL, converter_program
from edgecore_vgf.options import VgfOptions
from edgecore_vgf.partitioner import VgfPartitioner
from edgecore_vgf.preprocess import VgfResult, preprocess
from edgecore_vgf.vgf import describe_vgf, read_vgf


class VgfCompiler:
    """Implements `QuantizingCompiler`, `TargetingCompiler`, `ReportingCompiler` and `BlobReader` of `edgecore.plugin`."""

    Options = VgfOptions

    def partitioner(self, options: BaseModel, *, runtime: str) -> Partitioner:
        """Make the partitioner for `options`, which are `VgfOptions`. The target runtime makes no difference."""
        return VgfPartitioner(VgfOptions.model_validate(options.model_dump()))

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition into a blob."""
        return preprocess(program, specs)

    def operator_support(self) -> Sequence[OperatorSupport]:
        """List the supported operators with their dtypes and constraints, for the default specification."""
        return self.operator_support_with(VgfOptions())

    def operator_support_with(self, options: BaseModel) -> Sequence[OperatorSupport]:
        """List the supported operators of the specification in `options`, which are `VgfOptions`."""
        return lowering.operator_table(VgfOptions.model_validate(options.model_dump()).tosa_spec).support()

    def verify_blob(self, blob: bytes, named_data: Mapping[str, Any], *, runtime: str) -> Sequence[str]:
        """List the errors of a blob. The target runtime makes no difference."""
        try:
            read_vgf(blob)
        except FormatError as error:
            return [str(error)]
        return []

    def describe_blob(self, blob: bytes, named_data: Mapping[str, Any]) -> Sequence[str]:
        """Return lines with the graph, inputs, outputs and constants of a blob, for `edgecore inspect --blobs`."""
        return describe_vgf(blob)

    def recipes(self) -> Mapping[str, RecipeSupport]:
        """Return the recipes of `edgecore.compile(quantize=...)`.

        - `int8`: everything of int8, with ranges from calibration.
        - `int16x8`: activations of int16 and weights of int8.
        """
        from edgecore_tosa.recipes import RECIPES

        return RECIPES

    def report_lines(self, results: Sequence[PreprocessResult]) -> Sequence[str]:
        """Return a line for each delegate: sizes of its graph and constants."""
        lines = []
        for index, result in enumerate(results):
            if isinstance(result, VgfResult) and result.vgf is not None:
                constants = sum(tensor.size for tensor in result.vgf.constants)
                lines.append(
                    f"delegate {index}: VGF {result.vgf.version}, {result.vgf.code_size:,} bytes of SPIR-V, "
                    f"{len(result.vgf.constants)} constants of {constants:,} bytes"
                )
        return lines

    def check(self) -> Sequence[Problem]:
        """Report if the native library of the delegate or Arm's converter is missing."""
        problems = []
        if not Path(native_library()).is_file():
            remedy = "pip install --force-reinstall --no-deps edgecore-vgf"
            problems.append(Problem(f"the delegate's library {native_library()} is missing", remedy))
        try:
            converter_program()
        except CompileError as error:
            problems.append(Problem(str(error).partition(": pip install")[0], INSTALL))
        return problems
