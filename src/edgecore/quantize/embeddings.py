"""Quantize embedding tables to 4 or 8 bits, which edgecore's own kernels read."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.ir.graph import Editor, calls, edit, fake_mode
from edgecore.ir.op_args import argument
from edgecore.ir.program.constants import Constants
from edgecore.ir.program.copying import copy_program
from edgecore.ir.torch_compat import quantized_operators
from edgecore.passes.quantized import SMALLEST_SCALE
from edgecore.plugin import Selects

library = quantized_operators()
GROUP = 32
"""Number of consecutive elements of a row that share a scale in a 4-bit embedding table, if they divide the row."""


def quantize_embeddings(program: ExportedProgram, bits: int, selects: Selects) -> ExportedProgram:
    """Return a copy of a program with quantized embedding tables.

    An 8-bit table has a scale for each row. A 4-bit table has a scale for each group of 32 elements of a row, or for
    each row if the width is no multiple of 32.

    Args:
        program: A program without in-place operators.
        bits: 4 or 8.
        selects: Returns True for the embeddings to quantize.

    Raises:
        CompileError: `selects` selects no embedding with a constant float32 table.
    """
    program = copy_program(program)
    constants = Constants(program)
    quantized: dict[str | None, tuple[Node, ...]] = {}
    with edit(program) as graph_module:
        for node in filter(selects, calls(graph_module, torch.ops.aten.embedding.default)):
            table = argument(node, "weight")
            if not constants.has(table) or table.meta["val"].dtype != torch.float32 or not table.meta["val"].numel():
                continue
            target = constants.specs[table.name].target
            if target not in quantized:
                quantized[target] = _integers(table, bits, constants)
            integers, scales, zeros = quantized[target]
            editor = Editor(graph_module, node, fake_mode(graph_module))
            limits = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, torch.int8)
            rest: tuple[Any, ...]
            if groups := scales.meta["val"].shape[1:]:
                size = table.meta["val"].shape[1] // groups[0]
                operator, rest = library.dequantize_per_channel_group.default, (*limits, size, torch.float32)
            else:
                operator, rest = library.dequantize_per_channel.default, (0, *limits)
            dequantized = editor.call(operator, integers, scales, zeros, *rest)
            node.update_arg(0, dequantized)
    if not quantized:
        raise CompileError(f"embeddings={bits}: the recipe selects no embedding with a constant float32 table")
    constants.drop_unused()
    return program


def _integers(table: Node, bits: int, constants: Constants) -> tuple[Node, Node, Node]:
    """Add the constants that replace a table, and return their nodes: integers, scales, and zero points (all 0)."""
    values = constants.get(table)
    limit = 2 ** (bits - 1) - 1
    grouped = bits == 4 and values.shape[1] % GROUP == 0
    rows = values.reshape(values.shape[0], -1, GROUP) if grouped else values
    scales = (rows.abs().amax(-1) / limit).clamp(min=SMALLEST_SCALE)
    integers = (rows / scales.unsqueeze(-1)).round().clamp(-limit - 1, limit).to(torch.int8).reshape(values.shape)
    tensors = {"integers": integers, "scales": scales, "zeros": torch.zeros_like(scales, dtype=torch.int64)}
    added = [constants.add(f"{table.name}_{name}", tensor, table) for name, tensor in tensors.items()]
    return added[0], added[1], added[2]
