"""Facts about the tensors of an edge graph: dim orders, and bounds of symbolic sizes."""

from __future__ import annotations

from typing import Any

import torch
from torch._prims_common import is_contiguous_for_memory_format_or_false
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.ir.graph import describe


def dim_order(val: torch.Tensor) -> tuple[int, ...] | None:
    """Return the dims of a tensor from the outermost to the innermost in memory.

    A tensor that is both contiguous and channels last (it has one channel, or one pixel) counts as contiguous.

    Returns:
        The dim order, such as (0, 2, 3, 1); None if the tensor is neither contiguous nor channels last.
    """
    default = tuple(range(val.dim()))
    if _is_dense(val, torch.contiguous_format):
        return default
    if val.dim() == 4 and _is_dense(val, torch.channels_last):
        return (0, 2, 3, 1)
    if val.dim() == 5 and _is_dense(val, torch.channels_last_3d):
        return (0, 2, 3, 4, 1)
    return None


def _is_dense(val: torch.Tensor, memory_format: torch.memory_format) -> bool:
    if all(isinstance(size, int) for size in val.shape):
        return val.is_contiguous(memory_format=memory_format)
    # `Tensor.is_contiguous` would add guards, which torch refuses for sizes that depend on data.
    return bool(is_contiguous_for_memory_format_or_false(val, memory_format=memory_format))


def _without_quotients(expression: Any) -> Any:
    """Replace exact quotients, such as s**2 // s, by what they equal: as a quotient, it has no bound if s may be 0."""
    from sympy import cancel
    from torch.utils._sympy.functions import FloorDiv

    def exact(dividend: Any, divisor: Any) -> Any:
        quotient = cancel(dividend / divisor)
        is_exact = quotient.is_polynomial() and all(
            number.is_integer for number in quotient.as_coefficients_dict().values()
        )
        return quotient if is_exact else FloorDiv(dividend, divisor)

    return expression.replace(FloorDiv, exact) if expression.has(FloorDiv) else expression


class Bounds:
    """Bounds of symbolic sizes, from the ranges that `torch.export` was given.

    Attributes:
        ranges: The range of each symbol of the program.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self.ranges = program.range_constraints

    def upper(self, size: Any, node: Node) -> int:
        """Return the maximum of a size of `node`.

        Raises:
            CompileError: The size has no upper bound, or one above 2^40.
        """
        if isinstance(size, int):
            return size
        from torch.utils._sympy.numbers import int_oo
        from torch.utils._sympy.value_ranges import bound_sympy

        upper = bound_sympy(_without_quotients(size.node.expr), self._ranges(size)).upper
        if upper in (int_oo, float("inf")) or not getattr(upper, "is_finite", True) or int(upper) > 2**40:
            raise CompileError(
                f"{describe(node)} has size {size} without an upper bound; give torch.export.Dim a max, as in "
                f'dynamic_shapes={{"x": {{0: torch.export.Dim("batch", max=8)}}}}, or, where the size depends on data, '
                "state it in the model: torch._check(y.shape[0] <= 8)"
            )
        return int(upper)

    def lower(self, size: Any) -> int:
        """Return the minimum of a size; 0 if it is not known.

        A range that begins with 1 or 2 counts as if it began with 0: while it traces, `torch.export` assumes that sizes
        are at least 2, but the programs also run with smaller sizes.
        """
        if isinstance(size, int):
            return size
        from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

        ranges = {
            symbol: ValueRanges(0, bounds.upper) if bounds.lower <= 2 else bounds
            for symbol, bounds in self._ranges(size).items()
            if symbol in size.node.expr.free_symbols
        }
        lower = bound_sympy(size.node.expr, ranges).lower
        return int(lower) if lower > 0 else 0

    def _ranges(self, size: Any) -> dict[Any, Any]:
        # Only the shape environment knows the symbols that decompositions created.
        return {**size.node.shape_env.var_to_range, **self.ranges}
