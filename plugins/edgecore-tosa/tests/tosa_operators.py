"""Run the conformance samples of an operator in each profile, in numpy and in Arm's reference model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import tosa_numpy
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from tosa_lowered import CONFIGS, graphs_of

from edgecore.conformance.samples import sample_table  # noqa: F401  (fills calls.TABLE)
from edgecore.conformance.samples.calls import Sample, evaluate, samples_of
from edgecore_tosa.builder.operator_table import Row
from edgecore_tosa.operators import ROWS
from edgecore_tosa.quantizer import TosaQuantizer, get_symmetric_a8w4_quantization_config
from edgecore_tosa.schema import DType
from edgecore_tosa.simulator import Simulator
from edgecore_tosa.spec import TosaSpec


@dataclass(frozen=True)
class Profile:
    """A column of docs/comparisons.md: a specification, the dtype of a model, and the configuration that quantizes it."""

    spec: TosaSpec
    dtype: torch.dtype
    config: Any = None


PROFILES = {
    "int8": Profile(TosaSpec.parse("TOSA-1.0+INT"), torch.float32, CONFIGS["int8"]),
    "int16x8": Profile(TosaSpec.parse("TOSA-1.0+INT+int16"), torch.float32, CONFIGS["int16x8"]),
    "int4": Profile(TosaSpec.parse("TOSA-1.0+INT+int4"), torch.float32, get_symmetric_a8w4_quantization_config),
    "fp32": Profile(TosaSpec.parse("TOSA-1.0+FP"), torch.float32),
    "fp16": Profile(TosaSpec.parse("TOSA-1.0+FP"), torch.float16),
}
WITH_INT4 = {"aten.convolution.default", "aten.linear.default", "aten.conv3d.default"}
"""Operators with weights of their own, which may be int4."""

BOUNDS = {np.dtype(np.float32): 1e-5, np.dtype(np.float16): 4e-3}
"""The greatest difference of real numbers, relative to the number and to the greatest one, as in test_float."""

BOOLEAN = {f"aten.{name}" for name in (
    "logical_and.default", "logical_or.default", "logical_not.default",
    "bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_not.default",
)}  # fmt: skip


def operators() -> dict[str, Row]:
    """Return the rows of the lowering, without those that convert: they are part of each quantized call."""
    return {str(row.target): row for row in ROWS if not str(row.target).startswith("quantized_decomposed.")}


def is_supported(row: Row, name: str) -> bool:
    """Return True if the table of a profile has the row for the dtype of its models."""
    profile = PROFILES[name]
    if (row.lacks and row.lacks(profile.spec)) or (name == "int4" and str(row.target) not in WITH_INT4):
        return False
    return profile.dtype in row.dtypes or torch.bool in row.dtypes


class Calls(nn.Module):
    """Calls of one operator after one that changes nothing. A boolean result chooses a number or its negative."""

    def __init__(self, operator: str, samples: Sequence[Sample]) -> None:
        super().__init__()
        self.operator, self.samples = operator, samples

    def forward(self, number: torch.Tensor, *inputs: torch.Tensor) -> list[torch.Tensor]:
        results, rest = [], list(inputs)
        for sample in self.samples:
            own = [rest.pop(0) for _ in sample.inputs]
            own = [torch.maximum(x, x) if x.is_floating_point() else x for x in own]
            result = evaluate(self.operator, sample, own)
            results += result if isinstance(result, (tuple, list)) else [result]
        chosen = [torch.where(one, number, -number) if one.dtype == torch.bool else one for one in results]
        return [one for one in chosen if one.is_floating_point()]


class Comparison(torch.fx.Interpreter):
    """Runs a lowered program, and each delegate in numpy and in the reference model; `count` results were compared."""

    count = 0

    def run_node(self, node: torch.fx.Node) -> Any:
        if "call_delegate" not in str(node.target):
            return super().run_node(node)
        data = getattr(self.module, node.args[0].target).processed_bytes
        arrays = [self.env[one].numpy() for one in node.args[1:]]
        ours, theirs = tosa_numpy.run(data, arrays), Simulator(data).run(*arrays)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
        self.count += len(theirs)
        return [torch.from_numpy(np.array(one)) for one in theirs]


def assert_same(one: np.ndarray, other: np.ndarray) -> None:
    """Check that results are equal bit for bit, or real numbers within `BOUNDS`."""
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    bound = BOUNDS.get(one.dtype)
    if bound is None:
        np.testing.assert_array_equal(one, other)
        return
    one, other = one.astype(np.float64), other.astype(np.float64)
    largest = np.abs(other[np.isfinite(other)]).max(initial=0.0)
    np.testing.assert_allclose(one, other, rtol=bound, atol=bound * largest)


def compare(operator: str, name: str) -> int:
    """Lower the samples of an operator in a profile, and compare the results of its delegates.

    Returns:
        The number of results that were compared; 0 if no call of the operator is in a delegate.
    """
    profile = PROFILES[name]
    found = samples_of(operator, torch.bool if operator in BOOLEAN else profile.dtype, quick=False)
    samples = [one for one in found if all(x.numel() and x.is_contiguous() and x.dim() for x in one.inputs)]
    number = torch.tensor([0.75], dtype=profile.dtype)
    inputs = (number, *(x for sample in samples for x in sample.inputs))
    model = Calls(operator, samples).eval()
    if not samples:
        return 0
    program = torch.export.export(model, inputs)
    if profile.config is not None:
        prepared = prepare_pt2e(program.module(check_guards=False), TosaQuantizer().set_global(profile.config()))
        prepared(*inputs)
        program = torch.export.export(convert_pt2e(prepared), inputs)
    graphs, edge = graphs_of(program, profile.spec)
    if not any(row.operator == operator and row.where == "tosa" for row in edge.report().rows):
        return 0
    if name == "int4":
        constants = {tensor.dtype for graph in graphs for one in graph.operators for tensor in one.inputs}
        assert DType.INT4 in constants
    lowered = edge.programs["forward"]
    signature, rest = lowered.graph_signature, iter(inputs)
    names = {
        **signature.inputs_to_parameters, **signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants
    }  # fmt: skip
    state = {**lowered.state_dict, **lowered.constants}
    placeholders = [node.name for node in lowered.graph.nodes if node.op == "placeholder"]
    run = Comparison(lowered.graph_module)
    run.run(*(state[names[one]] if one in names else next(rest) for one in placeholders))
    return run.count
