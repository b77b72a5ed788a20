"""Operator support as data: reasons, partitions and documentation come from one table."""

from __future__ import annotations

import pytest
import torch
from pydantic import BaseModel, Field

from edgecore.partition import OperatorRow, OperatorTable, Part, at_most_dims, contiguous_only, debug_handles, for_each
from edgecore.pipeline.lower import to_edge
from edgecore.plugin.documentation import operators_markdown, options_markdown
from edgecore.plugin.options import Names

aten = torch.ops.aten
FLOATS = (torch.float32, torch.float16)


def large_alpha(node):
    return "alpha is 2" if node.kwargs.get("alpha") == 2 else None


TABLE = OperatorTable(
    [OperatorRow(aten.mul.Tensor, FLOATS), OperatorRow(aten.add.Tensor, FLOATS, "no alpha | any shape", large_alpha)],
    common=[contiguous_only, at_most_dims(3)],
)


class Model(torch.nn.Module):
    def forward(self, a, b):
        c = torch.add(a * b, b, alpha=2)
        return (c - a) * b + c


def partition(*inputs, **options):
    program = to_edge(torch.export.export(Model(), inputs)).exported_program()
    result = TABLE.partitioner("ToyBackend", **options).partition(program)
    tags = {node.name: node.meta.get("delegation_tag") for node in program.graph.nodes if node.op == "call_function"}
    return tags, {rejection.node: rejection.reason for rejection in result.rejections}


def test_reasons_and_partitions():
    tags, reasons = partition(torch.ones(2), torch.ones(2))
    assert reasons == {"add": "alpha is 2", "sub": "not among the backend's operators"}
    assert tags["mul"] and tags["mul_1"] and tags["mul_1"] == tags["add_1"] != tags["mul"]


def test_small_partitions_and_chosen_operators():
    tags, reasons = partition(torch.ones(2), torch.ones(2), least=2)
    assert reasons["mul"] == "in a partition of 1 operators, fewer than 2" and tags["mul"] is None and tags["mul_1"]
    tags, reasons = partition(torch.ones(2), torch.ones(2), operators=["aten.mul.Tensor"])
    assert tags["mul"] and reasons["add_1"] == "left out by an option"
    with pytest.raises(ValueError, match="no operator 'sub': there are add, aten.add.Tensor"):
        partition(torch.ones(2), torch.ones(2), operators=["sub"])


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ((torch.ones(2), torch.ones(2, dtype=torch.float64)), "input b is float64, not float32 or float16"),
        ((torch.ones(1, 1, 1, 1), torch.ones(1)), "input a has 4 dims, more than 3"),
        ((torch.ones(2, 3, 2, 2).to(memory_format=torch.channels_last), torch.ones(1)), "input a is not contiguous"),
    ],
)
def test_tensors_that_it_does_not_take(inputs, reason):
    assert partition(*inputs)[1]["mul"].startswith(reason)


def test_one_row_an_operator():
    with pytest.raises(ValueError, match="two rows"):
        OperatorTable([OperatorRow(aten.mul.Tensor, FLOATS)] * 2)


def test_documentation():
    class Options(BaseModel):
        names: Names = Field(default=("a",), description="Which.")
        level: int = Field(description="How much.")

    assert operators_markdown(TABLE.support()).splitlines()[2:] == [
        "| `aten.add.Tensor` | float32, float16 | no alpha \\| any shape |",
        "| `aten.mul.Tensor` | float32, float16 |  |",
    ]
    assert options_markdown(Options).splitlines()[2:] == [
        "| `names` | tuple[str, ...] | ('a',) | Which. |",
        "| `level` | int | required | How much. |",
    ]
    assert Options(names="b+c", level=1).names == ("b", "c")


def test_a_partition_read_for_a_compiler():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([2.0, 3.0, 4.0]))

        def forward(self, a):
            return a * self.weight, a + a

    rows = torch.export.Dim("rows", max=5)
    exported = torch.export.export(Scaled(), (torch.ones(2, 3),), dynamic_shapes={"a": {0: rows}})
    part = Part(to_edge(exported).exported_program())
    assert [node.name for node in part.inputs] == ["a"]
    assert [tensor.tolist() for tensor in part.constants.values()] == [[2.0, 3.0, 4.0]]
    assert [node.target for node in part.calls] == [aten.mul.Tensor, aten.add.Tensor]
    assert part.outputs == part.calls
    assert part.greatest_shape(part.inputs[0]) == (5, 3)
    assert (part.greatest_bytes(part.calls[0]), part.greatest_bytes(part.calls[0], 16)) == (60, 64)
    assert debug_handles(*part.calls) == tuple(node.meta["debug_handle"] for node in part.calls) != ()


@pytest.mark.parametrize(
    ("rows", "least"),
    [
        (torch.export.Dim("rows", max=9), 0),
        (torch.export.Dim("rows", min=3, max=9), 4),
        (torch.export.Dim.DYNAMIC(max=9), 0),
    ],
)
def test_least_sizes_are_those_that_torch_export_checks(rows, least):
    """Of 2 and less it checks nothing: its tracing assumes that a size is not 0 or 1, and its programs take these."""

    class Longer(torch.nn.Module):
        def forward(self, a):
            return torch.cat([a, a[:1]])

    exported = torch.export.export(Longer(), (torch.ones(6, 3),), dynamic_shapes={"a": {0: rows}})
    part = Part(to_edge(exported).exported_program())
    (result,) = part.outputs
    assert part.greatest_shape(result) == (10, 3)
    assert part.least_shape(result) == ((least, 3) if least else (1, 3))


def test_numbers_for_each_dim():
    assert for_each(2, 3) == for_each([2], 3) == for_each((2, 2, 2), 3) == [2, 2, 2]
