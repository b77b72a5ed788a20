"""Test the meaning of blobs: PyTorch runs the calls of one, and gives the numbers of the model."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from interpreter import run
from torch import nn
from vulkan_cases import CASES, B, V, X
from vulkan_support import Function, lowered

MORE = {
    "mixed dtypes": (lambda a, b: (a + b, b < a, a + 1.5), torch.arange(4, dtype=torch.int32), torch.randn(4)),
    "integer division": (lambda a, b: a / b, torch.arange(4), torch.arange(1, 5)),
    "reversed": (lambda a: 3 - a, torch.randn(4)),
    "computed weights": (
        lambda a, w, b: F.linear(F.layer_norm(a, (16,), b, b), w),
        V,
        torch.randn(3, 16),
        torch.randn(16),
    ),
    "glu": (F.glu, V),
    "two dims": (lambda a: (a.mean((1, 2)), a.amax((0, 3), keepdim=True), a.sum((-1, -2))), X),
    "square": (lambda a: (a.square() + 1, a.abs().pow(0.5), 2.0**a), V),
    "unused": (lambda a: (a.squeeze(0).unsqueeze(1) + 1, a.t() * 2, a[-1] - 1), torch.randn(1, 3)),
    "masked attention": (F.scaled_dot_product_attention, *torch.randn(3, 1, 2, 4, 8), torch.randn(1, 1, 4, 4)),
    "boolean mask": (F.scaled_dot_product_attention, *torch.randn(3, 1, 2, 4, 8), torch.ones(4, 4).tril() > 0),
    "line transposed": (nn.ConvTranspose1d(8, 4, 3, 2, output_padding=1), torch.randn(1, 8, 20)),
    "adaptive": (nn.AdaptiveAvgPool2d((3, 1)), X),
    "constants": (lambda a: a + torch.full((4, 16), 2.0) + torch.arange(16), V),
    "boolean": (lambda a: (a.float() + 1, a.any(1, keepdim=True)), B),
}
EXTRA = {
    "batch": (nn.Conv2d(8, 4, 3), torch.randn(2, 8, 12, 12)),
    "grouped": (nn.Conv2d(8, 8, 3, groups=2), X),
    "unary": (lambda a: (a.abs().log(), a.erf(), a.floor(), a.ceil(), F.elu(a), a.reciprocal()), V),
    "rank": (lambda a: a.permute(0, 1, 3, 2, 4) + 1, torch.randn(1, 2, 3, 4, 5)),
    "integers": (
        lambda a, b, c: (torch.maximum(a, b), torch.where(c, a, b)),
        torch.arange(4),
        torch.arange(4).flip(0),
        B[0, :4],
    ),
}


def compare(runtime: str, model, *inputs, dynamic_shapes=None, others=(), **options) -> None:
    compiled = lowered(model, *inputs, runtime=runtime, dynamic_shapes=dynamic_shapes, **options)
    assert len(compiled.results) == 1 and "not delegated" not in compiled.report, compiled.report
    module = model if isinstance(model, nn.Module) else Function(model)
    for given in (inputs, *others):
        expected = module(*given)
        arguments = [_argument(name, given) for name in compiled.inputs[0]]
        outputs = run(compiled.graphs[0], compiled.results[0].named_data, arguments)
        for ours, theirs in zip(outputs, expected if isinstance(expected, (tuple, list)) else [expected], strict=True):
            torch.testing.assert_close(ours.to(theirs.dtype), theirs, rtol=1e-4, atol=1e-4)


def _argument(name: str, given: tuple[torch.Tensor, ...]) -> torch.Tensor | int:
    """Return the argument of a delegate: an input of the model, or the first size of the first input."""
    if name.startswith("sym_size"):
        return given[0].shape[0]
    return given[int(name.removeprefix("args_"))] if name.startswith("args_") else given[0]


@pytest.mark.parametrize("runtime", ["executorch-1.5", "edgecore"])
@pytest.mark.parametrize("name", [*CASES, *MORE])
def test_operators_give_the_numbers_of_pytorch(name, runtime):
    model, *inputs = CASES.get(name) or MORE[name]
    if isinstance(model, nn.Module):
        model.eval()
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.uniform_(0.5, 1.5)
    compare(runtime, model, *inputs)


@pytest.mark.parametrize("name", EXTRA)
def test_operators_that_only_edgecore_has(name):
    model, *inputs = EXTRA[name]
    compare("edgecore", model, *inputs)


@pytest.mark.parametrize("runtime", ["executorch-1.5", "edgecore"])
@pytest.mark.parametrize("name", ["mobilenet_v3_small", "unet", "bert_mini"])
def test_networks_give_the_numbers_of_pytorch(name, runtime):
    from zoo import make

    if name == "bert_mini":
        pytest.importorskip("transformers")
    model, inputs = make(name)
    with torch.no_grad():
        compare(runtime, model, *inputs)


class Encoder(nn.Module):
    """A layer of a transformer."""

    def __init__(self):
        super().__init__()
        self.table, self.norm, self.qkv, self.out = (
            nn.Embedding(100, 64),
            nn.LayerNorm(64),
            nn.Linear(64, 192),
            nn.Linear(64, 64),
        )

    def forward(self, ids):
        x = self.norm(self.table(ids))
        query, key, value = (part.view(1, -1, 4, 16).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(query, key, value)
        x = x + self.out(mixed.transpose(1, 2).reshape(1, -1, 64))
        return F.gelu(x), x.mean((0, 1)), torch.cat([x, x], 1)[:, 1:5], x.argmax(-1)


@pytest.mark.parametrize("runtime", ["executorch-1.5", "edgecore"])
def test_symbolic_sizes_give_the_numbers_of_pytorch(runtime):
    length = torch.export.Dim("length", min=5, max=32)
    ids = torch.randint(0, 100, (1, 32))
    others = [(ids[:, :size],) for size in (5, 13, 32)]
    compare(runtime, Encoder().eval(), ids[:, :8], dynamic_shapes=({1: length},), others=others)


def test_sizes_among_the_arguments():
    def model(x):
        return x + 1, torch.arange(x.shape[0]) * 2, x.reshape(x.shape[0] * 2, 4), x.unsqueeze(0).expand(3, -1, -1) + 1

    batch = torch.export.Dim("batch", min=2, max=16)
    others = [(torch.randn(size, 8),) for size in (2, 16)]
    compare("edgecore", model, torch.randn(4, 8), dynamic_shapes=(({0: batch},),), others=others)
