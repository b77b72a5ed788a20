"""The edge dialect: the operators that a graph may call.

The dialect has the functional core ATen operators (torch's tag `core`), further ATen operators for which the runtimes
have kernels, and registered custom operators. Views are replaced by their copy variants (`view_copy`), so that every
value is a dense tensor with its own memory. The fake tensor in `node.meta["val"]` has the dim order of the value.
"""

from __future__ import annotations

import math
import operator
from functools import cache
from typing import Any

import torch

from edgecore.ir.control_flow import CONTROL_FLOW
from edgecore.ir.delegate import call_delegate
from edgecore.ir.torch_compat import OpOverload, can_decompose, operator_names, schema_of

aten = torch.ops.aten

VIEW_COPIES: dict[OpOverload, OpOverload] = {
    aten.alias.default: aten.alias_copy.default,
    aten.as_strided.default: aten.as_strided_copy.default,
    aten.detach.default: aten.detach_copy.default,
    aten.diagonal.default: aten.diagonal_copy.default,
    aten.expand.default: aten.expand_copy.default,
    aten.permute.default: aten.permute_copy.default,
    aten.select.int: aten.select_copy.int,
    aten.slice.Tensor: aten.slice_copy.Tensor,
    aten.split.Tensor: aten.split_copy.Tensor,
    aten.split_with_sizes.default: aten.split_with_sizes_copy.default,
    aten.squeeze.dim: aten.squeeze_copy.dim,
    aten.squeeze.dims: aten.squeeze_copy.dims,
    aten.t.default: aten.t_copy.default,
    aten.transpose.int: aten.transpose_copy.int,
    aten.unbind.int: aten.unbind_copy.int,
    aten.unfold.default: aten.unfold_copy.default,
    aten.unsqueeze.default: aten.unsqueeze_copy.default,
    aten.view.default: aten.view_copy.default,
    aten.view_as_real.default: aten.view_as_real_copy.default,
    aten._unsafe_view.default: aten.view_copy.default,
}
"""ATen's views and their copy variants; the edge dialect has only the copy variants."""

_NOT_CORE = {
    aten.linear.default,
    aten.glu.default,
    aten.pixel_shuffle.default,
    aten.pixel_unshuffle.default,
    aten.stack.default,
    aten.masked_fill.Scalar,
    aten.floor_divide.default,
    aten.repeat_interleave.Tensor,
    aten.roll.default,
    aten.tril.default,
    aten.logit.default,
    aten.max.default,
    aten.min.default,
    aten.index_put_.default,
    aten.rsub.Scalar,
    aten.bitwise_left_shift.Tensor,
    aten.bitwise_left_shift.Tensor_Scalar,
    aten.bitwise_right_shift.Tensor,
    aten.bitwise_right_shift.Tensor_Scalar,
    aten.narrow_copy.default,
    aten._upsample_bilinear2d_aa.default,
    aten._conj_physical.default,
    aten.zeros.default,
    aten.ones.default,
    aten.full_like.default,
    aten.masked_select.default,
    aten.var_mean.correction,
    aten.unfold_copy.default,
    aten.copy_.default,
    aten.nonzero_static.default,
    aten.unique_consecutive.default,
    aten.grid_sampler_3d.default,
}
"""ATen operators without the tag `core` for which the runtimes' kernel libraries have kernels; two write in place.

Only edgecore's library has kernels of the last three; for other runtimes they are decomposed.
"""

COMPLEX = {
    aten._conj_physical.default,
    aten._fft_c2r.default,
    aten._fft_r2c.default,
    aten.view_as_real_copy.default,
}
"""The only operators that accept or return complex tensors."""

SYMBOLIC = {
    operator.add,
    operator.sub,
    operator.mul,
    operator.floordiv,
    operator.mod,
    operator.truediv,
    operator.neg,
    operator.eq,
    operator.gt,
    operator.ge,
    operator.lt,
    operator.le,
    torch.sym_max,
    torch.sym_min,
    torch.sym_float,
    torch.sym_not,
    torch.sym_int,
    torch.sym_ite,
    math.ceil,
    math.trunc,
    round,
}
"""Python functions on symbolic numbers that a graph may call."""

_EDGE = set(VIEW_COPIES.values()) | _NOT_CORE


@cache
def is_edge_operator(target: Any) -> bool:
    """Return True if a `call_function` node of an edge graph may have this target."""
    if not isinstance(target, OpOverload):
        return target is operator.getitem or target in SYMBOLIC or target is call_delegate or target in CONTROL_FLOW
    if target in VIEW_COPIES:
        return False
    if target.namespace == "torchao" and can_decompose(target):
        return False
    if target.namespace != "aten":
        return not schema_of(target).is_mutable
    return target in _EDGE or (torch.Tag.core in target.tags and not schema_of(target).is_mutable)


def edge_operators() -> list[OpOverload]:
    """List all ATen operators of the dialect."""
    names = operator_names()
    operators = []
    for name in names:
        base, _, overload = name.removeprefix("aten::").partition(".")
        if not name.startswith("aten::") or not hasattr(aten, base):
            continue
        target = getattr(getattr(aten, base), overload or "default", None)
        if isinstance(target, OpOverload) and is_edge_operator(target):
            operators.append(target)
    return operators
