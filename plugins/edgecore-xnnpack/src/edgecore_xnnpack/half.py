"""A net in half precision: weights and values have 16 bits, and what comes in and goes out as many as in the model."""

from __future__ import annotations

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.constants import Constants
from edgecore.ir.graph import Editor, edit, fake_mode, replace
from edgecore.ir.program import copy_program
from edgecore.passes.functionalize import functionalize
from edgecore_xnnpack.float_weights import float_weights
from edgecore_xnnpack.net import TIED, Alias, Net, Op, Value
from edgecore_xnnpack.schema import graph as g

HEAVY = frozenset({g.Conv2d, g.DepthwiseConv2d, g.ConvTranspose2d, g.FullyConnected, g.BatchMatrixMultiply})
"""A net without any of these has nothing to gain."""

HALVED = HEAVY | {
    Alias, g.Abs, g.Add, g.AvgPooling2d, g.Clamp, g.Concatenate2, g.Concatenate3, g.Concatenate4, g.Concatenate5, g.Copy,
    g.ELU, g.GlobalAvgPooling2d, g.Hardswish, g.LeakyReLU, g.MaxPooling2d, g.Maximum, g.Minimum, g.Multiply, g.Negate,
    g.PReLU, g.Sigmoid, g.Softmax, g.StaticConstantPad, g.StaticReshape, g.StaticResizeBilinear2D, g.StaticSlice,
    g.StaticTranspose, g.Subtract, g.Tanh,
}  # fmt: skip
"""Operations that XNNPACK has in 16 bits and whose results such numbers hold."""

WIDE = frozenset({g.Convert, g.Div, g.Exp, g.ReciprocalSquareRoot, g.Square, g.SquareRoot})
"""Operations whose results may leave the range of 16 bits, integers included."""

aten = torch.ops.aten
GREATEST = float(np.finfo(np.float16).max)


def halve_embeddings(program: ExportedProgram) -> ExportedProgram:
    """A copy of `program` whose embeddings, which stay outside the delegate, have tables of 16 bits too."""
    program = functionalize(copy_program(program))
    constants = Constants(program)
    halves: dict[str | None, Node] = {}
    with edit(program) as graph_module:
        for node, table in float_weights(graph_module, constants, {aten.embedding.default: "weight"}):
            target = constants.specs[table.name].target
            if target not in halves:
                numbers = constants.get(table).clamp(-GREATEST, GREATEST).half()
                halves[target] = constants.add(f"{table.name}_half", numbers)
            editor = Editor(graph_module, node, fake_mode(graph_module))
            rows = editor.call(aten.embedding.default, halves[target], *node.args[1:], **node.kwargs)
            replace(node, editor.call(aten._to_copy.default, rows, dtype=torch.float32))
    constants.drop_unused()
    return program


def halve(net: Net, everything: bool) -> None:
    """Rewrite in place, with conversions where the two precisions meet: everything, or what the model has so.

    Integers, and what reads them, stay.

    Constants beyond the range of 16 bits, such as those of masks, become its limits.
    """
    if any(op.kind in HEAVY and _is_float(op) and (everything or op.is_half) for op in net.ops):
        _Halver(net, everything).run()


def _is_float(op: Op) -> bool:
    return all(
        value.quantization is None
        and not value.is_index
        and (value.constant is None or value.constant.dtype == np.float32)
        for value in (*op.inputs, op.output)
    )


class _Halver:
    """`halves`: the same in 16 bits; `pending`: results that have 16 bits only, so far; `wide`: may leave their range.

    Wide are the results of operations that are `WIDE`, and of all that read nothing else, as the average of squares. What
    reads a wide value and another computes with 32 bits too, but its result is an ordinary one again, as
    that of a normalization.
    """

    def __init__(self, net: Net, everything: bool) -> None:
        self.net = net
        self.everything = everything
        self.ops: list[Op] = []
        self.halves: dict[Value, Value] = {}
        self.pending: set[Value] = set()
        self.wide: set[Value] = set()
        self.results: dict[Value, Value] = {}

    def run(self) -> None:
        for op in self.net.ops:
            if op.kind is g.Convert and op.inputs[0].is_half:
                self.halves[op.output] = op.inputs[0]
                self.pending.add(op.output)
                continue
            if op.kind is g.Convert and op.output.is_half:
                self._leave(op)
                continue
            computed = [value for value in op.inputs if value.constant is None]
            wide = [value for value in computed if value in self.wide]
            if op.kind in WIDE or len(wide) == len(computed):
                self.wide.add(op.output)
            is_average = op.kind is g.FullyConnected and op.output.shape[-1] == 1
            has_computed_filter = op.kind is g.FullyConnected and op.inputs[1].constant is None  # 32 bits only
            is_wanted = (self.everything or op.is_half) and op.kind in HALVED and _is_float(op)
            if is_wanted and not wide and not is_average and not has_computed_filter:
                keeps = op.kind is g.ConvTranspose2d  # executorch's XNNPACK takes weights of 32 bits only for these
                op.inputs = [v if keeps and v.constant is not None else self._half(v, op) for v in op.inputs]
                self.halves[op.output] = Value(op.output.shape, is_half=True)
                self.pending.add(op.output)
                op.output = self.halves[op.output]
            else:
                for value in op.inputs:
                    self._whole(value, op)
            self.ops.append(op)
        self.net.outputs = [(self.results.get(value, value), layout) for value, layout in self.net.outputs]
        for value, _ in self.net.outputs:
            self._whole(value, self.ops[-1])
        self.net.ops = self.ops

    def _leave(self, op: Op) -> None:
        """A result of 16 bits: the half of a value itself, if there is one that is neither an input nor taken."""
        half = self.halves.get(op.inputs[0])
        if half is None:
            self.ops.append(op)
        elif half in self.net.inputs or half in self.results.values():
            self.ops.append(Op(g.Copy, [half], op.output, TIED, handles=op.handles))
        else:
            self.results[op.output] = half

    def _half(self, value: Value, reader: Op) -> Value:
        if value not in self.halves:
            if value.constant is not None:
                numbers = np.clip(value.constant, -GREATEST, GREATEST).astype(np.float16)
                self.halves[value] = Value(value.shape, numbers)
            else:
                self.halves[value] = Value(value.shape, is_half=True)
                self.ops.append(Op(g.Convert, [value], self.halves[value], TIED, handles=reader.handles))
        return self.halves[value]

    def _whole(self, value: Value, reader: Op) -> None:
        """Compute `value` as it was, from its half, at its first reader that wants it."""
        if value in self.pending:
            self.pending.remove(value)
            self.ops.append(Op(g.Convert, [self.halves[value]], value, TIED, handles=reader.handles))
