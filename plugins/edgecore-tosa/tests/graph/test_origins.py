"""Which nodes of the model each operator of a TOSA graph computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from tosa_lowered import CONFIGS, INTEGER, quantized, random

from edgecore.pipeline.lowering import lower as edge_lower
from edgecore.plugin import PreprocessResult
from edgecore.sdk import PartitionView, debug_handles
from edgecore_tosa.graph.origins import WHOLE, debug_handle_map
from edgecore_tosa.lowering import lower
from edgecore_tosa.operators import table_of
from edgecore_tosa.schema import Op


class Net(nn.Module):
    """A convolution whose activation is fused, a softmax of many operators, and a reshape without one."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3)
        self.linear = nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = nn.functional.max_pool2d(torch.relu(self.convolution(x)), 2)
        return torch.softmax(self.linear(pooled.flatten(1)), -1)


def origins() -> tuple[Mapping[int | str, tuple[int, ...]], dict[str, tuple[int, ...]], list[Op]]:
    """Return the map of the only partition of `Net`, the handles of its calls by their operators, and its operators."""
    found: list[Any] = []

    def preprocess(backend_id: str, part: Any, specs: Any) -> tuple[PreprocessResult, tuple[str, str]]:
        graph = lower(part, INTEGER)
        data = graph.to_bytes()
        calls: dict[str, tuple[int, ...]] = {}
        for call in PartitionView(part).calls:
            calls[str(call.target)] = calls.get(str(call.target), ()) + debug_handles(call)
        found.append((debug_handle_map(graph), calls, [operator.op for operator in graph.operators]))
        return PreprocessResult(data), ("edgecore-tosa", "0")

    inputs = (random(1, 3, 6, 6),)
    table = table_of(INTEGER)
    partitioner = table.partitioner("tosa", inside_only=table.inside_only)
    program = quantized(Net().eval(), inputs, CONFIGS["int8"]())
    with (
        patch("edgecore.pipeline.lowering.lower_programs.preprocess", preprocess),
        patch("edgecore.pipeline.lowering.lower_programs.link", None),
    ):
        edge_lower({"forward": program}, [partitioner])
    (one,) = found
    return one


def test_each_call_is_computed_by_an_operator_and_each_operator_computes_a_call():
    handles, calls, operators = origins()
    assert len(handles) == len(operators) + 1
    assert all(handles.values())
    assert handles[WHOLE] == tuple(sorted({one for some in calls.values() for one in some}))
    assert {handle for some in handles.values() for handle in some} == {one for some in calls.values() for one in some}


def test_the_operators_of_a_call_are_those_of_its_lowering():
    handles, calls, _ = origins()
    (softmax,) = calls["aten.softmax.int"]
    (convolution,) = next(some for target, some in calls.items() if target.startswith("aten.conv"))
    single = {name: some for name, some in handles.items() if name != WHOLE}
    of_softmax = [name for name, some in single.items() if softmax in some]
    of_convolution = [name for name, some in single.items() if convolution in some]
    assert len(of_softmax) > 5 and any(str(name).startswith("REDUCE_SUM ") for name in of_softmax)
    assert any(str(name).startswith("CONV2D ") for name in of_convolution)
    assert not {*of_softmax} & {*of_convolution}
