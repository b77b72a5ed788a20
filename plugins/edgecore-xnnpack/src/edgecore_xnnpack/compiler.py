"""The compile side of the XNNPACK backend."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from torch.export import ExportedProgram

from edgecore.partition import Partitioner
from edgecore.plugin import CompileSpec, OperatorSupport, PreprocessResult, Problem, Recipe, RewriteRecipe
from edgecore_xnnpack import native_library
from edgecore_xnnpack.describe import describe
from edgecore_xnnpack.operators import TABLE
from edgecore_xnnpack.options import XnnpackOptions
from edgecore_xnnpack.partitioner import FORCE_FP16, XnnpackPartitioner
from edgecore_xnnpack.preprocess import preprocess
from edgecore_xnnpack.stock import violations


class XnnpackCompiler:
    """Implements `edgecore.plugin.QuantizingCompiler`, `ConfigurableCompiler` and `BlobReader`. Both runtime profiles get the same blobs."""

    Options = XnnpackOptions

    def partitioner(self, options: BaseModel, *, runtime: str) -> Partitioner:
        """Takes the nodes that the table of operators accepts and the options leave."""
        return XnnpackPartitioner(XnnpackOptions.model_validate(options.model_dump()))

    def preprocess(self, program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition; the only compile spec is `FORCE_FP16`."""
        return preprocess(program, force_fp16=FORCE_FP16 in specs)

    def operator_support(self) -> Sequence[OperatorSupport]:
        """One row for each row of the table, by name."""
        rows = [OperatorSupport(str(target), row.names_of_dtypes, row.constraints) for target, row in TABLE.items()]
        return sorted(rows, key=lambda row: row.operator)

    def verify_blob(self, blob: bytes, named_data: Mapping[str, Any], *, runtime: str) -> Sequence[str]:
        """What executorch 1.5's XNNPACK delegate would refuse, and weights that the file does not hold."""
        return violations(blob, named_data, stock=runtime == "executorch-1.5")

    def describe_blob(self, blob: bytes, named_data: Mapping[str, Any]) -> Sequence[str]:
        """Arguments and nodes, for `edgecore inspect --blobs`."""
        return describe(blob, named_data)

    def recipes(self) -> Mapping[str, Recipe | RewriteRecipe]:
        """`int8`: values and weights of 8 bits, a scale for each output channel. `int8-dynamic`: linear layers only, whose
        inputs are rounded at run time. `int4-weights`: those, with weights of 4 bits and a scale for 32 of them. `fp16`:
        half precision inside, as the option `force_fp16`.
        """
        from edgecore_xnnpack.half import halve_embeddings
        from edgecore_xnnpack.int4_weights import quantize_linear_layers
        from edgecore_xnnpack.quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

        def make(is_dynamic: bool) -> XNNPACKQuantizer:
            config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=is_dynamic)
            return XNNPACKQuantizer().set_global(config)

        return {
            "int8": Recipe(lambda: make(False), calibrates=True),
            "int8-dynamic": Recipe(lambda: make(True), calibrates=False),
            "fp16": RewriteRecipe(halve_embeddings, {"force_fp16": True}, "float16"),
            "int4-weights": RewriteRecipe(quantize_linear_layers),
        }

    def configurations(self) -> Mapping[str, Mapping[str, str]]:
        """The sets of kernels that XNNPACK chooses on the processors of `processors.csv`."""
        text = Path(__file__).with_name("processors.csv").read_text(encoding="utf-8")
        rows = csv.DictReader(text.splitlines())
        return {row["name"]: {"EDGECORE_XNNPACK_HARDWARE": row["hardware"]} for row in rows}

    def check(self) -> Sequence[Problem]:
        """Compiling needs nothing; running needs the delegate's library."""
        if Path(native_library()).is_file():
            return []
        remedy = "pip install --force-reinstall --no-deps edgecore-xnnpack"
        return [Problem(f"the delegate's library {native_library()} is missing", remedy)]
