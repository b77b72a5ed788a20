"""The compiler of the QNN backend, which `edgecore.compile` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.plugin import CompileSpec, OperatorSupport, PreprocessResult, Problem, RecipeSupport
from edgecore.sdk import Partitioner
from edgecore_qnn.backend import provider_library, runtime_library
from edgecore_qnn.blob import decode, describe
from edgecore_qnn.lowering import QnnResult, preprocess
from edgecore_qnn.operators import TABLE
from edgecore_qnn.options import QnnOptions
from edgecore_qnn.partitioner import OptionsPartitioner
from edgecore_qnn.provider.doctor import RUN
from edgecore_qnn.provider.process import INSTALL, versions


class QnnCompiler:
    """Compiles for QNN; implements protocols of `edgecore.plugin` for recipes, precision, reports and blobs."""

    Options = QnnOptions

    def partitioner(self, options: QnnOptions, *, runtime: str) -> Partitioner:
        """Make the partitioner for `options`; it is the same for every `runtime`."""
        return OptionsPartitioner(options)

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition into a blob."""
        return preprocess(program, specs)

    def operator_support(self) -> Sequence[OperatorSupport]:
        """List the supported operators with their dtypes and constraints."""
        return TABLE.support()

    def verify_blob(self, blob: bytes, named_data: Mapping[str, Any], *, runtime: str) -> Sequence[str]:
        """Raise `FormatError` if a blob is damaged; the check is the same for every `runtime`."""
        decode(blob)
        return []

    def describe_blob(self, blob: bytes, named_data: Mapping[str, Any]) -> Sequence[str]:
        """Return lines with the target, the versions, the inputs and the outputs of a blob."""
        return describe(blob)

    def recipes(self) -> Mapping[str, RecipeSupport]:
        """Return the recipes of `edgecore.compile(quantize=...)`."""
        from edgecore_qnn.recipes import RECIPES

        return RECIPES

    def computes_in(self, options: QnnOptions) -> Literal["float32", "float16"]:
        """Return "float16" if unquantized operators are delegated (`use_fp16`), because the NPU has no float32."""
        return "float16" if options.use_fp16 and options.soc.has_fp16 else "float32"

    def report_lines(self, results: Sequence[PreprocessResult]) -> Sequence[str]:
        """Return a line for each delegate: SoC, SDK and size; with `profile_level`, also its compilation times."""
        lines = []
        for index, result in enumerate(results):
            if isinstance(result, QnnResult):
                size = f"context binary of {result.context_bytes:,} bytes"
                lines.append(f"delegate {index}: {result.soc}, SDK {result.sdk_build}, {size}")
                lines += [f"  {time}" for time in result.profile]
        return lines

    def check(self) -> Sequence[Problem]:
        """Report if ONNX Runtime or the QNN provider is missing."""
        problems = []
        for library, package in ((runtime_library(), "onnxruntime"), (provider_library(), "onnxruntime-qnn")):
            if library is None:
                problems.append(Problem(f"the library of {package} is not installed", RUN))
        try:
            versions()
        except CompileError as error:
            problems.append(Problem(str(error).removesuffix(f": {INSTALL}"), INSTALL))
        return problems
