"""Helpers of the tests: compile a module for XNNPACK alone, run it on executorch's runtime, look into the blob."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch

import edgecore
from edgecore_xnnpack.blob import read_graph


class Call(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def as_module(function: Any) -> torch.nn.Module:
    return (function if isinstance(function, torch.nn.Module) else Call(function)).eval()


def compiled(function: Any, *inputs: torch.Tensor) -> Any:
    """The compiled program; everything must be delegated, to one delegate."""
    backend = edgecore.Backend("xnnpack", required=True)
    program = edgecore.compile(as_module(function), inputs, backends=[backend])
    assert len(program.pte.program.execution_plan[0].delegates) == 1
    return program


def kinds(program: Any) -> Counter[str]:
    """How many nodes of each kind the only delegate's graph has."""
    return Counter(type(node.node).__name__ for node in read_graph(program.pte.delegate_blobs[0]).nodes)


def refusals(function: Any, *inputs: torch.Tensor, **export: Any) -> dict[str, str]:
    """Operator -> why XNNPACK leaves it outside."""
    exported = torch.export.export(as_module(function), inputs, **export)
    from edgecore_xnnpack.partitioner import XnnpackPartitioner

    report = edgecore.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).report()
    return {row.operator: "; ".join(reason for _, reason in row.reasons) for row in report.left_outside}


def check(function: Any, *inputs: torch.Tensor, tolerance: float = 1e-5) -> Counter[str]:
    """Compare eager with our runtime and executorch's, relative to the greatest reference value; the kinds of nodes."""
    runtime = pytest.importorskip("executorch.runtime")
    program = compiled(function, *inputs)
    with torch.no_grad():
        expected = as_module(function)(*inputs)
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    ours = edgecore.load(program.buffer).forward(*inputs)
    loaded = runtime.Runtime.get().load_program(bytes(program.buffer))  # its methods do not keep it alive
    theirs = loaded.load_method("forward").execute(list(inputs))
    for actual in (ours if isinstance(ours, list) else [ours], theirs):
        assert len(actual) == len(expected)
        for got, want in zip(actual, expected, strict=True):
            assert got.shape == want.shape
            error = (got - want).abs().max() / want.abs().max().clamp(min=1e-6)
            assert error <= tolerance, f"{float(error):.2e}"
    return kinds(program)
