"""Operators that only move data: sets of operators of the edge dialect, and sets of operator names.

`_TABLE` lists operators of the edge dialect, each with the sets to which it belongs. Memory sharing and the
quantization report use operator names instead, because they also see operators outside of the dialect, such as views.
"""

from __future__ import annotations

import operator
from typing import Any

import torch

from edgecore.ir.dialect.edge_operators import VIEW_COPIES

aten = torch.ops.aten

_TABLE: dict[Any, str] = {
    aten.view_copy.default: "movement reshape identity elements uniform",
    aten.unsqueeze_copy.default: "movement reshape elements uniform",
    aten.squeeze_copy.dim: "movement reshape elements uniform",
    aten.squeeze_copy.dims: "movement reshape elements uniform",
    aten.permute_copy.default: "movement permutation identity elements uniform",
    aten.transpose_copy.int: "movement permutation elements uniform",
    aten.expand_copy.default: "movement identity elements uniform",
    aten.slice_copy.Tensor: "movement identity elements uniform",
    aten.select_copy.int: "movement elements uniform",
    aten.clone.default: "movement identity elements",
    aten.repeat.default: "movement elements",
    aten.flip.default: "movement elements",
    aten.index_select.default: "movement elements",
    aten._to_copy.default: "movement identity",
    aten.split_with_sizes_copy.default: "movement",
    aten.unbind_copy.int: "movement",
    aten.stack.default: "movement",
    aten.roll.default: "movement",
    aten.pixel_shuffle.default: "movement",
    aten.pixel_unshuffle.default: "movement",
    aten.index.Tensor: "movement",
    aten.slice_scatter.default: "movement",
    aten.select_scatter.default: "movement",
    aten.copy.default: "movement",
    operator.getitem: "movement",
    aten.alias_copy.default: "reshape identity",
    aten.detach_copy.default: "reshape identity",
    aten.t_copy.default: "permutation",
    aten.lift_fresh_copy.default: "identity",
}


def _subset(name: str) -> frozenset[Any]:
    return frozenset(target for target, subsets in _TABLE.items() if name in subsets.split())


DATA_MOVEMENT = _subset("movement")
"""Operators that only move data or convert dtypes; a partition with only these operators does not become a delegate."""

RESHAPES = _subset("reshape")
"""Operators that change only the shape: all elements stay in their logical order."""

PERMUTATIONS = _subset("permutation")
"""Operators that permute dims."""

MAY_BE_IDENTITY = _subset("identity")
"""Operators that may change nothing; the pass `remove_identities` checks each call."""

ELEMENTS_OF_FIRST = _subset("elements")
"""Operators whose result consists of elements of the first argument, in any order and number."""

COMMUTE_WITH_QUANTIZATION = _subset("uniform")
"""Operators whose result is the same whether they run before or after a per-tensor quantization."""

VIEW_COPY_FORMS = frozenset(VIEW_COPIES.values())
"""The copy variants of ATen's views."""

SAME_BYTES_NAMES = frozenset(
    {
        "view",
        "view_copy",
        "_unsafe_view",
        "unsqueeze",
        "unsqueeze_copy",
        "squeeze",
        "squeeze_copy",
        "alias",
        "alias_copy",
        "detach",
        "detach_copy",
        "expand",
        "expand_copy",
    }
)
"""Names of operators whose result has the bytes of their input, if both tensors are contiguous and equally large."""

SPLIT_NAMES = frozenset({"split_copy", "split_with_sizes_copy", "unbind_copy", "split_with_sizes", "split", "unbind"})
"""Names of operators whose results are consecutive parts of their input along a dim."""

EXPORTED_MOVEMENT_NAMES = frozenset(
    {
        "alias",
        "chunk",
        "clone",
        "contiguous",
        "detach",
        "dropout",
        "expand",
        "flatten",
        "permute",
        "reshape",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "t",
        "to",
        "transpose",
        "unbind",
        "unflatten",
        "unsqueeze",
        "view",
    }
)
"""Names of operators of exported programs that compute nothing in eval mode; the quantization report omits them."""
