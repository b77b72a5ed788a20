"""The compiler of the OpenVINO backend, which `edgecore.compile` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from torch.export import ExportedProgram

from edgecore.errors import FormatError
from edgecore.plugin import BlobGraph, CompileSpec, OperatorSupport, PreprocessResult, Problem, RecipeSupport
from edgecore.sdk import Partitioner
from edgecore_openvino.backend import openvino_library
from edgecore_openvino.blob.format import Kind, decode
from edgecore_openvino.blob.graph import graph_of
from edgecore_openvino.lowering import preprocess
from edgecore_openvino.operators import TABLE
from edgecore_openvino.options import OpenvinoOptions
from edgecore_openvino.partitioner import partitioner

INSTALL = 'pip install "openvino>=2026.4,<2027"'


class OpenvinoCompiler:
    """Compiles for OpenVINO; implements protocols of `edgecore.plugin` for recipes, precision, reports and blobs."""

    Options = OpenvinoOptions

    def partitioner(self, options: OpenvinoOptions, *, runtime: str) -> Partitioner:
        """Make the partitioner of one compilation."""
        return partitioner(options)

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition into a blob."""
        return preprocess(program, specs)

    def operator_support(self) -> Sequence[OperatorSupport]:
        """List the supported operators with their dtypes and constraints."""
        return TABLE.support()

    def verify_blob(self, blob: bytes, named_data: Mapping[str, Any], *, runtime: str) -> Sequence[str]:
        """Raise `FormatError` if a blob's header is damaged; the check is the same for every `runtime`."""
        decode(blob)
        return []

    def blob_graph(self, blob: bytes, named_data: Mapping[str, Any]) -> BlobGraph:
        """Return the operators of the model in a blob, for the graph view.

        Raises:
            FormatError: The blob is damaged, or its model is compiled; then the file's metadata has the graph.
        """
        payload = decode(blob)
        if payload.kind != Kind.PORTABLE:
            raise FormatError("the blob has a compiled model, which only OpenVINO reads")
        return graph_of(payload.model)

    def recipes(self) -> Mapping[str, RecipeSupport]:
        """Return the recipes of `edgecore.compile(quantize=...)`."""
        from edgecore_openvino.recipes import RECIPES

        return RECIPES

    def computes_in(self, options: OpenvinoOptions) -> Literal["float32", "float16"]:
        """Return "float16" if weights are stored or results are computed in float16; else "float32", also for bf16."""
        return "float16" if options.half_weights or options.precision == "f16" else "float32"

    def rounds_weights_only(self, options: OpenvinoOptions) -> bool:
        """Return True if `half_weights` only rounds stored weights, because OpenVINO does not compute in float16."""
        return options.precision != "f16"

    def report_lines(self, results: Sequence[PreprocessResult]) -> Sequence[str]:
        """Return a line of the report for each delegate: kind and size of its model, device, OpenVINO's properties."""
        payloads = [decode(result.blob) for result in results]
        lines = []
        for index, payload in enumerate(payloads):
            properties = ", ".join(f"{key}={value}" for key, value in payload.properties.items())
            size = len(payload.model) + len(payload.weights)
            lines.append(
                f"delegate {index}: {payload.kind.name.lower()}, {payload.device}, {size:,} bytes ({properties})"
            )
        return lines

    def check(self) -> Sequence[Problem]:
        """Report if OpenVINO is missing."""
        problems = []
        if openvino_library() is None:
            problems.append(Problem("OpenVINO is not installed", INSTALL))
        return problems
