"""Each operator in Arm's emulation layer and in Arm's reference model: integers are equal, real numbers nearly so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import edgecore
from edgecore.conformance.samples import sample_table  # noqa: F401  (fills calls.TABLE)
from edgecore.conformance.samples.calls import Sample, evaluate, samples_of
from edgecore_tosa.simulator import Simulator
from edgecore_vgf import VgfCompileSpec, VgfPartitioner, VgfQuantizer
from edgecore_vgf.compiler import VgfCompiler
from edgecore_vgf.quantizer import get_symmetric_a16w8_quantization_config, get_symmetric_quantization_config

pytestmark = pytest.mark.usefixtures("device")

QUICK = {"aten.add.Tensor", "aten.gelu.default", "aten.linear.default", "aten.mean.dim"}
"""Operators that every run tests; the others need --full."""

CONFIGS: dict[str, Callable[[], Any] | None] = {
    "real": None,
    "int8": get_symmetric_quantization_config,
    "int16x8": get_symmetric_a16w8_quantization_config,
}

BOUND = 1e-5
"""The greatest difference of real numbers, relative to the greatest of them."""


class Calls(torch.nn.Module):
    """Calls of one operator, after an operator that changes nothing: partitions that only move data are no delegates."""

    def __init__(self, operator: str, samples: list[Sample]) -> None:
        super().__init__()
        self.operator, self.samples = operator, samples

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        results, rest = [], list(inputs)
        for sample in self.samples:
            own = [rest.pop(0) for _ in sample.inputs]
            own = [torch.maximum(x, x) if x.is_floating_point() else x for x in own]
            result = evaluate(self.operator, sample, own)
            results += result if isinstance(result, (tuple, list)) else [result]
        return [one for one in results if one.is_floating_point()]


def samples(operator: str) -> list[Sample]:
    """Return the samples of an operator that TOSA has: those with elements, contiguous, and without int64 inputs.

    TOSA has no int64. A call that reads an int64 input, such as an embedding, stays outside, and the delegate would get
    its result instead of an input of the program.
    """
    found = samples_of(operator, torch.float32, quick=False)
    return [
        one
        for one in found
        if all(x.numel() and x.is_contiguous() and x.dim() and x.dtype != torch.int64 for x in one.inputs)
    ]


def lowered(
    model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], config: Callable[[], Any] | None, folder: Path
) -> edgecore.EdgeProgramManager:
    """Lower a model, quantized if there is a configuration; the TOSA graphs of its delegates are in `folder`."""
    spec = VgfCompileSpec().dump_intermediate_artifacts_to(str(folder))
    program = torch.export.export(model.eval(), inputs)
    if config is not None:
        prepared = prepare_pt2e(program.module(check_guards=False), VgfQuantizer(spec).set_global(config()))
        prepared(*inputs)
        program = torch.export.export(convert_pt2e(prepared), inputs)
    return edgecore.to_edge_transform_and_lower(program, partitioner=[VgfPartitioner(spec)])


def of_reference_model(
    edge: edgecore.EdgeProgramManager, folder: Path, inputs: tuple[torch.Tensor, ...]
) -> dict[int, np.ndarray]:
    """Run the only delegate of a program, whose inputs are the program's, with Arm's reference model.

    Returns:
        The results of the program that the delegate computes, by their numbers.
    """
    program = edge.exported_program()
    given = dict(zip(program.graph_signature.user_inputs, inputs, strict=True))
    (call,) = [node for node in program.graph.nodes if "call_delegate" in str(node.target)]
    (graph,) = folder.glob("*/graph.tosa")
    found = Simulator(graph.read_bytes()).run(*[given[node.name].numpy() for node in call.args[1:]])
    outputs = program.graph.output_node().args[0]
    return {index: found[one.args[1]] for index, one in enumerate(outputs) if one.args and one.args[0] is call}


def compare(edge: edgecore.EdgeProgramManager, folder: Path, inputs: tuple[torch.Tensor, ...], *, exact: bool) -> int:
    """Compare the results of the emulation layer with those of the reference model, and return their number."""
    results = edgecore.load(edge.to_executorch().buffer).forward(*inputs)
    expected = of_reference_model(edge, folder, inputs)
    for index, theirs in expected.items():
        ours = torch.as_tensor(results[index] if isinstance(results, (tuple, list)) else results).numpy()
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        if exact:
            np.testing.assert_array_equal(ours, theirs)
        else:
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=BOUND * max(np.abs(theirs).max(), 1e-6))
    return len(expected)


def parameters() -> list[Any]:
    names = [row.operator for row in VgfCompiler().operator_support() if "float32" in row.dtypes]
    return [
        pytest.param(name, config, marks=() if name in QUICK else pytest.mark.full)
        for name in names
        if not name.startswith("quantized_decomposed.")
        for config in CONFIGS
    ]


@pytest.mark.parametrize(("operator", "config"), parameters())
def test_an_operator_has_the_results_of_the_reference_model(tmp_path, operator, config):
    calls = samples(operator)
    if not calls:
        pytest.skip("the conformance suite has no samples of it")
    model, inputs = Calls(operator, calls), tuple(x for sample in calls for x in sample.inputs)
    if not model(*inputs):
        pytest.skip("its results are no real numbers")
    edge = lowered(model, inputs, CONFIGS[config], tmp_path)
    if not any(row.operator == operator and row.where == "VgfBackend" for row in edge.report().rows):
        pytest.skip("edgecore or the partitioner leaves no call of it to the delegate")
    assert compare(edge, tmp_path, inputs, exact=config != "real")


@pytest.mark.full
@pytest.mark.parametrize("config", ["real", "int8"])
def test_mobilenet_is_one_delegate_with_the_results_of_the_reference_model(tmp_path, config):
    zoo = pytest.importorskip("zoo")  # beside the tests of the core
    model, inputs = zoo.make("mobilenet_v2")
    edge = lowered(model, inputs, CONFIGS[config], tmp_path)
    assert edge.report().delegates == {"VgfBackend": 1} and "not delegated" not in str(edge.report())
    assert compare(edge, tmp_path, inputs, exact=config != "real") == 1
