"""PT2E quantization with our quantizer: operators that compute with integers, their error, and operators that do not."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from lowered import kinds

import edgecore

pytest.importorskip("torchao")
from pt2e import PER_CHANNEL, Mixed, converted
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e

from edgecore_xnnpack.quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

F = torch.nn.functional
nn = torch.nn


def check(module: nn.Module, *inputs: torch.Tensor, quantizer: XNNPACKQuantizer | None = None) -> Counter[str]:
    """Compare both runtimes with the quantized module in eager mode: at most one step apart, and few results at all."""
    runtime = pytest.importorskip("executorch.runtime")
    reference = converted(module, inputs, quantizer)
    program = edgecore.compile(
        torch.export.export(reference, inputs), backends=[edgecore.Backend("xnnpack", required=True)]
    )
    want = reference(*inputs)
    step = want.unique().diff().min()
    loaded = runtime.Runtime.get().load_program(bytes(program.buffer))  # its methods do not keep it alive
    (theirs,) = loaded.load_method("forward").execute(list(inputs))
    for got in (edgecore.load(program.buffer).forward(*inputs), theirs):
        error = (got - want).abs()
        assert error.max() <= 1.01 * step
        assert (error > step / 2).float().mean() <= 0.1
    return kinds(program)


class Block(nn.Module):
    """A convolution, a depthwise one with a residual connection, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU())
        self.depthwise = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.BatchNorm2d(16), nn.ReLU6())
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = x + self.depthwise(x)
        return self.head(F.adaptive_avg_pool2d(F.max_pool2d(x, 2), 1).flatten(1))


@pytest.mark.parametrize("kind, shape", [(nn.Conv1d, (1, 3, 9)), (nn.Conv2d, (1, 3, 9, 8))])
@pytest.mark.parametrize("padding", ["valid", "same"])
def test_convolutions_with_padding_by_name_compute_with_integers(
    kind: type[nn.Module], shape: tuple[int, ...], padding: str
) -> None:
    counts = check(kind(3, 4, 3, padding=padding), torch.randn(shape))
    assert counts["Convert"] == 2 and counts["Conv2d"] == 1


def test_a_network_converts_at_its_border_only() -> None:
    counts = check(Block(), torch.randn(1, 3, 16, 16))
    assert counts["Convert"] == 2
    assert counts["Conv2d"] == counts["DepthwiseConv2d"] == counts["Add"] == counts["FullyConnected"] == 1
    assert counts["Clamp"] == 0  # part of the convolutions


IMAGE = (1, 8, 9, 7)

LAYERS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "convolution in groups": (nn.Conv2d(8, 8, 3, groups=2), IMAGE),
    "transposed convolution": (nn.ConvTranspose2d(8, 4, 3, 2), IMAGE),
    "convolution in one dimension": (nn.Conv1d(8, 4, 3), (1, 8, 20)),
    "convolution without bias": (nn.Conv2d(8, 4, 3, bias=False), IMAGE),
    "linear layer": (nn.Linear(20, 7), (3, 20)),
    "hard swish": (nn.Hardswish(), IMAGE),
    "sigmoid": (nn.Sigmoid(), IMAGE),
    "tanh": (nn.Tanh(), IMAGE),
    "leaky relu": (nn.LeakyReLU(0.1), IMAGE),
    "padding and slices": (nn.Sequential(nn.Conv2d(8, 8, 1), nn.ZeroPad2d(1), nn.MaxPool2d(2)), IMAGE),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_computes_with_integers(name: str) -> None:
    module, shape = LAYERS[name]
    assert check(module, torch.randn(shape))["Convert"] == 2


class Gate(nn.Module):
    """A layer whose hard sigmoid reaches both ends, times another; `twice`: what it reads is read again."""

    def __init__(self, twice: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.other, self.twice = nn.Conv2d(3, 8, 3), nn.Conv2d(3, 8, 3), twice
        with torch.no_grad():
            self.layer.weight.mul_(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        return F.hardsigmoid(y) * (y if self.twice else self.other(x))


def test_a_hard_sigmoid_of_a_layer_adds_integers() -> None:
    counts = check(Gate(twice=False), torch.randn(1, 3, 16, 16))
    assert counts["Convert"] == 2 and counts["Add"] == counts["Multiply"] == 1


def test_a_hard_sigmoid_of_a_value_that_others_read_stays_between_conversions() -> None:
    counts = check(Gate(twice=True), torch.randn(1, 3, 16, 16))
    assert counts["Convert"] == 4 and counts["Add"] == 1 and counts["Multiply"] == 2


def test_weights_may_have_one_scale() -> None:
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    check(Block(), torch.randn(1, 3, 16, 16), quantizer=quantizer)


def test_an_operator_without_integer_kernel_stays_between_conversions() -> None:
    module = nn.Sequential(nn.Conv2d(4, 8, 3), nn.GELU(), nn.Conv2d(8, 4, 3))
    counts = check(module, torch.randn(1, 4, 9, 9))
    assert counts["Gelu"] == 1 and counts["Convert"] == 4


@pytest.mark.parametrize("slope", [0.0, 1e-4])
def test_a_leaky_relu_beyond_the_fixed_point_range_stays_between_conversions(slope: float) -> None:
    module = nn.Sequential(nn.Conv2d(4, 8, 3), nn.LeakyReLU(slope), nn.Conv2d(8, 4, 3))
    counts = check(module, torch.randn(1, 4, 9, 9))
    assert counts["LeakyReLU"] == 1 and counts["Convert"] == 4


def test_an_operator_that_reads_integers_is_not_quantized() -> None:
    class SigmoidOfIntegers(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(x)

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.gate = nn.Linear(4, 4), SigmoidOfIntegers()

        def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
            return self.layer(x) * self.gate(n)

    torch.manual_seed(0)
    model, inputs = Both().eval(), (torch.randn(3, 4), torch.arange(4))
    program = edgecore.compile(model, inputs, backends=["xnnpack"], quantize="int8", calibration=[inputs])
    got = torch.from_dlpack(edgecore.load(program.buffer).forward(*inputs))
    torch.testing.assert_close(got, model(*inputs), atol=0.03, rtol=0)


def test_the_configuration_of_a_name_goes_before_that_of_a_type() -> None:
    module, x = Block(), torch.randn(1, 3, 16, 16)
    quantizer = XNNPACKQuantizer().set_global(PER_CHANNEL).set_object_type(nn.Conv2d, None)
    quantizer.set_module_name("stem.0", PER_CHANNEL)
    reference = converted(module, (x,), quantizer)
    weights = [str(n.args[0]) for n in reference.graph.nodes if "dequantize_per_channel" in str(n.target)]
    assert len(weights) == 2  # the stem by its name and the head, not the depthwise convolution


@pytest.mark.slow
def test_a_model_trained_with_fake_quantization_computes_with_integers() -> None:
    module, x = Block().train(), torch.randn(4, 3, 16, 16)
    config = get_symmetric_quantization_config(is_per_channel=True, is_qat=True)
    prepared = prepare_qat_pt2e(torch.export.export(module, (x,)).module(), XNNPACKQuantizer().set_global(config))
    optimizer = torch.optim.SGD(prepared.parameters(), 0.01)
    for _ in range(3):
        optimizer.zero_grad()
        prepared(x).square().mean().backward()
        optimizer.step()
    from torchao.quantization.pt2e import move_exported_model_to_eval

    reference = convert_pt2e(move_exported_model_to_eval(prepared))
    program = edgecore.compile(torch.export.export(reference, (x,)), backends=["xnnpack"])
    assert kinds(program)["Convert"] == 2
    got, want = edgecore.load(program.buffer).forward(x), reference(x)
    assert (got - want).abs().max() <= 1.01 * want.unique().diff().min()


def test_digits_keep_their_accuracy() -> None:
    """At most half a point is lost on the 400 digits that neither training nor calibration saw."""
    digits = pytest.importorskip("trained_digits")  # beside the tests of the core
    net, images, _, samples = digits.trained()
    prepared = prepare_pt2e(torch.export.export(net, (images,)).module(), XNNPACKQuantizer().set_global(PER_CHANNEL))
    prepared(samples)
    program = edgecore.compile(torch.export.export(convert_pt2e(prepared), (images,)), backends=["xnnpack"])
    assert digits.lost_accuracy(edgecore.load(program.buffer).forward(images)) <= 0.005


def test_unsigned_integers_stay_outside() -> None:
    ops = torch.ops.quantized_decomposed

    class Unsigned(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            parameters = (0.1, 3, 0, 255, torch.uint8)
            return ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *parameters), *parameters) + 1

    program = edgecore.compile(Unsigned().eval(), (torch.randn(5),), backends=["xnnpack"])
    reasons = [reason for row in program.report().left_outside for _, reason in row.reasons]
    assert any("uint8" in reason for reason in reasons)


class Layers(nn.Module):
    """Two layers that read the same value, and a function that stays in floating point."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(20, 12), nn.Linear(20, 12, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.a(x)) * self.b(x)


def test_linear_layers_are_quantized_at_run_time() -> None:
    """XNNPACK rounds each row by itself, which is at least as close to the float model as PyTorch's one scale."""
    runtime = pytest.importorskip("executorch.runtime")
    module, x = Layers().eval(), torch.randn(4, 20)
    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True)
    reference = converted(module, (x,), XNNPACKQuantizer().set_global(config))
    backend = edgecore.Backend("xnnpack", required=True)
    program = edgecore.compile(torch.export.export(reference, (x,)), backends=[backend])
    assert kinds(program)["FullyConnected"] == 2 and kinds(program)["Convert"] == 1
    with torch.no_grad():
        exact = module(x)
    loaded = runtime.Runtime.get().load_program(bytes(program.buffer))  # its methods do not keep it alive
    (theirs,) = loaded.load_method("forward").execute([x])
    ours = edgecore.load(program.buffer).forward(x)
    assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()
    assert (ours - exact).square().mean() <= 1.5 * (reference(x) - exact).square().mean()


def test_convolutions_of_images_get_inputs_that_are_quantized_at_run_time() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU6(), nn.Conv2d(16, 16, 3, groups=16),
        nn.Conv2d(16, 24, 1), nn.Conv2d(24, 8, 3, padding=1), nn.Flatten(), nn.Linear(800, 5),
    ).eval()  # fmt: skip
    x = torch.randn(1, 3, 24, 24)  # pairs of columns are not packed
    program = edgecore.compile(model, (x,), backends=["xnnpack"], quantize="int8-dynamic")
    assert program.report().delegates == {"XnnpackBackend": 1}
    row = program.compare(model, [(x,)]).rows[0]
    assert row.own.relative < 1e-5 and row.eager.sqnr > 30
    floats = edgecore.compile(model, (x,), backends=["xnnpack"])
    assert len(program.buffer) < 0.6 * len(floats.buffer)


def test_a_convolution_without_a_dimension_of_images_is_delegated_in_floating_point() -> None:
    model, x = nn.Conv2d(3, 8, 3).eval(), torch.randn(3, 12, 12)
    program = edgecore.compile(model, (x,), backends=["xnnpack"], quantize="int8-dynamic")
    assert program.report().delegates == {"XnnpackBackend": 1}
    torch.testing.assert_close(edgecore.load(program.buffer).forward(x), model(x), rtol=1e-4, atol=1e-5)


def test_each_image_gets_its_own_quantization_at_run_time() -> None:
    torch.manual_seed(0)
    model, x = (
        nn.Conv2d(4, 8, 3, padding=1).eval(),
        torch.randn(3, 4, 9, 9) * torch.tensor([1.0, 20, 400]).view(3, 1, 1, 1),
    )
    files = [edgecore.compile(model, (part,), backends=["xnnpack"], quantize="int8-dynamic") for part in (x, x[:1])]
    assert files[0].compare(model, [(x,)]).rows[0].own.relative < 1e-5
    together, alone = (edgecore.load(file.buffer) for file in files)
    torch.testing.assert_close(together.forward(x), torch.cat([alone.forward(part) for part in x.split(1)]))


@pytest.mark.parametrize("recipe", ["int8-dynamic", "int4-weights"])
def test_a_nan_changes_no_other_row_of_a_layer_that_rounds_its_inputs(recipe: str) -> None:
    """The row itself may become finite, as `docs/special-values.md` says."""
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    loaded = edgecore.load(
        edgecore.compile(nn.Linear(64, 8).eval(), (x,), backends=["xnnpack"], quantize=recipe).buffer
    )
    with_nan = x.clone()
    with_nan[3, 5] = torch.nan
    assert torch.equal(loaded.forward(with_nan)[:3], loaded.forward(x)[:3])


@pytest.mark.parametrize("recipe", ["int8", "int8-dynamic"])
def test_a_layer_of_a_tensor_without_elements_stays_in_floating_point(recipe: str) -> None:
    class Sides(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return self.layer(x), self.layer(x[:0])

    x = torch.randn(2, 4)
    samples = {"calibration": [(x,)]} if recipe == "int8" else {}
    program = edgecore.compile(Sides().eval(), (x,), backends=["xnnpack"], quantize=recipe, **samples)
    assert [list(one.shape) for one in edgecore.load(program.buffer).forward(x)] == [[2, 3], [0, 3]]


@pytest.mark.parametrize("recipe", ["int8", "int8-dynamic"])
def test_a_layer_with_a_vector_as_weight_stays_in_floating_point(recipe: str) -> None:
    class Scores(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(x, self.weight)

    model, x = Scores().eval(), torch.randn(2, 4)
    samples = {"calibration": [(x,)]} if recipe == "int8" else {}
    program = edgecore.compile(model, (x,), backends=["xnnpack"], quantize=recipe, **samples)
    torch.testing.assert_close(edgecore.load(program.buffer).forward(x), model(x).detach())


def test_dynamic_and_training_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        get_symmetric_quantization_config(is_qat=True, is_dynamic=True)


class Constants(nn.Module):
    """Adds a table whose integers have a zero point, and multiplies with a product of constants."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.table = nn.Parameter(torch.linspace(1, 4, 40).reshape(5, 8))
        self.gain = nn.Parameter(torch.linspace(0.5, 2, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gain: torch.Tensor = self.gain * self.table[0]
        return self.linear((self.linear(x) + self.table) * gain)


def test_quantized_constants_stay_inside():
    torch.manual_seed(0)
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    assert check(Constants(), torch.randn(1, 5, 8), quantizer=quantizer)["FullyConnected"] == 2


def test_a_configuration_for_a_function_applies_to_its_calls() -> None:
    inputs = (torch.randn(1, 1, 2, 2),)
    quantizer = XNNPACKQuantizer().set_object_type(F.linear, PER_CHANNEL)
    graph = converted(Mixed().eval(), inputs, quantizer).graph
    rounded = {
        node.target
        for node in graph.nodes
        if any("dequantize" in str(source.target) for source in node.all_input_nodes)
        and "quantize" not in str(node.target)
        and node.op != "output"
    }
    assert rounded == {torch.ops.aten.linear.default}
    both = XNNPACKQuantizer().set_global(PER_CHANNEL).set_object_type(F.conv2d, None)
    assert "conv2d" not in str([node.name for node in converted(Mixed().eval(), inputs, both).graph.nodes
                                if any("dequantize" in str(source.target) for source in node.all_input_nodes)])  # fmt: skip


def test_a_configuration_for_a_function_that_is_called_nowhere_is_an_error() -> None:
    quantizer = XNNPACKQuantizer().set_object_type(F.conv3d, PER_CHANNEL)
    with pytest.raises(ValueError, match="set_object_type got conv3d, a function that the model calls nowhere"):
        converted(nn.Linear(2, 2).eval(), (torch.randn(1, 2),), quantizer)


def test_a_configuration_for_a_module_that_is_called_nowhere_is_an_error() -> None:
    model, inputs = nn.Sequential(nn.Linear(2, 2)).eval(), (torch.randn(1, 2),)
    with pytest.raises(
        ValueError, match=r"set_object_type got torch.nn.modules.conv.Conv2d, a type of which the model"
    ):
        converted(model, inputs, XNNPACKQuantizer().set_global(PER_CHANNEL).set_object_type(nn.Conv2d, None))
    with pytest.raises(ValueError, match="set_module_name got '1', a module that the model does not call; .* is '0'"):
        converted(model, inputs, XNNPACKQuantizer().set_global(PER_CHANNEL).set_module_name("1", None))


def test_the_name_of_a_list_of_modules_stands_for_its_modules() -> None:
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.head = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)]), nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    quantizer = XNNPACKQuantizer().set_global(PER_CHANNEL).set_module_name("layers", None)
    graph = converted(Layers().eval(), (torch.randn(1, 2),), quantizer).graph
    assert len([node for node in graph.nodes if "dequantize_per_channel" in str(node.target)]) == 1


@pytest.mark.parametrize(
    "layer, shape",
    [
        (nn.Conv2d(4, 8, 4, padding="same"), (1, 4, 8, 8)),
        (nn.Conv2d(4, 8, (4, 1), padding="same"), (1, 4, 8, 8)),
        (nn.Conv2d(4, 8, (32, 1), padding="same"), (1, 4, 8, 8)),
        (nn.Conv2d(4, 8, 2, padding="same", dilation=3, groups=2), (1, 4, 8, 8)),
        (nn.Conv1d(4, 8, 2, padding="same"), (1, 4, 8)),
        (nn.Sequential(nn.Conv1d(4, 8, 4, padding="same"), nn.ReLU(), nn.Conv1d(8, 4, 3)), (1, 4, 8)),
    ],
)
@pytest.mark.parametrize("runtime", ["executorch-1.5", "edgecore"])
def test_uneven_padding_by_name_stays_in_floating_point_if_inputs_are_quantized_at_run_time(layer, shape, runtime):
    inputs = (torch.randn(shape),)
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_dynamic=True))
    program = edgecore.compile(
        torch.export.export(converted(layer, inputs, quantizer), inputs), backends=["xnnpack"], runtime=runtime
    )
    want = layer(*inputs)
    assert (edgecore.load(program.buffer).forward(*inputs) - want).abs().max() < 0.02 * want.abs().max()
    edgecore.compile(layer, inputs, backends=["xnnpack"], runtime=runtime, quantize="int8-dynamic")


def test_even_padding_by_name_is_quantized_at_run_time():
    layer, inputs = nn.Conv2d(4, 8, 2, padding="same", dilation=2).eval(), (torch.randn(1, 4, 8, 8),)
    program = edgecore.compile(layer, inputs, backends=["xnnpack"], quantize="int8-dynamic")
    (row,) = program.report(quantization=True).quantization
    assert "inputs int8 at run time" in row.scheme
