"""Single operators: coremltools' program of each computes what PyTorch does, with the stand-in for Core ML."""

from __future__ import annotations

import sys

import pytest
import torch

import edgecore
from edgecore.errors import ExecutionError
from edgecore.format import read_pte
from edgecore_coreml.operators import TABLE
from edgecore_coreml_standin.interpreter import StandIn
from edgecore_coreml_standin.registry import OPS

functional, X, IMAGE = torch.nn.functional, torch.randn(2, 3, 4), torch.randn(1, 4, 6, 6)


class Call(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


UNARY = {
    "abs": torch.abs, "atan": torch.atan, "ceil": torch.ceil, "cos": torch.cos, "erf": torch.erf, "exp": torch.exp,
    "floor": torch.floor, "neg": torch.neg, "relu": torch.relu, "sigmoid": torch.sigmoid, "sin": torch.sin,
    "tanh": torch.tanh, "gelu": functional.gelu,
    "silu": functional.silu, "hardswish": functional.hardswish, "leaky_relu": lambda x: functional.leaky_relu(x, 0.1),
    "elu": functional.elu, "softmax": lambda x: torch.softmax(x, 1), "log_softmax": lambda x: torch.log_softmax(x, -1),
    "clamp": lambda x: x.clamp(-0.5, 0.5), "mean": lambda x: x.mean(1), "sum": lambda x: x.sum((0, 2), True),
    "amax": lambda x: x.amax(2), "var": lambda x: x.var(1), "argmax": lambda x: x.argmax(1),
    "permute": lambda x: x.permute(2, 0, 1), "slice": lambda x: x[:, 1:, ::2], "select": lambda x: x[:, 1],
    "flip": lambda x: x.flip(1), "repeat": lambda x: x.repeat(1, 2, 1), "split": lambda x: x.split([1, 3], 2),
    "unbind": lambda x: x.unbind(1), "stack": lambda x: torch.stack([x, x + 1], 1),
    "expand": lambda x: x[:, None].expand(2, 5, 3, 4), "cast": lambda x: (x * 10).to(torch.int32),
    "where": lambda x: torch.where(x > 0, x, x * 2), "layer_norm": lambda x: functional.layer_norm(x, (4,)),
    "matmul": lambda x: x @ x.mT, "pad": lambda x: functional.pad(x, (1, 2), value=3.0),
    "attention": lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None]),
    "hardtanh": lambda x: functional.hardtanh(x * 2), "hardtanh of defaults": lambda x: torch.ops.aten.hardtanh(x * 2),
    "hardtanh of one limit": lambda x: torch.ops.aten.hardtanh(x * 2, -0.5),
}  # fmt: skip
IMAGES = {
    "max_pool": lambda x: functional.max_pool2d(x, 3, 2, 1), "avg_pool": lambda x: functional.avg_pool2d(x, 3, 2, 1),
    "avg_pool_inside": lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "adaptive": lambda x: functional.adaptive_avg_pool2d(x, 1), "pixel_shuffle": lambda x: functional.pixel_shuffle(x, 2),
    "group_norm": lambda x: functional.group_norm(x, 2), "nearest": lambda x: functional.interpolate(x, scale_factor=2.0),
}  # fmt: skip


def check(tmp_path, model, *inputs):
    program = edgecore.compile(model.eval(), inputs, backends=[edgecore.Backend("coreml", required=True)])
    program.save(tmp_path / "model.pte")
    (blob,) = read_pte((tmp_path / "model.pte").read_bytes()).delegate_blobs
    expected = model(*inputs)
    for result, value in zip(
        StandIn(bytes(blob), {})(*inputs), expected if isinstance(expected, (tuple, list)) else [expected], strict=True
    ):
        rtol, atol = (2e-3, 1e-3) if value.dtype == torch.float16 else (1e-4, 1e-5)
        torch.testing.assert_close(result.to(value.dtype), value, rtol=rtol, atol=atol)


def test_the_reciprocal_of_a_small_number_is_precise(tmp_path):
    """coremltools alone converts it to 1 / (x + 0.0001)."""
    check(tmp_path, Call(lambda x: (torch.reciprocal(x), 2 / x)), torch.tensor([1e-3, -1e-4, 1e-6, 3.0]))


def test_a_quotient_that_is_rounded_is_divided(tmp_path):
    """coremltools alone multiplies by the reciprocal, which gives 0 for 41 / 41."""
    divisors = torch.tensor([41.0, 41.0, 47.0, -61.0])

    def quotients(x):
        return (torch.div(x, divisors, rounding_mode="trunc"), torch.floor(x / 41), (x / 41).to(torch.int32))

    check(tmp_path, Call(quotients), torch.tensor([41.0, -82.0, 47.0, 61.0]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x - 3_000_000_000,
        lambda x: x > 2**31,
        lambda x: x.clamp(-(2**40), 5),
        lambda x: x + torch.tensor([2**31 - 1, -(2**31) - 1]),
    ],
)
def test_integers_that_32_bits_do_not_hold_stay_outside(function):
    report = str(edgecore.compile(Call(function).eval(), (torch.tensor([1, 2]),), backends=["coreml"]).report())
    assert "integers of more than 32 bits" in report


@pytest.mark.parametrize("name", UNARY)
def test_an_operator_of_a_tensor(tmp_path, name):
    # The addition stays: edgecore delegates no partition that only moves data.
    check(tmp_path, Call(lambda x: UNARY[name](x + 0.5)), X)


@pytest.mark.parametrize("name", IMAGES)
def test_an_operator_of_an_image(tmp_path, name):
    check(tmp_path, Call(lambda x: IMAGES[name](x + 0.5)), IMAGE)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum"])
def test_arithmetic_with_broadcasting(tmp_path, name):
    check(tmp_path, Call(getattr(torch, name)), X, torch.randn(3, 1))


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_a_division_that_rounds(tmp_path, mode):
    check(tmp_path, Call(lambda x, y: torch.div(x, y, rounding_mode=mode)), X * 5, X + 3)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: functional.conv1d(functional.pad(x, (1, 2), value=3.0), torch.ones(2, 3, 2).half()),
        lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None]) + x,
        functional.softplus,
    ],
)
def test_float16_stays_float16(tmp_path, function):
    check(tmp_path, Call(lambda x: function(x + 0.5)), X.half())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None], scale=0.3),
        lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
        lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=x @ x.mT > 0),
        lambda x: functional.softplus(x, beta=2.0),
    ],
)
def test_coremltools_converts_some_options_in_float32_alone(function):
    model = Call(lambda x: function(x + x)).eval()
    report = str(edgecore.compile(model, (X.half(),), backends=[edgecore.Backend("coreml")]).report())
    assert "float16" in report
    assert "failed to compile" not in report


@pytest.mark.parametrize("options", [{"is_causal": True}, {"scale": 0.3}])
def test_attention_with_options(tmp_path, options):
    x = torch.randn(1, 2, 5, 8)
    check(tmp_path, Call(lambda x: functional.scaled_dot_product_attention(x, x * 2, x + 1, **options)), x)


def test_causal_attention_of_any_length(tmp_path):
    x, length = torch.randn(1, 2, 5, 8), torch.export.Dim("length", min=2, max=9)
    model = Call(lambda x: functional.scaled_dot_product_attention(x, x * 2, x + 1, is_causal=True)).eval()
    program = edgecore.compile(
        model, (x,), backends=[edgecore.Backend("coreml", required=True)], dynamic_shapes=(({2: length},),)
    )
    (blob,) = read_pte(bytes(program.buffer)).delegate_blobs
    standin = StandIn(bytes(blob), {})
    assert {"fill", "band_part"} <= standin.kinds
    for size in (2, 5, 9):
        x = torch.randn(1, 2, size, 8)
        torch.testing.assert_close(standin(x)[0], model(x))


@pytest.mark.parametrize(
    ("lower", "upper"), [(0, -1), (-1, 0), (1, 2), (-1, -1)], ids=["upper", "lower", "band", "all"]
)
def test_a_band_of_a_matrix(lower, upper):
    x = torch.randn(2, 4, 6)
    want = x if lower < 0 else x.triu(-lower)
    want = want if upper < 0 else want.tril(upper)
    assert torch.equal(OPS["band_part"](x, torch.tensor(lower), torch.tensor(upper)), want)


@pytest.mark.parametrize(
    "layer",
    [
        torch.nn.Conv2d(4, 6, 3, 2, 1, groups=2),
        torch.nn.Conv2d(4, 4, (3, 1), padding="same", dilation=2, bias=False),
        torch.nn.ConvTranspose2d(4, 6, 3, 2, 1),
    ],
)
def test_a_convolution_of_an_image(tmp_path, layer):
    check(tmp_path, layer, IMAGE)


def test_padding_keeps_float16():
    """A convolution needs one dtype; edgecore computes one of three dims with a dilation by padding and one of two dims."""
    layer, x = (
        torch.nn.Conv3d(4, 6, (3, 3, 2), (2, 1, 1), (1, 1, 0), (1, 1, 2)).half().eval(),
        torch.randn(2, 4, 5, 6, 7),
    )
    program = edgecore.compile(layer, (x.half(),), backends=[edgecore.Backend("coreml", required=True)])
    (blob,) = read_pte(bytes(program.buffer)).delegate_blobs
    standin = StandIn(bytes(blob), {})
    assert "pad" in standin.kinds
    torch.testing.assert_close(standin(x.half())[0], layer(x.half()), rtol=0, atol=0.01)


def test_an_embedding_of_int64_indices(tmp_path):
    check(tmp_path, torch.nn.Embedding(7, 3), torch.tensor([[1, 6, 0]]))


@pytest.mark.parametrize("index", [7, -8])
@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("gather", {"x": torch.ones(7, 3)}),
        ("gather_along_axis", {"x": torch.ones(7, 3)}),
        ("scatter", {"data": torch.ones(7, 3), "updates": torch.ones(2, 3)}),
        ("scatter_nd", {"data": torch.ones(7, 3), "updates": torch.ones(2, 3)}),
    ],
)
def test_an_index_out_of_range_is_an_error(kind, arguments, index):
    shape = {"gather_along_axis": (2, 1), "scatter_nd": (2, 1)}.get(kind, (2,))
    for indices in ([0, -1], [6, -7]):  # negative ones count from the end
        OPS[kind](**arguments, indices=torch.tensor(indices, dtype=torch.int32).reshape(shape))
    wrong = torch.tensor([0, index], dtype=torch.int32).reshape(shape)
    with pytest.raises(IndexError, match=f"index {index} is out of range for a dim of size 7"):
        OPS[kind](**arguments, indices=wrong)


def test_a_file_says_which_index_is_out_of_range(tmp_path):
    program = edgecore.compile(torch.nn.Embedding(7, 3).eval(), (torch.tensor([1, 6]),), backends=["coreml"])
    program.save(tmp_path / "model.pte")
    loaded = edgecore.load(tmp_path / "model.pte", options={"coreml": {"standin": sys.executable}})
    with pytest.raises(ExecutionError, match="index 7 is out of range for a dim of size 7"):
        loaded.forward(torch.tensor([1, 7]))
    assert loaded.forward(torch.tensor([6, 1])).shape == (2, 3)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: functional.gelu(x, approximate="tanh"), "approximate is tanh, which coremltools ignores"),
        (lambda x: x.sum(1, dtype=torch.float16), "it has a dtype, which coremltools ignores"),
        (lambda x: torch.add(x, x, alpha=2), "alpha is 2"),
        (lambda x: x.argmax(), "it has no dim"),
        (lambda x: torch.atan2(x, x), "aten.atan2"),
        (torch.log1p, "aten.log1p"),
        (lambda x: torch.div(x, 41, rounding_mode="trunc"), "aten.div.Scalar_mode"),
        (
            lambda x: torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.1, 0, -8, 7, torch.int8),
            "its integers are -8 to 7, not -128 to 127",
        ),
    ],
)
def test_calls_that_coremltools_converts_to_other_functions_are_refused(function, reason):
    assert reason in str(edgecore.compile(Call(function).eval(), (X,), backends=["coreml"]).report())


@pytest.mark.parametrize("states", [False, True], ids=["zeros", "states"])
@pytest.mark.parametrize(
    "layer",
    [
        {"num_layers": 2},
        {"batch_first": True, "bias": False},
        {"bidirectional": True},
        {"num_layers": 2, "bidirectional": True, "batch_first": True},
    ],
    ids=str,
)
def test_an_lstm_stays_whole(layer, states):
    model, x = torch.nn.LSTM(5, 4, **layer).eval(), torch.randn(3, 6, 5)
    count = layer.get("num_layers", 1) * (1 + layer.get("bidirectional", False))
    hidden, cell = (torch.randn(count, 3 if "batch_first" in layer else 6, 4) for _ in range(2))
    inputs = (x, (hidden, cell)) if states else (x,)
    program = edgecore.compile(model, inputs, backends=[edgecore.Backend("coreml", required=True)])
    (blob,) = read_pte(bytes(program.buffer)).delegate_blobs
    standin = StandIn(bytes(blob), {})
    assert "lstm" in standin.kinds and "tanh" not in standin.kinds
    values = {"input_1": x, "hx_0": hidden, "hx_1": cell}
    sequence, last = model(*inputs)
    for result, value in zip(
        standin(*(values[name] for name in standin.package.inputs)), (sequence, *last), strict=True
    ):
        torch.testing.assert_close(result, value, rtol=1e-4, atol=1e-5)


def test_an_lstm_with_a_projection_is_decomposed(tmp_path):
    model, x = torch.nn.Sequential(torch.nn.LSTM(5, 4, proj_size=2), First()), torch.randn(3, 6, 5)
    exported = torch.export.export(model.eval(), (x,))
    reasons = TABLE.unsupported_reasons(exported, is_decomposed=False)
    assert "it has a projection" in [reasons(node) for node in exported.graph.nodes if node.op == "call_function"]
    check(tmp_path, model, x)


class First(torch.nn.Module):
    def forward(self, results):
        return results[0]
