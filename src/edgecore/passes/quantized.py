"""Functions that find, insert, fold and move quantize and dequantize nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.ir.control_flow import graph_modules
from edgecore.ir.dialect.edge_operators import VIEW_COPIES
from edgecore.ir.dialect.op_sets import COMMUTE_WITH_QUANTIZATION, VIEW_COPY_FORMS
from edgecore.ir.graph import Editor, calls, edit, fake_mode, replace
from edgecore.ir.op_args import argument
from edgecore.ir.program.constants import Constants
from edgecore.ir.torch_compat import OpOverload, quantized_operators

aten = torch.ops.aten

SMALLEST_SCALE = 2.0**-48
"""The smallest scale that observers choose, also for a value that is always 0.

Integer layers multiply by scale of the input * scale of the weight / scale of the result. With scales from 2^-48 to
2^30, this factor and the product of the first two scales are normal float32 numbers, at least 2^-126. A larger minimum
would round layers with small weights to nothing, although the next layer may amplify them. Factors that an integer
kernel cannot represent occur only in single layers: `fit_scales` and the backends' lowerings adapt them.
"""


def is_quantize(node: Any) -> bool:
    """Return True if a node calls an operator `quantized_decomposed::quantize_*`."""
    return _starts_with(node, "quantize_")


def is_dequantize(node: Any) -> bool:
    """Return True if a node calls an operator `quantized_decomposed::dequantize_*`."""
    return _starts_with(node, "dequantize_")


def dequantized_inputs(node: Node) -> list[Node]:
    """List the dequantize nodes whose results a call reads, either directly or through a view of a weight."""
    sources = []
    for source in node.all_input_nodes:
        inner = source.args[0] if source.target in VIEW_COPIES or source.target in VIEW_COPY_FORMS else None
        if is_dequantize(source):
            sources.append(source)
        elif isinstance(inner, Node) and is_dequantize(inner) and inner.all_input_nodes[0].op != "call_function":
            sources.append(inner)
    return sources


def _starts_with(node: Any, prefix: str) -> bool:
    if not isinstance(node, Node) or not isinstance(node.target, OpOverload):
        return False
    return node.target.namespace == "quantized_decomposed" and node.target.__name__.startswith(prefix)


@dataclass(frozen=True)
class QuantizationParameters:
    """The quantization parameters of a quantize or dequantize node: real = (quantized - zero_point) * scale.

    `scale` and `zero_point` are numbers, or the nodes of tensors. `axis` is the quantized dim; None for per-tensor
    quantization.
    """

    scale: float | Node
    zero_point: int | Node
    quant_min: int
    quant_max: int
    dtype: torch.dtype
    axis: int | None = None

    @property
    def is_per_tensor(self) -> bool:
        """True for per-tensor quantization with a scale and a zero point that are known at compile time."""
        return self.axis is None and not isinstance(self.scale, Node) and not isinstance(self.zero_point, Node)


def parameters_of(node: Node) -> QuantizationParameters | None:
    """Return the quantization parameters of a per-tensor or per-channel (de)quantize node; None for other nodes."""
    name = str(getattr(node.target, "__name__", "")).partition(".")[0]
    if not (is_quantize(node) or is_dequantize(node)) or not name.endswith(("per_tensor", "per_channel")):
        return None
    per_channel = name.endswith("per_channel")
    low, high, dtype = (argument(node, key) for key in ("quant_min", "quant_max", "dtype"))
    scale = argument(node, "scales" if per_channel else "scale")
    zero_point = argument(node, "zero_points" if per_channel else "zero_point")
    axis = argument(node, "axis") if per_channel else None
    return QuantizationParameters(scale, zero_point, low, high, dtype, axis)


def insert_pair(editor: Editor, value: Node, parameters: QuantizationParameters) -> Node:
    """Insert `dequantize(quantize(value))` and return the dequantize node.

    Args:
        editor: The editor, which inserts the new nodes at its position.
        value: The node whose value is quantized.
        parameters: Per-tensor parameters.

    Raises:
        ValueError: The parameters are not per-tensor, or not known at compile time.
    """
    if not parameters.is_per_tensor:
        raise ValueError("insert_pair needs one scale and one zero point, as numbers: quantize per tensor")
    rest = (parameters.scale, parameters.zero_point, parameters.quant_min, parameters.quant_max, parameters.dtype)
    library = quantized_operators()
    quantized = editor.call(library.quantize_per_tensor.default, value, *rest)
    return editor.call(library.dequantize_per_tensor.default, quantized, *rest)


def quantized_before(node: Node, constants: Constants | None = None) -> Node | None:
    """For a node quantize(dequantize(q)), return q if the parameters agree and q is in their range; otherwise None.

    For values computed from constants, the range is known only if `constants` is passed. Returns None for 32-bit
    integers, which float32 cannot represent exactly, and if the value between the two nodes is fp16.
    """
    again, source = parameters_of(node), node.args[0]
    if again is None or again.dtype.itemsize > 2 or not is_dequantize(source):
        return None
    assert isinstance(source, Node)
    quantized = source.args[0]
    if not isinstance(quantized, Node) or source.meta["val"].dtype != torch.float32 or parameters_of(source) != again:
        return None
    every = torch.iinfo(again.dtype)
    if (again.quant_min, again.quant_max) == (every.min, every.max):
        return quantized
    origin = quantized
    while origin.target in COMMUTE_WITH_QUANTIZATION and isinstance(origin.args[0], Node):
        origin = origin.args[0]
    if constants is not None and constants.has(origin):
        value = constants.get(origin)
        return quantized if not bool(((value < again.quant_min) | (value > again.quant_max)).any()) else None
    return quantized if is_quantize(origin) and parameters_of(origin) == again else None


def fold_quantize(program: ExportedProgram) -> ExportedProgram:
    """Quantize constants at compile time, and replace `quantize(dequantize(x))` by `x` where that is exact.

    `dequantize(quantize(x))` stays, because it rounds.
    """
    constants = Constants(program)
    with edit(program) as graph_module:
        for node in calls(graph_module):
            if not is_quantize(node):
                continue
            source = node.args[0]
            if constants.has(source) and all(map(constants.has, node.all_input_nodes)):
                args, kwargs = torch.fx.map_arg((node.args, node.kwargs), constants.get)
                assert callable(node.target)
                replace(node, constants.add(f"{node.name}_folded", node.target(*args, **kwargs), source))
            elif (inner := quantized_before(node, constants)) is not None:
                replace(node, inner)
    constants.drop_unused()
    return program


def propagate_quantize(program: ExportedProgram) -> ExportedProgram:
    """Move dequantize nodes after data movement and quantize nodes before it, so that integers are moved.

    This applies to per-tensor quantization, and to values with a single reader. `fold_quantize` then removes adjacent
    pairs.
    """
    with edit(program) as graph_module:
        mode = fake_mode(graph_module)
        for part in graph_modules(graph_module):
            for node in calls(part, *COMMUTE_WITH_QUANTIZATION):
                _dequantize_later(part, node, mode)
            for node in reversed(calls(part)):
                if is_quantize(node):
                    _quantize_earlier(part, node, mode)
    return fold_quantize(program)


def _is_per_tensor(node: Any) -> bool:
    parameters = parameters_of(node) if isinstance(node, Node) and node.op == "call_function" else None
    return parameters is not None and parameters.is_per_tensor


def _dequantize_later(graph_module: GraphModule, node: Node, mode: Any) -> None:
    source = node.args[0]
    if (
        not is_dequantize(source)
        or not isinstance(source, Node)
        or len(source.users) != 1
        or not _is_per_tensor(source)
    ):
        return
    editor = Editor(graph_module, node, mode)
    assert callable(node.target) and callable(source.target)
    moved = editor.call(node.target, source.args[0], *node.args[1:], **node.kwargs)
    replace(node, editor.call(source.target, moved, *source.args[1:], **source.kwargs))


def _quantize_earlier(graph_module: GraphModule, node: Node, mode: Any) -> None:
    moves: list[Node] = []
    source = node.args[0]
    while (
        isinstance(source, Node)
        and source.target in COMMUTE_WITH_QUANTIZATION
        and len(source.users) == 1
        and _is_per_tensor(node)
    ):
        moves.append(source)
        source = source.args[0]
    if not moves:
        return
    editor = Editor(graph_module, node, mode)
    assert callable(node.target)
    value = editor.call(node.target, source, *node.args[1:], **node.kwargs)
    for move in reversed(moves):
        assert callable(move.target)
        value = editor.call(move.target, value, *move.args[1:], **move.kwargs)
    replace(node, value)
