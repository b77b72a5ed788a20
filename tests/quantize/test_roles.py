"""The table of the roles that operators have in quantization."""

from __future__ import annotations

import itertools

import pytest
import torch

from edgecore.quantize.roles import CLAMPS, LAYERS, Role, edge_forms, fixed_spec, operators, with_roles

aten = torch.ops.aten


def test_each_role_has_operators_and_no_operator_has_two_roles():
    assert all(with_roles(role) for role in Role)
    for first, second in itertools.combinations(Role, 2):
        assert not with_roles(first) & with_roles(second), (first, second)


def test_operators_are_named_as_aten_names_them():
    assert operators("relu add.Tensor  conv1d.padding") == {
        aten.relu.default, aten.add.Tensor, aten.conv1d.padding,
    }  # fmt: skip
    with pytest.raises(AttributeError, match="relu7"):
        operators("relu relu7")


def test_layers_have_the_dim_of_the_output_channels_of_their_weights():
    assert LAYERS[aten.linear.default] == 0
    assert LAYERS[aten.conv_transpose2d.input] == 1
    assert aten.relu6_.default in CLAMPS


def test_views_are_copies_in_the_edge_dialect_and_other_operators_stay():
    assert edge_forms(operators("view unbind.int roll")) == operators("view_copy unbind_copy.int roll")


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.uint16])
@pytest.mark.parametrize(("name", "low"), [("sigmoid", 0.0), ("softmax.int", 0.0), ("tanh", -1.0)])
def test_fixed_parameters_cover_the_range_of_the_result(name, low, dtype):
    (operator,) = operators(name)
    spec = fixed_spec(operator, dtype)
    smallest = (spec.quant_min - spec.zero_point) * spec.scale
    largest = (spec.quant_max - spec.zero_point) * spec.scale
    if dtype == torch.int16:  # symmetric
        assert (spec.zero_point, smallest) == (0, -largest)
    else:
        assert smallest == low
    assert largest == 1 - spec.scale
    assert spec.dtype == dtype
