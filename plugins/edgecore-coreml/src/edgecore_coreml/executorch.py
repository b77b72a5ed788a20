"""The names that ExecuTorch users' scripts import from ExecuTorch's Core ML backend."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.plugin import CompileSpec
from edgecore.sdk import Partitioner
from edgecore_coreml.compiler import CoreMLCompiler
from edgecore_coreml.options import OTHERS, CoreMLOptions


class ModelType(Enum):
    """Selects who compiles the model: the device that runs it (MODEL), or Xcode on a Mac (COMPILED_MODEL)."""

    MODEL = "model"
    COMPILED_MODEL = "compiled_model"


class CoreMLBackend:
    """ExecuTorch's functions that create compile specs (options as bytes) for `CoreMLPartitioner`."""

    MODEL_TYPE = ModelType

    @staticmethod
    def generate_compile_specs(
        compute_unit: Any = "ALL",
        minimum_deployment_target: Any = None,
        compute_precision: Any = "FLOAT16",
        model_type: ModelType = ModelType.MODEL,
    ) -> list[CompileSpec]:
        """Return compile specs that hold the given options.

        Args:
            compute_unit: Processors that Core ML may use: a member of `coremltools.ComputeUnit`, or its name.
            minimum_deployment_target: Oldest system: a member of `coremltools.target`, or its name.
            compute_precision: Precision in which Core ML computes: a member of `coremltools.precision`, or its name.
            model_type: Who compiles the model.

        Raises:
            ValueError: A value is not allowed.
        """
        options = CoreMLOptions(
            compute_unit=compute_unit,
            minimum_deployment_target=minimum_deployment_target,
            compute_precision=compute_precision,
            model_type=model_type,  # type: ignore[arg-type]  # pydantic converts an enumerator to its name
        )
        return options.to_specs()

    @staticmethod
    def generate_enumerated_shapes_compile_spec(
        ep: ExportedProgram, enumerated_shapes: Mapping[str, Sequence[Sequence[int]]]
    ) -> CompileSpec:
        """Return the compile spec with the allowed shapes of inputs.

        Args:
            ep: The program that is lowered.
            enumerated_shapes: Maps the name of each input to its allowed shapes. A call has the first shapes of all
                inputs, or the second shapes of all inputs, and so on.

        Raises:
            CompileError: The program has no input with a given name.
        """
        inputs = ep.graph_signature.user_inputs
        for name in enumerated_shapes:
            if name not in inputs:
                raise CompileError(f"enumerated_shapes names {name!r}; the inputs are {', '.join(map(str, inputs))}")
        shapes = {name: [list(shape) for shape in of_input] for name, of_input in enumerated_shapes.items()}
        return CompileSpec(OTHERS, json.dumps({"enumerated_shapes": shapes}).encode())


def coreml_partitioner(*, compile_specs: Sequence[CompileSpec] = (), **options: Any) -> Partitioner:
    """Create the Core ML partitioner, which replaces ExecuTorch's class `CoreMLPartitioner`.

    Args:
        compile_specs: Compile specs that functions of `CoreMLBackend` returned.
        options: Further options of the backend: `skip_ops_for_coreml_delegation`, `take_over_mutable_buffer`,
            `take_over_constant_data` and `lower_full_graph` are arguments of ExecuTorch's class.

    Raises:
        ValueError: A value is not allowed, or two options exclude each other.
    """
    from_specs = CoreMLOptions.values_of_specs(compile_specs)
    values = {**from_specs, **options}
    return CoreMLCompiler().partitioner(CoreMLOptions.model_validate(values), runtime="executorch-1.5")
