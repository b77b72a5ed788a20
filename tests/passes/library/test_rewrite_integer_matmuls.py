"""Matmuls with int8 matrices become linear layers of dequantized weights."""

import torch
import torch.ao.quantization.fx._decomposed
from edge_programs import Model

from edgecore.ir.graph import calls
from edgecore.ir.program.copying import copy_program
from edgecore.passes.library.functionalize import functionalize
from edgecore.passes.library.rewrite_integer_matmuls import rewrite_integer_matmuls

aten = torch.ops.aten
WEIGHT = torch.randint(-128, 128, (5, 8), dtype=torch.int8, generator=torch.Generator().manual_seed(0))
SCALES = torch.linspace(0.01, 0.05, 5)


def rewritten(function, *inputs, **parts):
    model = Model(function, **parts).eval()
    program = rewrite_integer_matmuls(functionalize(copy_program(torch.export.export(model, inputs))))
    torch.testing.assert_close(program.module(check_guards=False)(*inputs), model(*inputs), rtol=1e-5, atol=1e-5)
    return [node.target for node in calls(program.graph_module)]


def test_a_matmul_with_a_scaled_int8_matrix_becomes_a_linear_layer():
    function = lambda s, x: torch.mm(x, s.weight.t().to(torch.float32)) * s.scales
    targets = rewritten(function, torch.randn(3, 8), weight=WEIGHT, scales=SCALES)
    assert aten.linear.default in targets and aten.mm.default not in targets


def test_a_matmul_of_integers_becomes_a_linear_layer():
    function = lambda s, x: torch._int_mm(x, s.weight.t())
    x = torch.randint(-128, 128, (32, 8), dtype=torch.int8, generator=torch.Generator().manual_seed(1))
    targets = rewritten(function, x, weight=WEIGHT.repeat(8, 1)[:32])
    assert aten.linear.default in targets and aten._int_mm.default not in targets


def test_a_matmul_whose_scales_are_no_constant_stays():
    function = lambda s, x, scales: torch.mm(x, s.weight.t().to(torch.float32)) * scales
    targets = rewritten(function, torch.randn(3, 8), SCALES, weight=WEIGHT)
    assert aten.mm.default in targets and aten.linear.default not in targets
