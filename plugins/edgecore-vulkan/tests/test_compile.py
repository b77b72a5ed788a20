"""Test that the delegate computes the same results as PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import edgecore


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(4, 1))

    def forward(self, a, b):
        h = torch.relu(a * self.scale + b)
        return h * a, torch.relu(h) + b


class Add(torch.nn.Module):
    def forward(self, a, b):
        return a + b


def run(program: edgecore.CompiledProgram, path: Path, *inputs: torch.Tensor, **options: int) -> list[torch.Tensor]:
    program.save(path)
    results = edgecore.load(path, options={"vulkan": options}).forward(*inputs)
    return [torch.as_tensor(result) for result in (results if isinstance(results, (list, tuple)) else [results])]


@pytest.mark.parametrize("fuse_relu", [True, False])
def test_results_match_eager(tmp_path, fuse_relu):
    model, inputs = Block().eval(), (torch.randn(2, 4, 3), torch.randn(3))
    backend = edgecore.Backend("vulkan", required=True, fuse_relu=fuse_relu)
    program = edgecore.compile(model, inputs, backends=[backend])
    for result, expected in zip(run(program, tmp_path / "model.pte", *inputs), model(*inputs), strict=True):
        torch.testing.assert_close(result, expected)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3,), (3,)),
        ((), (2, 2)),
        ((2, 1, 3), (4, 1)),
        ((1,), (5, 0)),
        ((1, 1), (3, 2)),
        ((1, 2, 1, 2, 1, 2, 1, 2), (2,)),
    ],
)
def test_broadcasting(tmp_path, left, right):
    inputs = (torch.randn(left), torch.randn(right))
    program = edgecore.compile(Add().eval(), inputs, backends=[edgecore.Backend("vulkan", required=True)])
    (result,) = run(program, tmp_path / "model.pte", *inputs)
    torch.testing.assert_close(result, inputs[0] + inputs[1])


def test_symbolic_sizes(tmp_path):
    model, example = Block().eval(), (torch.randn(2, 4, 3), torch.randn(3))
    batch = torch.export.Dim("batch", min=1, max=8)
    program = edgecore.compile(model, example, backends=["vulkan"], dynamic_shapes={"a": {0: batch}, "b": None})
    program.save(tmp_path / "model.pte")
    loaded = edgecore.load(tmp_path / "model.pte")
    for size in (2, 8, 1):
        inputs = (torch.randn(size, 4, 3), torch.randn(3))
        for result, expected in zip(loaded.forward(*inputs), model(*inputs), strict=True):
            torch.testing.assert_close(torch.as_tensor(result), expected)


def test_parallel_loops_give_the_same_results(tmp_path):
    inputs = (torch.randn(100, 7), torch.randn(7))
    program = edgecore.compile(Add().eval(), inputs, backends=["vulkan"])
    (result,) = run(program, tmp_path / "model.pte", *inputs, grain=3)
    torch.testing.assert_close(result, inputs[0] + inputs[1])
    with pytest.raises(edgecore.errors.ExecutionError, match="grain is 0"):
        run(program, tmp_path / "model.pte", *inputs, grain=0)


def test_special_values(tmp_path):
    class Relu(torch.nn.Module):
        def forward(self, a):
            return torch.relu(a)

    values = (torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, -1.0]),)
    (result,) = run(edgecore.compile(Relu().eval(), values, backends=["vulkan"]), tmp_path / "model.pte", *values)
    torch.testing.assert_close(result, torch.relu(*values), equal_nan=True)
