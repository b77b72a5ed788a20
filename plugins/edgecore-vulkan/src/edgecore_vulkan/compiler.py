"""The compiler of the Vulkan backend, which `edgecore.compile` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from torch.export import ExportedProgram

from edgecore.plugin import BlobGraph, CompileSpec, OperatorSupport, PreprocessResult, Problem, RecipeSupport
from edgecore.sdk import Partitioner
from edgecore_vulkan.blob.costs import costs
from edgecore_vulkan.blob.describe import describe, graph_of
from edgecore_vulkan.blob.format import read_graph
from edgecore_vulkan.blob.verify import incompatibilities
from edgecore_vulkan.lowering import preprocess
from edgecore_vulkan.operators import TABLE
from edgecore_vulkan.options import VulkanOptions
from edgecore_vulkan.partitioner import make_partitioner


class VulkanCompiler:
    """The compiler: it implements `edgecore.plugin`'s protocols for recipes, reports, and reading blobs."""

    Options = VulkanOptions

    def partitioner(self, options: VulkanOptions, *, runtime: str) -> Partitioner:
        """Make the partitioner for the target `runtime`: edgecore, or executorch 1.5, which has fewer operators."""
        return make_partitioner(options.profile(runtime), options.operators, options.min_operators)

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition into a blob."""
        return preprocess(program, specs)

    def operator_support(self) -> Sequence[OperatorSupport]:
        """List the supported operators with their dtypes and constraints."""
        return TABLE.support()

    def verify_blob(self, blob: bytes, named_data: Mapping[str, Any], *, runtime: str) -> Sequence[str]:
        """List the errors of a blob; for `executorch-1.5` also the calls that ExecuTorch's delegate lacks."""
        return incompatibilities(read_graph(blob), named_data, for_executorch=runtime != "edgecore")

    def describe_blob(self, blob: bytes, named_data: Mapping[str, Any]) -> Sequence[str]:
        """Return lines about the costs, inputs, outputs and calls of a blob, for `edgecore inspect --blobs`."""
        return describe(blob)

    def blob_graph(self, blob: bytes, named_data: Mapping[str, Any]) -> BlobGraph:
        """Return the operator calls of a blob as a graph, for the graph view."""
        return graph_of(blob)

    def computes_in(self, options: VulkanOptions) -> Literal["float32", "float16"]:
        """Return "float16" with the option `force_fp16`."""
        return "float16" if options.force_fp16 else "float32"

    def recipes(self) -> Mapping[str, RecipeSupport]:
        """Return the recipes of `edgecore.compile(quantize=...)`.

        - `int8`: convolutions, linear layers and sums of int8, with ranges from calibration.
        - `int8-dynamic`: linear layers with int8 weights, whose inputs are quantized per row at run time.
        - `int8-weights`: linear layers with int8 weights, which compute in floating point.
        - `int4-weights`: as `int8-dynamic`, but weights have 4 bits and a scale for each group of 32.
        - `fp16`: the option `force_fp16`.
        """
        from edgecore_vulkan.recipes import RECIPES

        return RECIPES

    def report_lines(self, results: Sequence[PreprocessResult]) -> Sequence[str]:
        """Return a line for each delegate: dispatches, weights, copies of inputs and outputs, and peak memory."""
        lines = []
        for index, result in enumerate(results):
            memory = sum(need.bytes for need in result.memory)
            lines.append(f"delegate {index}: {costs(read_graph(result.blob))}; greatest memory: {memory:,} bytes")
        return lines

    def check(self) -> Sequence[Problem]:
        """Return no problem, because compiling needs nothing but this package."""
        return []
