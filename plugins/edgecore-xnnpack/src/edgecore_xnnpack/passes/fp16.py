"""Convert operations, values and weights of a subgraph to fp16; the delegate's inputs and outputs keep their dtypes."""

from __future__ import annotations

from math import isfinite

import numpy as np

from edgecore_xnnpack.graph.subgraph import SAME_LAYOUT, Alias, Subgraph, SubgraphNode, SubgraphValue
from edgecore_xnnpack.schema import graph as g

HEAVY = frozenset({g.Conv2d, g.DepthwiseConv2d, g.ConvTranspose2d, g.FullyConnected, g.BatchMatrixMultiply})
"""Kinds of operations that are faster in fp16. A subgraph without any of these is not converted."""

FP16_KINDS = HEAVY | {
    Alias, g.Abs, g.Add, g.AvgPooling2d, g.Clamp, g.Concatenate2, g.Concatenate3, g.Concatenate4, g.Concatenate5,
    g.Copy,
    g.ELU, g.GlobalAvgPooling2d, g.Hardswish, g.LeakyReLU, g.MaxPooling2d, g.Maximum, g.Minimum, g.Multiply, g.Negate,
    g.PReLU, g.Sigmoid, g.Softmax, g.StaticConstantPad, g.StaticReshape, g.StaticResizeBilinear2D, g.StaticSlice,
    g.StaticTranspose, g.Subtract, g.Tanh,
}  # fmt: skip
"""Kinds of operations that XNNPACK has in fp16, and whose results rarely exceed the range of fp16."""

WIDE = frozenset({g.Convert, g.Div, g.Exp, g.ReciprocalSquareRoot, g.Square, g.SquareRoot})
"""Kinds of operations whose results may exceed 65504, the maximum of fp16, or round to 0. `Convert` is one of them,
because dequantized numbers may."""

ELEMENTWISE = frozenset({
    Alias, g.Add, g.Clamp, g.Copy, g.Maximum, g.Minimum, g.Multiply, g.Negate, g.StaticReshape, g.StaticSlice,
    g.StaticTranspose, g.Subtract,
})  # fmt: skip
"""Kinds of operations that may connect an attention mask to the softmax."""

FP16_MAX = float(np.finfo(np.float16).max)


def convert_to_fp16(subgraph: Subgraph, everything: bool) -> None:
    """Convert operations to fp16, and insert conversions between fp32 and fp16 operations.

    A subgraph in which no convolution or matmul (`HEAVY`) would be converted does not change, because only these
    operations are faster in fp16.
    Constants beyond the range of fp16, such as the -inf of a mask, and finite limits of clamps become -65504 or 65504.
    Operations on integers do not change. Linear layers whose inputs are quantized at run time write fp32 even if the
    model computes in fp16: XNNPACK's kernels that write fp16 are 1.5 to 5 times as slow on x86.

    Args:
        subgraph: The subgraph, which is edited.
        everything: Convert all operations of `FP16_KINDS`; otherwise only those that the model itself computes in
            fp16.
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


def _in_fp16_range(limit: float) -> float:
    """Return the fp16 limit of a clamp. A finite limit stays finite, even if rounding would make it infinite."""
    return max(-FP16_MAX, min(limit, FP16_MAX)) if isfinite(limit) else limit


def _masks(subgraph: Subgraph) -> set[SubgraphValue]:
    """Return the fp32 inputs of a subgraph that reach a softmax, directly or through elementwise operations."""
    reached = set[SubgraphValue]()
    for op in reversed(subgraph.nodes):
        if op.kind is g.Softmax or (op.kind in ELEMENTWISE and op.output in reached):
            reached.update(op.inputs)
    return {value for value in subgraph.inputs if value in reached and not value.is_fp16}


class _Fp16Converter:
    """Converts a subgraph, operation by operation.

    A value is wide if it may exceed the range of fp16. These values are wide: results of `WIDE` kinds; inputs that
    reach a softmax, since masks have numbers such as the minimum of fp32; and results of operations that read only wide
    values, such as an average of squares. An operation that reads a wide value stays in fp32, and so does a softmax of
    fp32 numbers. The result is not wide if the operation also reads other values, as the product at the end of a
    normalization does.

    Attributes:
        fp16_values: Maps fp32 values of the original subgraph to the fp16 values that replace or copy them.
        pending: fp32 values that so far exist only in fp16; a conversion is inserted before the first fp32 reader.
        wide: Values that may exceed the range of fp16.
        results: Maps fp16 outputs of the delegate to the fp16 values that are returned in their place.
    """

    def __init__(self, subgraph: Subgraph, everything: bool) -> None:
        self.subgraph = subgraph
        self.everything = everything
        self.nodes: list[SubgraphNode] = []
        self.fp16_values: dict[SubgraphValue, SubgraphValue] = {}
        self.pending: set[SubgraphValue] = set()
        self.wide = _masks(subgraph)
        self.results: dict[SubgraphValue, SubgraphValue] = {}

    def run(self) -> None:
        for op in self.subgraph.nodes:
            if op.kind is g.Convert and op.inputs[0].is_fp16:
                self.fp16_values[op.output] = self.results.get(op.inputs[0], op.inputs[0])
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
            is_softmax_of_fp32 = op.kind is g.Softmax and op.inputs[0] not in self.fp16_values
            # A fully connected node whose weight is computed at run time exists in fp32 only.
            has_computed_filter = op.kind is g.FullyConnected and op.inputs[1].constant is None
            is_wanted = (
                (self.everything or op.is_fp16) and op.kind in FP16_KINDS and _is_float(op) and not op.needs_fp32
            )
            if is_wanted and not (wide or is_average or has_computed_filter or is_softmax_of_fp32):
                keeps_weight = op.kind is g.ConvTranspose2d  # executorch 1.5 needs fp32 weights here
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
        """Remove the conversion `op` to an fp16 output of the delegate, if an fp16 copy of its fp32 input exists.

        The fp16 copy becomes the output. If this copy is an input or another output of the delegate already, `op` is
        replaced by a copy operation instead.
        """
        fp16_value = self.fp16_values.get(op.inputs[0])
        if fp16_value is None:
            self.nodes.append(op)
        elif fp16_value in self.subgraph.inputs or fp16_value in self.results.values():
            self.nodes.append(SubgraphNode(g.Copy, [fp16_value], op.output, SAME_LAYOUT, handles=op.handles))
        else:
            self.results[op.output] = fp16_value

    def _to_fp16(self, value: SubgraphValue, reader: SubgraphNode) -> SubgraphValue:
        """Return `value` in fp16, converted before `reader`, the first operation that needs it in fp16."""
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
        """If `value` exists only in fp16, insert a conversion to fp32 before `reader`, its first fp32 reader."""
        if value in self.pending:
            self.pending.remove(value)
            self.nodes.append(
                SubgraphNode(g.Convert, [self.fp16_values[value]], value, SAME_LAYOUT, handles=reader.handles)
            )
