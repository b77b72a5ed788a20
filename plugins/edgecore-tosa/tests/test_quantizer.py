"""The quantizer for targets of TOSA: which values become integers, and with which parameters."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e

from edgecore_tosa.quantizer import (
    TosaQuantizer,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
)

aten = torch.ops.aten
library = torch.ops.quantized_decomposed
X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    def __init__(self, norm=nn.BatchNorm2d):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), norm(4), nn.ReLU6())
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = self.body(x)
        x = torch.sigmoid(x * 2 + x).mean((2, 3))
        return self.head(x)


def quantized(quantizer, model=None):
    """Return the nodes of a quantized model: (target, arguments)."""
    module = torch.export.export((model or Net()).eval(), (X,)).module(check_guards=False)
    prepared = prepare_pt2e(module, quantizer)
    prepared(X)
    return convert_pt2e(prepared).graph.nodes


def quantize_nodes(nodes, name="quantize_per_tensor"):
    return [node for node in nodes if str(node.target).startswith(f"quantized_decomposed.{name}")]


def test_every_operator_reads_and_writes_integers():
    nodes = quantized(TosaQuantizer().set_global(get_symmetric_quantization_config()))
    for node in nodes:
        if node.target in (
            aten.conv2d.default,
            aten.linear.default,
            aten.mul.Tensor,
            aten.add.Tensor,
            aten.sigmoid.default,
        ):
            assert all("dequantize" in str(source.target) for source in node.all_input_nodes), node
    assert len(quantize_nodes(nodes)) == 7, "input, convolution, product, sum, sigmoid, mean, linear"


def test_a_bias_has_the_product_of_the_scales_of_input_and_weight():
    nodes = quantized(TosaQuantizer().set_global(get_symmetric_quantization_config()))
    layer = next(node for node in nodes if node.target is aten.linear.default)
    module = layer.graph.owning_module
    value, weight, bias = layer.args
    assert bias.target is library.dequantize_per_channel.default and bias.args[-1] == torch.int32
    scales = [getattr(module, node.args[1].target) for node in (weight, bias)]
    torch.testing.assert_close(scales[1].double(), (scales[0].double() * value.args[1]), rtol=1e-6, atol=0)


def test_sigmoid_has_the_steps_of_its_known_range():
    nodes = quantized(TosaQuantizer().set_global(get_symmetric_quantization_config()))
    sigmoid = next(node for node in nodes if node.target is aten.sigmoid.default)
    (after,) = sigmoid.users
    assert after.args[1:3] == (1 / 256, -128)
    (reader,) = after.users
    assert [user.target for user in reader.users] == [aten.mean.dim], "the next operator reads the same integers"


def test_activations_of_16_bits_are_symmetric_and_weights_have_8():
    nodes = quantized(TosaQuantizer().set_global(get_symmetric_a16w8_quantization_config()))
    assert {(node.args[2], node.args[-1]) for node in quantize_nodes(nodes)} == {(0, torch.int16)}
    weights = quantize_nodes(nodes, "dequantize_per_channel")
    assert {node.args[-1] for node in weights} == {torch.int8}


def test_modules_have_configurations_by_name_and_by_type():
    config = get_symmetric_quantization_config(is_per_channel=False)
    for quantizer in (
        TosaQuantizer().set_global(config).set_module_name("head", None),
        TosaQuantizer().set_global(config).set_module_type(nn.Linear, None),
    ):
        nodes = quantized(quantizer)
        layer = next(node for node in nodes if node.target is aten.linear.default)
        assert "dequantize" not in str(layer.args[1].target)
        assert any(node.target is library.dequantize_per_tensor.default for node in nodes)


def test_inputs_and_outputs_can_have_a_configuration_of_their_own():
    nodes = quantized(TosaQuantizer().set_io(get_symmetric_quantization_config()))
    assert len(quantize_nodes(nodes)) == 2
    assert "dequantize" in str(
        nodes[-1].args[0][0].target if isinstance(nodes, list) else list(nodes)[-1].args[0][0].target
    )


@pytest.mark.parametrize(
    "norm",
    [nn.Identity, pytest.param(nn.BatchNorm2d, marks=pytest.mark.full)],  # torchao fuses batch norms in a minute
)
def test_training_with_fake_quantization_converts(norm):
    module = torch.export.export(Net(norm).train(), (X,)).module(check_guards=False)
    prepared = prepare_qat_pt2e(module, TosaQuantizer().set_global(get_symmetric_quantization_config(is_qat=True)))
    prepared(X).sum().backward()
    nodes = convert_pt2e(prepared).graph.nodes
    assert len(quantize_nodes(nodes)) == 7


@pytest.mark.slow
def test_the_branches_of_a_condition_are_quantized_too():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(8, 4), nn.Linear(8, 4)

        def forward(self, x):
            return torch.cond(x.sum() > 0, self.one.forward, self.two.forward, (x,)) * 2

    x = torch.randn(2, 8)
    module = torch.export.export(Branches().eval(), (x,)).module(check_guards=False)
    expected = [module(x), module(-x)]
    quantizer = TosaQuantizer().set_global(get_symmetric_quantization_config())
    quantized = quantizer.quantize_with_submodules(module, [(x,), (-x,)])
    for name, branch in quantized.named_children():
        if isinstance(branch, torch.fx.GraphModule):
            assert quantize_nodes(branch.graph.nodes), name
    for value, result in zip((x, -x), expected, strict=True):
        with torch.no_grad():
            torch.testing.assert_close(quantized(value), result, atol=0.1, rtol=0.1)


def test_attention_over_a_symbolic_number_of_rows_stays_whole():
    """TOSA has no symbolic sizes, and a causal mask of such a size is no constant."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(4, 4)

        def forward(self, x):
            return self.out(functional.scaled_dot_product_attention(x, x, x, is_causal=True))

    x = torch.randn(1, 1, 6, 4)
    program = torch.export.export(Attention().eval(), (x,), dynamic_shapes=({2: torch.export.Dim("rows", max=9)},))
    prepared = prepare_pt2e(program.module(), TosaQuantizer().set_global(get_symmetric_quantization_config()))
    prepared(x)
    nodes = convert_pt2e(prepared).graph.nodes
    assert [node.target for node in nodes if node.target is aten.scaled_dot_product_attention.default]
    assert quantize_nodes(nodes), "the linear layer"


@pytest.mark.parametrize("make", [get_symmetric_quantization_config, get_symmetric_a16w8_quantization_config])
def test_ranges_found_at_run_time_are_refused(make):
    with pytest.raises(ValueError, match="TOSA has no quantization with ranges that are found at run time; use False"):
        make(is_dynamic=True)
