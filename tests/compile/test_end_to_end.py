"""Compiled without any backend and run by our runtime: equal to eager."""

import pytest
import torch
from torch import nn

import edgecore


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.Hardswish(inplace=True),
            nn.Conv2d(8, 8, 3, groups=8), nn.SiLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.body(x)).softmax(-1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(1, 2).flatten(2)), x.mean(1)


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 6)

    def forward(self, index, scale):
        return self.table(index) * scale


MODELS = {
    "convolutional": (Convolutional, (torch.randn(2, 3, 17, 16),)),
    "attention": (Attention, (torch.randn(1, 5, 16),)),
    "embedding": (Embedded, (torch.randint(0, 20, (2, 3)), torch.tensor(0.5))),
}


@pytest.mark.parametrize("memory", [None, "static"])
@pytest.mark.parametrize("name", MODELS)
def test_portable_model_equals_eager(name, memory):
    torch.manual_seed(0)
    kind, inputs = MODELS[name]
    model = kind().eval()
    loaded = edgecore.load(edgecore.compile(model, inputs, memory=memory).buffer)
    expected = model(*inputs)
    got = loaded.forward(*inputs)
    torch.testing.assert_close(list(got) if isinstance(expected, tuple) else got,
                               list(expected) if isinstance(expected, tuple) else expected, atol=1e-5, rtol=1e-4)  # fmt: skip


def test_a_dynamic_batch_equals_eager_at_min_middle_and_max():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)).eval()
    batch = torch.export.Dim("batch", min=1, max=8)
    program = edgecore.compile(model, (torch.randn(2, 6),), dynamic_shapes=({0: batch},))
    loaded = edgecore.load(program.buffer)
    for size in (1, 3, 8, 2):
        x = torch.randn(size, 6)
        torch.testing.assert_close(loaded.forward(x), model(x))


def test_two_methods_of_one_file_run_by_their_names():
    torch.manual_seed(0)
    encode, decode = nn.Linear(4, 2).eval(), nn.Linear(2, 4).eval()
    models = {"encode": encode, "decode": decode}
    inputs = {"encode": (torch.randn(1, 4),), "decode": (torch.randn(1, 2),)}
    loaded = edgecore.load(edgecore.compile(models, inputs).buffer)
    assert sorted(loaded.methods) == ["decode", "encode"]
    x = torch.randn(1, 4)
    torch.testing.assert_close(loaded["decode"](loaded["encode"](x)), decode(encode(x)))


def test_channels_last_inputs_and_outputs_equal_eager():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval().to(memory_format=torch.channels_last)
    x = torch.randn(1, 3, 8, 8).to(memory_format=torch.channels_last)
    loaded = edgecore.load(edgecore.compile(model, (x,)).buffer)
    torch.testing.assert_close(loaded.forward(x), model(x), atol=1e-5, rtol=1e-4)


def test_compiling_twice_gives_the_same_file():
    torch.manual_seed(0)
    model, inputs = Convolutional().eval(), (torch.randn(1, 3, 16, 16),)
    assert edgecore.compile(model, inputs).buffer == edgecore.compile(model, inputs).buffer


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.ones(3))

    def forward(self, x):
        self.total.add_(x)
        return self.total * 2


def test_state_keeps_its_initial_value_and_what_calls_add():
    x = torch.tensor([1.0, 2.0, 3.0])
    loaded = edgecore.load(edgecore.compile(Counter().eval(), (x,)).buffer)
    model = Counter()
    for _ in range(3):
        torch.testing.assert_close(loaded.forward(x), model(x))
