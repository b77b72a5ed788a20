"""Test which operators the backend supports, and its reasons for all others."""

from __future__ import annotations

import pytest
import torch

import edgecore


class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch.relu(a * b + b) - a


class Alpha(torch.nn.Module):
    def forward(self, a, b):
        return torch.add(a, b, alpha=2)


class Add(torch.nn.Module):
    def forward(self, a, b):
        return a + b


def report(model: torch.nn.Module, *inputs: torch.Tensor, **options: object) -> str:
    return str(edgecore.compile(model.eval(), inputs, backends=[edgecore.Backend("hello", **options)]).report())


def floats(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


def test_an_unsupported_operator_is_not_delegated_with_a_reason():
    text = report(Model(), floats(4), floats(4))
    assert "operators delegated: 3 of 4" in text
    assert "aten.sub.Tensor" in text and "not among the backend's operators" in text
    assert "2 operations, 1 of them with a relu, in " in text


@pytest.mark.parametrize(
    ("model", "inputs", "reason"),
    [
        (Alpha(), (floats(4), floats(4)), "alpha is 2"),
        (Add(), (torch.ones(4, dtype=torch.int32),) * 2, "is int32, not float32"),
        (Add(), (floats(*[1] * 9), floats(1)), "input a has 9 dims, more than 8"),
    ],
)
def test_reasons(model, inputs, reason):
    assert reason in report(model, *inputs)


def test_options_restrict_the_delegated_operators():
    assert "left out by an option" in report(Model(), floats(4), floats(4), operators=("add", "relu"))
    assert "in a partition of 3 operators, fewer than 4" in report(Model(), floats(4), floats(4), min_operators=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"operators": "add+sub"}, "no operator 'sub': there are add, "),
        ({"min_operators": 0}, "min_operators: .* greater than or equal to 1"),
        ({"fuse_relu": "perhaps"}, "fuse_relu: "),
        ({"speed": 11}, "no option 'speed'"),
    ],
)
def test_a_wrong_option_is_rejected(options, message):
    with pytest.raises(edgecore.errors.CompileError, match=message):
        report(Model(), floats(4), floats(4), **options)


def test_quantize_raises_an_error_that_names_the_backend():
    with pytest.raises(edgecore.errors.CompileError, match="hello"):
        edgecore.compile(Model().eval(), (floats(4), floats(4)), backends=["hello"], quantize="int8")
