"""Check that the target runtime has a kernel for each operator, so that the file does not fail to load on a device."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from functools import cache

from torch.export import ExportedProgram
from torch.fx import Node

from edgecore import format as fmt
from edgecore.emit.control_flow import kernels_of
from edgecore.emit.emitter import NUMBER_OPERATORS, PRIM_OPERATORS
from edgecore.emit.out_variants import kernel_form
from edgecore.errors import CompileError
from edgecore.ir.control_flow import is_control_flow
from edgecore.ir.delegate import is_delegate_call
from edgecore.ir.graph import all_calls, describe
from edgecore.ir.torch_compat import OpOverload
from edgecore.plugin.installed.kernel_libraries import declared


@cache
def _library() -> frozenset[str]:
    """Return the operator keys (`aten::add.out`) of edgecore's own kernels."""
    from edgecore.runtime import kernels

    return frozenset(f"{name}.{overload}" if overload else name for name, overload in kernels())


@cache
def _installed(namespace: str) -> frozenset[str]:
    """Return the operator keys of a namespace for which installed packages have kernels.

    See `edgecore.plugin.installed.kernel_libraries`.
    """
    from edgecore.plugin.installed.kernel_libraries import libraries
    from edgecore.runtime import kernels

    names = [pair for path in libraries([f"{namespace}::"]) for pair in kernels(os.fsencode(path))]
    return frozenset(f"{name}.{overload}" if overload else name for name, overload in names)


def _check_custom(key: str, node: Node, runtime: str) -> None:
    """Check that an installed package has a kernel for a custom operator, and that the target runtime can call it."""
    namespace = key.partition("::")[0]
    allowed = fmt.profile_operators(runtime)
    if allowed is not None and key in allowed:
        return  # allowed: ExecuTorch has this kernel, and edgecore's runtime loads it from an installed package
    if runtime == fmt.EXECUTORCH_1_5:
        raise CompileError(
            f"{key} for {describe(node)} is an operator of your own, which the target runtime {runtime} does not have; "
            f'compile with runtime="{fmt.EDGECORE}"'
        )
    if key not in declared() and key not in _installed(namespace):
        raise CompileError(
            f"{describe(node)}: {key} has no kernel; install the package that contains the kernel: a package with an "
            f"entry point {namespace!r} or {key!r} in the group 'edgecore.kernels'"
        )


def check_kernels(programs: Mapping[str, ExportedProgram], runtime: str) -> None:
    """Check that the target runtime has a kernel for every operator that is not delegated.

    Raises:
        CompileError: Kernels are missing. The message names all operators without a kernel, but only the first custom
            operator.
    """
    namespaces = {key.partition("::")[0] for key in _library()}
    known = _library() if runtime == fmt.EXECUTORCH_1_5 else _library().union(declared())
    allowed = fmt.profile_operators(runtime) if runtime == fmt.EXECUTORCH_1_5 else None
    missing: dict[str, list[str]] = {}
    for program in programs.values():
        for node in all_calls(program.graph_module):
            for name, overload in _kernels(node):
                key = f"{name}.{overload}" if overload else name
                if name.partition("::")[0] not in namespaces:
                    _check_custom(key, node, runtime)
                elif key not in known or (allowed is not None and key not in allowed):
                    missing.setdefault(key, []).append(describe(node))
    if missing:
        listed = "; ".join(f"{key} for {nodes[0]}" for key, nodes in sorted(missing.items()))
        raise CompileError(
            f"no kernel in target runtime {runtime}: {listed}; delegate these operators to a backend that supports "
            "them (backends=[...]), or use other operators in the model"
        )


def _kernels(node: Node) -> list[tuple[str, str]]:
    """Return (name, overload) of each kernel that the `.pte` calls for a node; [] for getitem and delegate calls."""
    if node.target is operator.getitem or is_delegate_call(node):
        return []
    if is_control_flow(node):
        return kernels_of(node)
    if not isinstance(node.target, OpOverload):
        return [PRIM_OPERATORS[node.target]]  # type: ignore[index]
    if node.target in NUMBER_OPERATORS:
        return [NUMBER_OPERATORS[node.target]]
    form = kernel_form(node)
    return [(form.name, form.overload)]
