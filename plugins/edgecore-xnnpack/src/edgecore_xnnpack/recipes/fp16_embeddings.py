"""Convert embedding tables to fp16: the part of the recipe `fp16` for operators that are not delegated."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.plugin import Selects
from edgecore.sdk import Constants, Editor, copy_program, edit, fake_mode, functionalize, replace
from edgecore_xnnpack.passes.fp16 import FP16_MAX
from edgecore_xnnpack.recipes.float_weights import float_weights

aten = torch.ops.aten


def convert_embeddings_to_fp16(program: ExportedProgram, selects: Selects) -> ExportedProgram:
    """Return a copy of `program` with fp16 embedding tables. edgecore's kernel reads them; XNNPACK has no embedding."""
    program = functionalize(copy_program(program))
    constants = Constants(program)
    fp16_tables: dict[str | None, Node] = {}
    with edit(program) as graph_module:
        for node, table in float_weights(graph_module, constants, {aten.embedding.default: "weight"}, selects):
            target = constants.specs[table.name].target
            if target not in fp16_tables:
                numbers = constants.get(table).clamp(-FP16_MAX, FP16_MAX).half()
                fp16_tables[target] = constants.add(f"{table.name}_half", numbers, table)
            editor = Editor(graph_module, node, fake_mode(graph_module))
            rows = editor.call(aten.embedding.default, fp16_tables[target], *node.args[1:], **node.kwargs)
            replace(node, editor.call(aten._to_copy.default, rows, dtype=torch.float32))
    constants.drop_unused()
    return program
