"""A partition as a backend's compiler reads it: inputs, constants, outputs and the bounds of sizes."""

from __future__ import annotations

import pytest
import torch

from edgecore.partition import (
    PartitionView,
    debug_handles,
)
from edgecore.pipeline import to_edge

aten = torch.ops.aten


def test_a_partition_view_has_inputs_constants_calls_outputs_and_max_sizes():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([2.0, 3.0, 4.0]))

        def forward(self, a):
            return a * self.weight, a + a

    rows = torch.export.Dim("rows", max=5)
    exported = torch.export.export(Scaled(), (torch.ones(2, 3),), dynamic_shapes={"a": {0: rows}})
    part = PartitionView(to_edge(exported).exported_program())
    assert [node.name for node in part.inputs] == ["a"]
    assert [tensor.tolist() for tensor in part.constants.values()] == [[2.0, 3.0, 4.0]]
    assert [node.target for node in part.calls] == [aten.mul.Tensor, aten.add.Tensor]
    assert part.outputs == part.calls
    assert part.max_shape(part.inputs[0]) == (5, 3)
    assert (part.max_bytes(part.calls[0]), part.max_bytes(part.calls[0], 16)) == (60, 64)
    assert debug_handles(*part.calls) == tuple(node.meta["debug_handle"] for node in part.calls) != ()


@pytest.mark.parametrize(
    ("rows", "min_size"),
    [
        (torch.export.Dim("rows", max=9), 0),
        (torch.export.Dim("rows", min=3, max=9), 4),
        (torch.export.Dim.DYNAMIC(max=9), 0),
    ],
)
def test_min_sizes_are_those_that_torch_export_checks(rows, min_size):
    """Of 2 and less it checks nothing: its tracing assumes that a size is not 0 or 1, and its programs take these."""

    class Longer(torch.nn.Module):
        def forward(self, a):
            return torch.cat([a, a[:1]])

    exported = torch.export.export(Longer(), (torch.ones(6, 3),), dynamic_shapes={"a": {0: rows}})
    part = PartitionView(to_edge(exported).exported_program())
    (result,) = part.outputs
    assert part.max_shape(result) == (10, 3)
    assert part.min_shape(result) == ((min_size, 3) if min_size else (1, 3))
