"""A stand-in for Core ML in tests: it computes the ML program of a blob with PyTorch, operator by operator.

Each function is written from the specification of its MIL operator, and has the names of the operator's arguments. What
it cannot say: speed, the Neural Engine, and how a device rounds. Nothing chooses it but a test.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgecore_coreml.convert import quiet
from edgecore_coreml.package import unpack
from edgecore_coreml.standin import elementwise, movement, networks  # noqa: F401 - they register their operators
from edgecore_coreml.standin.registry import OPS


class StandIn:
    """The ML program of a blob."""

    def __init__(self, blob: bytes) -> None:
        self.package = unpack(blob)
        with tempfile.TemporaryDirectory() as name, quiet(io.StringIO()):
            from coremltools.converters.mil.frontend.milproto.load import load
            from coremltools.proto import Model_pb2

            spec = Model_pb2.Model.FromString(self.package.specification)
            (Path(name) / "weights").mkdir()
            (Path(name) / "weights/weight.bin").write_bytes(self.package.weights)
            self.version = spec.specificationVersion
            self.program = load(spec, spec.specificationVersion, str(Path(name) / "weights"))
            self.function = self.program.functions["main"]
            self.constants = {
                op.outputs[0].name: _tensor(
                    op.outputs[0].val if op.op_type == "const" else op.materialized_val_inference()
                )
                for op in self.function.operations
                if op.op_type == "const" or op.op_type.startswith("constexpr_")
            }

    @property
    def kinds(self) -> set[str]:
        """The names of the operators that are no constants."""
        return {op.op_type for op in self.function.operations if op.outputs[0].name not in self.constants}

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        values: dict[str, Any] = dict(self.constants)
        for name, given in zip(self.package.inputs, inputs, strict=True):
            values[name] = given.to(torch.int32) if given.dtype == torch.int64 else given

        def value(var: Any) -> Any:
            return [value(item) for item in var] if isinstance(var, (tuple, list)) else values[var.name]

        for op in self.function.operations:
            if op.outputs[0].name in values:
                continue
            if op.op_type not in OPS:
                raise NotImplementedError(f"the stand-in has no {op.op_type}")
            arguments = {name: value(var) for name, var in op.inputs.items() if var is not None}
            results = OPS[op.op_type](**arguments)
            for var, result in zip(op.outputs, results if len(op.outputs) > 1 else [results], strict=True):
                values[var.name] = result
        return [values[name] for name in self.package.outputs]


def _tensor(val: Any) -> Any:
    """Return a constant as a tensor, a string or a list of these."""
    if isinstance(val, (str, bool, list, tuple)) or val is None:
        return val
    array = np.asarray(val)
    return str(val) if array.dtype.kind in "US" else torch.from_numpy(array.copy())
