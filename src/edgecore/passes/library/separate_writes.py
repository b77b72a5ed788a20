"""Replace custom operators that write arguments by their functional forms, and write the results by `aten.copy_`."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.errors import CompileError
from edgecore.ir.graph import Editor, calls, describe, edit, fake_mode
from edgecore.ir.op_args import arguments_by_name
from edgecore.ir.operators.mutating_operators import functional_form_of_writer, writes_argument
from edgecore.ir.torch_compat import OpOverload, schema_of
from edgecore.passes.in_place import functional_form, is_mutable

aten = torch.ops.aten
_WRAPPERS = (torch.ops.higher_order.auto_functionalized, torch.ops.higher_order.auto_functionalized_v2)


def separate_writes(program: ExportedProgram) -> ExportedProgram:
    """Replace each call of a custom operator with written arguments by its functional form and copies.

    `append(row, cache)` becomes `new = functional_append(row, cache); cache.copy_(new)`, so that later passes see the
    write: torch's functionalization has rules for `aten.copy_`, even if `cache` is a view. A program that was already
    functionalized has torch's wrapper `auto_functionalized` around such a call; the wrapper is removed.

    Raises:
        CompileError: An operator writes a list of tensors, or returns something other than tensors.
    """
    parts = [part for part in program.graph_module.modules() if isinstance(part, GraphModule)]
    if not any(_writes(node) or node.target in _WRAPPERS for part in parts for node in calls(part)):
        return program
    mode = fake_mode(program.graph_module)
    with edit(program):
        for part in parts:
            for node in calls(part, *_WRAPPERS):
                _unwrap(Editor(part, node, mode), node)
            for node in calls(part):
                if _writes(node):
                    _separate(Editor(part, node, mode), node)
            part.recompile()
    return program


def _writes(node: Node) -> bool:
    """Return True for a call of a custom operator that writes arguments and has no functional overload."""
    return (
        is_mutable(node)
        and isinstance(node.target, OpOverload)
        and node.target.namespace != "aten"
        and functional_form(node.target) is None
    )


def _separate(editor: Editor, node: Node) -> None:
    target = node.target
    assert isinstance(target, OpOverload)
    values = arguments_by_name(node)
    written = tuple(
        spec.name for spec in schema_of(target).arguments if writes_argument(spec) and values[spec.name] is not None
    )
    if any(not isinstance(values[name], Node) for name in written):
        raise CompileError(f"{describe(node)} writes a list of tensors; pass each tensor as an argument of its own")
    if any(str(value.real_type) != "Tensor" for value in schema_of(target).returns):
        raise CompileError(f"{describe(node)} writes an argument, so that it can return tensors only")
    arguments = [values[spec.name] for spec in schema_of(target).arguments]
    results = iter(_items(editor, editor.call(functional_form_of_writer(target, written), *arguments)))
    own = [
        next(results) if value.alias_info is None else values[_argument_of(target, value)]
        for value in schema_of(target).returns
    ]
    for name in written:
        editor.call(aten.copy_.default, values[name], next(results), val=values[name].meta["val"])
    if len(own) == 1:
        node.replace_all_uses_with(own[0])
    for user in list(node.users):
        user.replace_all_uses_with(own[user.args[1]])  # type: ignore[index]
        user.graph.erase_node(user)
    node.graph.erase_node(node)


def _items(editor: Editor, call: Node) -> list[Node]:
    val = call.meta["val"]
    if isinstance(val, torch.Tensor):
        return [call]
    return [editor.call(operator.getitem, call, index, val=item) for index, item in enumerate(val)]


def _argument_of(target: OpOverload, result: Any) -> str:
    """Return the name of the argument whose memory a result of the operator shares."""
    aliases = result.alias_info.before_set
    return next(
        str(spec.name)
        for spec in schema_of(target).arguments
        if spec.alias_info is not None and spec.alias_info.before_set & aliases
    )


def _unwrap(editor: Editor, node: Node) -> None:
    """Replace `auto_functionalized` by copies of the written tensors, and a call of the operator on the copies.

    The wrapper returns the operator's results (a single None if it has none), then the new content of each written
    argument. Its second version instead returns the content of the tensors in `_all_bases`; the written arguments are
    views of these.
    """
    target = node.args[0]
    assert isinstance(target, OpOverload)
    values = dict(node.kwargs)
    names = [spec.name for spec in schema_of(target).arguments if writes_argument(spec)]
    if "_all_bases" in values:
        bases = [_copy(editor, base) for base in values["_all_bases"]]  # type: ignore[union-attr]
        values |= {name: _view(editor, values, f"_{name}", bases) for name in names}
        new = bases
    else:
        values |= {name: _copy(editor, values[name]) for name in names}
        new = [values[name] for name in names]
    with editor.graph.inserting_before(node):
        arguments = {spec.name: values[spec.name] for spec in schema_of(target).arguments if spec.name in values}
        call = editor.graph.call_function(target, (), arguments)
    own_count = max(1, len(schema_of(target).returns))
    vals = node.meta["val"]
    call.meta = {**node.meta, "val": vals[0] if own_count == 1 else vals[:own_count]}
    for user in list(node.users):
        index = user.args[1]
        assert isinstance(index, int)
        if index >= own_count:
            user.replace_all_uses_with(new[index - own_count])
        elif own_count == 1:
            user.replace_all_uses_with(call)
        else:
            user.args = (call, index)
            continue
        user.graph.erase_node(user)
    node.graph.erase_node(node)


def _copy(editor: Editor, value: Any) -> Any:
    return None if value is None else editor.call(aten.clone.default, value)


def _view(editor: Editor, values: dict[str, Any], prefix: str, bases: list[Any]) -> Any:
    """Return the view of a base tensor that `auto_functionalized_v2` describes by arguments named `prefix...`."""
    index = values.get(f"{prefix}_base_index")
    if index is None:
        return None
    if f"{prefix}_storage_offset" in values:
        place = [values[f"{prefix}_{part}"] for part in ("size", "stride", "storage_offset")]
        return editor.call(aten.as_strided.default, bases[index], *place)
    if f"{prefix}_slice_dim" in values:
        place = [values[f"{prefix}_slice_{part}"] for part in ("dim", "start", "end")]
        return editor.call(aten.slice.Tensor, bases[index], *place)
    return bases[index]
