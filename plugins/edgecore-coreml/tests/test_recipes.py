"""Integer weights and activations: the operators of the file, its target, and its results beside quantized eager."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from coremltools.optimize.torch.quantization import LinearQuantizerConfig, ModuleLinearQuantizerConfig
from torch import nn
from torchao.prototype.quantization.codebook_coreml import CodebookWeightOnlyConfig
from torchao.quantization.granularity import PerAxis, PerGroup
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.quant_api import IntxWeightOnlyConfig, quantize_

import edgecore
from edgecore.errors import CompileError
from edgecore.format import read_pte
from edgecore_coreml import CoreMLQuantizer
from edgecore_coreml.operators import TABLE as OPERATORS
from edgecore_coreml_standin.interpreter import StandIn

AFFINE, BLOCKS, TABLE = "constexpr_affine_dequantize", "constexpr_blockwise_shift_scale", "constexpr_lut_to_dense"


class Layers(nn.Module):
    """Each kind of layer with weights, a dilation that needs a constant weight, and batch norms after convolutions."""

    def __init__(self):
        super().__init__()
        self.image, self.image_norm = nn.Conv2d(3, 16, 3, bias=False), nn.BatchNorm2d(16)
        self.each, self.each_norm = nn.Conv2d(16, 16, 3, groups=16), nn.BatchNorm2d(16)
        self.up, self.up_norm = nn.ConvTranspose2d(16, 8, 3, dilation=2), nn.BatchNorm2d(8)
        self.words, self.head, self.matrix = nn.Embedding(50, 64), nn.Linear(64, 8), nn.Parameter(torch.randn(8, 64))
        for norm in (self.image_norm, self.each_norm, self.up_norm):
            nn.init.normal_(norm.weight)
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)

    def forward(self, image, words):
        image = torch.relu(self.each_norm(self.each(torch.relu(self.image_norm(self.image(image))))))
        image = self.up_norm(self.up(image))
        return self.head(image.mean((2, 3)) @ self.matrix + self.words(words))


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(50, 64), nn.Linear(64, 32)

    def forward(self, words):
        return self.head(self.words(words))


INPUTS, WORDS = (torch.randn(2, 3, 9, 9), torch.tensor([3, 49])), torch.tensor([[3, 49, 0]])


@pytest.fixture(scope="module")
def layers():
    torch.manual_seed(0)
    return Layers().eval().requires_grad_(False)


@pytest.fixture(scope="module")
def program_of(layers):
    """Return a function that compiles the layers with a recipe, once for each."""
    return cache(lambda recipe: compiled(layers, INPUTS, recipe, [INPUTS] if recipe == "int8" else None))


def compiled(model, inputs, quantize=None, calibration=None, **options):
    backend = edgecore.Backend("coreml", required=True, **options)
    return edgecore.compile(model, inputs, backends=[backend], quantize=quantize, calibration=calibration)


def standin(program):
    (blob,) = read_pte(bytes(program.buffer)).delegate_blobs
    return StandIn(bytes(blob), {})


def stored(model):
    """Return (operator, bits of the integers, shape of the scales or tables) of each stored weight."""
    found = []
    for op in model.function.function.operations:
        if op.op_type.startswith("constexpr_"):
            data = op.inputs.get("data") or op.inputs.get("quantized_data") or op.inputs.get("indices")
            scales = op.inputs.get("scale") or op.inputs.get("lut")
            found.append((op.op_type, data.dtype.get_bitwidth(), tuple(scales.shape)))
    return found


def check(program, inputs, want, **tolerance):
    model = standin(program)
    given = dict(zip(("image", "words") if len(inputs) == 2 else model.package.inputs, inputs, strict=True))
    got = model(*(given[name] for name in model.package.inputs))[0]
    torch.testing.assert_close(got, want, **(tolerance or {"rtol": 1e-5, "atol": 1e-5}))
    return model


CHANNELS = [(AFFINE, 8, (count,)) for count in (16, 16, 8, 50, 8, 64)]
GROUPS = [
    (BLOCKS, 4, (16, 1, 1, 1)), (BLOCKS, 8, (16, 1, 1, 1)), (BLOCKS, 4, (16, 2, 1, 1)), (BLOCKS, 4, (50, 2)),
    (BLOCKS, 4, (8, 2)), (BLOCKS, 4, (8, 2)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("recipe", "target", "weights", "decibels"),
    [
        ("int8-weights", "iOS16 or later (weights of 8 bits)", CHANNELS, 35),
        ("int4-weights", "iOS18 or later (weights", GROUPS, 15),
        (edgecore.Recipe("int4-weights", weights="channel"), "iOS18 or later (weights of 4 bits)", None, 12),
    ],
    ids=str,
)
def test_a_recipe_for_weights_computes_what_quantized_eager_does(layers, program_of, recipe, target, weights, decibels):
    program = program_of(recipe)
    want, exact = program.quantized["forward"].program.module()(*INPUTS), layers(*INPUTS)
    model = check(program, INPUTS, want)
    assert target in str(program.report()) and "batch_norm" not in model.kinds
    assert weights is None or sorted(stored(model)) == sorted(weights)
    assert 20 * torch.log10(exact.norm() / (want - exact).norm()) > decibels


def test_groups_have_about_the_size_that_the_user_says(layers):
    recipe = edgecore.Recipe("int4-weights", group=16)
    shapes = [shape for _, _, shape in stored(standin(compiled(layers, INPUTS, recipe)))]
    # 9 pixels of 16 and 8 outputs: a group has at least 16 elements, and whole channels.
    assert sorted(shapes) == sorted([(16, 1, 1, 1), (16, 1, 1, 1), (16, 4, 1, 1), (50, 4), (8, 4), (8, 4)])


def test_the_recipe_int8_has_integer_activations(program_of):
    program = program_of("int8")
    model = check(program, INPUTS, program.quantized["forward"].program.module()(*INPUTS), rtol=0, atol=0.02)
    assert {"quantize", "dequantize"} <= model.kinds
    assert {(kind, bits) for kind, bits, _ in stored(model)} == {(AFFINE, 8)} and len(stored(model)) == 6
    assert "iOS17 or later (activations of 8 bits)" in str(program.report())


def test_float16_keeps_integer_weights(layers):
    program = compiled(layers, INPUTS, "int4-weights", compute_precision="FLOAT16")
    want = program.quantized["forward"].program.module()(*INPUTS)
    assert sorted(stored(check(program, INPUTS, want, rtol=0, atol=0.05))) == sorted(GROUPS)


def names(program):
    """Return precision -> the weights in the lines of the report about it."""
    lines = (line.strip() for line in str(program.report()).splitlines() if line.startswith("    weights as "))
    return {
        kind.removeprefix("weights as "): set(listed.split(", "))
        for kind, _, listed in (x.partition(": ") for x in lines)
    }


LAYERS = {"image.weight", "up.weight", "words.weight", "head.weight"}


def test_the_report_has_the_models_names_of_the_weights_of_each_precision(program_of):
    program = program_of("int4-weights")
    assert names(program) == {"int4": {*LAYERS, "matrix"}, "int8": {"each.weight"}}
    assert "weights int4 in groups of 32" in str(program.report(quantization=True))


def test_the_report_has_the_layers_names_of_weights_that_pt2e_quantizes(program_of):
    assert names(program_of("int8")) == {"int8": {*LAYERS, "each.weight", "matrix"}}


def test_a_weight_that_a_norm_changed_keeps_its_name():
    """One of two readers has a batch norm, so that the file has the weight twice."""

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.second = nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.Conv2d(3, 16, 3)
            self.second.weight = self.first.weight
            self.norm.running_var.uniform_(2, 3)

        def forward(self, image):
            return self.norm(self.first(image)) + self.second(image)

    model = Shared().eval().requires_grad_(False)
    for recipe in ("int8-weights", "int4-weights"):
        program = compiled(model, INPUTS[:1], recipe)
        (named,) = names(program)[recipe.removesuffix("-weights")]
        assert named in ("first.weight", "second.weight"), "both are names of it"
        check(program, INPUTS[:1], program.quantized["forward"].program.module()(INPUTS[0]))


def test_rules_leave_layers_in_floating_point(layers):
    program = compiled(layers, INPUTS, edgecore.Recipe("int8-weights", skip=["head", "up"]))
    assert len(stored(standin(program))) == 4


def test_a_weight_of_two_layers_is_stored_once():
    class Tied(Text):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(64, 50, bias=False)
            self.head.weight = self.words.weight

    program = compiled(Tied().eval(), (WORDS,), "int4-weights")
    assert len(stored(standin(program))) == 1


def full(*values):
    """Return a row of parameters that only the full run has."""
    return pytest.param(*values, marks=pytest.mark.full)


INT8 = IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0))
INT4 = IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerAxis(0))
INT4_GROUPS = IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32))
TABLES = {bits: CodebookWeightOnlyConfig(getattr(torch, f"uint{bits}"), [-1, -1]) for bits in (1, 2, 3, 4, 6)}
ROW_TABLES = CodebookWeightOnlyConfig(torch.uint4, [16, -1])


@pytest.mark.parametrize(
    ("config", "target", "weight"),
    [
        (INT8, "iOS16", (AFFINE, 8, (32,))),
        (INT4, "iOS18", (BLOCKS, 4, (32, 1))),
        (INT4_GROUPS, "iOS18", (BLOCKS, 4, (32, 2))),
        *(full(TABLES[bits], "iOS16", (TABLE, 8, (1 << bits,))) for bits in (1, 2, 6)),
        (TABLES[4], "iOS16", (TABLE, 8, (16,))),
        (TABLES[3], "iOS18", (TABLE, 3, (1, 1, 8, 1))),
        (ROW_TABLES, "iOS18", (TABLE, 4, (2, 1, 16, 1))),
    ],
    ids=["int8", "int4", "int4 groups", "1 bit", "2 bits", "6 bits", "4 bits", "3 bits", "table for 16 rows"],
)
def test_weights_of_torchaos_quantize(config, target, weight):
    model = Text().eval().requires_grad_(False)
    quantize_(model, config)
    program = compiled(model, (WORDS,))
    assert weight in stored(check(program, (WORDS,), model(WORDS)))
    assert f"{target} or later" in str(program.report())


def test_weights_of_torchaos_quantize_for_a_later_system():
    model = Text().eval().requires_grad_(False)
    quantize_(model, INT8, lambda module, name: not isinstance(module, nn.Module) or name != "")
    program = compiled(model, (WORDS,), minimum_deployment_target="iOS18")
    assert (BLOCKS, 8, (32, 1)) in stored(check(program, (WORDS,), model(WORDS)))
    assert "iOS18 or later (as chosen)" in str(program.report())


@pytest.mark.parametrize(
    ("config", "chosen", "message"),
    [
        (
            INT4,
            "iOS17",
            "minimum_deployment_target is iOS17, and the model needs iOS18, the first with weights of 4 bits",
        ),
        (INT4_GROUPS, "iOS16", "needs iOS18, the first with weights with a scale for each block; choose iOS18"),
        (ROW_TABLES, "iOS16", "needs iOS18, the first with tables of weights for groups or of other sizes"),
        (INT8, "iOS15", "needs iOS16, the first with weights of 8 bits"),
    ],
    ids=["int4", "groups", "tables", "int8"],
)
def test_a_target_without_such_weights_is_refused(config, chosen, message):
    model = Text().eval()
    quantize_(model, config)
    with pytest.raises(CompileError, match=message):
        compiled(model, (WORDS,), minimum_deployment_target=chosen)


def test_a_model_without_weights_is_refused():
    with pytest.raises(CompileError, match="quantize='int8-weights': the model has no constant float32 weight"):
        compiled(nn.ReLU().eval(), (torch.randn(2, 3),), "int8-weights")


def config(**settings):
    return LinearQuantizerConfig(global_config=ModuleLinearQuantizerConfig(**settings))


def quantized(model, inputs, settings):
    prepared = prepare_pt2e(torch.export.export(model, inputs).module(), CoreMLQuantizer(settings))
    prepared(*inputs)
    return convert_pt2e(prepared)


STATIC = {"quantization_scheme": "symmetric", "activation_dtype": torch.quint8, "weight_dtype": torch.qint8}
WEIGHTS_ONLY = {**STATIC, "activation_dtype": torch.float32}


@pytest.mark.parametrize(
    ("settings", "target", "activations"),
    [
        (STATIC, "iOS17", True),
        full(STATIC | {"weight_per_channel": False}, "iOS17", True),
        full(STATIC | {"quantization_scheme": "affine", "activation_observer": "min_max"}, "iOS17", True),
        full(WEIGHTS_ONLY, "iOS16", False),
        (WEIGHTS_ONLY | {"weight_dtype": torch.quint8, "quantization_scheme": "affine"}, "iOS16", False),
        (WEIGHTS_ONLY | {"weight_dtype": "qint4"}, "iOS18", False),
    ],
    ids=["static", "per tensor", "affine", "weights", "uint8 weights", "int4 weights"],
)
def test_the_quantizer_takes_coremltools_configuration(layers, settings, target, activations):
    model = quantized(layers, INPUTS, config(**settings))
    program = edgecore.compile(torch.export.export(model, INPUTS), backends=[edgecore.Backend("coreml", required=True)])
    result = check(program, INPUTS, model(*INPUTS), rtol=0, atol=0.05 if activations else 1e-5)
    assert ("quantize" in result.kinds) == activations
    assert f"{target} or later" in str(program.report())
    bits = 4 if target == "iOS18" else 8
    assert {bits for _, bits, _ in stored(result)} == {bits}
    if not activations:
        kind = f"{'u' if settings['weight_dtype'] is torch.quint8 else ''}int{bits}"
        assert names(program) == {kind: {*LAYERS, "each.weight"}, "float32": {"matrix"}}


def test_the_quantizer_leaves_modules_alone(layers):
    default = ModuleLinearQuantizerConfig(activation_dtype=torch.float32)
    settings = LinearQuantizerConfig(
        global_config=default, module_type_configs={"Embedding": None}, module_name_configs={"head": None}
    )
    model = quantized(layers, INPUTS, settings)
    dequantized = [node for node in model.graph.nodes if "dequantize" in str(node.target)]
    assert len(dequantized) == 3, "the three convolutions"


def test_results_that_are_not_negative_have_the_zero_point_0(layers):
    model = quantized(layers, INPUTS, config(**STATIC))
    zeros = {
        node.args[0].target: node.args[2]
        for node in model.graph.nodes
        if "quantized_decomposed.quantize" in str(node.target)
    }
    assert zeros[torch.ops.aten.relu.default] == 0 and zeros[torch.ops.aten.linear.default] == 128


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algorithm": "learnable"}, "algorithm='learnable' needs training with coremltools"),
        ({"weight_dtype": torch.float32}, "weight_dtype=torch.float32 needs activation_dtype=torch.float32"),
    ],
)
def test_a_configuration_that_pt2e_has_not_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        CoreMLQuantizer(config(**settings))


def test_an_unknown_module_type_is_refused():
    settings = LinearQuantizerConfig(module_type_configs={"Linea": ModuleLinearQuantizerConfig()})
    with pytest.raises(ValueError, match="module_type_configs has 'Linea': give the class of a module"):
        CoreMLQuantizer(settings)


class Quantize(nn.Module):
    def __init__(self, *parameters):
        super().__init__()
        self.parameters_of_quantize = parameters

    def forward(self, x):
        integers = torch.ops.quantized_decomposed.quantize_per_tensor(x, *self.parameters_of_quantize)
        return torch.ops.quantized_decomposed.dequantize_per_tensor(integers, *self.parameters_of_quantize) + 1


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ((0.1, 0, -127, 127, torch.int8), "its integers are -127 to 127, not -128 to 127"),
        ((0.1, 0, 0, 15, torch.uint8), "its integers are 0 to 15, not 0 to 255"),
        ((0.1, 0, -32768, 32767, torch.int16), "its result is int16"),
        ((0.0, 0, -128, 127, torch.int8), "its scale is not positive"),
    ],
)
def test_integers_that_core_ml_has_not_stay_out(parameters, reason):
    exported = torch.export.export(Quantize(*parameters).eval(), (torch.randn(4),))
    reasons = OPERATORS.unsupported_reasons(exported)
    found = [reasons(node) for node in exported.graph.nodes if node.op == "call_function"]
    assert any(text and reason in text for text in found)
