"""The compiler of the Core ML backend, which `edgecore.compile` calls."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.plugin import (
    BlobGraph,
    CompiledPartition,
    CompileSpec,
    OperatorSupport,
    PreprocessResult,
    Problem,
    RecipeSupport,
)
from edgecore.sdk import MutableBuffer, Partitioner
from edgecore_coreml.backend import ONLY_ON_APPLE
from edgecore_coreml.conversion.registry import INSTALL, check_version, converters
from edgecore_coreml.link import link
from edgecore_coreml.lowering import CoreMLResult, preprocess
from edgecore_coreml.operators import TABLE, TABLE_WITHOUT_WEIGHTS, inside_only
from edgecore_coreml.options import CoreMLOptions
from edgecore_coreml.package import describe as blob_lines
from edgecore_coreml.package.compiled import check_compiler
from edgecore_coreml.package.files import unpack
from edgecore_coreml.package.graph import graph_of
from edgecore_coreml.partitioner import CoreMLPartitioner


class CoreMLCompiler:
    """The compiler. It implements `edgecore.plugin`'s protocols for recipes, precision, linking, reports and blobs."""

    Options = CoreMLOptions

    def partitioner(self, options: CoreMLOptions, *, runtime: str) -> Partitioner:
        """Make the partitioner; it is the same for each target `runtime`.

        Raises:
            CompileError: coremltools is not installed, or the options need Apple's compiler, which is missing.
        """
        if options.model_type == "COMPILED_MODEL":
            check_compiler()
        converters()  # raise an error now if coremltools is missing; the table would report it for each operator

        def can_hold(buffer: MutableBuffer) -> bool:
            """Return True if a float16 state can hold a buffer. A float32 buffer needs compute_precision=FLOAT16."""
            halves = options.compute_precision == "FLOAT16" and buffer.initial.dtype == torch.float32
            return options.take_over_mutable_buffer and (halves or buffer.initial.dtype == torch.float16)

        table = TABLE if options.take_over_constant_data else TABLE_WITHOUT_WEIGHTS
        inner = table.partitioner(
            "CoreMLBackend",
            compile_specs=options.to_specs(),
            operators=options.operators,
            min_partition_size=options.min_operators,
            can_hold=can_hold,
            inside_only=inside_only,
        )
        return CoreMLPartitioner(
            inner,
            options.skip_ops_for_coreml_delegation,
            lower_full_graph=options.lower_full_graph,
            constants_as_inputs=not options.take_over_constant_data,
        )

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition into a blob."""
        return preprocess(program, specs)

    def link(self, partitions: Sequence[CompiledPartition]) -> Sequence[PreprocessResult]:
        """Merge the models of several methods into one with a function per method; the functions share weights."""
        return link(partitions)

    def operator_support(self) -> Sequence[OperatorSupport]:
        """List the supported operators with their dtypes and constraints."""
        return TABLE.support()

    def verify_blob(self, blob: bytes, named_data: Mapping[str, Any], *, runtime: str) -> Sequence[str]:
        """Check a blob: raise FormatError if it is damaged. The check is the same for each target `runtime`."""
        unpack(blob, named_data)
        return []

    def describe_blob(self, blob: bytes, named_data: Mapping[str, Any]) -> Sequence[str]:
        """Return lines about the system, arguments, operators and weights of a blob, for `edgecore inspect --blobs`."""
        return blob_lines.describe_blob(blob, named_data)

    def blob_graph(self, blob: bytes, named_data: Mapping[str, Any]) -> BlobGraph:
        """Return the operators of a blob's ML program (Core ML's operator graph), for the graph view.

        Raises:
            FormatError: The blob is damaged, or has a compiled model, which lists no operators; the graph view then
                uses the graph in the file's metadata.
        """
        return graph_of(unpack(blob, named_data))

    def computes_in(self, options: CoreMLOptions) -> Literal["float32", "float16"]:
        """Return "float16" if the option `compute_precision` is "FLOAT16", otherwise "float32"."""
        return "float16" if options.compute_precision == "FLOAT16" else "float32"

    def cannot_run_here(self, load_options: Mapping[str, Any]) -> str:
        """Return a reason unless this system is a Mac, or the load option `standin` replaces Core ML."""
        return "" if sys.platform == "darwin" or load_options.get("standin") else ONLY_ON_APPLE

    def recipes(self) -> Mapping[str, RecipeSupport]:
        """Return the recipes of `edgecore.compile(quantize=...)`.

        - `int8`: 8-bit weights and activations, with ranges from calibration.
        - `int8-weights`: 8-bit weights with a scale per output channel.
        - `int4-weights`: 4-bit weights with a scale per group of elements.
        - `palette4`: weights as indices of 1 to 8 bits into tables of values.
        """
        from edgecore_coreml.recipes import RECIPES

        return RECIPES

    def report_lines(self, results: Sequence[PreprocessResult]) -> Sequence[str]:
        """Return a line per delegate: the oldest Apple system that runs it, its precision, its bytes of weights."""
        lines = []
        for index, result in enumerate(results):
            if not isinstance(result, CoreMLResult):
                continue
            reason = f" ({result.reason})" if result.reason else ""
            line = f"delegate {index}: {result.target} or later{reason}, computes in {result.precision}"
            line += f", weights {result.weights:,} bytes"
            line += ", compiled by Xcode" if result.package else ""
            line += f", one model for {', '.join(result.shared_by)}" if result.shared_by else ""
            if result.precision == "FLOAT16":
                line += "; float32 values are rounded to float16"
            lines.append(line)
            if not set(result.stored) <= {"float32", "float16"}:
                lines += [f"  weights as {kind}: {', '.join(names)}" for kind, names in result.stored.items()]
        ranges = [
            str(index) for index, result in enumerate(results) if isinstance(result, CoreMLResult) and result.has_ranges
        ]
        if ranges:
            lines.append(
                f"the Neural Engine does not take inputs whose sizes have a range (delegate {', '.join(ranges)}): CPU "
                "and GPU run these; enumerated_shapes avoid it"
            )
        return lines

    def check(self) -> Sequence[Problem]:
        """Report if coremltools is missing."""
        problems = []
        try:
            check_version()
        except CompileError as error:
            problems.append(Problem(str(error).removesuffix(f": {INSTALL}"), INSTALL))
        return problems
