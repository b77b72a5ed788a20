"""Let `as_strided` read the tensor that owns the memory, instead of a view of this tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.errors import CompileError
from edgecore.ir.graph import calls, describe, edit, fake_mode
from edgecore.ir.op_args import argument
from edgecore.passes.library.inline_composites import inline_composites
from edgecore.passes.written_views import shared_source

aten = torch.ops.aten
_STRIDED = (aten.as_strided.default, aten.as_strided_copy.default)


def rebase_strided(program: ExportedProgram) -> None:
    """Let each `as_strided` read the tensor that owns the memory, in place.

    The offset of `as_strided` counts from the start of this memory, even if the input of `as_strided` is a view of a
    part of the memory. Later passes make each view a separate tensor, in which such an offset would be wrong. Composite
    operators that would hide the owner are replaced first.

    Raises:
        CompileError: The tensor that owns the memory is unknown, not contiguous or of another dtype, or it has symbolic
            sizes and is not itself the input of `as_strided`.
    """
    modules = [part for part in program.graph_module.modules() if isinstance(part, GraphModule)]
    parts = [part for part in modules if calls(part, *_STRIDED)]
    if not parts:
        return
    inline_composites(program)
    mode = fake_mode(program.graph_module)
    with edit(program):
        for part in parts:
            for node in calls(part, *_STRIDED):
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
    if not (is_known and is_fixed and val.is_contiguous() and val.dtype == node.meta["val"].dtype):
        raise CompileError(
            f"{describe(node)}: the tensor that owns the memory must be contiguous, of a fixed size, of the same "
            "dtype, and made in the same branch, loop or region; use slices and reshapes instead"
        )
    size, stride, offset = (argument(node, name) for name in ("size", "stride", "storage_offset"))
    # Subtract the owner's offset: an example input may be part of a larger tensor, but the input of a call starts at 0.
    if offset is None:
        offset = source.meta["val"].storage_offset() - val.storage_offset()
    node.args, node.kwargs = (owner, size, stride, offset), {}
