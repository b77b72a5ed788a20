"""Tables of operators and options in Markdown, for the documentation of backends."""

from __future__ import annotations

import torch
from pydantic import BaseModel, Field

from edgecore.partition import OperatorRow, OperatorTable
from edgecore.plugin.documentation import operators_markdown, options_markdown
from edgecore.plugin.options import Names

aten = torch.ops.aten
FLOATS = (torch.float32, torch.float16)


TABLE = OperatorTable(
    [OperatorRow(aten.mul.Tensor, FLOATS), OperatorRow(aten.add.Tensor, FLOATS, "no alpha | any shape")],
)


def test_tables_of_operators_and_options_are_written_as_markdown():
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
