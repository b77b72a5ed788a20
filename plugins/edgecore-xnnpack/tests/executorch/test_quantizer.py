"""The methods of ExecuTorch's quantizer for XNNPACK."""

from __future__ import annotations

import pytest
import torch
from torch import nn

pytest.importorskip("torchao")

from pt2e import PER_CHANNEL, Mixed, converted

from edgecore_xnnpack.executorch.quantizer import XNNPACKQuantizer
from edgecore_xnnpack.quantizer import get_symmetric_quantization_config


def quantized(quantizer: XNNPACKQuantizer) -> set[str]:
    """The operators with a quantized weight."""
    graph = converted(Mixed().eval(), (torch.randn(1, 1, 2, 2),), quantizer).graph
    weights = [node for node in graph.nodes if "dequantize_per_channel" in str(node.target)]
    return {str(user.target) for weight in weights for user in weight.users}


LINEAR, CONVOLUTION = "aten.linear.default", "aten.conv2d.default"


def test_a_type_of_modules_and_an_operator_get_their_configuration() -> None:
    aten = torch.ops.aten
    assert quantized(XNNPACKQuantizer().set_global(PER_CHANNEL)) == {LINEAR, CONVOLUTION}
    assert quantized(XNNPACKQuantizer().set_module_type(nn.Linear, PER_CHANNEL)) == {LINEAR}
    assert quantized(XNNPACKQuantizer().set_operator_type(aten.conv2d.default, PER_CHANNEL)) == {CONVOLUTION}
    assert quantized(XNNPACKQuantizer().set_operator_type(aten.linear, PER_CHANNEL)) == {LINEAR}
    both = XNNPACKQuantizer().set_global(PER_CHANNEL).set_operator_type(aten.linear.default, None)
    assert quantized(both) == {CONVOLUTION}


@pytest.mark.parametrize(
    ("settings", "limits", "zero_point"),
    [
        ({}, (-128, 127), -128),
        ({"act_qmin": -64, "act_qmax": 63}, (-64, 63), -64),
        ({"is_symmetric": True}, (-128, 127), 0),
    ],
)
def test_activations_have_the_range_of_the_configuration(
    settings: dict[str, int], limits: tuple[int, int], zero_point: int
) -> None:
    config = get_symmetric_quantization_config(**settings)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
    graph = converted(model, (torch.rand(2, 8),), XNNPACKQuantizer().set_global(config)).graph
    nodes = [node for node in graph.nodes if "quantized_decomposed.quantize_per_tensor" in str(node.target)]
    assert len(nodes) == 3 and {node.args[3:5] for node in nodes} == {limits}
    assert nodes[1].args[2] == zero_point  # the result of ReLU, whose minimum is 0


def test_a_filter_leaves_operators_in_floating_point() -> None:
    quantizer = XNNPACKQuantizer().set_global(PER_CHANNEL)
    assert quantized(quantizer.set_filter_function(lambda node: "linear" in node.name)) == {LINEAR}


def test_an_operator_or_type_that_the_model_does_not_call_is_an_error() -> None:
    with pytest.raises(ValueError, match="set_object_type got conv1d, a function that the model calls nowhere"):
        quantized(XNNPACKQuantizer().set_operator_type(torch.ops.aten.conv1d.default, PER_CHANNEL))
    with pytest.raises(ValueError, match=r"Conv1d, a type of which the model calls no module"):
        quantized(XNNPACKQuantizer().set_module_type(nn.Conv1d, PER_CHANNEL))
