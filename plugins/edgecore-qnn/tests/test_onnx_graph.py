"""The ONNX graphs of partitions: what a quantized operator needs beside its integers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from qnn_models import Small, compile_model, image, onnx_graphs, onnx_result, op_types
from torch import nn

from edgecore_qnn.operators import quantized
from edgecore_qnn.operators.builder import Builder, Scale


def test_equal_models_give_equal_graphs_without_names_of_the_model(monkeypatch):
    class Renamed(Small):
        def forward(self, picture: torch.Tensor) -> torch.Tensor:
            return self.layers(picture)

    graphs = onnx_graphs(monkeypatch)
    example = image()
    first, second = Small(), Renamed()
    second.load_state_dict(first.state_dict())
    for model in (first, second):
        compile_model(model, example)
    assert graphs[0].to_bytes() == graphs[1].to_bytes()


def test_the_graph_of_a_delegate_has_the_onnx_nodes_with_the_operators_that_they_compute(monkeypatch):
    graphs = onnx_graphs(monkeypatch)
    compile_model(Small(), image(), "int8")
    shown, handles = graphs[0].blob_graph(), graphs[0].debug_handle_map()
    assert [node.operation for node in shown.nodes] == [node.name for node in graphs[0].model.graph.node]
    assert {*handles} <= {node.operation for node in shown.nodes} and all(handles.values())
    known = set(shown.inputs)
    for node in shown.nodes:
        assert known.issuperset(node.inputs)
        known.update(node.outputs)
    assert known.issuperset(shown.outputs) and shown.values[shown.inputs[0]].endswith(str(list(image()[0].shape)))


def test_a_clamp_that_changes_no_integer_is_left_out(monkeypatch):
    graphs = onnx_graphs(monkeypatch)
    compile_model(Small(), image(), "int8")
    assert not {"Relu", "Clip"} & set(op_types(graphs[0]))


def test_a_clamp_below_the_range_of_its_integers_stays(monkeypatch):
    class Shared(nn.Module):
        """The sum is read by a relu and as it is, so it has integers for negative numbers."""

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = x + x
            return y, torch.relu(y)

    graphs = onnx_graphs(monkeypatch)
    example = (torch.linspace(-1, 1, 16).reshape(1, 16),)
    compile_model(Shared(), example, "int8")
    kinds = op_types(graphs[0])
    if "Relu" in kinds:  # between integers
        assert kinds[kinds.index("Relu") - 1] == "DequantizeLinear"
    np.testing.assert_allclose(onnx_result(graphs[0], *example), 2 * example[0].numpy(), atol=0.02)


@pytest.mark.parametrize(("limit", "is_free"), [(6.0, True), (2.0, False)])
def test_a_long_chain_of_clamps_is_free_if_each_of_them_keeps_all_integers(limit: float, is_free: bool):
    """The time must not double with each clamp."""
    graph = torch.fx.Graph()
    node = source = graph.placeholder("x")
    clamps = []
    for _ in range(64):
        node = graph.call_function(torch.ops.aten.hardtanh.default, (node, 0.0, limit))
        clamps.append(node)
    ends = (0.02, 0, 0, 255, torch.uint8)  # up to 5.1
    graph.call_function(torch.ops.quantized_decomposed.quantize_per_tensor.default, (node, *ends))
    expected = quantized.Scale(0.02, 0, "uint8", 0, 255)
    assert quantized.result_scale(clamps[-1]) == expected
    assert quantized.result_scale(source) == (expected if is_free else None)
    assert {quantized.is_free(clamp) for clamp in clamps} == {is_free}


def test_a_bias_is_of_int32_with_the_product_of_the_scales(monkeypatch):
    graphs = onnx_graphs(monkeypatch)
    compile_model(Small(), image(), "int8")
    model = graphs[0].model
    constants = {item.name: item for item in model.graph.initializer}
    producers = {name: node for node in model.graph.node for name in node.output}
    (convolution,) = (node for node in model.graph.node if node.op_type == "Conv")
    value, weight, bias = (producers[name] for name in convolution.input)
    assert constants[bias.input[0]].data_type == onnx.TensorProto.INT32
    scales = [numpy_helper.to_array(constants[node.input[1]]) for node in (value, weight, bias)]
    np.testing.assert_allclose(scales[0] * scales[1], scales[2], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int8", "int16"])
@pytest.mark.parametrize("number", [0.0, 0.37, -2.5, 1.0])
def test_a_number_beside_a_quantized_value_has_no_error(number: float, dtype: str):
    builder = Builder(partition=None)  # type: ignore[arg-type]
    info = np.iinfo(dtype)
    builder.scales["value"] = Scale(0.1, 0, dtype, int(info.min), int(info.max))
    exact = builder.scales[builder.number(number, "value")]
    integers = numpy_helper.to_array(builder.initializers[0])
    assert abs((int(integers) - exact.zero) * exact.scale - number) < 1e-7 * abs(number) + 1e-12


def test_an_output_that_is_an_input_or_another_output_is_copied(monkeypatch):
    class Same(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = torch.sigmoid(x)
            return y, y

    graphs = onnx_graphs(monkeypatch)
    program = compile_model(Same(), (torch.randn(2, 8),))
    assert "1 x QnnBackend" in str(program.report())
    assert len(graphs[0].outputs) == len({tensor.name for tensor in graphs[0].outputs})


def test_names_of_nodes_lead_back_to_the_partition(monkeypatch):
    graphs = onnx_graphs(monkeypatch)
    compile_model(Small(), image())
    owners = {str(node.target) for node in graphs[0].owners.values()}
    assert {"aten.convolution.default", "aten.linear.default"} <= owners
    assert set(graphs[0].owners) == {node.name for node in graphs[0].model.graph.node}
