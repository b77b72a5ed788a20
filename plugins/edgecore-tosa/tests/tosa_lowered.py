"""Quantize a small module, lower it, and run its TOSA graph in numpy, in the reference model and in PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import tosa_numpy
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from edgecore.pipeline.lower import lower as edge_lower
from edgecore.plugin import PreprocessResult
from edgecore_tosa.graph import Array, Graph
from edgecore_tosa.lowering import lower
from edgecore_tosa.operators import table_of
from edgecore_tosa.quantizer import (
    TosaQuantizer,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
)
from edgecore_tosa.simulator import Simulator
from edgecore_tosa.spec import TosaSpec

INTEGER = TosaSpec.parse("TOSA-1.0+INT+int16+int4")
CONFIGS = {"int8": get_symmetric_quantization_config, "int16x8": get_symmetric_a16w8_quantization_config}

library = torch.ops.quantized_decomposed


@dataclass
class Outcome:
    """The graph of a module, and the integers of its result.

    Attributes:
        graph: The TOSA graph.
        numpy: The result of `tosa_numpy`.
        simulator: The result of Arm's reference model.
        torch: The integers of the result of PyTorch's quantized module.
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
    """Return a module with quantize and dequantize nodes, calibrated with random numbers like its inputs."""
    module = torch.export.export(model.eval(), inputs).module(check_guards=False)
    prepared = prepare_pt2e(module, TosaQuantizer().set_global(config))
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        prepared(*(torch.randn(x.shape, generator=generator) * x.std() + x.mean() for x in inputs))
    prepared(*inputs)
    return torch.export.export(convert_pt2e(prepared), inputs)


def graphs_of(program: torch.export.ExportedProgram, spec: TosaSpec = INTEGER) -> tuple[list[Graph], Any]:
    """Return the graphs of a program's partitions, and the edge program."""
    graphs: list[Graph] = []

    def preprocess(backend_id: str, part: Any, specs: Any) -> tuple[PreprocessResult, tuple[str, str]]:
        graphs.append(lower(part, spec))
        return PreprocessResult(graphs[-1].to_bytes()), ("edgecore-tosa", "0")

    table = table_of(spec)
    with patch("edgecore.pipeline.lower.preprocess", preprocess):
        edge = edge_lower({"forward": program}, partitioner=[table.partitioner("tosa", inside_only=table.inside_only)])
    return graphs, edge


def run(model: nn.Module, inputs: tuple[torch.Tensor, ...], config: str) -> Outcome:
    """Quantize, lower and run a module with one result; one partition must hold all of it."""
    program = quantized(model, inputs, CONFIGS[config]())
    graphs, edge = graphs_of(program)
    assert len(graphs) == 1, edge.report()
    first = [next(iter(node.users)) for node in program.graph.nodes if node.op == "placeholder" and is_quantized(node)]
    arrays = [
        library.quantize_per_tensor.default(x, *node.args[1:]).numpy() for x, node in zip(inputs, first, strict=True)
    ]
    (last,) = program.graph.output_node().args[0]
    assert last.target is library.dequantize_per_tensor.default
    result = program.module(check_guards=False)(*inputs)
    expected = library.quantize_per_tensor.default(result, *last.args[1:]).numpy()
    data = graphs[0].to_bytes()
    (ours,), (theirs,) = tosa_numpy.run(data, arrays), Simulator(data).run(*arrays)
    return Outcome(graphs[0], ours, theirs, expected)


def is_quantized(node: torch.fx.Node) -> bool:
    """Return True if a quantize node reads an input of a program."""
    return any(user.target is library.quantize_per_tensor.default for user in node.users)
