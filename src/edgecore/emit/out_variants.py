"""Find the out variant that the runtime calls for an operator: name, overload, and order of the arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.ir.dialect.dim_orders import dim_order
from edgecore.ir.graph import describe
from edgecore.ir.op_args import arguments_by_name
from edgecore.ir.operators import packed_weights  # noqa: F401  (registers its operators)
from edgecore.ir.operators.mutating_operators import writer_of
from edgecore.ir.torch_compat import OpOverload, overload_name, schema_of

aten = torch.ops.aten

_NOT_IN_OUT_VARIANTS = {"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "copy"}
"""Arguments that out variants may lack; most of them describe the `out` tensor, which already exists."""


@dataclass(frozen=True)
class Argument:
    """One argument of a kernel: its value (a node, a number, a list, None) and its schema type, such as `int[]`."""

    value: Any
    type: str


@dataclass(frozen=True)
class KernelForm:
    """A kernel call: the operator, and its arguments in schema order. In the file the results follow the arguments."""

    name: str
    overload: str
    arguments: tuple[Argument, ...]


def kernel_form(node: Node) -> KernelForm:
    """Return the operator and the arguments of the kernel call that computes `node`.

    Raises:
        CompileError: The operator has no out variant.
    """
    target = node.target
    if target in _FORMS:
        return _FORMS[target](node)
    assert isinstance(target, OpOverload)
    values = arguments_by_name(node)
    writer = writer_of(target)
    if writer is not None:
        target = writer.operator
        if writer.fresh == 0:
            specs = schema_of(target).arguments
            return _form(schema_of(target).name, overload_name(target).removeprefix("default"), specs, values)
    out = out_variant(target)
    if out is None and target.namespace != "aten" and _returns_tensors(target):
        # A custom operator without a Python out variant: derive the name of its kernel by torch's rule.
        overload = "out" if overload_name(target) in ("", "default") else f"{overload_name(target)}_out"
        return _form(schema_of(target).name, overload, schema_of(target).arguments, values)
    if out is None:
        raise CompileError(
            f"{describe(node)} has no out variant, so no kernel can be called for it; register "
            f"{schema_of(target).name}.out with torch.library, or delegate the operator to a backend"
        )
    specs = [spec for spec in schema_of(out).arguments if not spec.is_out]
    return _form(schema_of(out).name, overload_name(out), specs, values)


def _returns_tensors(target: OpOverload) -> bool:
    return all(str(value.real_type) in ("Tensor", "List[Tensor]") for value in schema_of(target).returns)


def _form(name: str, overload: str, specs: Sequence[Any], values: dict[str, Any]) -> KernelForm:
    return KernelForm(name, overload, tuple(Argument(values[spec.name], str(spec.real_type)) for spec in specs))


@cache
def out_variant(target: OpOverload) -> OpOverload | None:
    """Return the overload of the same operator that writes into `out`, or None if there is none.

    The out variant has arguments of the same names and types, but may lack the ones in `_NOT_IN_OUT_VARIANTS`, like
    `dtype` and `layout`. Of several such overloads, the one that lacks the fewest arguments is returned.
    """
    names = {arg.name for arg in schema_of(target).arguments}
    packet = target.overloadpacket
    best: tuple[int, OpOverload] | None = None
    for overload in packet.overloads():
        candidate = getattr(packet, overload)
        outs = [arg for arg in schema_of(candidate).arguments if arg.is_out]
        inputs = {arg.name for arg in schema_of(candidate).arguments if not arg.is_out}
        if not outs or not inputs <= names or not (names - inputs) <= _NOT_IN_OUT_VARIANTS:
            continue
        if not _same_types(target, candidate):
            continue
        missing = len(names - inputs)
        if best is None or missing < best[0]:
            best = (missing, candidate)
    return best[1] if best else None


def _same_types(target: OpOverload, candidate: OpOverload) -> bool:
    types = {arg.name: str(arg.real_type) for arg in schema_of(target).arguments}
    return all(types[arg.name] == str(arg.real_type) for arg in schema_of(candidate).arguments if not arg.is_out)


def _result_order(node: Node) -> list[int]:
    order = dim_order(node.meta["val"])
    assert order is not None
    return list(order)


def _dim_order_form(name: str) -> Callable[[Node], KernelForm]:
    """Return a function that converts a node to a call of `dim_order_ops::NAME.out` with a dim order but no dtype."""

    def form(node: Node) -> KernelForm:
        order = Argument(_result_order(node), "Optional[List[int]]")
        arguments = (Argument(node.args[0], "Tensor"), Argument(False, "bool"), order)
        return KernelForm(f"dim_order_ops::{name}", "out", arguments)

    return form


def _empty_form(node: Node) -> KernelForm:
    arguments = (Argument(node.args[0], "List[int]"), Argument(_result_order(node), "Optional[List[int]]"))
    return KernelForm("dim_order_ops::_empty_dim_order", "out", arguments)


def _embedding_form(node: Node) -> KernelForm:
    weight, scales, zero_points, bits, indices = node.args
    assert isinstance(bits, int)
    limit = 1 << bits - 1  # the limit of the format's integers: [-limit, limit)
    values = (weight, scales, zero_points, -limit, limit - 1, indices)
    arguments = tuple(map(Argument, values, ("Tensor", "Tensor", "Optional[Tensor]", "int", "int", "Tensor")))
    name = "byte" if bits == 8 else f"{bits}bit"
    return KernelForm(f"quantized_decomposed::embedding_{name}", "out", arguments)


def _mixed_linear_form(node: Node) -> KernelForm:
    tensors = tuple(Argument(value, "Tensor") for value in node.args)
    arguments = (*tensors, Argument(None, "Optional[Tensor]"), Argument(None, "Optional[ScalarType]"))
    return KernelForm("quantized_decomposed::mixed_linear", "out", arguments)


_FORMS: dict[Any, Callable[[Node], KernelForm]] = {
    aten._to_copy.default: _dim_order_form("_to_dim_order_copy"),
    aten.clone.default: _dim_order_form("_clone_dim_order"),
    aten.empty.memory_format: _empty_form,
    torch.ops.edgecore.embedding_packed.default: _embedding_form,
    torch.ops.edgecore.mixed_linear.default: _mixed_linear_form,
}
