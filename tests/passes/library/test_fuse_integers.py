"""Networks that compute with integers without a backend: `int8` and `int16x8` for edgecore's own kernels."""

from __future__ import annotations

import pytest
import torch
from edge_programs import Function
from torch import nn

import edgecore
from edgecore.errors import CompileError
from edgecore.passes.library import fuse_integers

RECIPES = ("int8", "int16x8")
OUTER = {"quantized_decomposed.quantize_per_tensor.default", "quantized_decomposed.dequantize_per_tensor.default"}
MOVEMENT = {"aten.view_copy.default", "aten.permute_copy.default", "aten.cat.default", "aten.constant_pad_nd.default",
            "aten.max_pool2d_with_indices.default", "aten.slice_copy.Tensor", "aten.squeeze_copy.dims",
            "aten.unsqueeze_copy.default", "aten.transpose_copy.int"}  # fmt: skip


def compiled(model, *shape, count=4, **options):
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.2, 0.2)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    samples = [torch.randn(shape) for _ in range(count)]
    options = {"quantize": "int8", **options}
    return edgecore.compile(model.eval(), (samples[0],), runtime="edgecore", calibration=samples, **options)


def operators(program):
    graph = program.exported_program().graph
    return [
        str(node.target) for node in graph.nodes if node.op == "call_function" and "getitem" not in str(node.target)
    ]


def dtype_of(quantize):
    return str(getattr(quantize, "name", quantize)).partition("x")[0]


def check_integers(model, *shape, steps=1, quantize="int8", **options):
    """Check that only integers are computed, at most `steps` steps of the output from quantized eager."""
    program = compiled(model, *shape, quantize=quantize, **options)
    inner = [name for name in operators(program) if not name.startswith(f"edgecore.{dtype_of(quantize)}_")]
    assert sorted(name for name in inner if name not in MOVEMENT) == sorted(OUTER)
    comparison = program.compare(model)
    rest = 0.01  # of a step, because a number of 2^15 steps is rounded to float32
    assert all(row.quantized.largest <= (steps + rest) * row.step for row in comparison.rows), comparison
    return operators(program)


class InvertedResidual(nn.Module):
    def __init__(self, channels=8, hidden=24):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, hidden, 3, 1, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, channels, 1, bias=False), nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x):
        return x + self.layers(x)


@pytest.mark.parametrize("recipe", RECIPES)
def test_inverted_residuals_compute_with_integers_only(recipe):
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU6(), InvertedResidual(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)
    )
    names = check_integers(model, 2, 3, 17, 19, steps=2, quantize=recipe)
    assert [name.split(".")[1].partition("_")[2] for name in names if name.startswith("edgecore.")] == [
        *["convolution"] * 4, "add", "mean", "linear",
    ]  # fmt: skip


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.Conv2d(3, 5, (3, 2), (2, 1), (1, 1), (1, 2)), (2, 3, 9, 8)),
        (nn.Conv2d(4, 6, 3, groups=2, bias=False), (1, 4, 7, 5)),
        (nn.Conv1d(4, 8, 3, 2, 1, groups=4), (2, 4, 21)),
        (nn.ConvTranspose2d(3, 5, 3, 2, 1, 1), (1, 3, 6, 5)),
        (nn.ConvTranspose1d(3, 5, 4, 2), (1, 3, 9)),
        (nn.Linear(19, 7), (3, 4, 19)),
        (nn.Sequential(nn.Conv2d(3, 4, 1), nn.Hardtanh(-0.3, 0.4)), (1, 3, 5, 5)),
        (nn.Sequential(nn.Conv2d(3, 4, 1), nn.MaxPool2d(3, 2, 1)), (1, 3, 9, 9)),
        (nn.Sequential(nn.Conv2d(3, 4, 1), nn.ZeroPad2d(2)), (1, 3, 9, 9)),
        (Function(lambda x: x * torch.tanh(x) - x), (2, 5, 7)),
        (Function(lambda x: x.mean(-1)), (2, 5, 7)),
        (Function(lambda x: (x * 3).softmax(-1)), (2, 5, 70)),
        (Function(lambda x: (x * 3).softmax(-1)), (1, 2, 1024)),
        (nn.AvgPool2d(3, 2, 1), (2, 5, 17, 16)),
        (nn.AvgPool2d((2, 3), divisor_override=4), (1, 3, 9, 8)),
        (nn.Sequential(nn.AvgPool1d(4), nn.ReLU()), (2, 3, 21)),
        (nn.AdaptiveAvgPool2d((2, 3)), (2, 4, 8, 9)),
        (Function(lambda x: torch.cat([x.sigmoid(), (x * 2).sigmoid()], 1)), (2, 5, 7)),
        (nn.AvgPool2d(3, 2, 1, count_include_pad=False), (2, 5, 17, 16)),
        (nn.AvgPool2d((3, 2), (2, 3), (1, 0), ceil_mode=True), (2, 3, 16, 15)),
        (nn.AvgPool2d(5, 3, 2, ceil_mode=True, count_include_pad=False), (1, 3, 11, 12)),
        (nn.AvgPool2d(4, 3, 1, ceil_mode=True, divisor_override=7), (1, 3, 11, 12)),
        (nn.AvgPool1d(3, 2, 1, count_include_pad=False), (2, 3, 21)),
        (nn.Sequential(nn.AdaptiveAvgPool2d((3, 5)), nn.ReLU()), (2, 4, 8, 9)),
        (nn.AdaptiveAvgPool1d(4), (2, 4, 9)),
        (Function(lambda x: (y := x.tanh()) @ (y + 1).mT), (5, 7)),
        (Function(lambda x: (y := x.sigmoid()) @ (y - 0.3).mT), (2, 5, 70)),
        (Function(lambda x: torch.matmul(x.tanh(), x.sigmoid().transpose(-1, -2))), (2, 3, 9, 4)),
        (Function(lambda x: torch.bmm(((y := x.tanh()).mT @ y * 3).softmax(-1), y.mT).relu()), (2, 7, 5)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else str(value),
)
def test_results_are_at_most_a_step_from_quantized_eager(model, shape, recipe):
    has_tables = recipe == "int16x8" and isinstance(model, Function)
    check_integers(model, *shape, steps=fuse_integers.TABLE_ERROR if has_tables else 1, quantize=recipe)


FUNCTIONS = [
    torch.sigmoid, torch.tanh, nn.functional.silu, nn.functional.gelu, nn.functional.hardswish, torch.exp,
    nn.functional.leaky_relu, lambda x: x * 0.3 + 1, torch.abs,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_one_int8_value_are_tables_equal_to_eager(function):
    names = check_integers(Function(function), 3, 500, steps=0)
    assert set(names) == {*OUTER, "edgecore.int8_table.default"}


@pytest.mark.parametrize("function", [*FUNCTIONS, lambda x: x.abs().sqrt()])
def test_functions_of_one_int16_value_are_tables_at_most_four_steps_from_eager(function):
    names = check_integers(Function(function), 3, 500, steps=fuse_integers.TABLE_ERROR, quantize="int16x8")
    assert set(names) == {*OUTER, "edgecore.int16_table.default"}


@pytest.mark.parametrize(
    "function, entries",
    [
        (torch.sigmoid, 513),
        (nn.functional.silu, 513),
        (nn.functional.leaky_relu, 513),
        (nn.functional.hardswish, 2049),
        (torch.sign, 65537),
    ],
)
def test_a_table_of_int16_is_as_small_as_its_function_allows(function, entries):
    program = compiled(Function(function), 3, 500, quantize="int16x8")
    (table,) = program.exported_program().state_dict.values()
    assert table.shape == (entries,)


def test_a_table_of_int16_has_no_bend_where_its_result_saturates():
    samples = [torch.rand(3, 500) * 5 - 4 for _ in range(2)]  # the integers reach 4, the results exp(1)
    program = edgecore.compile(
        Function(torch.exp).eval(), (samples[0],), runtime="edgecore", quantize="int16x8", calibration=samples
    )
    (table,) = program.exported_program().state_dict.values()
    assert table.shape == (513,)
    result = torch.as_tensor(edgecore.load(program.buffer).forward(torch.full((3, 500), 3.5)))
    assert result.unique().tolist() == pytest.approx([samples[0].exp().max().item()], rel=0.01)


def test_int16_values_keep_what_int8_loses():
    model = Function(lambda x: (y := x * torch.tanh(x) - x).softmax(-1) @ y.mT)
    eight, sixteen = (compiled(model, 2, 5, 70, quantize=recipe).compare(model) for recipe in RECIPES)
    assert min(row.eager.sqnr for row in eight.rows) < 45
    assert min(row.eager.sqnr for row in sixteen.rows) > 70


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.cat([x.tanh(), x * 9], 1),
        lambda x: torch.cat([x * 9, x.tanh()], 1),
        lambda x: torch.cat([x.sigmoid(), x.tanh()], 1),
        lambda x: torch.cat([x.tanh(), (x * 9).relu(), x * 2], 1),
    ],
)
def test_joined_values_keep_the_range_of_each(function, recipe):
    model = Function(function)
    check_integers(model, 2, 3, 4, quantize=recipe)
    assert min(row.eager.sqnr for row in compiled(model, 2, 3, 4, quantize=recipe).compare(model).rows) > 30


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_clamp_whose_limits_are_swapped_returns_the_upper_one(recipe):
    model = nn.Sequential(nn.Linear(5, 4), Function(lambda x: x.clamp(0.5, 0.2)))
    result = edgecore.load(compiled(model, 3, 5, quantize=recipe).buffer).forward(torch.rand(3, 5))
    assert torch.as_tensor(result).sub(0.2).abs().max() < 0.01


def test_operators_without_integer_kernel_stay_in_floating_point():
    program = compiled(nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 4)), 3, 6)
    names = operators(program)
    assert names.count("edgecore.int8_linear.default") == 2 and "aten.native_layer_norm.default" in names


@pytest.mark.parametrize("function, shape", [
    (lambda x: (x * 3).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf).softmax(-1), (2, 4, 4)),
    (lambda x: (x * 3).softmax(-1), (1, 2, 1025)),  # the errors of so many entries of the table could add up
    (lambda x: (x * 3).softmax(1), (2, 4, 4)),
])  # fmt: skip
def test_a_softmax_of_masked_or_many_values_stays_in_floating_point(function, shape):
    assert "aten._softmax.default" in operators(compiled(Function(function), *shape))


def test_a_mask_keeps_its_values_out_of_a_quantized_softmax():
    model = Function(lambda x: (x * 3).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf).softmax(-1))
    program = compiled(model, 2, 4, 4)
    x = torch.rand(2, 4, 4)
    assert torch.as_tensor(edgecore.load(program.buffer).forward(x)).triu(1).count_nonzero() == 0


class Attention(nn.Module):
    """Scores with a mask that is added, and a matrix of weights."""

    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", torch.full((4, 4), mask).triu(1))
        self.weight = nn.Parameter(torch.rand(8, 8) * torch.logspace(-3, 0, 8))

    def forward(self, x):
        return ((x @ self.weight @ x.mT) + self.mask).softmax(-1) @ x


@pytest.mark.parametrize("mask", [-torch.inf, -1e9])
def test_masks_that_are_added_and_weights_of_products_stay_in_floating_point(mask):
    model = Attention(mask)
    program = compiled(model, 2, 4, 8)
    names = operators(program)
    assert {"aten.mm.default", "aten.add.Tensor", "aten._softmax.default"} <= set(names)
    assert names.count("edgecore.int8_matmul.default") == 2
    assert min(row.eager.sqnr for row in program.compare(model).rows) > 25


def test_skipped_modules_stay_in_floating_point():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    names = operators(compiled(model, 3, 6, quantize={"kernels": edgecore.Recipe("int8", skip=["2"])}))
    assert names.count("edgecore.int8_linear.default") == 1 and "aten.linear.default" in names


def test_layers_of_two_recipes_meet_in_floating_point():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    recipe = edgecore.Recipe("int8", rules=[edgecore.Rule(module="2", recipe="int16x8")])
    program = compiled(model, 3, 6, quantize={"kernels": recipe})
    names = operators(program)
    assert {"edgecore.int8_linear.default", "edgecore.int16_linear.default"} <= set(names)
    assert min(row.eager.sqnr for row in program.compare(model).rows) > 30


def test_one_scale_for_a_weight_and_symmetric_activations():
    recipe = edgecore.Recipe("int8", weights="tensor", symmetric=True, observer="minmax")
    check_integers(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), 1, 3, 8, 8, quantize=recipe)
    recipe = edgecore.Recipe("int16x8", weights="tensor", observer="minmax")
    check_integers(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), 1, 3, 8, 8, quantize=recipe)


def test_another_target_runtime_is_an_error_that_names_ours():
    with pytest.raises(CompileError, match='compile with runtime="edgecore"'):
        edgecore.compile(nn.Linear(3, 4).eval(), (torch.rand(1, 3),), quantize="int8", calibration=[torch.rand(1, 3)])
    with pytest.raises(CompileError, match='compile with runtime="edgecore"'):
        edgecore.compile(
            nn.Linear(3, 4).eval(), (torch.rand(1, 3),), quantize={"kernels": "int8"}, calibration=[torch.rand(1, 3)]
        )


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_classifier_of_digits_keeps_its_accuracy(recipe):
    datasets = pytest.importorskip("sklearn.datasets")
    digits = datasets.load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(digits.target)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(40):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[:1200]), labels[:1200]).backward()
        optimizer.step()
    held, truth = images[1200:], labels[1200:]
    calibration = [(images[:597],), (images[597:1194],)]
    program = edgecore.compile(model.eval(), (held,), runtime="edgecore", quantize=recipe, calibration=calibration)
    with torch.no_grad():
        expected = (model(held).argmax(1) == truth).float().mean()
    result = edgecore.load(program.buffer).forward(held)
    assert (torch.as_tensor(result).argmax(1) == truth).float().mean() >= expected - 0.01
    assert expected > 0.9
