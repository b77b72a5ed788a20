"""Inputs, weights and buffers of transposed memory become contiguous: their strides are no dim order."""

from __future__ import annotations

import pytest
import torch

import edgecore

BACKENDS = [(), ("xnnpack",)]


class Sum(torch.nn.Module):
    """A constant whose memory is transposed, added to an input."""

    def __init__(self, kind):
        super().__init__()
        constant = torch.arange(128.0).reshape(16, 8).t()
        if kind == "buffer":
            self.register_buffer("constant", constant)
        else:
            self.constant = torch.nn.Parameter(constant) if kind == "parameter" else constant

    def forward(self, x):
        return x + self.constant


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(16, 8).t())

    def forward(self, x):
        self.total.add_(x)
        return self.total * 2


class OfView(torch.nn.Module):
    def forward(self, x):
        return x + 1, x.t().reshape(-1)


@pytest.mark.parametrize("backends", BACKENDS)
@pytest.mark.parametrize("kind", ["constant", "buffer", "parameter"])
def test_a_constant_of_transposed_memory_is_added(kind, backends):
    model, x = Sum(kind).eval(), torch.randn(8, 16)
    program = edgecore.compile(model, (x,), backends=backends)
    assert torch.equal(edgecore.load(program.buffer).forward(x), model(x))


@pytest.mark.parametrize("backends", BACKENDS)
def test_a_written_buffer_of_transposed_memory_keeps_its_content(backends):
    x = torch.randn(8, 16)
    model = edgecore.load(edgecore.compile(Counter().eval(), (x,), backends=backends).buffer)
    assert torch.equal(model.forward(x), x * 2)
    assert torch.equal(model.forward(x), x * 4)


@pytest.mark.parametrize("backends", BACKENDS)
def test_an_example_input_of_transposed_memory_becomes_a_contiguous_input(backends):
    x = torch.randn(16, 8).t()
    program = edgecore.compile(OfView().eval(), (x,), backends=backends)
    for given in (x, x.contiguous()):
        for got, want in zip(edgecore.load(program.buffer).forward(given), OfView()(x), strict=True):
            assert torch.equal(got, want)
