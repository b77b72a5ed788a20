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
        CompileError: The tensor that owns the memory is unknown, not contiguous, or has symbolic sizes.
    """
    mode = fake_mode(program.graph_module)
    for part in [part for part in program.graph_module.modules() if isinstance(part, GraphModule)]:
        if found := calls(part, torch.ops.aten.as_strided.default):
            with edit(program):
                for node in found:
                    _rebase(node, part is program.graph_module, mode)
            part.recompile()


def _rebase(node: Node, is_outermost: bool, mode: Any) -> None:
    owner = node
    while (source := shared_source(owner, mode)) is not None:
        owner = source
    val = owner.meta["val"]
    is_fixed = all(isinstance(size, int) for size in val.shape)
    if not is_fixed or not val.is_contiguous() or (owner.op == "placeholder" and not is_outermost):
        raise CompileError(
            f"{describe(node)}: the tensor that owns the memory must be contiguous, of a fixed size, and made in the "
            "same branch, loop or region; use slices and reshapes instead"
        )
    size, stride, offset = (argument(node, name) for name in ("size", "stride", "storage_offset"))
    if offset is None:
        part = node.args[0]
        assert isinstance(part, Node)
        offset = part.meta["val"].storage_offset()
    node.args, node.kwargs = (owner, size, stride, offset), {}
