"""The recipe `palette4`: the file has the weights of quantized eager, as tables and indices."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import edgecore
from edgecore.errors import CompileError
from edgecore.format import read_pte
from edgecore_coreml.compiler import CoreMLCompiler
from edgecore_coreml.weights.palettes import MIN_ELEMENTS
from edgecore_coreml_standin.interpreter import StandIn


class Layers(nn.Module):
    """Each kind of layer with weights, batch norms after convolutions, and a scale after one of them."""

    def __init__(self):
        super().__init__()
        self.line, self.line_norm = nn.Conv1d(16, 64, 3), nn.BatchNorm1d(64)
        self.image, self.image_norm = nn.Conv2d(8, 32, 3, bias=False), nn.BatchNorm2d(32)
        self.scale = nn.Parameter(torch.randn(1, 32, 1, 1))
        self.up, self.up_norm = nn.ConvTranspose2d(32, 16, 3), nn.BatchNorm2d(16)
        self.words, self.head, self.small = nn.Embedding(50, 32), nn.Linear(32, 64), nn.Linear(64, 4)
        self.matrix = nn.Parameter(torch.randn(64, 64))
        for norm in (self.line_norm, self.image_norm, self.up_norm):
            nn.init.normal_(norm.weight)
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)

    def forward(self, image, line, words):
        image = torch.relu_(self.image_norm(self.image(image))) * self.scale
        row = torch.relu(self.head(image.mean((2, 3)) + self.words(words)))
        return self.small(row @ self.matrix), self.up_norm(self.up(image)), self.line_norm(self.line(line))


IMAGE, LINE, WORDS = INPUTS = torch.randn(2, 8, 9, 9), torch.randn(2, 16, 20), torch.tensor([3, 49])
WEIGHTS = {"line.weight", "image.weight", "up.weight", "words.weight", "head.weight", "matrix"}


@pytest.fixture(scope="module")
def layers():
    torch.manual_seed(0)
    return Layers().eval().requires_grad_(False)


def compiled(model, inputs, recipe, **options):
    return edgecore.compile(
        model, inputs, backends=[edgecore.Backend("coreml", required=True, **options)], quantize=recipe
    )


def standin(program):
    (blob,) = read_pte(bytes(program.buffer)).delegate_blobs
    return StandIn(bytes(blob), {})


def run(model):
    """Return the results of `Layers`, whose inputs have another order in the file."""
    given = {"image": IMAGE, "line": LINE, "words": WORDS}
    results = model(*(given[name] for name in model.package.inputs))
    return sorted(results, key=lambda result: result.dim())


def expected(program):
    return sorted(program.quantized["forward"].program.module()(*INPUTS), key=lambda result: result.dim())


def tables(model):
    return {name: op for name, op in constexprs(model) if op.op_type == "constexpr_lut_to_dense"}


def constexprs(model):
    for op in model.function.function.operations:
        if op.op_type.startswith("constexpr_"):
            yield op.name.removeprefix("p_").removesuffix("_palettized"), op


RECIPES = [
    ("palette4", "iOS16"),
    (edgecore.Recipe("palette4", weight_bits=3), "iOS18"),
    (edgecore.Recipe("palette4", group=8), "iOS18"),
    (edgecore.Recipe("palette4", weight_bits=2, weights="group"), "iOS18"),
]
MORE_BITS = [(edgecore.Recipe("palette4", weight_bits=bits), "iOS16") for bits in (1, 2, 6, 8)]


@pytest.mark.parametrize(
    ("recipe", "target"),
    [
        *(pytest.param(*row, id=str(row[0])) for row in RECIPES),
        *(pytest.param(*row, id=str(row[0]), marks=pytest.mark.full) for row in MORE_BITS),
    ],
)
def test_the_file_computes_exactly_what_quantized_eager_does(layers, recipe, target):
    program = compiled(layers, INPUTS, recipe)
    model = standin(program)
    quantized = program.quantized["forward"].program
    assert len(tables(model)) == len(WEIGHTS)
    values = {key: tensor for key, tensor in quantized.state_dict.items() if key in WEIGHTS}
    for name, op in tables(model).items():
        (stored,) = (tensor for key, tensor in values.items() if key.replace(".", "_") == name)
        assert torch.equal(torch.as_tensor(op.materialized_val_inference()), stored)
    for got, want in zip(run(model), expected(program), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)
    report = str(program.report(quantization=True))
    assert f"{target} or later" in report and "weights as float32: " in report
    kinds = {line.partition(" x aten.linear.default: ")[2][:18] for line in report.splitlines()} - {""}
    assert kinds == {"weights as indices", "float32"}, "the small one has no table"


def test_a_float16_model_has_tables_of_float16(layers):
    program = compiled(layers, INPUTS, "palette4", compute_precision="FLOAT16")
    model = standin(program)
    assert len(tables(model)) == len(WEIGHTS)
    for got, want in zip(run(model), expected(program), strict=True):
        assert (got - want).abs().max() < 3e-3 * want.abs().max()


def test_the_values_of_a_table_are_near_the_best_ones(layers):
    """Lloyd's quantizer of 16 levels has 20.22 dB on normally distributed numbers (Max 1960, table I)."""
    weight = torch.randn(256, 256)
    layer = nn.Linear(256, 256)
    layer.weight.data = weight * 1e-5  # also of small numbers
    (stored,) = tables(standin(compiled(layer.eval(), (torch.randn(1, 256),), "palette4"))).values()
    error = torch.as_tensor(stored.materialized_val_inference()) / 1e-5 - weight
    assert 10 * torch.log10(weight.square().sum() / error.square().sum()) > 20


def test_groups_lose_less_than_one_table():
    layer = nn.Linear(64, 64).eval().requires_grad_(False)
    layer.weight *= torch.logspace(-2, 0, 64)[:, None]
    x = torch.randn(8, 64)
    losses = [
        float((standin(compiled(layer, (x,), recipe))(x)[0] - layer(x))[:, :32].norm())
        for recipe in ("palette4", edgecore.Recipe("palette4", group=16), edgecore.Recipe("palette4", group=8))
    ]
    assert losses[0] > 2 * losses[1] > 2 * losses[2]


def test_rules_leave_weights_alone_also_if_other_calls_read_them():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(64, 32), nn.Linear(32, 64, bias=False)
            self.head.weight = self.words.weight

        def forward(self, words):
            return self.head(torch.relu(self.words(words)))

    model, words = Tied().eval(), torch.arange(9)
    both = standin(compiled(model, (words,), "palette4"))
    assert len(tables(both)) == 1
    program = compiled(model, (words,), edgecore.Recipe("palette4", skip=["head"]))
    (table,) = tables(standin(program)).values()
    stored = torch.as_tensor(table.materialized_val_inference())
    want = torch.relu(functional.embedding(words, stored)) @ model.head.weight.T
    torch.testing.assert_close(standin(program)(words)[0], want)
    assert "weights as float32: " in str(program.report())


def test_equal_models_give_equal_files(layers):
    first, second = (bytes(compiled(layers, INPUTS, "palette4").buffer) for _ in range(2))
    assert first == second


def test_the_report_and_inspect_say_how_each_weight_is_stored(layers):
    program = compiled(layers, INPUTS, edgecore.Recipe("palette4", group=8, skip=["head"]))
    (line,) = (line for line in str(program.report()).splitlines() if "for each 8 rows" in line)
    assert line.strip().startswith("weights as indices of 4 bits into a table for each 8 rows: ")
    assert set(line.partition(": ")[2].split(", ")) == {"line.weight", "image.weight", "up.weight", "matrix"}
    (blob,) = read_pte(bytes(program.buffer)).delegate_blobs
    lines = CoreMLCompiler().describe_blob(bytes(blob), {})
    assert "  as indices of 4 bits into a table for each 8 rows: 4" in lines
    assert "  as indices of 4 bits into a table: 1" in lines, "50 rows are no multiple of 8"


@pytest.mark.parametrize("recipe", [edgecore.Recipe("palette4", weight_bits=3), edgecore.Recipe("palette4", group=8)])
def test_a_target_without_such_tables_is_refused(layers, recipe):
    with pytest.raises(CompileError, match="minimum_deployment_target is iOS17, and the model needs iOS18"):
        compiled(layers, INPUTS, recipe, minimum_deployment_target="iOS17")


def test_a_model_without_large_weights_is_refused():
    with pytest.raises(CompileError, match=f"no constant weight with {MIN_ELEMENTS} elements or more"):
        compiled(nn.Linear(4, 4).eval(), (torch.randn(1, 4),), "palette4")


DIGITS = [("palette4", 0.01), (edgecore.Recipe("palette4", group=8), 0.01), ("int8-weights", 0.005)]


@pytest.mark.parametrize(("recipe", "loss"), DIGITS, ids=[str(recipe) for recipe, _ in DIGITS])
def test_digits_lose_at_most_one_point_and_half_a_point_with_8_bits(recipe, loss):
    digits = pytest.importorskip("trained_digits")  # beside the tests of the core
    model, images, *_ = digits.trained()
    program = standin(compiled(model, (images,), recipe))
    assert len(list(constexprs(program))) >= 2, "all weights but the 144 of the first convolution"
    assert digits.lost_accuracy(program(images)[0]) <= loss
