"""Let `as_strided` read the tensor that owns the memory."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.errors import CompileError
from edgecore.ir.graph import calls, describe, edit, fake_mode
from edgecore.ir.op_args import argument
from edgecore.passes.written_views import shared_source


def rebase_strided(program: ExportedProgram) -> None:
    """Let each `as_strided` read the tensor that owns the memory, in place.

    Its offset counts from the start of this memory, also where its input is a part of it, and later passes make each
    view a tensor of its own.

    Raises:
        CompileError: The tensor that owns the memory is unknown or not contiguous, or it has symbolic sizes and is not
            the input of `as_strided` itself.
    """
    mode = fake_mode(program.graph_module)
    for part in [part for part in program.graph_module.modules() if isinstance(part, GraphModule)]:
        if found := calls(part, torch.ops.aten.as_strided.default):
            with edit(program):
                for node in found:
                    _rebase(node, part is program.graph_module, mode)
            part.recompile()


def _rebase(node: Node, is_outermost: bool, mode: Any) -> None:
    source = owner = node.args[0]
    assert isinstance(source, Node) and isinstance(owner, Node)
    while (shared := shared_source(owner, mode)) is not None:
        owner = shared
    val = owner.meta["val"]
    is_fixed = all(isinstance(size, int) for size in val.shape)
    is_known = is_outermost or owner.op != "placeholder"
    if owner is source and is_known and not is_fixed:
        return
    if not (is_known and is_fixed and val.is_contiguous()):
        raise CompileError(
            f"{describe(node)}: the tensor that owns the memory must be contiguous, of a fixed size, and made in the "
            "same branch, loop or region; use slices and reshapes instead"
        )
    size, stride, offset = (argument(node, name) for name in ("size", "stride", "storage_offset"))
    offset = source.meta["val"].storage_offset() if offset is None else offset
    node.args, node.kwargs = (owner, size, stride, offset), {}
