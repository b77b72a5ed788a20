"""The compile side of the Hello backend: what `edgecore.compile` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from torch.export import ExportedProgram

from edgecore.errors import FormatError
from edgecore.partition import Partitioner
from edgecore.plugin import CompileSpec, OperatorSupport, PreprocessResult, Problem, Recipe, RewriteRecipe
from edgecore_hello import native_library
from edgecore_hello.blob import decode, describe
from edgecore_hello.operators import TABLE
from edgecore_hello.options import HelloOptions
from edgecore_hello.preprocess import FUSE_RELU, preprocess
from edgecore_hello.quantizer import recipes


class HelloCompiler:
    """Implements `edgecore.plugin.QuantizingCompiler`, `ReportingCompiler` and `BlobReader`."""

    Options = HelloOptions

    def partitioner(self, options: BaseModel, *, runtime: str) -> Partitioner:
        """Takes what the table of operators takes, as far as the options let it."""
        chosen = HelloOptions.model_validate(options.model_dump())
        return TABLE.partitioner(
            "HelloBackend",
            compile_specs=[FUSE_RELU] if chosen.fuse_relu else [],
            operators=chosen.operators,
            least=chosen.min_operators,
        )

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition; the only compile spec is `FUSE_RELU`."""
        return preprocess(program, fuse_relu=FUSE_RELU in specs)

    def operator_support(self) -> Sequence[OperatorSupport]:
        """The table, for reports and documentation."""
        return TABLE.support()

    def verify_blob(self, blob: bytes, named_data: Mapping[str, Any], *, runtime: str) -> Sequence[str]:
        """What the delegate would refuse; any runtime that loads this package's library may run the blob."""
        try:
            decode(blob)
        except FormatError as error:
            return [str(error)]
        return []

    def describe_blob(self, blob: bytes, named_data: Mapping[str, Any]) -> Sequence[str]:
        """What `edgecore inspect --blobs` shows."""
        return describe(blob)

    def recipes(self) -> Mapping[str, Recipe | RewriteRecipe]:
        """Words for `edgecore.compile(quantize=...)`."""
        return recipes()

    def report_lines(self, results: Sequence[PreprocessResult]) -> Sequence[str]:
        """A section of the report: here what the blobs hold. Say what your compiler knows: cycles, use of memories."""
        nodes = [node for result in results for node in decode(result.blob).nodes]
        size, fused = sum(len(result.blob) for result in results), sum(node.relu for node in nodes)
        return [f"{len(nodes)} operations, {fused} of them with a relu, in {size:,} bytes"]

    def check(self) -> Sequence[Problem]:
        """Compiling needs nothing; running needs the delegate's library. Look for your driver and tools here, too."""
        if Path(native_library()).is_file():
            return []
        remedy = "pip install --force-reinstall --no-deps edgecore-hello"
        return [Problem(f"the delegate's library {native_library()} is missing", remedy)]
