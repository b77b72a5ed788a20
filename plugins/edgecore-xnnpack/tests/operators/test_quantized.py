"""Layers whose inputs are rounded to int8 at run time: which of them the delegate takes, and what they compute."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from lowered import compiled, kinds, refusals
from torch import nn

import edgecore
from edgecore_xnnpack.blob.format import read_graph
from edgecore_xnnpack.schema import graph as g

pytest.importorskip("torchao")
from pt2e import converted

from edgecore_xnnpack.quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

ops = torch.ops.quantized_decomposed


def rounded(x: torch.Tensor) -> torch.Tensor:
    """Round each row to int8, with a scale and a zero point that are computed from the row."""
    parameters = ops.choose_qparams_per_token_asymmetric(x, torch.int8)
    integers = ops.quantize_per_token(x, *parameters, -128, 127, torch.int8)
    result: torch.Tensor = ops.dequantize_per_token(integers, *parameters, -128, 127, torch.int8, x.dtype)
    return result


class Layer(nn.Module):
    """A linear layer with integer weights; `group`: the elements of a row that share a scale, or None for all."""

    def __init__(self, inputs: int, outputs: int, bits: int, group: int | None = None) -> None:
        super().__init__()
        self.limits = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, torch.int8)
        self.group = group
        weight = torch.randint(self.limits[0], self.limits[1] + 1, (outputs, inputs), dtype=torch.int8)
        shape = (outputs,) if group is None else (outputs, inputs // group)
        self.weight, self.scales = nn.Buffer(weight), nn.Buffer(2.0 ** torch.randint(-9, -5, shape))
        self.zeros, self.bias = nn.Buffer(torch.zeros(shape, dtype=torch.int64)), nn.Parameter(torch.randn(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.group is None:
            weight = ops.dequantize_per_channel(
                self.weight, self.scales, self.zeros, 0, *self.limits, out_dtype=x.dtype
            )
        else:
            weight = ops.dequantize_per_channel_group(self.weight, self.scales, None, *self.limits, self.group, x.dtype)
        return nn.functional.linear(rounded(x), weight, self.bias.to(x.dtype))


def check(module: nn.Module, *inputs: torch.Tensor, tolerance: float = 1e-6) -> Counter[str]:
    """Compare both runtimes with eager in float32, whose inputs are the same numbers; return the kinds of nodes."""
    runtime = pytest.importorskip("executorch.runtime")
    program = compiled(module, *inputs)
    with torch.no_grad():
        wanted = module(*(x.float() for x in inputs))
    loaded = runtime.Runtime.get().load_program(bytes(program.buffer))  # its methods do not keep it alive
    theirs = loaded.load_method("forward").execute(list(inputs))
    ours = edgecore.load(program.buffer).forward(*inputs)
    wanted = wanted if isinstance(wanted, (list, tuple)) else [wanted]
    for results in (ours if isinstance(ours, list) else [ours], theirs):
        for got, want in zip(results, wanted, strict=True):
            assert got.dtype == inputs[0].dtype
            assert (got.float() - want).abs().max() <= tolerance * want.abs().max()
    return kinds(program)


@pytest.mark.parametrize(("bits", "group"), [(8, None), (4, None), (4, 32), (4, 24)])
def test_a_layer_in_half_precision_rounds_its_input_at_run_time(bits: int, group: int | None) -> None:
    """The result is rounded once to half precision, whose numbers are 2^-11 apart at most, relative to the largest."""
    torch.manual_seed(0)
    found = check(Layer(96, 20, bits, group), torch.randn(3, 96).half(), tolerance=2**-11)
    assert found["FullyConnected"] == 1


@pytest.mark.parametrize("group", [2, 5, 8, 16, 30, 48, 240])
@pytest.mark.parametrize("shape", [(240,), (1, 240), (2, 3, 240)])
def test_groups_of_another_size_than_32_are_padded_in_the_file(group: int, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    found = check(Layer(240, 7, 4, group), torch.randn(shape))
    assert found == {"StaticReshape": 2, "StaticConstantPad": 1, "Convert": 1, "FullyConnected": 1}


def test_padded_groups_follow_a_symbolic_batch() -> None:
    torch.manual_seed(0)
    module, batch = Layer(48, 6, 4, 16), torch.export.Dim("batch", max=9)
    program = compiled(module, torch.randn(2, 48), dynamic_shapes=({0: batch},))
    loaded = edgecore.load(program.buffer)
    for rows in (1, 9, 4):
        x = torch.randn(rows, 48)
        torch.testing.assert_close(loaded.forward(x), module(x).detach(), rtol=1e-5, atol=1e-6)


def test_padded_groups_of_two_symbolic_sizes_stay_outside_with_a_reason() -> None:
    module, sizes = Layer(48, 6, 4, 16), {0: torch.export.Dim("batch", max=9), 1: torch.export.Dim("rows", max=9)}
    reasons = refusals(module, torch.randn(2, 3, 48), dynamic_shapes=(sizes,))
    assert "a reshape to several symbolic sizes" in reasons["aten.linear.default"]
    assert "quantized_decomposed.quantize_per_token.default" in reasons


class Several(nn.Module):
    """Layers that read one tensor, which is rounded once."""

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [layer(x) for layer in self.layers]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_layers_share_the_rounding_of_what_they_read(dtype: torch.dtype) -> None:
    """Those with groups of another size share the padded tensor, too."""
    torch.manual_seed(0)
    module = Several(*(Layer(96, 8, 4, group) for group in (None, 32, 24, 24, 24)))
    found = check(module, torch.randn(3, 96).to(dtype), tolerance=1e-6 if dtype == torch.float32 else 2**-11)
    assert (found["FullyConnected"], found["StaticConstantPad"]) == (5, 1)
    assert found["Convert"] == (2 if dtype == torch.float32 else 3 + 5)  # the input and the results in half precision


class AlsoRead(nn.Module):
    """A layer with weights in groups, whose rounded input another operator reads, too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Layer(64, 6, 4, 32)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [self.layer(x), rounded(x).erf()]


def test_a_layer_with_groups_stays_outside_if_its_input_cannot_be_rounded_in_the_delegate() -> None:
    module, x = AlsoRead().eval(), torch.randn(3, 64)
    assert "its input is not quantized in the delegate" in refusals(module, x)["aten.linear.default"]
    program = edgecore.load(edgecore.compile(module, (x,), backends=["xnnpack"]).buffer)
    for got, want in zip(program.forward(x), module(x), strict=True):
        torch.testing.assert_close(got, want.detach(), rtol=1e-5, atol=1e-6)


CONVOLUTIONS = {
    "images": nn.Conv2d(4, 6, 3, 2, 1),
    "images in groups": nn.Conv2d(4, 6, 3, padding=1, groups=2),
    "sequences": nn.Conv1d(4, 6, 3, 2, 1, dilation=2),
    "sequences in groups": nn.Conv1d(4, 6, 3, groups=2, bias=False),
    "transposed, images": nn.ConvTranspose2d(4, 6, 3, 2, 1, 1),
    "transposed, images without bias": nn.ConvTranspose2d(4, 6, (2, 5), 2, bias=False),
    "transposed, sequences": nn.ConvTranspose1d(4, 6, 3, 2, 1),
}


@pytest.mark.parametrize("weights", ["channel", "tensor"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_rounds_its_input_at_run_time(name: str, weights: str) -> None:
    """Its weights are int8; the reference is the model with the same integers. ExecuTorch computes the same."""
    runtime = pytest.importorskip("executorch.runtime")
    torch.manual_seed(0)
    module = CONVOLUTIONS[name].eval()
    dims = 1 if isinstance(module, (nn.Conv1d, nn.ConvTranspose1d)) else 2
    x = torch.randn(2, 4, *(9, 7)[:dims]) * torch.tensor([1.0, 300.0]).view(2, *[1] * (dims + 1))
    recipe = edgecore.Recipe("int8-dynamic", weights=weights)
    program = edgecore.compile(module, (x,), backends=["xnnpack"], quantize=recipe)
    found = kinds(program)
    assert found["Convert"] == 1 and found["Conv2d"] + found["ConvTranspose2d"] == 1
    assert program.report().left_outside == []
    row = program.compare(module, [(x,)]).rows[0]
    assert row.own.relative < 1e-5 and row.eager.sqnr > 25
    loaded = runtime.Runtime.get().load_program(bytes(program.buffer))  # its methods do not keep it alive
    (theirs,) = loaded.load_method("forward").execute([x])
    torch.testing.assert_close(edgecore.load(program.buffer).forward(x), theirs, rtol=1e-5, atol=1e-4)


def test_a_transposed_convolution_in_groups_rounds_its_input_with_one_scale_of_the_weight() -> None:
    torch.manual_seed(0)
    module, x = nn.ConvTranspose2d(4, 6, 3, 2, groups=2).eval(), torch.randn(2, 4, 5, 6)
    rounds = {}
    for weights in ("channel", "tensor"):
        recipe = edgecore.Recipe("int8-dynamic", weights=weights)
        program = edgecore.compile(module, (x,), backends=["xnnpack"], quantize=recipe)
        assert program.compare(module, [(x,)]).rows[0].own.relative < 1e-5
        rounds[weights] = kinds(program)["Convert"]
    assert rounds == {"channel": 0, "tensor": 1}


def test_convolutions_that_read_one_sequence_share_its_rounding() -> None:
    torch.manual_seed(0)
    module, x = (
        Several(nn.Conv1d(4, 6, 3), nn.Conv1d(4, 5, 1), nn.ConvTranspose1d(4, 3, 2)).eval(),
        torch.randn(2, 4, 9),
    )
    program = edgecore.compile(module, (x,), backends=["xnnpack"], quantize="int8-dynamic")
    assert kinds(program)["Convert"] == 1
    assert all(row.own.relative < 1e-5 for row in program.compare(module, [(x,)]).rows)


class WrongAxis(nn.Module):
    """A convolution whose weight has a scale for each input channel."""

    def __init__(self, transposed: bool) -> None:
        super().__init__()
        self.transposed = transposed
        self.weight = nn.Buffer(torch.randint(-127, 128, (4, 4, 3, 3), dtype=torch.int8))
        self.scales, self.zeros = nn.Buffer(torch.rand(4) + 0.1), nn.Buffer(torch.zeros(4, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parameters = (0.1, 0, -128, 127, torch.int8)
        axis = 0 if self.transposed else 1
        weight = ops.dequantize_per_channel(self.weight, self.scales, self.zeros, axis, -127, 127, torch.int8)
        x = ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *parameters), *parameters)
        x = (torch.conv_transpose2d if self.transposed else torch.conv2d)(x, weight)
        return ops.dequantize_per_tensor(ops.quantize_per_tensor(x / 100, *parameters), *parameters)  # type: ignore[no-any-return]


@pytest.mark.parametrize("transposed", [False, True])
def test_a_weight_with_scales_of_input_channels_is_used_in_floating_point(transposed: bool) -> None:
    torch.manual_seed(0)
    module, x = WrongAxis(transposed), torch.randn(1, 4, 6, 5)
    program = compiled(module, x)
    assert (edgecore.load(program.buffer).forward(x) - module(x)).abs().max() <= 0.101  # one step


@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize("recipe", ["int8", "int8-dynamic"])
def test_strides_that_are_a_single_number_are_those_of_all_dims_for_integers(dims: int, recipe: str) -> None:
    class Strided(nn.Module):
        """The number in the call of a function, and in a list, as graphs have it that are written by hand."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 4, *[3] * dims))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            call, operator = (nn.functional.conv1d, nn.functional.conv2d)[dims - 1], ("conv1d", "conv2d")[dims - 1]
            x = call(x, self.weight, stride=2, padding=1, dilation=1)
            return getattr(torch.ops.aten, operator).default(x, self.weight, None, [2], [1], [2])  # type: ignore[no-any-return]

    torch.manual_seed(0)
    module, x = Strided().eval(), torch.randn(1, 4, *[15] * dims)
    samples = {"calibration": [(x,)]} if recipe == "int8" else {}
    program = edgecore.compile(module, (x,), backends=["xnnpack"], quantize=recipe, **samples)
    assert kinds(program)["Conv2d"] == kinds(program)["Convert"] == 2
    assert program.report().left_outside == []
    assert program.compare(module, [(x,)]).rows[0].eager.sqnr > 25


@pytest.mark.parametrize(("limits", "types"), [((-127, 127), {"QCINT8"}), ((-8, 7), {"QCINT4"})])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_limits_of_the_quantizer_choose_the_bits_of_weights(
    limits: tuple[int, int], types: set[str], dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Linear(64, 96), nn.Linear(96, 8)).eval().to(dtype), torch.randn(3, 64).to(dtype)
    config = get_symmetric_quantization_config(True, False, True, weight_qmin=limits[0], weight_qmax=limits[1])
    reference = converted(module, (x,), XNNPACKQuantizer().set_global(config))
    backend = edgecore.Backend("xnnpack", required=True)
    program = edgecore.compile(torch.export.export(reference, (x,)), backends=[backend])
    values = [v.value for v in read_graph(program.pte.delegate_blobs[0]).values]
    held = [v.tensor_value for v in values if isinstance(v, g.QuantizedTensorValue)]
    assert {g.Datatype(t.datatype).name for t in held if t.constant_buffer_idx} == types  # type: ignore[union-attr]
    error = edgecore.load(program.buffer).forward(x).float() - reference(x).float()
    assert error.abs().max() <= 0.02 * reference(x).float().abs().max()


def test_a_static_configuration_leaves_half_precision_as_it_is() -> None:
    module, x = nn.Linear(8, 4).eval().half(), torch.randn(2, 8).half()
    graph = converted(module, (x,), XNNPACKQuantizer().set_global(get_symmetric_quantization_config())).graph
    assert not any("quantize" in node.name for node in graph.nodes)


@pytest.mark.parametrize(
    ("module", "x"),
    [
        (nn.ConvTranspose2d(3, 4, 3, 2, output_padding=2, dilation=3), torch.randn(1, 3, 5, 6)),
        (nn.ConvTranspose2d(3, 4, 1, 3, padding=3), torch.randn(1, 3, 3, 3)),  # the result is smaller than the input
    ],
)
def test_a_transposed_convolution_that_is_not_delegated_stays_in_floating_point(
    module: nn.Module, x: torch.Tensor
) -> None:
    """Else nothing could choose its scales."""
    program = edgecore.compile(module.eval(), (x,), backends=["xnnpack"], quantize="int8-dynamic")
    assert program.report().left_outside[0].operator == "aten.convolution.default"
    torch.testing.assert_close(edgecore.load(program.buffer).forward(x), module(x).detach(), rtol=1e-4, atol=1e-5)


def test_a_transposed_convolution_of_one_pixel_rounds_its_input_at_run_time() -> None:
    """Its result is as large as its stride, though its input is not."""
    module, x = nn.ConvTranspose2d(3, 4, 5, 4).eval(), torch.randn(2, 3, 1, 1)
    program = edgecore.compile(module, (x,), backends=["xnnpack"], quantize="int8-dynamic")
    assert kinds(program)["Convert"] == 1 and program.report().left_outside == []
    assert program.compare(module, [(x,)]).rows[0].own.relative < 1e-5


def test_a_convolution_of_sequences_with_two_symbolic_sizes_stays_in_floating_point() -> None:
    """XNNPACK cannot reshape its input to an image, so that nothing could choose its scale."""
    module, x = nn.Conv1d(4, 6, 3).eval(), torch.randn(2, 4, 9)
    sizes = {0: torch.export.Dim("batch", max=4), 2: torch.export.Dim("length", min=4, max=20)}
    program = edgecore.compile(module, (x,), backends=["xnnpack"], quantize="int8-dynamic", dynamic_shapes=(sizes,))
    loaded = edgecore.load(program.buffer)
    for shape in ((1, 4, 20), (4, 4, 4), (2, 4, 9)):
        x = torch.randn(shape)
        torch.testing.assert_close(loaded.forward(x), module(x).detach(), rtol=1e-4, atol=1e-5)
