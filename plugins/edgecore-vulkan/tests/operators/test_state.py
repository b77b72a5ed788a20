"""Test mutable buffers that the delegate keeps: a decoder with KV caches, and buffers with other new content."""

from __future__ import annotations

from functools import cache

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from vulkan_support import lowered

import edgecore

PROMPT = torch.tensor([[3, 41, 7, 90, 12]])
CAPACITY, WIDTH, HEAD, VOCABULARY = 224, 64, 16, 96
VALIDATION = {"vulkan": {"validation": True}}


class Layer(nn.Module):
    """Attention of four heads over a cache with two heads, with rotary positions, and a gated network."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, heads * HEAD, bias=False) for heads in (4, 2, 2))
        self.out, self.gate, self.up = (nn.Linear(WIDTH, size, bias=False) for size in (WIDTH, 128, 128))
        self.down = nn.Linear(128, WIDTH, bias=False)
        self.before, self.between = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, 2, CAPACITY, HEAD))

    def forward(self, x, position, mask, cos, sin):
        y = self.before(x)
        q, k, v = (layer(y).unflatten(2, (-1, HEAD)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        self.keys[:, :, position] = rotated(k, cos, sin)
        self.values[:, :, position] = v
        q = rotated(q, cos, sin)
        y = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class Decoder(nn.Module):
    """Maps tokens [1, count] at positions [count] to logits."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.norm, self.head = (
            nn.Embedding(VOCABULARY, WIDTH),
            nn.RMSNorm(WIDTH),
            nn.Linear(WIDTH, VOCABULARY, bias=False),
        )
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        angles = torch.outer(torch.arange(CAPACITY), 10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD)).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("index", torch.arange(CAPACITY))

    def forward(self, tokens, position):
        x = self.table(tokens)
        mask = torch.zeros(()).masked_fill(self.index > position[:, None], float("-inf"))
        for layer in self.layers:
            x = layer(x, position, mask, self.cos[position], self.sin[position])
        return self.head(self.norm(x))


def decoder() -> nn.Module:
    """Return a decoder with weights of 4 bits, which quantizes activations by row: 8da4w."""
    torchao = pytest.importorskip("torchao.quantization")
    model = Decoder().eval()
    torchao.quantize_(model, torchao.Int8DynamicActivationIntxWeightConfig(torch.int4, torchao.PerGroup(32)))
    return model


@cache
def program():
    count = torch.export.Dim("count", min=1, max=16)
    model = decoder()
    return edgecore.compile(
        {"prefill": model, "decode": model},
        {"prefill": (PROMPT, torch.arange(5)), "decode": (PROMPT[:, :1], torch.arange(1))},
        dynamic_shapes={"prefill": ({1: count}, {0: count}), "decode": None},
        backends=["vulkan"],
        runtime="edgecore",
        share_state=True,
    )


def generate(run, count: int, tokens=PROMPT) -> list[int]:
    """Return greedy tokens; `run(method, tokens, positions)` returns logits."""
    generated, position, method = [], 0, "prefill"
    for _ in range(count):
        logits = torch.as_tensor(run(method, tokens, torch.arange(position, position + tokens.shape[1])))
        position, tokens, method = position + tokens.shape[1], logits[:, -1].argmax(-1, keepdim=True), "decode"
        generated.append(int(tokens))
    return generated


def test_a_decoder_with_its_caches_on_the_device_decodes_the_tokens_of_eager():
    report = program().report()
    assert report.delegates == {"VulkanBackend": 2} and "not delegated" not in str(report)
    names = [f"layers.{layer}.{name}" for layer in (0, 1) for name in ("keys", "values")]
    assert {row.name: row.where for row in report.buffers} == dict.fromkeys(names, "VulkanBackend")
    model, eager = edgecore.load(program().buffer, options=VALIDATION), decoder()
    with torch.no_grad():
        expected = generate(lambda method, *args: eager(*args), 200)
    assert generate(lambda method, *args: model[method](*args), 200) == expected


def test_sessions_and_saved_state_do_not_mix():
    model = edgecore.load(program().buffer)
    begun = generate(lambda method, *args: model[method](*args), 10)
    state, session = model.export_state(), model.new_session()
    other = generate(lambda method, *args: session[method](*args), 10, PROMPT.flip(1))
    model.reset()
    assert generate(lambda method, *args: model[method](*args), 10) == begun != other
    session.import_state(state)
    step = (torch.tensor([[begun[-1]]]), torch.tensor([14]))
    torch.testing.assert_close(torch.as_tensor(session["decode"](*step)), torch.as_tensor(model["decode"](*step)))


class Total(nn.Module):
    """A running total, which is read before and after it changes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.arange(8.0).reshape(2, 4))

    def forward(self, x):
        before = self.total * 2
        self.total += x
        return before, self.total.t() + 1


def test_new_content_that_is_computed_is_stored_at_the_end():
    x = torch.ones(2, 4)
    compiled = edgecore.compile(Total().eval(), (x,), backends=["vulkan"], runtime="edgecore")
    assert [row.where for row in compiled.report().buffers] == ["VulkanBackend"]
    model, expected = edgecore.load(compiled.buffer, options=VALIDATION), Total()
    for step in range(3):
        for ours, theirs in zip(model.forward(x * step), expected(x * step), strict=True):
            torch.testing.assert_close(torch.as_tensor(ours), theirs)


class Exchange(nn.Module):
    """Two buffers whose new content is that of the other, changed; the result is the old content of one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.arange(4.0))
        self.register_buffer("b", torch.zeros(4))

    def forward(self, x):
        old = self.a.clone()
        self.a.copy_(self.b - 1)
        self.b.copy_(old + x)
        return old


def test_old_content_is_read_before_it_is_replaced():
    x = torch.ones(4)
    compiled = edgecore.compile(Exchange().eval(), (x,), backends=["vulkan"], runtime="edgecore")
    assert "VulkanBackend" in {row.where for row in compiled.report().buffers}
    model, expected = edgecore.load(compiled.buffer, options=VALIDATION), Exchange()
    for step in range(4):
        torch.testing.assert_close(torch.as_tensor(model.forward(x * step)), expected(x * step))


class Rows(nn.Module):
    """Rows of a buffer that are written, of which something else may read the old content."""

    def __init__(self, reads_before: bool):
        super().__init__()
        self.reads_before = reads_before
        self.register_buffer("rows", torch.zeros(4, 3))

    def forward(self, x, position):
        before = self.rows.sum() if self.reads_before else x.sum()
        self.rows[position] = x
        return self.rows * 2 + before


@pytest.mark.parametrize(
    ("reads_before", "runtime"), [(False, "edgecore"), (True, "edgecore"), (False, "executorch-1.5")]
)
def test_rows_are_written_in_place_where_nothing_else_reads_them(reads_before, runtime):
    x, position = torch.randn(2, 3), torch.tensor([3, 1])
    compiled = edgecore.compile(Rows(reads_before).eval(), (x, position), backends=["vulkan"], runtime=runtime)
    is_held = not reads_before and runtime == "edgecore"
    assert ("not delegated: aten.index_put.default" in str(compiled.report())) != is_held
    model, expected = edgecore.load(compiled.buffer, options=VALIDATION), Rows(reads_before)
    for given in (position, torch.tensor([0, -1])):
        torch.testing.assert_close(torch.as_tensor(model.forward(x, given)), expected(x, given))


def test_blobs_of_executorch_name_no_state():
    compiled = lowered(Total().eval(), torch.ones(2, 4), runtime="executorch-1.5")
    assert not any("state" in name or "store" in name for name in compiled.calls)


@pytest.mark.parametrize(
    ("mask", "is_causal"), [(None, False), (None, True), ((5, 7), False), ((2, 1, 5, 7), False), ((1, 7), False)]
)
def test_grouped_heads_share_keys_and_values(mask, is_causal):
    from device_support import check_on_device

    tensors = [torch.randn(2, 6, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 4)]
    extra = [] if mask is None else [torch.randn(mask)]

    def model(q, k, v, *rest):
        return F.scaled_dot_product_attention(q, k, v, *rest, is_causal=is_causal, enable_gqa=True)

    check_on_device(model, *tensors, *extra, runtimes=["edgecore"])
