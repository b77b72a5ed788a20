"""Rewrite a partition to the ATEN dialect, which coremltools reads: for example, `view` instead of `view_copy`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from edgecore.sdk import LARGEST_SCORE, Constants, argument, has_hidden_rows, holds_scores, reaches_softmax
from edgecore.sdk.torch_compat import Verifier, pytree, replace_parts
from edgecore_coreml.conversion.masks import finite_scores, masked
from edgecore_coreml.conversion.quantized import WEIGHTS, stored
from edgecore_coreml.conversion.updates import REWRITES

aten = torch.ops.aten

VIEWS: dict[Any, Any] = {
    aten.alias_copy.default: aten.clone.default,
    aten.detach_copy.default: aten.clone.default,
    aten.expand_copy.default: aten.expand.default,
    aten.permute_copy.default: aten.permute.default,
    aten.select_copy.int: aten.select.int,
    aten.slice_copy.Tensor: aten.slice.Tensor,
    aten.split_copy.Tensor: aten.split.Tensor,
    aten.split_with_sizes_copy.default: aten.split_with_sizes.default,
    aten.squeeze_copy.dim: aten.squeeze.dim,
    aten.squeeze_copy.dims: aten.squeeze.dims,
    aten.t_copy.default: aten.t.default,
    aten.transpose_copy.int: aten.transpose.int,
    aten.unbind_copy.int: aten.unbind.int,
    aten.unsqueeze_copy.default: aten.unsqueeze.default,
    aten.view_copy.default: aten.view.default,
}
"""Maps edge operators to the ATEN operators that coremltools converts instead."""

_REAL_NUMBERS = (aten.elu.default, aten.hardtanh.default)
"""Operators whose converters derive the dtype of constants from the type of the Python number."""

_HARDTANH = (-1.0, 1.0)

_ORDERS = tuple(
    getattr(getattr(aten, name), kind) for name in ("lt", "le", "gt", "ge") for kind in ("Tensor", "Scalar")
)
"""Comparisons that Core ML does not support for booleans."""

_NO_LAYOUT = {"memory_format", "layout", "device", "pin_memory", "non_blocking"}
"""Keyword arguments about memory, which an ML program does not have."""


_INFINITE = 1e38
"""coremltools treats constants of at least this magnitude as infinite. With smaller constants beyond the range of
float16, it computes in float32."""

_ATTENTION = aten.scaled_dot_product_attention.default


def to_aten(program: ExportedProgram, *, in_half: bool = False) -> ExportedProgram:
    """Return a copy of a partition in the dialect "ATEN": the graph is new, but parameters are not copied.

    With `in_half`, the model computes in float16, so finite constants beyond its range are clamped to stay finite.
    """
    graph, copies, constants = Graph(), dict[Any, Any](), Constants(program)
    weights, inputs = set[Node](), set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        copies[node] = copied = graph.node_copy(node, copies.__getitem__)
        copied.meta = {"val": node.meta["val"]} if "val" in node.meta else {}
        if node.op == "placeholder" and isinstance(val := node.meta["val"], torch.Tensor):
            # coremltools refuses inputs with unusual strides, even of a dim of size 1: make the input contiguous.
            copied.meta["val"] = val.new_empty(val.shape)
        if constants.has(node):
            weights.add(copied)
        elif in_half and node.name in inputs and holds_scores(node):
            copies[node] = _added(graph, finite_scores, (copied,))
        if node.op == "call_function":
            copied.kwargs = {key: value for key, value in copied.kwargs.items() if key not in _NO_LAYOUT}
            with graph.inserting_before(copied):
                if (mask := _mask(node, constants)) is not None:
                    add, options = partial(_added, graph), copied.kwargs
                    copied.target, copied.args = masked(add, copied.args, options, copies[mask], in_half=in_half)
                    copied.kwargs = {}
                else:
                    copied.target, copied.args = _rewritten(graph, node.target, copied.args, weights.__contains__)
                if in_half:
                    limit = LARGEST_SCORE if reaches_softmax(node) else _INFINITE
                    copied.args = pytree.tree_map(partial(_in_range, limit=limit), copied.args)
    changed: dict[str, Any] = {"graph_module": GraphModule({}, graph), "verifiers": [Verifier]}
    if in_half:
        scores = _names_of_scores(program)
        for part, values in (("state_dict", program.state_dict), ("constants", program.constants)):
            limits = {name: LARGEST_SCORE if name in scores else _INFINITE for name in values}
            changed[part] = {name: _in_range(value, limits[name]) for name, value in values.items()}
    return replace_parts(program, **changed)


def _mask(node: Node, constants: Constants) -> Node | None:
    """Return an attention node's mask if `masked` must rewrite it: if it is computed, has width 1 or hides a row."""
    mask = argument(node, "attn_mask") if node.target is _ATTENTION else None
    if not isinstance(mask, Node):
        return None
    constant = constants.get(mask) if constants.has(mask) else None
    return mask if constant is None or constant.shape[-1] == 1 or has_hidden_rows(constant) else None


def _names_of_scores(program: ExportedProgram) -> set[str]:
    """Return the qualified names of the constants that reach a softmax, directly or in a sum."""
    targets = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs if spec.target is not None}
    return {targets[node.name] for node in program.graph.nodes if node.name in targets and reaches_softmax(node)}


def _in_range(value: Any, limit: float) -> Any:
    """Clamp a number, or each element of a tensor, to +-LARGEST_SCORE if `limit` <= its magnitude < infinity."""
    if isinstance(value, float):
        return math.copysign(LARGEST_SCORE, value) if limit <= abs(value) < math.inf else value
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    is_beyond = value.isfinite() & (value.abs() >= limit)
    return torch.where(is_beyond, value.clamp(-LARGEST_SCORE, LARGEST_SCORE), value) if bool(is_beyond.any()) else value


def _rewritten(
    graph: Graph, target: Any, args: tuple[Any, ...], is_constant: Callable[[Any], bool]
) -> tuple[Any, tuple[Any, ...]]:
    """Return the operator and arguments that replace an fx node for coremltools; insert the nodes that they need."""
    # coremltools misreads a squeeze of several dims as a permutation of dims, so write one squeeze for each dim.
    if target is aten.squeeze_copy.dims:
        value, dims = args
        *others, last = sorted((dim % value.meta["val"].dim() for dim in dims), reverse=True)
        for dim in others:
            value = _added(graph, aten.squeeze.dim, (value, dim))
        return aten.squeeze.dim, (value, last)
    # coremltools' converter of reciprocal adds 0.0001 to the input, so divide 1 by the input instead.
    if target is aten.reciprocal.default:
        return aten.div.Tensor, (1.0, *args)
    if target is aten.constant_pad_nd.default and args[0].meta["val"].dtype == torch.float16:
        padded = _added(graph, target, args)  # coremltools' converter pads in float32
        return aten.clone.default, (_added(graph, aten._to_copy.default, (padded,), dtype=torch.float16),)
    if (weight := stored(target, args, is_constant)) is not None:
        return weight
    if target is aten.convolution.default and _is_variable(bias := args[2], is_constant):
        # Add a computed bias by a separate `add`: coremltools converts such a bias only from iOS 17 on, and never for a
        # transposed convolution.
        result = _added(graph, target, (*args[:2], None, *args[3:]))
        shape = [1, -1, *[1] * (result.meta["val"].dim() - 2)]
        return aten.add.Tensor, (result, _added(graph, aten.view.default, (bias, shape)))
    if target in REWRITES:
        return REWRITES[target](partial(_added, graph), *args)
    if target in _ORDERS:
        return target, tuple(_as_number(graph, value) for value in args)
    if target in _REAL_NUMBERS:
        args = tuple(float(value) if type(value) is int else value for value in args)
    return VIEWS.get(target, target), _with_defaults(target, args)


def _is_variable(value: Any, is_constant: Callable[[Any], bool]) -> bool:
    """Return True if a value is computed at run time, and so not stored in the model."""
    return isinstance(value, Node) and not is_constant(value) and value.target not in WEIGHTS


def _as_number(graph: Graph, value: Any) -> Any:
    if not isinstance(value, Node) or value.meta["val"].dtype != torch.bool:
        return value
    return _added(graph, aten._to_copy.default, (value,), dtype=torch.int32)


def _added(graph: Graph, target: Any, args: tuple[Any, ...], **kwargs: Any) -> Node:
    # The program's signature names its results, so a new node must not get the name of a result.
    node = graph.create_node("call_function", target, args, kwargs, name="rewritten")
    vals = map_arg(args, lambda arg: arg.meta["val"])
    node.meta = {"val": target(*vals, **kwargs)}
    return node


def _with_defaults(target: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of an fx node; add defaults of PyTorch that coremltools' converter does not know."""
    if target is aten.max_pool2d.default and (len(args) < 3 or not args[2]):
        return (*args[:2], args[1], *args[3:])  # PyTorch's default stride of a pooling is its kernel size
    if target is aten.elu.default and len(args) == 1:
        return (*args, 1.0)
    return (*args, *_HARDTANH[len(args) - 1 :]) if target is aten.hardtanh.default else args
