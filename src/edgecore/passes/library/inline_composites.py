"""Replace composite operators that would hide views or writes from `functionalize`."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.ir.graph import Editor, calls, edit, fake_mode
from edgecore.ir.torch_compat import OpOverload, is_composite, schema_of
from edgecore.passes.in_place import functional_form, is_mutable, writes_statistics
from edgecore.passes.traced_graph import call_of, copy_traced, replace_results, trace
from edgecore.passes.written_views import can_put_back, memories, result_of

aten = torch.ops.aten

# fmt: off
_NEW_TENSORS = {
    aten.linear.default, aten.matmul.default, aten.conv1d.default, aten.conv2d.default, aten.layer_norm.default,
    aten.group_norm.default, aten.softmax.int, aten.log_softmax.int, aten.adaptive_avg_pool2d.default, aten.pad.default,
    aten.scaled_dot_product_attention.default,
}
# fmt: on
"""Frequent composite operators that never return a view; others are run with fake tensors to find out."""


def inline_composites(program: ExportedProgram) -> None:
    """Replace, in place, each composite operator that hides a view or a write by its component operators.

    `einsum` and `meshgrid` may return views, although their schemas declare new tensors, so that even torch's own
    functionalization would overlook writes to these. `movedim` is a view through which `put_back` cannot write.
    `fill_diagonal_` writes and has no functional overload; `_foreach_add_` writes a list of tensors. Branches, loop
    bodies and regions are included.
    """
    mode = fake_mode(program.graph_module)
    parts = [part for part in program.graph_module.modules() if isinstance(part, GraphModule)]
    hiding = [(part, node) for part in parts for node in calls(part) if _hides(node, mode)]
    if hiding:
        with edit(program):
            for part, node in hiding:
                _inline(part, node, mode)
                part.recompile()


def _hides(node: Node, mode: Any) -> bool:
    target = node.target
    if not isinstance(target, OpOverload):
        return False
    if _writes_lists(target):
        return True
    if not is_composite(target):
        return False
    if is_mutable(node):
        return functional_form(target) is None
    if writes_statistics(node):
        return target is not aten.batch_norm.default
    if can_put_back(target) or target in _NEW_TENSORS:
        return False
    inputs = memories([leaf.meta["val"] for leaf in node.all_input_nodes])
    return bool(memories(node.meta["val"]) and memories(result_of(node, mode)) & inputs)


_FOREACH = "_foreach_"


@cache
def _writes_lists(target: OpOverload) -> bool:
    name = schema_of(target).name.partition("::")[2]
    return target.namespace == "aten" and name.startswith(_FOREACH) and name.endswith("_")


_KEYWORDS = {"scalars": "value", "value": "value", "alpha": "alpha"}
"""Argument of a `_foreach` operator -> keyword of the operator for one tensor. The factors of a product, which are
also called `scalars`, are positional."""


def _for_each(target: OpOverload, *args: Any, **kwargs: Any) -> None:
    """Call the in-place operator for one tensor, such as `add_`, for each tensor in the lists of `_foreach_add_`."""
    name = schema_of(target).name.partition("::")[2].removeprefix(_FOREACH)
    operator = getattr(aten, name)
    arguments = dict(zip((parameter.name for parameter in schema_of(target).arguments), args, strict=False)) | kwargs
    has_value = name in ("addcmul_", "addcdiv_")
    for index in range(len(arguments["self"])):
        positional, keywords = [], {}
        for key, value in arguments.items():
            item = value[index] if isinstance(value, (list, tuple)) else value
            if key in _KEYWORDS and (has_value or key != "scalars"):
                keywords[_KEYWORDS[key]] = item
            else:
                positional.append(item)
        operator(*positional, **keywords)


def _inline(graph_module: GraphModule, node: Node, mode: Any) -> None:
    assert callable(node.target)
    leaves = node.all_input_nodes
    function: Any = node.target
    if isinstance(function, OpOverload) and _writes_lists(function):
        function = partial(_for_each, function)
    traced = trace(call_of(node, function), leaves, mode, {})
    replace_results(node, copy_traced(traced.graph, leaves, Editor(graph_module, node, mode)))
