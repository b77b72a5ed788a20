"""Missing kernels are found here, when compiling, and not when a device loads the file."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import cache

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore import format as fmt
from edgecore.emit.emitter import PRIM_OPERATORS
from edgecore.emit.out_variants import kernel_form
from edgecore.errors import CompileError, KernelError
from edgecore.ir.delegate import is_delegate_call
from edgecore.ir.graph import calls, describe
from edgecore.plugin.kernels import find_kernel


def _check_custom(key: str, node: Node, runtime: str) -> None:
    """An operator of the user's needs a package with its kernel."""
    if runtime == fmt.EXECUTORCH_1_5:
        raise CompileError(
            f"{key} for {describe(node)} is an operator of your own, which the runtime profile {runtime} does not have; "
            f'compile with runtime="{fmt.EDGECORE}"'
        )
    try:
        find_kernel(key)
    except KernelError as error:
        raise CompileError(f"{describe(node)}: {error}") from error


@cache
def _library() -> frozenset[str]:
    from edgecore.runtime import kernels

    return frozenset(f"{name}.{overload}" if overload else name for name, overload in kernels())


def check_kernels(programs: Mapping[str, ExportedProgram], runtime: str) -> None:
    """Raise `CompileError` naming every operator left outside the backends that the runtime has no kernel for."""
    namespaces = {key.partition("::")[0] for key in _library()}
    profile = fmt.profile_operators(runtime) if runtime == fmt.EXECUTORCH_1_5 else None
    missing: dict[str, list[str]] = {}
    for program in programs.values():
        for node in calls(program.graph_module):
            if node.target is operator.getitem or is_delegate_call(node):
                continue
            if isinstance(node.target, OpOverload) and "sym_" not in str(node.target):
                form = kernel_form(node)
                name, overload = form.name, form.overload
            elif isinstance(node.target, OpOverload):
                name, overload = node.target._schema.name, node.target._overloadname
            else:
                name, overload = PRIM_OPERATORS[node.target]  # type: ignore[index]
            key = f"{name}.{overload}" if overload else name
            if name.partition("::")[0] not in namespaces:
                _check_custom(key, node, runtime)
            elif key not in _library() or (profile is not None and key not in profile):
                missing.setdefault(key, []).append(describe(node))
    if missing:
        what = "; ".join(f"{key} for {nodes[0]}" for key, nodes in sorted(missing.items()))
        raise CompileError(
            f"no kernel in runtime profile {runtime}: {what}; delegate these operators to a backend that takes them "
            "(backends=[...]), or write the model with others"
        )
