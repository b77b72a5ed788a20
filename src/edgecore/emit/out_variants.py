"""From a functional operator to the out-variant that the runtime calls: name, overload, and the order of arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.ir import packed_weights  # noqa: F401  (registers its operators)
from edgecore.ir.graph import describe
from edgecore.ir.op_args import arguments_by_name
from edgecore.ir.tensors import dim_order

aten = torch.ops.aten

_NOT_IN_OUT_VARIANTS = {"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "copy"}
"""Arguments that an `out` tensor answers by itself."""


@dataclass(frozen=True)
class Argument:
    """One argument of a kernel: its value (a node, a number, a list, None) and its schema type, such as `int[]`."""

    value: Any
    type: str


@dataclass(frozen=True)
class KernelForm:
    """How a node is written as a kernel call: arguments in schema order, `outs` following them in the file."""

    name: str
    overload: str
    arguments: tuple[Argument, ...]


def kernel_form(node: Node) -> KernelForm:
    """The kernel call of a node; `CompileError` if its operator has no out-variant."""
    target = node.target
    if target in _FORMS:
        return _FORMS[target](node)
    assert isinstance(target, OpOverload)
    out = out_variant(target)
    if out is None and target.namespace != "aten" and _gives_tensors(target):
        return _named_form(node, target)
    if out is None:
        raise CompileError(
            f"{describe(node)} has no out-variant, so no kernel can be called for it; register "
            f"{target._schema.name}.out with torch.library, or delegate the operator to a backend"
        )
    given = arguments_by_name(node)
    arguments = tuple(
        Argument(given[spec.name], str(spec.real_type)) for spec in out._schema.arguments if not spec.is_out
    )
    return KernelForm(out._schema.name, out._overloadname, arguments)


def _gives_tensors(target: OpOverload) -> bool:
    return all(str(value.real_type) in ("Tensor", "List[Tensor]") for value in target._schema.returns)


def _named_form(node: Node, target: OpOverload) -> KernelForm:
    """The kernel call of a user's operator that has no out-variant in Python: torch's naming of out-variants applied."""
    overload = "out" if target._overloadname in ("", "default") else f"{target._overloadname}_out"
    given = arguments_by_name(node)
    arguments = tuple(Argument(given[spec.name], str(spec.real_type)) for spec in target._schema.arguments)
    return KernelForm(target._schema.name, overload, arguments)


@cache
def out_variant(target: OpOverload) -> OpOverload | None:
    """The overload of the same operator that writes into `out`: same arguments by name, but for those of `_NOT_IN...`."""
    names = {arg.name for arg in target._schema.arguments}
    packet = target.overloadpacket
    best: tuple[int, OpOverload] | None = None
    for overload in packet.overloads():
        candidate = getattr(packet, overload)
        outs = [arg for arg in candidate._schema.arguments if arg.is_out]
        plain = {arg.name for arg in candidate._schema.arguments if not arg.is_out}
        if not outs or not plain <= names or not (names - plain) <= _NOT_IN_OUT_VARIANTS:
            continue
        if not _same_types(target, candidate):
            continue
        missing = len(names - plain)
        if best is None or missing < best[0]:
            best = (missing, candidate)
    return best[1] if best else None


def _same_types(target: OpOverload, candidate: OpOverload) -> bool:
    types = {arg.name: str(arg.real_type) for arg in target._schema.arguments}
    return all(types[arg.name] == str(arg.real_type) for arg in candidate._schema.arguments if not arg.is_out)


def _result_order(node: Node) -> list[int]:
    order = dim_order(node.meta["val"])
    assert order is not None
    return list(order)


def _dim_order_form(name: str) -> Callable[[Node], KernelForm]:
    """`dim_order_ops::NAME.out`: the memory format as a list of dimensions, the dtype as that of `out`."""

    def form(node: Node) -> KernelForm:
        arguments = (
            Argument(node.args[0], "Tensor"), Argument(False, "bool"), Argument(_result_order(node), "Optional[List[int]]"),
        )  # fmt: skip
        return KernelForm(f"dim_order_ops::{name}", "out", arguments)

    return form


def _empty_form(node: Node) -> KernelForm:
    arguments = (Argument(node.args[0], "List[int]"), Argument(_result_order(node), "Optional[List[int]]"))
    return KernelForm("dim_order_ops::_empty_dim_order", "out", arguments)


def _embedding_form(node: Node) -> KernelForm:
    weight, scales, zero_points, bits, indices = node.args
    assert isinstance(bits, int)
    half = 1 << bits - 1
    arguments = (
        Argument(weight, "Tensor"), Argument(scales, "Tensor"), Argument(zero_points, "Optional[Tensor]"),
        Argument(-half, "int"), Argument(half - 1, "int"), Argument(indices, "Tensor"),
    )  # fmt: skip
    name = "byte" if bits == 8 else f"{bits}bit"
    return KernelForm(f"quantized_decomposed::embedding_{name}", "out", arguments)


def _mixed_linear_form(node: Node) -> KernelForm:
    tensors = tuple(Argument(one, "Tensor") for one in node.args)
    arguments = (*tensors, Argument(None, "Optional[Tensor]"), Argument(None, "Optional[ScalarType]"))
    return KernelForm("quantized_decomposed::mixed_linear", "out", arguments)


_FORMS: dict[Any, Callable[[Node], KernelForm]] = {
    aten._to_copy.default: _dim_order_form("_to_dim_order_copy"),
    aten.clone.default: _dim_order_form("_clone_dim_order"),
    aten.empty.memory_format: _empty_form,
    torch.ops.edgecore.embedding_packed.default: _embedding_form,
    torch.ops.edgecore.mixed_linear.default: _mixed_linear_form,
}
