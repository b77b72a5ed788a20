"""Pack the quantized weights of operators that are not delegated, so that the file stores them as integers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.ir.graph import Editor, calls, edit, fake_mode, replace, view_sizes
from edgecore.ir.op_args import argument
from edgecore.ir.operators import packed_weights as packed
from edgecore.ir.program.constants import Constants
from edgecore.passes.quantized import is_dequantize

aten = torch.ops.aten
PER_ROW, PER_GROUP = "dequantize_per_channel.default", "dequantize_per_channel_group.default"


@dataclass(frozen=True)
class _Weight:
    """A packed weight matrix: the placeholders of its constants, the bits per element, and the number of rows.

    `packed`, `scales` and `zero_points` are arguments of `edgecore::embedding_packed`. If `zero_points` is None, all
    zero points are 0.
    """

    packed: Node
    scales: Node
    zero_points: Node | None
    bits: int
    rows: int

    def dequantize(self, editor: Editor, indices: Node) -> Node:
        """Insert a node that returns the rows at `indices`, dequantized."""
        arguments = (self.packed, self.scales, self.zero_points, self.bits, indices)
        return editor.call(torch.ops.edgecore.embedding_packed.default, *arguments)


def pack_weights(program: ExportedProgram) -> ExportedProgram:
    """Rewrite the nodes that read dequantized constant matrices, in place.

    An embedding looks up its rows in the packed matrix. A linear layer with 8-bit weights multiplies by the integers.
    For layers with fewer bits and for other readers, the matrix is unpacked and dequantized at run time.
    """
    constants = Constants(program)
    with edit(program) as graph_module:
        for node in filter(is_dequantize, calls(graph_module)):
            weight = _pack(node, constants)
            if weight is None:
                continue
            for user in list(node.users):
                if user.target is aten.embedding.default and user.args[0] is node:
                    _look_up(graph_module, user, weight)
                elif user.target is aten.linear.default and user.args[1] is node and _supports_layer(weight, user):
                    _multiply(graph_module, user, weight)
            if node.users:
                all_rows = constants.add(f"{node.name}_rows", torch.arange(weight.rows))
                editor = Editor(graph_module, node, fake_mode(graph_module))
                replace(node, weight.dequantize(editor, all_rows))
    constants.drop_unused()
    return program


def _pack(node: Node, constants: Constants) -> _Weight | None:
    """Pack the weight of a dequantize node.

    Returns None for a weight that the packed-weight kernels do not support. Then the dequantize node stays; the runtime
    has a kernel for it.
    """
    name = getattr(node.target, "__name__", "")
    if name not in (PER_ROW, PER_GROUP):
        return None
    source, scale, zero_point = (argument(node, name) for name in ("input", "scales", "zero_points"))
    if not constants.has(source) or not constants.has(scale) or not (zero_point is None or constants.has(zero_point)):
        return None
    integers, scales = constants.get(source), constants.get(scale)
    is_by_columns = name == PER_ROW and argument(node, "axis") != 0
    if integers.dim() != 2 or not integers.numel() or integers.dtype != torch.int8 or is_by_columns:
        return None
    low, high = argument(node, "quant_min"), argument(node, "quant_max")
    width = integers.shape[1]
    bits = next(bits for bits in (2, 4, 8) if -(1 << bits - 1) <= low and high < 1 << bits - 1)
    while bits < 8 and width * bits % 8 != 0:
        bits *= 2
    zeros = None if zero_point is None or not constants.get(zero_point).any() else constants.get(zero_point)
    return _Weight(
        packed=constants.add(f"{source.name}_packed", packed.pack(integers.contiguous(), bits), source),
        scales=constants.add(f"{source.name}_scales", scales.to(node.meta["val"].dtype), source),
        zero_points=None
        if zeros is None
        else constants.add(f"{source.name}_zeros", zeros.to(node.meta["val"].dtype), source),
        bits=bits,
        rows=integers.shape[0],
    )


def _look_up(graph_module: GraphModule, node: Node, weight: _Weight) -> None:
    indices = argument(node, "indices")
    _replace_with_name(node, weight.dequantize(Editor(graph_module, node, fake_mode(graph_module)), indices))


def _supports_layer(weight: _Weight, node: Node) -> bool:
    """Return True if the kernel `mixed_linear` supports a layer and its weight.

    The input is reshaped to [rows, inputs] and back. A reshape can infer one size, so only one may be symbolic.
    """
    can_reshape = view_sizes(argument(node, "input").meta["val"].shape) is not None
    return weight.bits == 8 and weight.zero_points is None and can_reshape


def _multiply(graph_module: GraphModule, node: Node, weight: _Weight) -> None:
    editor = Editor(graph_module, node, fake_mode(graph_module))
    value, bias, result = argument(node, "input"), argument(node, "bias"), node.meta["val"]
    shape = [size if isinstance(size, int) else -1 for size in value.meta["val"].shape]
    is_matrix = len(shape) == 2
    rows = value if is_matrix else editor.call(aten.view_copy.default, value, [-1, shape[-1]])
    product = editor.call(torch.ops.edgecore.mixed_linear.default, rows, weight.packed, weight.scales)
    if bias is not None:
        product = editor.call(aten.add.Tensor, product, bias)
    if not is_matrix:
        product = editor.call(aten.view_copy.default, product, [*shape[:-1], weight.rows], val=result)
    _replace_with_name(node, product)


def _replace_with_name(node: Node, replacement: Node) -> None:
    """Replace `node` and give its name to the replacement.

    The report looks up by a node's name why no backend supports the node's operator.
    """
    name = node.name
    replace(node, replacement)
    replacement.name = name
