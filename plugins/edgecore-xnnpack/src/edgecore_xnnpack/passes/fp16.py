"""Convert a subgraph to fp16: values and weights inside, while inputs and outputs keep the model's dtypes."""

from __future__ import annotations

import numpy as np

from edgecore_xnnpack.schema import graph as g
from edgecore_xnnpack.subgraph import SAME_LAYOUT, Alias, Subgraph, SubgraphNode, SubgraphValue

HEAVY = frozenset({g.Conv2d, g.DepthwiseConv2d, g.ConvTranspose2d, g.FullyConnected, g.BatchMatrixMultiply})
"""A subgraph without any of these kinds gains nothing from fp16."""

FP16_KINDS = HEAVY | {
    Alias, g.Abs, g.Add, g.AvgPooling2d, g.Clamp, g.Concatenate2, g.Concatenate3, g.Concatenate4, g.Concatenate5, g.Copy,
    g.ELU, g.GlobalAvgPooling2d, g.Hardswish, g.LeakyReLU, g.MaxPooling2d, g.Maximum, g.Minimum, g.Multiply, g.Negate,
    g.PReLU, g.Sigmoid, g.Softmax, g.StaticConstantPad, g.StaticReshape, g.StaticResizeBilinear2D, g.StaticSlice,
    g.StaticTranspose, g.Subtract, g.Tanh,
}  # fmt: skip
"""Kinds that XNNPACK has in fp16, and whose results stay within its range if their inputs do."""

WIDE = frozenset({g.Convert, g.Div, g.Exp, g.ReciprocalSquareRoot, g.Square, g.SquareRoot})
"""Kinds whose results may exceed the range of fp16 (65504) or lose small numbers; `Convert` because of integers."""

FP16_MAX = float(np.finfo(np.float16).max)


def convert_to_fp16(subgraph: Subgraph, everything: bool) -> None:
    """Rewrite in place, with conversions where fp32 and fp16 meet.

    Constants beyond the range of fp16, such as those of masks, become its limits. Operations on integers stay as they
    are.

    Args:
        subgraph: It is edited.
        everything: Convert all operations that gain; otherwise those that the model itself computes in fp16.
    """
    if any(op.kind in HEAVY and _is_float(op) and (everything or op.is_fp16) for op in subgraph.nodes):
        _Fp16Converter(subgraph, everything).run()


def _is_float(op: SubgraphNode) -> bool:
    return all(
        value.quantization is None
        and not value.is_index
        and (value.constant is None or value.constant.dtype == np.float32)
        for value in (*op.inputs, op.output)
    )


class _Fp16Converter:
    """Converts a subgraph, operation by operation.

    A value is wide if it may exceed the range of fp16: the result of an operation of a `WIDE` kind, and of one that
    reads wide values only, such as the average of squares. An operation that reads a wide value stays in fp32. Its
    result is not wide if it also reads another value, as the product at the end of a normalization does.

    Attributes:
        halves: For each fp32 value, the same in fp16, where it exists.
        pending: Values that exist in fp16 only, so far.
        wide: Values that may exceed the range of fp16.
        results: For outputs of the model in fp16, the value that is the output instead of a conversion's result.
    """

    def __init__(self, subgraph: Subgraph, everything: bool) -> None:
        self.subgraph = subgraph
        self.everything = everything
        self.nodes: list[SubgraphNode] = []
        self.halves: dict[SubgraphValue, SubgraphValue] = {}
        self.pending: set[SubgraphValue] = set()
        self.wide: set[SubgraphValue] = set()
        self.results: dict[SubgraphValue, SubgraphValue] = {}

    def run(self) -> None:
        for op in self.subgraph.nodes:
            if op.kind is g.Convert and op.inputs[0].is_fp16:
                self.halves[op.output] = op.inputs[0]
                self.pending.add(op.output)
                continue
            if op.kind is g.Convert and op.output.is_fp16:
                self._leave(op)
                continue
            computed = [value for value in op.inputs if value.constant is None]
            wide = [value for value in computed if value in self.wide]
            if op.kind in WIDE or len(wide) == len(computed):
                self.wide.add(op.output)
            is_average = op.kind is g.FullyConnected and op.output.shape[-1] == 1
            has_computed_filter = op.kind is g.FullyConnected and op.inputs[1].constant is None  # XNNPACK: fp32 only
            is_wanted = (self.everything or op.is_fp16) and op.kind in FP16_KINDS and _is_float(op)
            if is_wanted and not wide and not is_average and not has_computed_filter:
                keeps = op.kind is g.ConvTranspose2d  # executorch 1.5's XNNPACK supports fp32 weights only for these
                op.inputs = [v if keeps and v.constant is not None else self._to_fp16(v, op) for v in op.inputs]
                self.halves[op.output] = SubgraphValue(op.output.shape, is_fp16=True)
                self.pending.add(op.output)
                op.output = self.halves[op.output]
            else:
                for value in op.inputs:
                    self._to_fp32(value, op)
            self.nodes.append(op)
        self.subgraph.outputs = [(self.results.get(value, value), layout) for value, layout in self.subgraph.outputs]
        for value, _ in self.subgraph.outputs:
            self._to_fp32(value, self.nodes[-1])
        self.subgraph.nodes = self.nodes

    def _leave(self, op: SubgraphNode) -> None:
        """Return an fp16 output: the value's fp16 form itself, or a copy if that is an input or another output."""
        half = self.halves.get(op.inputs[0])
        if half is None:
            self.nodes.append(op)
        elif half in self.subgraph.inputs or half in self.results.values():
            self.nodes.append(SubgraphNode(g.Copy, [half], op.output, SAME_LAYOUT, handles=op.handles))
        else:
            self.results[op.output] = half

    def _to_fp16(self, value: SubgraphValue, reader: SubgraphNode) -> SubgraphValue:
        """Return `value` in fp16, converted before its first reader."""
        if value not in self.halves:
            if value.constant is not None:
                numbers = np.clip(value.constant, -FP16_MAX, FP16_MAX).astype(np.float16)
                self.halves[value] = SubgraphValue(value.shape, numbers)
            else:
                self.halves[value] = SubgraphValue(value.shape, is_fp16=True)
                self.nodes.append(
                    SubgraphNode(g.Convert, [value], self.halves[value], SAME_LAYOUT, handles=reader.handles)
                )
        return self.halves[value]

    def _to_fp32(self, value: SubgraphValue, reader: SubgraphNode) -> None:
        """Convert `value` back to fp32 before the first reader that needs it, if it exists in fp16 only."""
        if value in self.pending:
            self.pending.remove(value)
            self.nodes.append(SubgraphNode(g.Convert, [self.halves[value]], value, SAME_LAYOUT, handles=reader.handles))
