"""The class that edgecore calls to compile for XNNPACK."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from torch.export import ExportedProgram

from edgecore.plugin import BlobGraph, CompileSpec, OperatorSupport, PreprocessResult, Problem, RecipeSupport
from edgecore.sdk import Partitioner
from edgecore_xnnpack.blob.describe import describe, graph_of
from edgecore_xnnpack.blob.verify import incompatibilities
from edgecore_xnnpack.lowering import preprocess
from edgecore_xnnpack.operators import TABLE
from edgecore_xnnpack.options import XnnpackOptions
from edgecore_xnnpack.partitioner import FORCE_FP16, XnnpackPartitioner


class XnnpackCompiler:
    """Implements the protocols of `edgecore.plugin` for recipes, options, precision, and reading blobs.

    A partition becomes the same blob for every target runtime.
    """

    Options = XnnpackOptions

    def partitioner(self, options: XnnpackOptions, *, runtime: str) -> Partitioner:
        """Make the partitioner of one compilation."""
        return XnnpackPartitioner(options, runtime)

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition into a blob. `FORCE_FP16` is the only compile spec."""
        return preprocess(program, force_fp16=FORCE_FP16 in specs)

    def operator_support(self) -> Sequence[OperatorSupport]:
        """List the supported operators with their dtypes and constraints."""
        return TABLE.support()

    def verify_blob(self, blob: bytes, named_data: Mapping[str, Any], *, runtime: str) -> Sequence[str]:
        """List the errors of a blob; an empty list means that the blob is valid.

        Errors are damage and missing weights. For the target runtime `executorch-1.5`, nodes and tensors that the
        XNNPACK delegate of executorch 1.5 does not support are errors too.
        """
        return incompatibilities(blob, named_data, for_executorch=runtime == "executorch-1.5")

    def describe_blob(self, blob: bytes, named_data: Mapping[str, Any]) -> Sequence[str]:
        """Return a line for each argument and node of a blob, for `edgecore inspect --blobs`."""
        return describe(blob, named_data)

    def blob_graph(self, blob: bytes, named_data: Mapping[str, Any]) -> BlobGraph:
        """Return the nodes of a blob, for tools that show the inside of delegates."""
        return graph_of(blob)

    def computes_in(self, options: XnnpackOptions) -> Literal["float32", "float16"]:
        """Return "float16" with the option `force_fp16`."""
        return "float16" if options.force_fp16 else "float32"

    def recipes(self) -> Mapping[str, RecipeSupport]:
        """Return the recipes of `edgecore.compile(quantize=...)`.

        - `int8`: int8 activations and weights; weights have a scale for each output channel. Needs calibration samples.
        - `int8-dynamic`: linear layers, and convolutions of sequences and images, with int8 weights. Inputs are
          quantized at run time: per token, sequence or image. Depthwise convolutions stay in floating point.
        - `int8-weights`: linear layers with int8 weights, which compute in floating point.
        - `int4-weights`: as `int8-dynamic`, but weights have 4 bits and a scale for each group of 32.
        - `fp16`: fp16 inside the delegate, as with the option `force_fp16`, and fp16 embedding tables.
        """
        from edgecore_xnnpack.recipes.table import RECIPES

        return RECIPES

    def configurations(self) -> Mapping[str, Mapping[str, str]]:
        """Map each processor in `processors.csv` to environment variables that select the kernels for it."""
        text = Path(__file__).with_name("processors.csv").read_text(encoding="utf-8")
        rows = csv.DictReader(text.splitlines())
        return {row["name"]: {"EDGECORE_XNNPACK_HARDWARE": row["hardware"]} for row in rows}

    def check(self) -> Sequence[Problem]:
        """Return an empty list: the backend needs nothing but its own shared library."""
        return []
