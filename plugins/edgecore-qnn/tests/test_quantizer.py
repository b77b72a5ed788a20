"""The quantizer: its schemes, parts with another quantization, and quantization-aware training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from onnx.numpy_helper import to_array
from qnn_models import Inputs, Small, compile_model, decibels, image, onnx_graphs, onnx_result, run
from torch import nn
from torch.fx import GraphModule
from torchao.quantization.pt2e.observer import MinMaxObserver
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation

import edgecore
from edgecore.errors import CompileError
from edgecore_qnn.quantizer import (
    ModuleQConfig,
    QnnQuantizer,
    QuantDtype,
    get_submodule_name_predicate,
    get_submodule_type_predicate,
)


def converted(model: nn.Module, quantizer: QnnQuantizer, example: Inputs | None = None) -> GraphModule:
    """Quantize a model with an image as sample."""
    prepared = prepare_pt2e(torch.export.export(model.eval(), image()).module(), quantizer)
    prepared(*(example or image()))
    result: GraphModule = convert_pt2e(prepared)
    return result


def dtypes(module: GraphModule, before: Any) -> set[torch.dtype]:
    """Return the integers that calls of an operator read."""
    sources = [node.args[0] for node in module.graph.nodes if node.target is before]
    return {source.args[-1] for source in sources if "dequantize" in str(source.target)}


def has_integers(module: GraphModule, layer: Any) -> bool:
    """Return True if the weight of a layer is quantized."""
    (weight,) = (node.args[1] for node in module.graph.nodes if node.target is layer)
    return "dequantize" in str(weight.target)


def test_activations_have_the_observer_and_the_symmetry_of_the_configuration():
    class Widest(MinMaxObserver):
        """An observer whose ranges are those of -4 to 4, whatever it sees."""

        def calculate_qparams(self):
            return self._calculate_qparams(torch.tensor(-4.0), torch.tensor(4.0))

    model, parameters = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval(), []
    example = (torch.rand(2, 8),)
    for settings in ({}, {"act_symmetric": True}, {"act_observer": Widest}):
        quantizer = QnnQuantizer()
        quantizer.set_default_quant_config(QuantDtype.use_8a8w, **settings)
        prepared = prepare_pt2e(torch.export.export(model, example).module(), quantizer)
        prepared(*example)
        nodes = [node for node in convert_pt2e(prepared).graph.nodes if ".quantize_per_tensor" in str(node.target)]
        parameters.append([node.args[1:3] for node in nodes])
    assert {zero for _, zero in parameters[0]} == {0} and {zero for _, zero in parameters[1]} == {127}
    assert all(scale == pytest.approx(8 / 255) for scale, _ in parameters[2])


@pytest.mark.parametrize(("recipe", "minimum"), [("int8", 25), ("int16x8", 60)])
def test_a_layer_behind_a_norm_of_16_rows_has_the_result_of_quantized_eager(recipe: str, minimum: float):
    example = (torch.randn(16, 32),)
    program = compile_model(nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 24)), example, recipe)
    expected = program.quantized["forward"].program.module()(*example)
    assert decibels(expected, run(program, *example)) > minimum


@pytest.mark.parametrize(
    ("scheme", "minimum"),
    [("use_8a8w", 20), ("use_16a8w", 35), ("use_16a16w", 60), ("use_16a4w", 15)],
)
def test_a_scheme_compiles_and_keeps_the_accuracy_of_its_bits(scheme: str, minimum: float, monkeypatch):
    model, example = Small().eval(), image()
    quantizer = QnnQuantizer()
    quantizer.set_default_quant_config(QuantDtype[scheme], is_conv_per_channel=True, is_linear_per_channel=True)
    graphs = onnx_graphs(monkeypatch)
    program = edgecore.compile(torch.export.export(converted(model, quantizer, example), example), backends=["qnn"])
    report = str(program.report())
    assert "1 x QnnBackend" in report and "not delegated" not in report
    found = run(program, *example)
    assert decibels(model(*example).detach(), found) > minimum
    assert decibels(onnx_result(graphs[0], *example), found) > 30


def test_the_default_has_8_bits_without_further_calls():
    module = converted(Small(), QnnQuantizer())
    assert dtypes(module, torch.ops.aten.conv2d.default) == {torch.uint8}


def test_a_part_has_a_quantization_of_its_own():
    quantizer = QnnQuantizer()
    by_name = (get_submodule_name_predicate("layers.0"), ModuleQConfig(QuantDtype.use_16a8w))
    quantizer.set_submodule_qconfig_list([by_name])
    module = converted(Small(), quantizer)
    assert dtypes(module, torch.ops.aten.conv2d.default) == {torch.uint16}
    assert dtypes(module, torch.ops.aten.linear.default) == {torch.uint8}
    quantizer.set_submodule_qconfig_list(
        [(get_submodule_type_predicate("Linear"), ModuleQConfig(QuantDtype.use_16a8w))]
    )
    assert dtypes(converted(Small(), quantizer), torch.ops.aten.linear.default) == {torch.uint16}


def test_discarded_nodes_and_operators_stay_in_floating_point():
    quantizer = QnnQuantizer()
    quantizer.add_discard_nodes(["linear"])
    assert not has_integers(converted(Small(), quantizer), torch.ops.aten.linear.default)
    quantizer = QnnQuantizer()
    quantizer.add_discard_ops([torch.ops.aten.conv2d.default])
    assert not has_integers(converted(Small(), quantizer), torch.ops.aten.conv2d.default)


def test_a_custom_annotation_comes_first():
    def leave_linear(model: GraphModule) -> None:
        for node in model.graph.nodes:
            if node.target is torch.ops.aten.linear.default:
                node.meta["quantization_annotation"] = QuantizationAnnotation(_annotated=True)

    quantizer = QnnQuantizer()
    quantizer.add_custom_quant_annotations([leave_linear])
    module = converted(Small(), quantizer)
    assert not has_integers(module, torch.ops.aten.linear.default)
    assert dtypes(module, torch.ops.aten.conv2d.default) == {torch.uint8}


class Layers(nn.Module):
    """Two linear layers with a clamp between them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16))

    def forward(self, x: torch.Tensor) -> Any:
        return self.layers(x)


def with_blocks(sizes: dict[str, tuple[int, ...]], example: Inputs) -> GraphModule:
    """Quantize `Layers` with `use_16a4w_block`."""
    quantizer = QnnQuantizer()
    quantizer.set_default_quant_config(QuantDtype.use_16a4w_block, is_linear_per_channel=True)
    quantizer.set_block_size_map(sizes)
    prepared = prepare_pt2e(torch.export.export(Layers().eval(), example).module(), quantizer)
    prepared(*example)
    result: GraphModule = convert_pt2e(prepared)
    return result


@pytest.mark.parametrize("sizes", [(10, 64), (2, 5, 64)])
@pytest.mark.parametrize(
    ("blocks", "expected"), [({}, [32]), ({"linear": (1, 8), "linear_1": (1, 16)}, [8, 16])]
)  # 48 features are no multiple of the default, 32
def test_a_matrix_has_a_scale_for_each_block(
    blocks: dict[str, tuple[int, ...]], expected: list[int], sizes: tuple[int, ...], monkeypatch
):
    example = (torch.randn(sizes),)
    module = with_blocks(blocks, example)
    graphs = onnx_graphs(monkeypatch)
    program = edgecore.compile(torch.export.export(module, example), backends=["qnn"])
    report = str(program.report())
    assert "1 x QnnBackend" in report and "not delegated" not in report
    attributes = [item for node in graphs[0].model.graph.node for item in node.attribute]
    assert [item.i for item in attributes if item.name == "block_size"] == expected
    assert decibels(module(*example).detach(), run(program, *example)) > 60


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ({"soc_model": "SA8295"}, "the QNN provider does not take it for SA8295"),  # an NPU without fp16
        ({"skip_node_op_set": "dequantize_per_channel_group"}, "its weight is not supported"),
    ],
)
def test_a_layer_stays_outside_if_its_blocks_do(option: dict[str, str], reason: str):
    example = (torch.randn(10, 64),)
    module = with_blocks({"linear": (1, 16), "linear_1": (1, 16)}, example)
    backend = edgecore.Backend("qnn", **option)
    program = edgecore.compile(torch.export.export(module, example), backends=[backend])
    (layers,) = (line for line in str(program.report()).splitlines() if "2 x aten.linear.default" in line)
    assert "not delegated" in layers and reason in layers
    assert decibels(module(*example).detach(), run(program, *example)) > 60


def test_impossible_blocks_are_errors():
    example = (torch.randn(10, 64),)
    with pytest.raises(ValueError, match=r"the block size of linear is \(1, 12\): .* a multiple of 8"):
        with_blocks({"linear": (1, 12)}, example)
    with pytest.raises(ValueError, match="linear_1 has 48 features, not a multiple of 64"):
        with_blocks({"linear_1": (1, 64)}, example)
    with pytest.raises(ValueError, match="is_qat: weights with a scale for each block cannot be trained"):
        QnnQuantizer().set_default_quant_config(QuantDtype.use_16a4w_block, is_qat=True)
    quantizer = QnnQuantizer()
    quantizer.set_default_quant_config(QuantDtype.use_16a4w_block)
    quantizer.set_block_size_map({"conv2d": (1, 8)})
    with pytest.raises(ValueError, match="conv2d is no linear layer, so its weight has no blocks"):
        converted(Small(), quantizer)


@pytest.mark.parametrize("recipe", ["int8", "int16x8"])
def test_a_recipe_trains_with_quantization(recipe: str):
    model, example = Small(), image()
    trained = edgecore.prepare_qat(model, example, backends=["qnn"], quantize=recipe)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        trained(*example).sum().backward()
        optimizer.step()
    program = edgecore.compile(trained, example, backends=["qnn"])
    assert "1 x QnnBackend" in str(program.report())


def test_the_recipe_fp16_delegates_floating_point_and_takes_no_rules():
    model, example = Small().eval(), image()
    program = edgecore.compile(model, example, backends=["qnn"], quantize="fp16")
    report = str(program.report())
    assert "1 x QnnBackend" in report and "not delegated" not in report
    assert decibels(model(*example).detach(), run(program, *example)) > 55
    with pytest.raises(CompileError, match="fp16.* rules"):
        edgecore.compile(model, example, backends=["qnn"], quantize=edgecore.Recipe("fp16", skip=["layers.0"]))


def test_results_of_8_bits_are_one_step_from_onnx_runtimes(monkeypatch):
    graphs = onnx_graphs(monkeypatch)
    example = image()
    program = compile_model(Small(), example, "int8")
    expected, found = onnx_result(graphs[0], *example), run(program, *example).numpy()
    (last,) = (node for node in graphs[0].model.graph.node if "output_0" in node.output)
    (step,) = (to_array(item) for item in graphs[0].model.graph.initializer if item.name == last.input[1])
    assert abs(expected - found).max() <= 2 * float(step)
