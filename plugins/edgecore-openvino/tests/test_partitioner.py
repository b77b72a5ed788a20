"""The partitioner: which operators it tags, and the reasons for the others."""

from __future__ import annotations

import pytest
import torch

import edgecore


class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch.cumsum(torch.relu(a * b + b), 0)


class Add(torch.nn.Module):
    def forward(self, a, b):
        return a + b


class Pool(torch.nn.Module):
    def forward(self, a, b):
        values, indices = torch.nn.functional.max_pool2d(a, 2, return_indices=True)
        return values + 1, indices


def report(model: torch.nn.Module, *inputs: torch.Tensor, **options: object) -> str:
    return str(edgecore.compile(model.eval(), inputs, backends=[edgecore.Backend("openvino", **options)]).report())


def floats(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


def test_an_operator_that_the_backend_lacks_stays_outside_with_a_reason():
    text = report(Model(), floats(4), floats(4))
    assert "operators delegated: 3 of 4" in text
    assert "aten.cumsum.default" in text and "not among the backend's operators" in text
    assert "delegate 0: portable, CPU, " in text and "INFERENCE_PRECISION_HINT=f32" in text


@pytest.mark.parametrize(
    ("model", "inputs", "reason"),
    [
        (Add(), (torch.ones(4, dtype=torch.int32),) * 2, "is int32, not float32"),
        (Add(), (floats(*[1] * 9), floats(1)), "input a has 9 dims, more than 8"),
        (Add(), (floats(3, 0), floats(1)), "a tensor without elements"),
        (Pool(), (floats(1, 1, 4, 4), floats(1)), "result 1 is read"),
    ],
)
def test_a_node_outside_has_its_reason(model, inputs, reason):
    assert reason in report(model, *inputs)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: torch.cat([x, x]),
        lambda x, i: x.reshape(2, 2).T.contiguous(),
        lambda x, i: x[1:],
        lambda x, i: x.flip(0),
        lambda x, i: torch.index_select(x, 0, i),
    ],
)
def test_integers_beyond_32_bits_are_moved_by_other_kernels(function):
    class Move(torch.nn.Module):
        def forward(self, x, i):
            return function(x, i)

    x, i = torch.tensor([3_000_000_000, -5, 7, -(2**40)]), torch.tensor([3, 0])
    program = edgecore.compile(Move().eval(), (x, i), backends=["openvino"])
    assert "is int64, not" in str(program.report()) or "the dtype int64" in str(program.report())
    torch.testing.assert_close(edgecore.load(program).forward(x, i), function(x, i), rtol=0, atol=0)


def test_options_leave_operators_outside():
    assert "left out by an option" in report(Model(), floats(4), floats(4), operators=("add", "relu"))
    assert "in a partition of 3 operators, fewer than 4" in report(Model(), floats(4), floats(4), min_operators=4)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"operators": "add+cumsum"}, "no operator 'cumsum': there are "),
        ({"min_operators": 0}, "min_operators: .* greater than or equal to 1"),
        ({"device": "TPU"}, "device: "),
        ({"precision": "f8"}, "precision: "),
        ({"speed": 11}, "no option 'speed'"),
    ],
)
def test_a_wrong_option_is_refused(options, sentence):
    with pytest.raises(edgecore.errors.CompileError, match=sentence):
        report(Model(), floats(4), floats(4), **options)


def test_symbolic_sizes_stay_outside_of_a_compiled_blob():
    batch = torch.export.Dim("batch", min=1, max=8)
    backend = edgecore.Backend("openvino", payload="blob")
    shapes = {"a": {0: batch}, "b": None}
    program = edgecore.compile(Add().eval(), (floats(2, 3), floats(3)), backends=[backend], dynamic_shapes=shapes)
    assert "symbolic sizes, which payload='blob' does not support" in str(program.report())
