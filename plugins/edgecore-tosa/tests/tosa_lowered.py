"""Quantize a small module, lower it, and run its TOSA graph in numpy, in the reference model and in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import tosa_numpy
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from edgecore.pipeline.lowering import lower as edge_lower
from edgecore.plugin import PreprocessResult
from edgecore.sdk import is_dequantize
from edgecore_tosa.graph import Array, Graph
from edgecore_tosa.lowering import lower
from edgecore_tosa.operators import table_of
from edgecore_tosa.quantization.scales import multiplier_and_shift
from edgecore_tosa.quantizer import (
    TosaQuantizer,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
)
from edgecore_tosa.simulator import Simulator
from edgecore_tosa.spec import TosaSpec

INTEGER = TosaSpec.parse("TOSA-1.0+INT+int16+int4")
REAL = TosaSpec.parse("TOSA-1.0+FP")
CONFIGS: dict[str, Any] = {
    "int8": get_symmetric_quantization_config,
    "int16x8": get_symmetric_a16w8_quantization_config,
}

library = torch.ops.quantized_decomposed

Case = tuple[nn.Module, tuple[torch.Tensor, ...]]
"""A module and its inputs."""


class Call(nn.Module):
    """A module of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def random(*shape: int, seed: int = 0, scale: float = 1.0, shift: float = 0.0) -> torch.Tensor:
    """Normally distributed numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale + shift


@dataclass
class Outcome:
    """The graph of a module, and the integers or real numbers of its result.

    Attributes:
        graph: The TOSA graph, which holds the other modules of the program, too.
        numpy: The result of `tosa_numpy`.
        simulator: The result of Arm's reference model.
        torch: The result of PyTorch: the integers of its quantized module.
    """

    graph: Graph
    numpy: Array
    simulator: Array
    torch: Array

    @property
    def steps(self) -> Array:
        """The differences between TOSA and PyTorch in steps of the result."""
        steps: Array = np.abs(self.simulator.astype(np.int64) - self.torch.astype(np.int64))
        return steps


def quantized(model: nn.Module, inputs: tuple[torch.Tensor, ...], config: Any) -> torch.export.ExportedProgram:
    """Return a module with quantize and dequantize nodes, calibrated with random numbers like its inputs.

    Args:
        model: The module.
        inputs: Its inputs.
        config: A configuration for all of it, or a quantizer.
    """
    quantizer = config if isinstance(config, TosaQuantizer) else TosaQuantizer().set_global(config)
    module = torch.export.export(model.eval(), inputs).module(check_guards=False)
    prepared = prepare_pt2e(module, quantizer)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        prepared(
            *(
                torch.randn(x.shape, generator=generator) * x.std() + x.mean() if x.is_floating_point() else x
                for x in inputs
            )
        )
    prepared(*inputs)
    return torch.export.export(convert_pt2e(prepared), inputs)


def with_exact_factors(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Change the scales of weights so that TOSA can scale the sums of int16 layers exactly; return the program.

    The sums are int48. RESCALE multiplies them by scale of the input * scale of the weight / scale of the result as
    multiplier * 2**-shift, where the multiplier has 15 bits. So the factors of most programs are off by up to 2**-15 of
    themselves. With scales whose factors have no such error TOSA and PyTorch compute the same, and a test can ask for
    the same integers. The scales change by 2**-15, which is 0.004 of a step of the largest weight.
    """
    for layer in program.graph.nodes:
        weight = layer.args[1] if len(layer.args) > 1 else None
        if not (isinstance(weight, torch.fx.Node) and weight.target is library.dequantize_per_channel.default):
            continue
        result = layer
        while result.target is not library.quantize_per_tensor.default:
            (result,) = result.users
        source = layer.args[0]
        if source.args[-1] != torch.int16:
            continue
        (name,) = [item.target for item in program.graph_signature.input_specs if item.arg.name == weight.args[1].name]
        ratio = source.args[1] / result.args[1]
        pairs = [multiplier_and_shift(scale * ratio, 16) for scale in program.state_dict[name].tolist()]
        exact = [multiplier * 2.0**-shift / ratio for multiplier, shift in pairs]
        program.state_dict[name] = torch.tensor(exact, dtype=program.state_dict[name].dtype)
    return program


def graphs_of(program: torch.export.ExportedProgram, spec: TosaSpec = INTEGER) -> tuple[list[Graph], Any]:
    """Return the graphs of a program's partitions, and the edge program."""
    graphs: list[Graph] = []

    def preprocess(backend_id: str, part: Any, specs: Any) -> tuple[PreprocessResult, tuple[str, str]]:
        graphs.append(lower(part, spec))
        return PreprocessResult(graphs[-1].to_bytes()), ("edgecore-tosa", "0")

    table = table_of(spec)
    with (
        patch("edgecore.pipeline.lowering.lower_programs.preprocess", preprocess),
        patch("edgecore.pipeline.lowering.lower_programs.link", None),
    ):
        edge = edge_lower({"forward": program}, [table.partitioner("tosa", inside_only=table.inside_only)])
    return graphs, edge


class Several(nn.Module):
    """Modules with inputs of their own; the results are those of all."""

    def __init__(self, cases: Mapping[str, Case]) -> None:
        super().__init__()
        self.models = nn.ModuleList([model for model, _ in cases.values()])
        self.counts = [len(inputs) for _, inputs in cases.values()]

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results, start = [], 0
        for model, count in zip(self.models, self.counts, strict=True):
            results.append(model(*inputs[start : start + count]))
            start += count
        return tuple(results)


def run(model: nn.Module, inputs: tuple[torch.Tensor, ...], config: str, spec: TosaSpec = INTEGER) -> Outcome:
    """Quantize, lower and run a module with one result; one partition must hold all of it."""
    return run_all({"": (model, inputs)}, config, spec)[""]


def run_all(cases: Mapping[str, Case], config: str, spec: TosaSpec = INTEGER) -> dict[str, Outcome]:
    """Quantize, lower and run modules with one result each as one program; one partition must hold all of it."""
    inputs = inputs_of(cases)
    program = with_exact_factors(quantized(Several(cases).eval(), inputs, CONFIGS[config]()))
    return compared(cases, program, quantized_results(program, inputs), spec)


def run_real(cases: Mapping[str, Case], spec: TosaSpec = REAL) -> dict[str, Outcome]:
    """Lower and run modules that are not quantized, with one result each, as one program."""
    inputs, model = inputs_of(cases), Several(cases).eval()
    return compared(cases, torch.export.export(model, inputs), model(*inputs), spec)


def run_float(model: nn.Module, inputs: tuple[torch.Tensor, ...], spec: TosaSpec = REAL) -> Outcome:
    """Lower and run a module of real numbers with one result; one partition must hold all of it."""
    return run_real({"": (model, inputs)}, spec)[""]


def inputs_of(cases: Mapping[str, Case]) -> tuple[torch.Tensor, ...]:
    """Return the inputs of all modules."""
    return tuple(x.clone() for _, inputs in cases.values() for x in inputs)


def compared(
    cases: Mapping[str, Case], program: torch.export.ExportedProgram, expected: Sequence[torch.Tensor], spec: TosaSpec
) -> dict[str, Outcome]:
    """Lower a program, and run its only partition; `expected` are the results of PyTorch."""
    graphs, edge = graphs_of(program, spec)
    assert len(graphs) == 1 and "not delegated: aten" not in str(edge.report()), edge.report()
    lowered = edge.programs["forward"]
    inputs = dict(zip(lowered.graph_signature.user_inputs, inputs_of(cases), strict=True))
    (call,) = [node for node in lowered.graph.nodes if "call_delegate" in str(node.target)]
    arrays = []
    for node in call.args[1:]:
        x = (
            library.quantize_per_tensor.default(inputs[node.args[0].name], *node.args[1:])
            if node.args
            else inputs[node.name]
        )
        arrays.append(x.numpy())
    data = graphs[0].to_bytes()
    ours, theirs = tosa_numpy.run(data, arrays), Simulator(data).run(*arrays)
    outcomes = {}
    for name, result, last in zip(cases, expected, lowered.graph.output_node().args[0], strict=True):
        part = last.args[0] if is_dequantize(last) else last
        outcomes[name] = Outcome(graphs[0], ours[part.args[1]], theirs[part.args[1]], result.detach().numpy())
    return outcomes


def run_quantized(
    program: torch.export.ExportedProgram, inputs: tuple[torch.Tensor, ...], spec: TosaSpec = INTEGER
) -> Outcome:
    """Lower and run a program of one result with quantize and dequantize nodes around its operators."""
    return compared({"": (nn.Module(), inputs)}, program, quantized_results(program, inputs), spec)[""]


def quantized_results(program: torch.export.ExportedProgram, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """Return the integers of PyTorch's results, all of which are dequantized."""
    results = program.module(check_guards=False)(*inputs)
    lasts = program.graph.output_node().args[0]
    assert all(last.target is library.dequantize_per_tensor.default for last in lasts)
    several = results if isinstance(results, tuple) else (results,)
    return [library.quantize_per_tensor.default(x, *last.args[1:]) for x, last in zip(several, lasts, strict=True)]


def assert_near(outcome: Outcome, tolerance: float = 1e-5) -> None:
    """Check that real numbers agree, relative to the greatest of them."""
    largest = np.abs(outcome.torch).max()
    for result in (outcome.numpy, outcome.simulator):
        assert result.shape == outcome.torch.shape
        assert np.abs(result.astype(np.float64) - outcome.torch).max() <= tolerance * largest
