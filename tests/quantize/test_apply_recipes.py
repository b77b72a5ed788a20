"""`edgecore.compile(quantize=...)`: recipes, calibration in all its forms, and what is said when it cannot be used."""

import pytest
import torch
from quantized_network import SAMPLES, network
from torch import nn

import edgecore
from edgecore import Recipe
from edgecore.errors import CompileError

pytest.importorskip("edgecore_xnnpack")


def signal_to_noise(got, want):
    return float(10 * torch.log10(want.square().mean() / (got - want).square().mean()))


def test_int8_is_close_and_a_quarter_of_the_size(program):
    whole = edgecore.compile(network(), (SAMPLES[0],), backends=["xnnpack"])
    assert program.report().delegates == {"XnnpackBackend": 1} and program.report().left_outside == []
    with torch.no_grad():
        want = network()(SAMPLES[1])
    assert signal_to_noise(edgecore.load(program.buffer).forward(SAMPLES[1]), want) > 30
    weights = 4 * sum(parameter.numel() for parameter in network().parameters())
    assert len(whole.buffer) - len(program.buffer) > 0.7 * weights


def test_a_quantized_program_keeps_its_dynamic_shapes():
    dim = torch.export.Dim("n", min=2, max=8)
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU()).eval()
    samples = [torch.randn(n, 6, generator=torch.Generator().manual_seed(n)) for n in (2, 5, 8)]
    program = edgecore.compile(
        model, (samples[1],), dynamic_shapes=({0: dim},), backends=["xnnpack"], quantize="int8", calibration=samples
    )
    loaded = edgecore.load(program.buffer)
    for sample in samples:
        with torch.no_grad():
            assert signal_to_noise(loaded.forward(sample), model(sample)) > 25


def test_a_recipe_that_does_not_exist_is_reported_with_those_that_do():
    x = (SAMPLES[0],)
    with pytest.raises(CompileError, match="no recipe 'int3'; the recipes are int8, int8-dynamic, int8-weights, int4-"):
        edgecore.compile(network(), x, backends=["xnnpack"], quantize="int3", calibration=SAMPLES)
    with pytest.raises(
        CompileError, match="backend 'xnnpack' has no recipe 'palette4'; it has fp16, int4-weights, int8,"
    ):
        edgecore.compile(network(), x, backends=["xnnpack"], quantize="palette4", calibration=SAMPLES)
    with pytest.raises(CompileError, match="needs a backend with recipes; the chosen backends are: none"):
        edgecore.compile(network(), x, quantize="int8", calibration=SAMPLES)
    with pytest.raises(CompileError, match="calibration has no effect without quantize"):
        edgecore.compile(network(), x, backends=["xnnpack"], calibration=SAMPLES)


def test_dynamic_int8_needs_no_calibration():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32)).eval()
    x = torch.randn(3, 64)
    program = edgecore.compile(model, (x,), backends=["xnnpack"], quantize="int8-dynamic")
    with torch.no_grad():
        assert signal_to_noise(edgecore.load(program.buffer).forward(x), model(x)) > 35
    whole = edgecore.compile(model, (x,), backends=["xnnpack"])
    assert len(program.buffer) < 0.5 * len(whole.buffer)


class Attention(nn.Module):
    """Layers around an attention over moved values; `up` has a width that groups of 32 do not divide."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(64, 64) for _ in range(4))
        self.down, self.up = nn.Linear(64, 24), nn.Linear(24, 64, bias=False)

    def forward(self, x):
        q, k, v = (layer(x).reshape(*x.shape[:2], 4, 16).transpose(1, 2) for layer in (self.q, self.k, self.v))
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.up(torch.nn.functional.gelu(self.down(x)))


@pytest.mark.parametrize("recipe, size, quality", [("int4-weights", 0.35, 20), ("int8-dynamic", 0.5, 35)])
def test_linear_layers_of_a_transformer_are_small_and_close_to_eager(recipe, size, quality):
    torch.manual_seed(0)
    model, x = Attention().eval(), torch.randn(2, 10, 64)
    whole = edgecore.compile(model, (x,), backends=["xnnpack"])
    program = edgecore.compile(model, (x,), backends=["xnnpack"], quantize=recipe)
    assert program.report().delegates == {"XnnpackBackend": 1} and program.report().left_outside == []
    assert len(program.buffer) < size * len(whole.buffer)
    with torch.no_grad():
        assert signal_to_noise(edgecore.load(program.buffer).forward(x), model(x)) > quality


class Tokens(nn.Module):
    """An embedding, a mask with numbers that 16 bits do not hold, and layers."""

    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(300, 64), nn.LayerNorm(64)
        self.block, self.head = Attention(), nn.Linear(64, 10)

    def forward(self, tokens):
        x = self.block(self.norm(self.table(tokens)))
        return self.head(x), (x @ x.transpose(1, 2) + torch.tensor([0.0, -3e38]).repeat(5)).softmax(-1)


def test_fp16_halves_the_file_and_keeps_inputs_and_outputs():
    torch.manual_seed(0)
    model, tokens = Tokens().eval(), torch.randint(300, (2, 10))
    whole = edgecore.compile(model, (tokens,), backends=["xnnpack"])
    program = edgecore.compile(model, (tokens,), backends=["xnnpack"], quantize="fp16")
    assert program.report().delegates == {"XnnpackBackend": 1}
    assert len(program.buffer) < 0.6 * len(whole.buffer)
    with torch.no_grad():
        for got, want in zip(edgecore.load(program.buffer).forward(tokens), model(tokens), strict=True):
            assert got.dtype == torch.float32 and signal_to_noise(got, want) > 50


def test_options_of_the_user_go_before_those_of_a_recipe():
    model, x = nn.Sequential(nn.Linear(64, 64)).eval(), torch.randn(3, 64)
    for force, quality in ((False, 120), (True, 50)):
        backend = edgecore.Backend("xnnpack", force_fp16=force)
        program = edgecore.compile(model, (x,), backends=[backend], quantize="fp16")
        with torch.no_grad():
            quiet = signal_to_noise(edgecore.load(program.buffer).forward(x), model(x))
        assert quality < quiet and (quiet > 120) != force


class Mixed(nn.Module):
    """Layers that XNNPACK quantizes, and a product of two values that OpenVINO quantizes and XNNPACK does not."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.head = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 8)

    def forward(self, x):
        return self.head(self.left(x) @ self.right(x).transpose(1, 2) @ x)


@pytest.mark.parametrize(
    ("xnnpack", "left", "head"),
    [
        ("int8", "inputs int8, weights int8 per channel", "inputs int8, weights int8 per channel"),
        ("int4-weights", "weights int4 in groups of 32", "weights int4 in groups of 32"),
        (
            Recipe("int8", skip=["head"]),
            "inputs int8, weights int8 per channel",
            "inputs uint8, weights int7 per channel",
        ),
    ],
    ids=["static", "weights", "rule"],
)
def test_an_operator_gets_the_recipe_of_the_first_backend_that_quantizes_it(xnnpack, left, head):
    pytest.importorskip("edgecore_openvino")
    torch.manual_seed(0)
    model, x = Mixed().eval(), torch.randn(2, 64, 64)
    program = edgecore.compile(
        model,
        (x,),
        backends=["xnnpack", "openvino"],
        quantize={"openvino": "int8", "xnnpack": xnnpack},
        calibration=[x],
    )
    rows = program.report(quantization=True).quantization
    schemes = {row.module or row.node: row.scheme for row in rows if row.operator in LAYERS}
    assert left in schemes["left"] and left in schemes["right"] and head in schemes["head"]
    assert "inputs uint8" in schemes["matmul_1"]
    assert program.compare(model).ok


LAYERS = ("aten.linear.default", "aten.matmul.default")


def test_calibration_leaves_mutable_buffers_as_they_were():
    class Total(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x):
            y = self.layer(x)
            self.total.add_(y.sum(0))
            return y + self.total

    torch.manual_seed(0)
    model, x = Total().eval(), torch.randn(2, 4)
    program = edgecore.compile(model, (x,), backends=["xnnpack"], quantize="int8", calibration=[(x,), (x,)])
    assert torch.equal(model.total, torch.zeros(4))
    loaded = edgecore.load(program)
    with torch.no_grad():
        want = model.layer(x) + model.layer(x).sum(0)
    assert signal_to_noise(loaded.forward(x), want) > 25


class Loop(nn.Module):
    """A linear layer, and another one in the body of a loop."""

    def __init__(self):
        super().__init__()
        self.first, self.again = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        def body(count, value):
            return count + 1, torch.tanh(self.again(value))

        start = torch.zeros((), dtype=torch.int64), self.first(x)
        return torch._higher_order_ops.while_loop(lambda count, _: count < 3, body, start)[1]


@pytest.mark.parametrize("recipe", ["int8", "int8-dynamic"])
def test_the_body_of_a_loop_stays_in_floating_point(recipe):
    torch.manual_seed(0)
    model, x = Loop().eval(), torch.randn(2, 8)
    calibration = [x] if recipe == "int8" else None
    program = edgecore.compile(model, (x,), backends=["xnnpack"], quantize=recipe, calibration=calibration)
    with torch.no_grad():
        assert signal_to_noise(edgecore.load(program.buffer).forward(x), model(x)) > 40
    assert [row.module for row in program.report(quantization=True).quantization] == ["first"]


class Branches(nn.Module):
    """A linear layer after branches that hold constants."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        def positive(a):
            b = a * 2
            b[0] = 7.0
            return b + torch.tensor([1.0, 2.0] * 16)

        return self.linear(torch.cond(x.sum() > 0, positive, lambda a: a - torch.tensor(1.0), (x,)))


@pytest.mark.parametrize("recipe", ["int8", "int8-dynamic", "int8-weights", "int4-weights"])
def test_branches_may_hold_constants(recipe):
    torch.manual_seed(0)
    model, x = Branches().eval(), torch.rand(2, 32)
    calibration = [x, -x] if recipe == "int8" else None
    program = edgecore.compile(model, (x,), backends=["xnnpack"], quantize=recipe, calibration=calibration)
    loaded = edgecore.load(program.buffer)
    for value in (x, -x):
        with torch.no_grad():
            assert signal_to_noise(loaded.forward(value), model(value)) > (15 if recipe == "int4-weights" else 30)
