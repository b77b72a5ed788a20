"""The delegate computes the same results as PyTorch, with both payloads and various options."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import edgecore
from edgecore import Recipe
from edgecore.errors import CompileError
from edgecore_openvino.blob.format import Kind, decode


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8), nn.Softmax(-1))

    def forward(self, x):
        return self.layers(x)


class Net(nn.Module):
    """Convolutions (one is depthwise, one transposed), batch norm, group norm, pooling, a residual sum, resizing."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.group_norm, self.last = nn.GroupNorm(2, 4), nn.Linear(4, 5)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = nn.functional.max_pool2d(x + self.depthwise(x), 3, 2, 1, ceil_mode=True)
        x = nn.functional.hardswish(self.group_norm(self.up(x)))
        x = nn.functional.avg_pool2d(nn.functional.interpolate(x, scale_factor=2, mode="bilinear"), 3, 2, 1)
        return self.last(x.mean((2, 3)))


class Block(nn.Module):
    """A transformer block with its embedding: attention with a mask, an MLP, two norms."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.norms = nn.ModuleList([nn.LayerNorm(32), nn.LayerNorm(32)])
        self.mlp = nn.Sequential(nn.Linear(32, 64), nn.GELU(approximate="tanh"), nn.Linear(64, 32))
        self.register_buffer("mask", torch.full((6, 6), -1e4).triu(1))

    def forward(self, tokens):
        x = self.table(tokens)
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, attn_mask=self.mask, need_weights=False)[0]
        return x + self.mlp(self.norms[1](x))


class Attention(nn.Module):
    def forward(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v) + 1


MODELS = [
    (Mlp(), (torch.randn(3, 16),)),
    (Net(), (torch.randn(2, 3, 13, 16),)),
    (Block(), (torch.randint(50, (2, 6)),)),
    (Attention(), (torch.randn(1, 2, 5, 8), torch.randn(1, 2, 7, 8), torch.randn(1, 2, 7, 8))),
]
PAIR = (Mlp(), (torch.randn(3, 16),))


def build(model, inputs, *, quantize=None, calibration=None, **options):
    backend = edgecore.Backend("openvino", required=True, **options)
    return edgecore.compile(model.eval(), inputs, backends=[backend], quantize=quantize, calibration=calibration)


def run(program, path, *inputs, **options):
    program.save(path)
    return torch.as_tensor(edgecore.load(path, options={"openvino": options}).forward(*inputs))


@pytest.mark.parametrize("payload", ["portable", "blob"])
@pytest.mark.parametrize(("model", "inputs"), MODELS, ids=[type(model).__name__ for model, _ in MODELS])
def test_a_model_gives_what_eager_gives(tmp_path, model, inputs, payload):
    result = run(build(model, inputs, payload=payload), tmp_path / "model.pte", *inputs)
    torch.testing.assert_close(result, model.eval()(*inputs), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("index", [0, 1])
def test_a_model_quantized_to_int8_is_close_to_eager(tmp_path, index):
    model, inputs = MODELS[index]
    samples = [tuple(torch.randn_like(one) for one in inputs) for _ in range(8)]
    result = run(build(model, inputs, quantize="int8", calibration=samples), tmp_path / "model.pte", *samples[0])
    expected = model.eval()(*samples[0])
    assert (result - expected).abs().max() < 0.05 * expected.abs().max()


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe("int8", weights="tensor"),
        Recipe("int8", symmetric=True, observer="minmax"),
        Recipe("int8", weights="channel", symmetric=False, observer="moving-average"),
    ],
    ids=repr,
)
def test_int8_with_parameters_at_their_ends_runs_with_integers(tmp_path, recipe):
    model, inputs = MODELS[1]
    program = build(model, inputs, quantize=recipe, calibration=[inputs])
    rows = [row for row in program.report(quantization=True).quantization if row.operator == "aten.conv2d.default"]
    kind, scales = "int8" if recipe.symmetric else "uint8", f"per {recipe.weights or 'channel'}"
    assert rows and all(row.scheme.startswith(f"inputs {kind}, weights int7 {scales}") for row in rows)
    assert min(row.sqnr for row in rows) > 20 and program.compare(model).ok


class Concatenated(torch.nn.Module):
    """Two convolutions, whose concatenated results a third one reads."""

    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Conv2d(16, 32, 1), torch.nn.Conv2d(16, 32, 3, padding=1)
        self.c = torch.nn.Conv2d(64, 16, 1)

    def forward(self, x):
        return self.c(torch.cat([self.a(x), self.b(x)], 1))


def test_a_concatenation_that_is_quantized_to_int8_gives_what_quantized_eager_gives():
    torch.manual_seed(0)
    model, inputs = Concatenated().eval(), (torch.randn(1, 16, 16, 16),)
    program = build(model, inputs, quantize=Recipe("int8", symmetric=True), calibration=[inputs])
    assert program.compare(model).ok


def test_a_parameter_that_openvino_lacks_is_an_error_that_lists_those_it_has():
    model, inputs = MODELS[0]
    with pytest.raises(
        CompileError, match="recipe 'int8' of backend 'openvino': no parameter 'group' .it has: weights="
    ):
        build(model, inputs, quantize=Recipe("int8", group=32), calibration=[inputs])


def test_a_symbolic_batch_equals_eager(tmp_path):
    model, example = Mlp().eval(), (torch.randn(2, 16),)
    batch = torch.export.Dim("batch", min=1, max=8)
    program = edgecore.compile(model, example, backends=["openvino"], dynamic_shapes={"x": {0: batch}})
    program.save(tmp_path / "model.pte")
    loaded = edgecore.load(tmp_path / "model.pte")
    for size in (2, 8, 1):
        inputs = torch.randn(size, 16)
        torch.testing.assert_close(torch.as_tensor(loaded.forward(inputs)), model(inputs), atol=1e-6, rtol=1e-5)
    with pytest.raises(edgecore.errors.ExecutionError):
        loaded.forward(torch.randn(9, 16))


def payload_of(program, path):
    program.save(path)
    content = path.read_bytes()
    return decode(content[content.index(b"OPENVINO") :])


def test_options_are_in_the_blob_for_the_import_at_load(tmp_path):
    """A compiled model does not store its precision: without these properties, CPUs with bf16 would compute in bf16."""
    kept = payload_of(build(*PAIR, payload="blob", precision="f32", streams=2), tmp_path / "model.pte")
    assert kept.kind is Kind.DEVICE and kept.device == "CPU"
    assert kept.properties == {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": "2"}


def test_a_property_is_given_to_openvino_again(tmp_path):
    """Set a value that OpenVINO refuses: its error shows that both payloads pass their properties to OpenVINO."""
    for payload in ("portable", "blob"):
        path = tmp_path / "model.pte"
        build(*PAIR, payload=payload).save(path)
        content = path.read_bytes()
        start = content.index(b"OPENVINO")
        at = content.index(b"f32", content.index(b"INFERENCE_PRECISION_HINT", start))
        damaged = content[:at] + b"f99" + content[at + 3 :]
        with pytest.raises(edgecore.errors.ExecutionError, match="f99|PRECISION"):
            edgecore.load(damaged.replace(b"edgecore.meta.v1", b"edgecore.meta.v0"), trust=True)


@pytest.mark.parametrize("payload", ["portable", "blob"])
def test_blobs_are_reproducible(tmp_path, payload):
    first, second = (build(*PAIR, payload=payload) for _ in range(2))
    first.save(tmp_path / "first.pte")
    second.save(tmp_path / "second.pte")
    assert (tmp_path / "first.pte").read_bytes() == (tmp_path / "second.pte").read_bytes()


def test_indices_out_of_range_give_zeros_and_negative_ones_count_from_the_end(tmp_path):
    """PyTorch raises an error for both."""
    table = nn.Embedding(4, 2).eval()
    got = run(build(table, (torch.tensor([0, 1, 2]),)), tmp_path / "model.pte", torch.tensor([-1, 7, 0]))
    assert torch.equal(got, torch.stack([table.weight[3], torch.zeros(2), table.weight[0]]))


def test_fp16_weights_halve_the_file(tmp_path):
    model, inputs = nn.Linear(256, 256), (torch.randn(1, 256),)
    whole, half = (payload_of(build(model, inputs, half_weights=value), tmp_path / "a.pte") for value in (False, True))
    assert len(half.weights) < 0.6 * len(whole.weights)
    result = run(build(model, inputs, half_weights=True), tmp_path / "a.pte", *inputs)
    torch.testing.assert_close(result, model(*inputs), atol=2e-3, rtol=1e-3)


def test_the_device_can_be_chosen_at_load(tmp_path):
    model, inputs = PAIR
    result = run(build(model, inputs, device="GPU"), tmp_path / "model.pte", *inputs, device="CPU")
    torch.testing.assert_close(result, model(*inputs), atol=1e-6, rtol=1e-5)
    with pytest.raises(edgecore.errors.ExecutionError, match=r"payload=\"portable\""):
        run(build(model, inputs, payload="blob"), tmp_path / "model.pte", *inputs, device="GPU")
