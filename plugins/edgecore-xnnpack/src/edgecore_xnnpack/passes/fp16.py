"""Convert operations, values and weights of a subgraph to fp16; inputs and outputs keep the dtypes of the model."""

from __future__ import annotations

from math import isfinite

import numpy as np

from edgecore_xnnpack.schema import graph as g
from edgecore_xnnpack.subgraph import SAME_LAYOUT, Alias, Subgraph, SubgraphNode, SubgraphValue

HEAVY = frozenset({g.Conv2d, g.DepthwiseConv2d, g.ConvTranspose2d, g.FullyConnected, g.BatchMatrixMultiply})
"""Kinds that become faster in fp16. A subgraph without any of them is not converted."""

FP16_KINDS = HEAVY | {
    Alias, g.Abs, g.Add, g.AvgPooling2d, g.Clamp, g.Concatenate2, g.Concatenate3, g.Concatenate4, g.Concatenate5, g.Copy,
    g.ELU, g.GlobalAvgPooling2d, g.Hardswish, g.LeakyReLU, g.MaxPooling2d, g.Maximum, g.Minimum, g.Multiply, g.Negate,
    g.PReLU, g.Sigmoid, g.Softmax, g.StaticConstantPad, g.StaticReshape, g.StaticResizeBilinear2D, g.StaticSlice,
    g.StaticTranspose, g.Subtract, g.Tanh,
}  # fmt: skip
"""Kinds that XNNPACK has in fp16, and whose results rarely leave the range of fp16 if their inputs are inside."""

WIDE = frozenset({g.Convert, g.Div, g.Exp, g.ReciprocalSquareRoot, g.Square, g.SquareRoot})
"""Kinds whose results may exceed 65504, the maximum of fp16, or vanish. `Convert`: dequantized numbers have any size."""

FP16_MAX = float(np.finfo(np.float16).max)


def convert_to_fp16(subgraph: Subgraph, everything: bool) -> None:
    """Convert operations to fp16, and insert conversions between fp32 and fp16 operations.

    Constants beyond the range of fp16, such as the -inf of a mask, and finite limits of clamps become -65504 or 65504.
    Operations on integers do not change.

    Args:
        subgraph: The subgraph, which is edited.
        everything: Convert all operations of `FP16_KINDS`; otherwise only those that the model itself computes in
            fp16.
    """
    if any(op.kind in HEAVY and _is_float(op) and (everything or op.is_fp16) for op in subgraph.nodes):
        _Fp16Converter(subgraph, everything).run()


def _is_float(op: SubgraphNode) -> bool:
    """Return True if an operation reads and writes floating point only."""
    return all(
        value.quantization is None
        and not value.is_index
        and (value.constant is None or value.constant.dtype == np.float32)
        for value in (*op.inputs, op.output)
    )


def _in_fp16_range(limit: float) -> float:
    """Return a limit of a clamp for fp16. A finite limit stays finite; rounded to fp16, it could become infinite."""
    return max(-FP16_MAX, min(limit, FP16_MAX)) if isfinite(limit) else limit


class _Fp16Converter:
    """Converts a subgraph, operation by operation.

    A value is wide if it may exceed the range of fp16. The results of `WIDE` kinds are wide, and those of operations
    that read only wide values, such as an average of squares. An operation that reads a wide value stays in fp32. Its
    result is not wide if it also reads a value that is not, as the multiplication at the end of a normalization does.

    Attributes:
        fp16_values: Maps each fp32 value of the original subgraph to its fp16 form, if it has one.
        pending: Values that have only an fp16 form so far; the fp32 form is made when an operation needs it.
        wide: Values that may exceed the range of fp16.
        results: Maps fp16 outputs of the model to the fp16 value that is returned without conversion.
    """

    def __init__(self, subgraph: Subgraph, everything: bool) -> None:
        self.subgraph = subgraph
        self.everything = everything
        self.nodes: list[SubgraphNode] = []
        self.fp16_values: dict[SubgraphValue, SubgraphValue] = {}
        self.pending: set[SubgraphValue] = set()
        self.wide: set[SubgraphValue] = set()
        self.results: dict[SubgraphValue, SubgraphValue] = {}

    def run(self) -> None:
        for op in self.subgraph.nodes:
            if op.kind is g.Convert and op.inputs[0].is_fp16:
                self.fp16_values[op.output] = op.inputs[0]
                self.pending.add(op.output)
                continue
            if op.kind is g.Convert and op.output.is_fp16:
                self._output(op)
                continue
            computed = [value for value in op.inputs if value.constant is None]
            wide = [value for value in computed if value in self.wide]
            if op.kind in WIDE or len(wide) == len(computed):
                self.wide.add(op.output)
            is_average = op.kind is g.FullyConnected and op.output.shape[-1] == 1
            has_computed_filter = op.kind is g.FullyConnected and op.inputs[1].constant is None  # fp32 only in XNNPACK
            is_wanted = (
                (self.everything or op.is_fp16) and op.kind in FP16_KINDS and _is_float(op) and not op.needs_fp32
            )
            if is_wanted and not wide and not is_average and not has_computed_filter:
                keeps_weight = op.kind is g.ConvTranspose2d  # for which executorch 1.5 supports fp32 weights only
                op.inputs = [v if keeps_weight and v.constant is not None else self._to_fp16(v, op) for v in op.inputs]
                if op.clamp is not None:
                    op.clamp = (_in_fp16_range(op.clamp[0]), _in_fp16_range(op.clamp[1]))
                self.fp16_values[op.output] = SubgraphValue(op.output.shape, is_fp16=True)
                self.pending.add(op.output)
                op.output = self.fp16_values[op.output]
            else:
                for value in op.inputs:
                    self._to_fp32(value, op)
            self.nodes.append(op)
        self.subgraph.outputs = [(self.results.get(value, value), layout) for value, layout in self.subgraph.outputs]
        for value, _ in self.subgraph.outputs:
            self._to_fp32(value, self.nodes[-1])
        self.subgraph.nodes = self.nodes

    def _output(self, op: SubgraphNode) -> None:
        """Return an fp16 output without conversion: the fp16 form of the value; a copy if it is an input or output already."""
        fp16_value = self.fp16_values.get(op.inputs[0])
        if fp16_value is None:
            self.nodes.append(op)
        elif fp16_value in self.subgraph.inputs or fp16_value in self.results.values():
            self.nodes.append(SubgraphNode(g.Copy, [fp16_value], op.output, SAME_LAYOUT, handles=op.handles))
        else:
            self.results[op.output] = fp16_value

    def _to_fp16(self, value: SubgraphValue, reader: SubgraphNode) -> SubgraphValue:
        """Return the fp16 form of `value`; `reader` is the first operation that needs it."""
        if value not in self.fp16_values:
            if value.constant is not None:
                numbers = np.clip(value.constant, -FP16_MAX, FP16_MAX).astype(np.float16)
                self.fp16_values[value] = SubgraphValue(value.shape, numbers)
            else:
                self.fp16_values[value] = SubgraphValue(value.shape, is_fp16=True)
                self.nodes.append(
                    SubgraphNode(g.Convert, [value], self.fp16_values[value], SAME_LAYOUT, handles=reader.handles)
                )
        return self.fp16_values[value]

    def _to_fp32(self, value: SubgraphValue, reader: SubgraphNode) -> None:
        """Make the fp32 form of `value` if it has only an fp16 form; `reader` is the first operation that needs it."""
        if value in self.pending:
            self.pending.remove(value)
            self.nodes.append(
                SubgraphNode(g.Convert, [self.fp16_values[value]], value, SAME_LAYOUT, handles=reader.handles)
            )
