"""Compute an ML program (Core ML's operator graph) with PyTorch, operator by operator, in place of Core ML in tests.

The functions in `OPS` implement the specifications of MIL operators (the operators of ML programs), with the same
argument names. Results say nothing about the Neural Engine, or about the rounding and speed of a device.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgecore.errors import FormatError
from edgecore_coreml.conversion.convert import quiet
from edgecore_coreml.package.compiled import ONLY_CORE_ML
from edgecore_coreml.package.files import unpack
from edgecore_coreml_standin import elementwise, movement, networks, quantized  # noqa: F401 - registers operators
from edgecore_coreml_standin.registry import OPS

Values = dict[str, torch.Tensor]
"""Values of a function's states by name."""


class MilFunction:
    """A function of an ML program, which a call computes with PyTorch.

    Args:
        specification: The serialized model.
        weights_folder: The folder of the file `weight.bin`, which exists if the model has weights.
        name: Name of the function; empty for the model's default function.
    """

    def __init__(self, specification: bytes, weights_folder: Path, name: str = "") -> None:
        with quiet(io.StringIO()):
            from coremltools.converters.mil.frontend.milproto.load import load
            from coremltools.proto import Model_pb2

            spec = Model_pb2.Model.FromString(specification)
            chosen = name or spec.description.defaultFunctionName or "main"
            described = [item for item in spec.description.functions if item.name == chosen]
            self.description = described[0] if described else spec.description
            for other in set(spec.mlProgram.functions) - {chosen}:
                del spec.mlProgram.functions[other]
            program = load(spec, spec.specificationVersion, str(weights_folder))
            self.function = program.functions[chosen]
            self.constants: dict[str, Any] = {}
            for op in self.function.operations:
                if op.op_type == "const":
                    self.constants[op.outputs[0].name] = _tensor(op.outputs[0].val)
                elif op.op_type.startswith("constexpr_"):
                    arguments = {name: self.constants[var.name] for name, var in op.inputs.items() if var is not None}
                    self.constants[op.outputs[0].name] = OPS[op.op_type](**arguments)

    @property
    def kinds(self) -> set[str]:
        """The types of the function's operators, such as "matmul", except those that define constants."""
        return {op.op_type for op in self.function.operations if op.outputs[0].name not in self.constants}

    def new_states(self) -> Values:
        """Return a state of zeros for each state of the function, because Core ML initializes states with zeros."""
        return {item.name: torch.zeros(*_state_shape(item), dtype=torch.float16) for item in self.description.state}

    def __call__(self, inputs: Mapping[str, torch.Tensor], states: Values) -> dict[str, torch.Tensor]:
        """Return the function's outputs by name; update the values in `states` that the function writes."""
        values: dict[str, Any] = {**self.constants, **inputs}

        def value(var: Any) -> Any:
            return [value(item) for item in var] if isinstance(var, (tuple, list)) else values[var.name]

        for op in self.function.operations:
            if op.outputs and op.outputs[0].name in values:
                continue
            if op.op_type == "read_state":
                values[op.outputs[0].name] = states[op.input.name]
                continue
            if op.op_type == "coreml_update_state":
                states[op.state.name] = value(op.value)
                values[op.outputs[0].name] = states[op.state.name]
                continue
            if op.op_type not in OPS:
                raise NotImplementedError(f"the stand-in has no {op.op_type}")
            arguments = {name: value(var) for name, var in op.inputs.items() if var is not None}
            results = OPS[op.op_type](**arguments)
            for var, result in zip(op.outputs, results if len(op.outputs) > 1 else [results], strict=True):
                values[var.name] = result
        return {item.name: values[item.name] for item in self.description.output}


class StandIn:
    """The Core ML model of a delegate's blob, computed with PyTorch. Its states keep their values between calls.

    Args:
        blob: The blob of a delegate.
        named_data: Maps each key of the file's named data to an object with the bytes as `data`.

    Raises:
        FormatError: The blob is damaged, or contains a compiled model.
    """

    def __init__(self, blob: bytes, named_data: Mapping[str, Any]) -> None:
        self.package = unpack(blob, named_data)
        if self.package.compiled:
            raise FormatError(ONLY_CORE_ML)
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "weight.bin").write_bytes(self.package.weights)
            self.function = MilFunction(self.package.specification, Path(name), self.package.function)
        self.states = self.function.new_states()

    @property
    def kinds(self) -> set[str]:
        """The types of the model's operators, such as "matmul", except those that define constants."""
        return self.function.kinds

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Compute the model's outputs. Inputs and outputs are in the order of the delegate's arguments."""
        narrow = [value.to(torch.int32) if value.dtype == torch.int64 else value for value in inputs]
        results = self.function(dict(zip(self.package.inputs, narrow, strict=True)), self.states)
        return [results[name] for name in self.package.outputs]


def _state_shape(item: Any) -> list[int]:
    return list(item.type.stateType.arrayType.shape)


def _tensor(val: Any) -> Any:
    """Convert the value of a constant to a tensor; return strings, booleans, lists and None unchanged."""
    if isinstance(val, (str, bool, list, tuple)) or val is None:
        return val
    array = np.asarray(val)
    return str(val) if array.dtype.kind in "US" else torch.from_numpy(array.copy())
