"""Quantize and dequantize nodes: they move past views, and constants are stored quantized."""

import torch
import torch.ao.quantization.fx._decomposed
from edge_programs import check, edge_of

from edgecore.ir.dialect.verifier import verify
from edgecore.ir.graph import Editor, calls, edit, fake_mode
from edgecore.passes.quantized import (
    QuantizationParameters,
    fold_quantize,
    insert_pair,
    is_dequantize,
    is_quantize,
    propagate_quantize,
)

aten = torch.ops.aten


def test_quantize_nodes_move_before_views():
    parameters = QuantizationParameters(0.1, 3, -128, 127, torch.int8)
    x = torch.randn(2, 6)
    program = edge_of(lambda s, x: (x * 1).view(3, 4).permute(1, 0) * s.weight, x, weight=torch.ones(3))
    with edit(program) as graph_module:
        mode = fake_mode(graph_module)
        first, last = calls(graph_module, aten.mul.Scalar)[0], calls(graph_module, aten.mul.Tensor)[0]
        for node, user in ((first, first.next), (last.args[0], last)):
            user.replace_input_with(node, insert_pair(Editor(graph_module, user, mode), node, parameters))
    before = program.module(check_guards=False)(x)
    program = propagate_quantize(program)
    verify(program)
    torch.testing.assert_close(program.module(check_guards=False)(x), before)
    quantized = [node for node in calls(program.graph_module) if is_quantize(node) or is_dequantize(node)]
    assert [is_quantize(node) for node in quantized] == [True, False], program.graph
    assert calls(program.graph_module, aten.view_copy.default)[0].meta["val"].dtype == torch.int8


def test_weights_that_are_quantized_are_stored_quantized():
    rest = (0.1, 0, -128, 127, torch.int8)
    library = torch.ops.quantized_decomposed

    def function(s, x):
        quantized = library.quantize_per_tensor(s.weight, *rest)
        return x * library.dequantize_per_tensor(quantized, *rest)

    program = fold_quantize(edge_of(function, torch.ones(3), weight=torch.tensor([1.0, -2.0, 3.0])))
    assert [tensor.dtype for tensor in program.state_dict.values()] == [torch.int8]
    check(program, function, torch.ones(3), weight=torch.tensor([1.0, -2.0, 3.0]))


def test_a_pair_by_way_of_half_precision_still_rounds():
    rest = (0.1, 0, -32768, 32767, torch.int16)
    library = torch.ops.quantized_decomposed

    def function(s, x):
        half = library.dequantize_per_tensor(library.quantize_per_tensor(x, *rest), *rest, out_dtype=torch.float16)
        return library.dequantize_per_tensor(library.quantize_per_tensor(half, *rest), *rest) * s.weight

    x = torch.tensor([1000.1, 2.0])
    program = fold_quantize(edge_of(function, x, weight=torch.ones(1)))
    check(program, function, x, weight=torch.ones(1))


def test_integers_outside_of_the_range_are_quantized_again():
    rest = (0.25, 3, -127, 127, torch.int8)
    library = torch.ops.quantized_decomposed

    def function(s, x):
        return library.quantize_per_tensor(library.dequantize_per_tensor(x, *rest), *rest) * s.weight

    x, weight = torch.tensor([-128, 1], dtype=torch.int8), torch.ones(1, dtype=torch.int8)
    program = fold_quantize(edge_of(function, x, weight=weight))
    check(program, function, x, weight=weight)


def test_a_range_is_known_behind_data_movement():
    rest = (0.25, 3, -127, 127, torch.int8)
    library = torch.ops.quantized_decomposed

    def function(s, x):
        moved = library.quantize_per_tensor(x, *rest).view(3, 2).permute(1, 0)
        again = library.quantize_per_tensor(library.dequantize_per_tensor(moved, *rest), *rest)
        return library.dequantize_per_tensor(again, *rest) * s.weight

    x = torch.randn(2, 3)
    program = fold_quantize(edge_of(function, x, weight=torch.ones(1)))
    assert len([node for node in calls(program.graph_module) if is_quantize(node)]) == 1
    check(program, function, x, weight=torch.ones(1))
