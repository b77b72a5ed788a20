"""The compiler of the Hello backend, which `edgecore.compile` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.export import ExportedProgram

from edgecore.plugin import BlobGraph, CompileSpec, OperatorSupport, PreprocessResult, Problem, RecipeSupport
from edgecore.sdk import Partitioner
from edgecore_hello.blob import decode, describe, graph_of
from edgecore_hello.lowering import preprocess
from edgecore_hello.operators import TABLE
from edgecore_hello.options import HelloOptions
from edgecore_hello.partitioner import FUSE_RELU, make_partitioner
from edgecore_hello.quantizer import recipes


class HelloCompiler:
    """Implements protocols of `edgecore.plugin`: `QuantizingCompiler`, `ReportingCompiler`, `BlobReader` and more."""

    Options = HelloOptions

    def partitioner(self, options: HelloOptions, *, runtime: str) -> Partitioner:
        """Make a partitioner for the operators in the table that the options allow."""
        return make_partitioner(options)

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition. `FUSE_RELU` is the only compile spec."""
        return preprocess(program, fuse_relu=FUSE_RELU in specs)

    def operator_support(self) -> Sequence[OperatorSupport]:
        """List the rows of the operator table, for reports and documentation."""
        return TABLE.support()

    def verify_blob(self, blob: bytes, named_data: Mapping[str, Any], *, runtime: str) -> Sequence[str]:
        """Check a blob. Blobs do not depend on the target runtime."""
        decode(blob)
        return []

    def describe_blob(self, blob: bytes, named_data: Mapping[str, Any]) -> Sequence[str]:
        """Describe a blob, for `edgecore inspect --blobs`."""
        return describe(blob)

    def blob_graph(self, blob: bytes, named_data: Mapping[str, Any]) -> BlobGraph:
        """Return the operations of a blob, for `edgecore graph` and the pages of profiles."""
        return graph_of(blob)

    def recipes(self) -> Mapping[str, RecipeSupport]:
        """Return the recipes of `edgecore.compile(quantize=...)`."""
        return recipes()

    def report_lines(self, results: Sequence[PreprocessResult]) -> Sequence[str]:
        """Return lines for the report, such as cycles or memory use."""
        nodes = [node for result in results for node in decode(result.blob).nodes]
        size, fused = sum(len(result.blob) for result in results), sum(node.relu for node in nodes)
        return [f"{len(nodes)} operations, {fused} of them with a relu, in {size:,} bytes"]

    def check(self) -> Sequence[Problem]:
        """List missing tools and drivers. This backend needs none."""
        return []
