"""Fuse the calls of a rotary position embedding, in one of two forms, into one call of edgecore's delegate.

The form with halves: `x * cos + cat([-second half of x, first half of x]) * sin`. The form with pairs: even elements
`a` and odd elements `b` of a row become `a * cos - b * sin` and `a * sin + b * cos`.
"""

from __future__ import annotations

from edgecore_vulkan.graph.calls import Argument, Call, CallGraph, TensorValue

_ADD, _SUB, _MUL, _NEG = "aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.neg.default"
_CAT, _VIEW, _SELECT = "aten.cat.default", "aten.view_copy.default", "aten.select_copy.int"
_SLICE, _SPLIT = "aten.slice_copy.Tensor", "aten.split_with_sizes_copy.default"
_MAX_RANK = 4


def fuse_rotary(graph: CallGraph) -> None:
    """Emit one call for each rotary embedding in `graph`; calls whose results are no longer read stay in the graph."""
    matcher = _Matcher(graph)
    graph.calls = [matcher.halves(call) or matcher.pairs(call) or call for call in graph.calls]


class _Matcher:
    def __init__(self, graph: CallGraph) -> None:
        self.producers = graph.producers()

    def _args(self, value: Argument, name: str) -> list[Argument] | None:
        """Return the arguments of the call that computes a tensor, if the call's name is `name`; None otherwise."""
        call = self.producers.get(value) if isinstance(value, TensorValue) else None
        return call.args if call is not None and call.name == name else None

    def _factors(self, value: Argument) -> list[list[Argument]]:
        """Return the two factors of a tensor that is a product, in both orders; [] for other tensors."""
        args = self._args(value, _MUL)
        return [] if args is None else [args, args[::-1]]

    def halves(self, call: Call) -> Call | None:
        """Return the fused call for a rotary embedding of halves whose last call is `call`; None if there is none."""
        if call.name != _ADD or call.args[2] != 1:
            return None
        for first, second in (call.args[:2], call.args[1::-1]):
            for x, cos in self._factors(first):
                for turned, sin in self._factors(second):
                    if self._is_turned(turned, x) and _fits(call.output, x, cos, sin, x.shape[-1]):
                        return Call("edgecore.rotate_halves.default", [x, cos, sin], call.outputs, call.nodes)
        return None

    def _is_turned(self, turned: Argument, x: Argument) -> bool:
        """Return True if `turned` is `cat([-second half of x, first half of x])` along the last dim."""
        args = self._args(turned, _CAT)
        if args is None or len(args[0]) != 2 or not isinstance(x, TensorValue) or args[1] != len(x.shape) - 1:
            return False
        negated = self._args(args[0][0], _NEG)
        return negated is not None and self._half(negated[0], x) == 1 and self._half(args[0][1], x) == 0

    def _half(self, value: Argument, x: TensorValue) -> int | None:
        """Return 0 if a tensor is the first half of the rows of `x`, 1 for the second half; None for other tensors."""
        call = self.producers.get(value) if isinstance(value, TensorValue) else None
        width, last = x.shape[-1], len(x.shape) - 1
        if call is None or call.args[0] is not x or width % 2:
            return None
        if call.name == _SPLIT and call.args[1:] == [[width // 2] * 2, last]:
            return call.outputs.index(value)
        if call.name == _SLICE and call.args[1] == last and call.args[4] == 1:
            start, end = call.args[2:4]
            return {(0, width // 2): 0, (width // 2, width): 1}.get((start, min(end, width)))
        return None

    def pairs(self, call: Call) -> Call | None:
        """Return the fused call for a rotary embedding of pairs whose last call is `call`; None if there is none."""
        parts = self._args(call.args[0], _CAT) if call.name == _VIEW else None
        if parts is None or len(parts[0]) != 2 or parts[1] != len(parts[0][0].shape) - 1:
            return None
        turned = [self._args(part, _VIEW) for part in parts[0]]
        if turned[0] is None or turned[1] is None:
            return None
        difference, total = self._args(turned[0][0], _SUB), self._args(turned[1][0], _ADD)
        if difference is None or total is None or difference[2] != 1 or total[2] != 1:
            return None
        for a, cos in self._factors(difference[0]):
            for b, sin in self._factors(difference[1]):
                x = self._neighbours(a, b)
                if (
                    x is not None
                    and self._is_sum(total, (a, sin), (b, cos))
                    and _fits(call.output, x, cos, sin, a.shape[-1])
                ):
                    return Call("edgecore.rotate_pairs.default", [x, cos, sin], call.outputs, call.nodes)
        return None

    def _neighbours(self, a: Argument, b: Argument) -> TensorValue | None:
        """Return the tensor whose rows have the even elements `a` and the odd elements `b`; None if there is none."""
        first, second = self._args(a, _SELECT), self._args(b, _SELECT)
        if first is None or second is None or first[0] is not second[0] or (first[2], second[2]) != (0, 1):
            return None
        view = self._args(first[0], _VIEW)
        rank = len(first[0].shape) - 1
        is_last = first[1] == second[1] == rank and first[0].shape[-1] == 2
        if view is None or not is_last or len(view[0].shape) != rank or view[0].shape[:-1] != first[0].shape[:-2]:
            return None
        x: TensorValue = view[0]
        return x

    def _is_sum(self, total: list[Argument], *products: tuple[Argument, Argument]) -> bool:
        factors = [{tuple(order) for order in self._factors(value)} for value in total[:2]]
        return any(product in factors[0] and other in factors[1] for product, other in (products, products[::-1]))


def _fits(output: TensorValue, x: Argument, cos: Argument, sin: Argument, length: int) -> bool:
    """Return True if cos and sin have rows of `length` elements, and broadcasting them does not enlarge `x`."""
    tables = [table for table in (cos, sin) if isinstance(table, TensorValue)]
    return (
        isinstance(x, TensorValue)
        and x.shape == output.shape
        and len(x.shape) <= _MAX_RANK
        and len(tables) == 2
        and all(table.dtype == x.dtype and 0 < len(table.shape) <= len(x.shape) for table in tables)
        and all(table.shape[-1] == length for table in tables)
    )
