"""Refuse programs with steps of `torch.func` transforms, which `torch.export` leaves in the graph as calls."""

from __future__ import annotations

from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.ir.graph import all_calls, describe
from edgecore.ir.torch_compat import TRANSFORM_STEPS, is_functorch_tensor


def check_transforms(program: ExportedProgram) -> None:
    """Check that a program has no steps of `torch.func.grad`, `vmap` and the like.

    Raises:
        CompileError: The program has such steps, or constants that are tensors of a transform, which have no data.
    """
    nodes = all_calls(program.graph_module)
    steps = [node for node in nodes if node.users and getattr(node.target, "__module__", None) == TRANSFORM_STEPS]
    wrapped = [name for name, value in program.constants.items() if is_functorch_tensor(value)]
    if steps or wrapped:
        where = describe(steps[0]) if steps else f"the constant {wrapped[0]}"
        raise CompileError(
            f"{where} is a step of a function transform (torch.func.grad, vjp, jacrev, or vmap, which associative_scan "
            "uses), which torch.export leaves as it is; write the derivative or batched computation with operators, "
            "or get gradients from torch.export.experimental._export_forward_backward"
        )
