"""The compile side of the XNNPACK backend."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from torch.export import ExportedProgram

from edgecore.plugin import CompileSpec, OperatorSupport, PreprocessResult, Problem, Recipe, RewriteRecipe
from edgecore.sdk import Partitioner
from edgecore_xnnpack import native_library
from edgecore_xnnpack.describe import describe
from edgecore_xnnpack.executorch_compat import incompatibilities
from edgecore_xnnpack.operators import TABLE
from edgecore_xnnpack.options import XnnpackOptions
from edgecore_xnnpack.partitioner import FORCE_FP16, XnnpackPartitioner
from edgecore_xnnpack.preprocess import preprocess


class XnnpackCompiler:
    """Implements `QuantizingCompiler`, `ConfigurableCompiler` and `BlobReader`.

    All target runtimes get the same blobs.
    """

    Options = XnnpackOptions

    def partitioner(self, options: BaseModel, *, runtime: str) -> Partitioner:
        """Make the partitioner for the nodes that the operator table supports and the options allow."""
        return XnnpackPartitioner(XnnpackOptions.model_validate(options.model_dump()))

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition; the only compile spec is `FORCE_FP16`."""
        return preprocess(program, force_fp16=FORCE_FP16 in specs)

    def operator_support(self) -> Sequence[OperatorSupport]:
        """List the rows of the operator table."""
        return TABLE.support()

    def verify_blob(self, blob: bytes, named_data: Mapping[str, Any], *, runtime: str) -> Sequence[str]:
        """List what executorch 1.5's XNNPACK delegate would refuse, and weights that the file does not hold."""
        return incompatibilities(blob, named_data, stock=runtime == "executorch-1.5")

    def describe_blob(self, blob: bytes, named_data: Mapping[str, Any]) -> Sequence[str]:
        """List arguments and nodes, for `edgecore inspect --blobs`."""
        return describe(blob, named_data)

    def recipes(self) -> Mapping[str, Recipe | RewriteRecipe]:
        """Return the recipes of `edgecore.compile(quantize=...)`.

        - `int8`: values and weights of 8 bits, with a scale for each output channel; needs samples.
        - `int8-dynamic`: linear layers only, whose inputs are quantized per token at run time.
        - `int4-weights`: the same with weights of 4 bits and a scale for every 32 of them.
        - `fp16`: fp16 inside the delegate, as the option `force_fp16`, and in embedding tables.
        """
        from edgecore_xnnpack.quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
        from edgecore_xnnpack.recipes.fp16_embeddings import convert_embeddings_to_fp16
        from edgecore_xnnpack.recipes.int4_weights import quantize_linear_layers

        def make(is_dynamic: bool) -> XNNPACKQuantizer:
            config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=is_dynamic)
            return XNNPACKQuantizer().set_global(config)

        return {
            "int8": Recipe(lambda: make(False), calibrates=True),
            "int8-dynamic": Recipe(lambda: make(True), calibrates=False),
            "fp16": RewriteRecipe(convert_embeddings_to_fp16, {"force_fp16": True}, "float16"),
            "int4-weights": RewriteRecipe(quantize_linear_layers),
        }

    def configurations(self) -> Mapping[str, Mapping[str, str]]:
        """Return environment variables for each kind of processor in `processors.csv`."""
        text = Path(__file__).with_name("processors.csv").read_text(encoding="utf-8")
        rows = csv.DictReader(text.splitlines())
        return {row["name"]: {"EDGECORE_XNNPACK_HARDWARE": row["hardware"]} for row in rows}

    def check(self) -> Sequence[Problem]:
        """Report a missing delegate's library. Compiling needs nothing else."""
        if Path(native_library()).is_file():
            return []
        remedy = "pip install --force-reinstall --no-deps edgecore-xnnpack"
        return [Problem(f"the delegate's library {native_library()} is missing", remedy)]
