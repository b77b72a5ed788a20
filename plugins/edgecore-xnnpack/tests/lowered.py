"""Helpers of the tests: compile a module for XNNPACK alone, run it on executorch's runtime, look into the blob."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch

import edgecore
from edgecore_xnnpack.blob.format import read_graph


class Call(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


class Parallel(torch.nn.Module):
    """Layers of one kind side by side; each gets its own input."""

    def __init__(self, *layers: torch.nn.Module) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return [layer(x) for layer, x in zip(self.layers, inputs, strict=True)]


class Together(torch.nn.Module):
    """Several functions of one input; a constant is added to each result, for moves alone are not delegated."""

    def __init__(self, functions: dict[str, Callable[..., torch.Tensor]]) -> None:
        super().__init__()
        self.functions = functions
        self.mask = torch.nn.Buffer(torch.rand(4, 6, 8, generator=torch.Generator().manual_seed(2)) > 0.5)
        self.order = torch.nn.Buffer(torch.tensor([2, 0, 1]))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        results = [function(x) if function.__code__.co_argcount == 1 else function(x, self)  # type: ignore[attr-defined]
                   for function in self.functions.values()]  # fmt: skip
        return [result * 2 for result in results]


def as_module(function: Any) -> torch.nn.Module:
    return (function if isinstance(function, torch.nn.Module) else Call(function)).eval()


def compiled(function: Any, *inputs: torch.Tensor, **options: Any) -> Any:
    """The compiled program; everything must be delegated, to one delegate."""
    backend = edgecore.Backend("xnnpack", required=True)
    program = edgecore.compile(as_module(function), inputs, backends=[backend], **options)
    assert len(program.pte.program.execution_plan[0].delegates) == 1
    return program


def kinds(program: Any) -> Counter[str]:
    """Count the nodes of each kind in the graph of the only delegate."""
    return Counter(type(node.node).__name__ for node in read_graph(program.pte.delegate_blobs[0]).nodes)


def refusals(function: Any, *inputs: torch.Tensor, **export: Any) -> dict[str, str]:
    """Operator -> why XNNPACK leaves it outside."""
    exported = torch.export.export(as_module(function), inputs, **export)
    from edgecore_xnnpack.partitioner import XnnpackPartitioner

    report = edgecore.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).report()
    return {row.operator: "; ".join(reason for _, reason in row.reasons) for row in report.left_outside}


def check(function: Any, *inputs: torch.Tensor, tolerance: float = 1e-5) -> Counter[str]:
    """Compare eager with our runtime and executorch's, relative to the max reference value; return the kinds of nodes."""
    program = compiled(function, *inputs)
    compare(program, as_module(function), [inputs], tolerance)
    return kinds(program)


def check_sizes(
    function: Any, calls: list[tuple[torch.Tensor, ...]], dynamic_shapes: Any, tolerance: float = 1e-5
) -> Counter[str]:
    """`check` of a model with symbolic sizes, which is loaded once and called with each of `calls`."""
    program = compiled(function, *calls[0], dynamic_shapes=dynamic_shapes)
    compare(program, as_module(function), calls, tolerance)
    return kinds(program)


def compare(program: Any, module: torch.nn.Module, calls: list[tuple[torch.Tensor, ...]], tolerance: float) -> None:
    """Our runtime and executorch's against eager, call after call."""
    runtime = pytest.importorskip("executorch.runtime")
    loaded = runtime.Runtime.get().load_program(bytes(program.buffer))  # its methods do not keep it alive
    method = loaded.load_method("forward")
    ours = edgecore.load(program.buffer)
    for inputs in calls:
        with torch.no_grad():
            expected = module(*inputs)
        expected = expected if isinstance(expected, (tuple, list)) else (expected,)
        got = ours.forward(*inputs)
        for name, actual in (
            ("edgecore", got if isinstance(got, list) else [got]),
            ("executorch", method.execute(list(inputs))),
        ):
            assert len(actual) == len(expected)
            for result, want in zip(actual, expected, strict=True):
                assert result.shape == want.shape, f"{name}: {tuple(result.shape)} instead of {tuple(want.shape)}"
                error = (result - want).abs().max() / want.abs().max().clamp(min=1e-6)
                assert error <= tolerance, f"{name}, {tuple(want.shape)}: {float(error):.2e}"
