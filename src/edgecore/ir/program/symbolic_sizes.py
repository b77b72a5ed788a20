"""Bounds of the symbolic sizes of an edge graph."""

from __future__ import annotations

from typing import Any

from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.ir.graph import describe


def _without_quotients(expression: Any) -> Any:
    """Simplify exact quotients, such as s**2 // s to s: a quotient whose divisor may be 0 has no known bound."""
    from sympy import cancel

    from edgecore.ir.torch_compat import FloorDiv

    def exact(dividend: Any, divisor: Any) -> Any:
        quotient = cancel(dividend / divisor)
        is_exact = quotient.is_polynomial() and all(
            number.is_integer for number in quotient.as_coefficients_dict().values()
        )
        return quotient if is_exact else FloorDiv(dividend, divisor)

    return expression.replace(FloorDiv, exact) if expression.has(FloorDiv) else expression


class Bounds:
    """Bounds of symbolic sizes, from the ranges that the user passed to `torch.export`.

    Attributes:
        ranges: The range of each symbol of the program.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self.ranges = program.range_constraints

    def upper(self, size: Any, node: Node) -> int:
        """Return the maximum of a size of `node`.

        Raises:
            CompileError: The size has no upper bound, or its upper bound exceeds 2^40.
        """
        if isinstance(size, int):
            return size
        from edgecore.ir.torch_compat import bound_sympy, int_oo

        upper = bound_sympy(_without_quotients(size.node.expr), self._ranges(size)).upper
        if upper in (int_oo, float("inf")) or not getattr(upper, "is_finite", True) or int(upper) > 2**40:
            raise CompileError(
                f"{describe(node)} has size {size} without an upper bound; give torch.export.Dim a max, as in "
                f'dynamic_shapes={{"x": {{0: torch.export.Dim("batch", max=8)}}}}, or, where the size depends on data, '
                "state it in the model: torch._check(y.shape[0] <= 8)"
            )
        return int(upper)

    def lower(self, size: Any) -> int:
        """Return the minimum of a size; 0 if it is unknown.

        A range that begins at 1 or 2 counts as beginning at 0: `torch.export` assumes sizes of at least 2 while it
        traces, but the programs also run with smaller sizes.
        """
        if isinstance(size, int):
            return size
        from edgecore.ir.torch_compat import ValueRanges, bound_sympy

        ranges = {
            symbol: ValueRanges(0, bounds.upper) if bounds.lower <= 2 else bounds
            for symbol, bounds in self._ranges(size).items()
            if symbol in size.node.expr.free_symbols
        }
        lower = bound_sympy(size.node.expr, ranges).lower
        return int(lower) if lower > 0 else 0

    def _ranges(self, size: Any) -> dict[Any, Any]:
        # Add the ranges of the shape environment: only it knows the symbols that decompositions created.
        return {**size.node.shape_env.var_to_range, **self.ranges}
