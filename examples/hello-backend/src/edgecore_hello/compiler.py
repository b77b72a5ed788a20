"""The compile side of the Hello backend, which `edgecore.compile` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from torch.export import ExportedProgram

from edgecore.errors import FormatError
from edgecore.plugin import CompileSpec, OperatorSupport, PreprocessResult, Problem, Recipe, RewriteRecipe
from edgecore.sdk import Partitioner
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
        """Make the partitioner for what the operator table supports and the options allow."""
        chosen = HelloOptions.model_validate(options.model_dump())
        return TABLE.partitioner(
            "HelloBackend",
            compile_specs=[FUSE_RELU] if chosen.fuse_relu else [],
            operators=chosen.operators,
            min_partition_size=chosen.min_operators,
        )

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition; the only compile spec is `FUSE_RELU`."""
        return preprocess(program, fuse_relu=FUSE_RELU in specs)

    def operator_support(self) -> Sequence[OperatorSupport]:
        """List the rows of the operator table, for reports and documentation."""
        return TABLE.support()

    def verify_blob(self, blob: bytes, named_data: Mapping[str, Any], *, runtime: str) -> Sequence[str]:
        """List what the delegate would refuse. Any runtime that loads this package's library may run the blob."""
        try:
            decode(blob)
        except FormatError as error:
            return [str(error)]
        return []

    def describe_blob(self, blob: bytes, named_data: Mapping[str, Any]) -> Sequence[str]:
        """Describe a blob, for `edgecore inspect --blobs`."""
        return describe(blob)

    def recipes(self) -> Mapping[str, Recipe | RewriteRecipe]:
        """Return the recipes of `edgecore.compile(quantize=...)`."""
        return recipes()

    def report_lines(self, results: Sequence[PreprocessResult]) -> Sequence[str]:
        """Return lines for the report; say what your compiler knows, such as cycles and use of memories."""
        nodes = [node for result in results for node in decode(result.blob).nodes]
        size, fused = sum(len(result.blob) for result in results), sum(node.relu for node in nodes)
        return [f"{len(nodes)} operations, {fused} of them with a relu, in {size:,} bytes"]

    def check(self) -> Sequence[Problem]:
        """Report a missing delegate's library, which running needs. Look for your driver and tools here, too."""
        if Path(native_library()).is_file():
            return []
        remedy = "pip install --force-reinstall --no-deps edgecore-hello"
        return [Problem(f"the delegate's library {native_library()} is missing", remedy)]
