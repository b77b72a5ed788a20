"""Calls whose result equals their input disappear."""

import torch
from edge_programs import check, export, targets

from edgecore.passes import EDGE_PASSES
from edgecore.passes.library.remove_identities import remove_identities
from edgecore.pipeline import to_edge

aten = torch.ops.aten


def edge_of(function, *inputs):
    """Lower a function without the passes that remove identities and merge views."""
    passes = EDGE_PASSES.skip("remove_identities", "merge_views")
    return to_edge(export(function, *inputs), passes=passes).exported_program()


def test_copies_views_and_conversions_that_change_nothing_disappear():
    function = lambda s, x: x.exp().clone().view(2, 3).permute(0, 1).to(torch.float32).relu()
    x = torch.randn(2, 3)
    program = edge_of(function, x)
    assert len(targets(program)) > 2
    program = remove_identities(program)
    check(program, function, x)
    assert targets(program) == [aten.exp.default, aten.relu.default]


def test_views_that_change_shape_order_or_dtype_stay():
    function = lambda s, x: (x.exp().view(3, 2), x.exp().permute(1, 0), x.exp().to(torch.float64))
    x = torch.randn(2, 3)
    program = remove_identities(edge_of(function, x))
    check(program, function, x)
    kept = [target for target in targets(program) if target is not aten.exp.default]
    assert len(kept) == 3


def test_a_copy_between_an_input_and_an_output_stays():
    program = remove_identities(edge_of(lambda s, x: x.clone(), torch.randn(3)))
    assert targets(program) == [aten.clone.default]


def quantize_again(s, x, dtype=torch.int8, zero_point=3):
    library, limits = torch.ops.quantized_decomposed, torch.iinfo(dtype)
    for zero in (3, zero_point):
        rest = (0.25, zero, limits.min, limits.max, dtype)
        x = library.dequantize_per_tensor.default(library.quantize_per_tensor.default(x, *rest), *rest)
        x = torch.nn.functional.dropout(x, 0.5, training=False)
    return x


def test_a_value_is_not_quantized_twice_with_the_same_parameters():
    x = torch.randn(2, 16) * 40
    program = to_edge(export(quantize_again, x)).exported_program()
    check(program, quantize_again, x)
    assert [target.__name__.partition(".")[0] for target in targets(program)] == [
        "quantize_per_tensor",
        "dequantize_per_tensor",
    ]


def test_quantization_with_other_parameters_or_more_bits_than_a_float_stays():
    for other in (lambda s, x: quantize_again(s, x, zero_point=4), lambda s, x: quantize_again(s, x, torch.int32)):
        assert len(targets(to_edge(export(other, torch.randn(2, 16))).exported_program())) == 4


def integers_again(s, x, low=-128):
    rest = (0.25, 3, low, 127, torch.int8)
    library = torch.ops.quantized_decomposed
    return library.quantize_per_tensor.default(library.dequantize_per_tensor.default(x, *rest), *rest) * 2


def test_an_integer_input_is_not_quantized_again_unless_that_limits_its_range():
    every = torch.arange(-128, 128, dtype=torch.int8)
    program = to_edge(export(integers_again, every)).exported_program()
    check(program, integers_again, every)
    assert len(targets(program)) == 1
    narrow = lambda s, x: integers_again(s, x, low=-127)
    program = to_edge(export(narrow, every)).exported_program()
    check(program, narrow, every)
    assert len(targets(program)) == 3
