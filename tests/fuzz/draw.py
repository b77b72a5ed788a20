"""Draws small graphs with hypothesis: each call is tried eagerly while drawing, and left out if torch refuses it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from fuzz.graph import Graph, Leaf, Ref, Step, fill, refs
from hypothesis import strategies as st
from torch._ops import OpOverload

FLOATS = (torch.float32, torch.float16, torch.float64, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.uint8, torch.int8, torch.int16)
DTYPES = (torch.float32,) * 12 + FLOATS + (torch.float16,) + INTEGERS + (torch.int64, torch.bool)
SIZES = (2, 3, 1, 5, 4, 0, 7, 8, 16, 9, 17)
SMALLEST_PARTS = (2, 3, 1, 5, 4)
MOST_ELEMENTS = 6000
MAX_CONVERTED = 2.0**31

_shared = {
    "index": st.integers(0, 2**16),
    "seed": st.integers(0, 7),
}


class Rejected(Exception):
    """A call that is not made: torch refuses it, or its result is too large or not defined."""


class Drawer:
    """A graph that grows, and choices by hypothesis, which shrinks them towards the first of each list."""

    def __init__(self, draw: Callable[[Any], Any], dtypes: Sequence[torch.dtype] = DTYPES) -> None:
        self._draw = draw
        self.dtypes = tuple(dtypes)
        self.leaves: list[Leaf] = []
        self.steps: list[Step] = []
        self.values: dict[Ref, torch.Tensor] = {}
        self.results: dict[str, Any] = {}

    # Choices.

    def pick(self, options: Sequence[Any]) -> Any:
        """One of `options`."""
        if len(options) == 1:
            return options[0]
        return options[self._draw(st.integers(0, len(options) - 1))]

    def int(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both possible."""
        return int(self._draw(st.integers(low, high)))

    def flag(self, one_in: int = 2) -> bool:
        """True once in `one_in` times."""
        return bool(self._draw(st.integers(0, one_in - 1)) == one_in - 1)

    def shape(self, ranks: Sequence[int] = (2, 3, 1, 4, 0, 5)) -> tuple[int, ...]:
        rank = self.pick(ranks)
        sizes = SIZES if rank <= 2 else SIZES[:8]
        return tuple(self.pick(sizes) for _ in range(rank))

    def dim(self, rank: int) -> int:
        """A dim, counted from the front or from the back."""
        return self.int(-rank, rank - 1) if rank else self.pick((0, -1))

    def dims(self, rank: int) -> list[int]:
        """Different dims, perhaps none."""
        dims = [dim for dim in range(rank) if self.flag()]
        return [dim - rank if self.flag(3) else dim for dim in dims]

    def pair(self, *options: int, count: int = 2) -> list[int]:
        """A list as torch takes it for images: one number for all dims, or one for each."""
        if self.flag(3):
            return [self.pick(options)]
        return [self.pick(options) for _ in range(count)]

    # Tensors.

    def leaf(
        self, shape: Sequence[int], dtype: torch.dtype, low: float = -2, high: float = 2, constant: bool | None = None
    ) -> Ref:
        """A new input, or a constant."""
        seed = self._draw(_shared["seed"])
        code = f"torch.rand({tuple(shape)}, generator=torch.Generator().manual_seed({seed}))"
        made = torch.rand(tuple(shape), generator=torch.Generator().manual_seed(seed))
        if dtype == torch.bool:
            made, code = made > 0.5, f"({code} > 0.5)"
        else:
            if not dtype.is_floating_point:
                low, high = (low * 5, high * 5 + 1) if (low, high) == (-2, 2) else (low, high)
                low = max(low, 0) if dtype == torch.uint8 else low
            made, code = (made * (high - low) + low).to(dtype), f"({code} * {high - low} + {low})"
            if dtype != torch.float32:
                code += f".to({dtype})"
        constant = self.flag(3) if constant is None else constant
        if len(shape) == 4 and not constant and self.flag(4):
            made, code = made.to(memory_format=torch.channels_last), code + ".to(memory_format=torch.channels_last)"
        name = ("w" if constant else "x") + str(len(self.leaves))
        if not any(not leaf.constant for leaf in self.leaves):
            constant, name = False, f"x{len(self.leaves)}"
        self.leaves.append(Leaf(name, made, constant, code))
        self.values[Ref(name)] = made
        return Ref(name)

    def tensor(self, fits: Callable[[torch.Tensor], bool] = lambda one: True, **new: Any) -> Ref:
        """A value that `fits`, later ones more often; a new leaf (`new`: `shape`, `dtype`, ...) if there is none."""
        found = [ref for ref, value in reversed(self.values.items()) if fits(value)][:4]
        if found and not self.flag(4):
            return self.pick(found)
        shape = new.pop("shape", None)
        dtype = new.pop("dtype", None) or self.pick(self.dtypes)
        return self.leaf(self.shape() if shape is None else shape, dtype, **new)

    def floating(self, rank: int | None = None, **new: Any) -> Ref:
        """A tensor of floats."""
        shape = self.shape() if rank is None else self.shape((rank,))
        fits = lambda one: one.is_floating_point() and (rank is None or one.dim() == rank)
        floats = [dtype for dtype in self.dtypes if dtype.is_floating_point]
        return self.tensor(fits, shape=shape, dtype=self.pick(floats), **new)

    def beside(self, ref: Ref) -> Ref:
        """A tensor whose shape goes together with that of `ref`."""
        shape = self.values[ref].shape

        def fits(one: torch.Tensor) -> bool:
            try:
                return torch.broadcast_shapes(one.shape, shape).numel() <= MOST_ELEMENTS
            except RuntimeError:
                return False

        part = list(shape[self.int(0, len(shape)) :]) if self.flag() else list(shape)
        part = [1 if self.flag(4) else size for size in part]
        dtype = self.values[ref].dtype if not self.flag(4) else self.pick(self.dtypes)
        return self.tensor(fits, shape=part, dtype=dtype)

    def number(self) -> Any:
        return self.pick((2, 1, 0.5, -1, 0, 3, -1.5, 0.0, 100))

    # Calls.

    def value(self, ref: Ref) -> torch.Tensor:
        return self.values[ref]

    def call(self, target: OpOverload, *args: Any, **kwargs: Any) -> None:
        """Add the call, or raise `Rejected`."""
        for ref in refs([*args, *kwargs.values()]):
            value = self.values[ref]
            converts = target in TO_INTEGER or kwargs.get("dtype") in INTEGERS
            if converts and value.is_floating_point() and not bool((value.abs() < MAX_CONVERTED).all()):
                raise Rejected("integers of numbers without bounds differ from processor to processor")
            if str(target).split(".")[1] in SORTING and value.unique().numel() < value.numel():
                raise Rejected("the order of equal values is not defined")
        if target is torch.ops.aten.topk.default and not all([*args[4:], kwargs.get("sorted", True)]):
            raise Rejected("the order of the largest values is not defined")
        get = self.values.__getitem__
        if target is torch.ops.aten.scaled_dot_product_attention.default:
            keys, values = (get(ref) for ref in args[1:3])
            if keys.shape[-2:-1] != values.shape[-2:-1]:
                raise Rejected("eager reads past the end of the values")
        try:
            made = target(*fill(list(args), get), **{key: fill(value, get) for key, value in kwargs.items()})
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
            raise Rejected(str(error)) from error
        several = isinstance(made, (tuple, list))
        parts = list(made) if several else [made]
        if not parts or not all(isinstance(one, torch.Tensor) for one in parts):
            raise Rejected("its result is not a tensor")
        if target is torch.ops.aten.gelu.default and bool(made.isnan().any()) and not bool(get(args[0]).isnan().any()):
            raise Rejected("eager's gelu of infinity is NaN")
        if target is torch.ops.aten.pixel_unshuffle.default and not made.numel():
            raise Rejected("eager returns the shape of the input, torch.export the right one")
        if not any(one.numel() for one in parts) and not _is_valid_with_elements(target, args, kwargs, get):
            raise Rejected("eager does not check the arguments of a call without results")
        if target in REPEATS and kwargs.get("output_size") not in (None, int(get(args[REPEATS[target]]).sum())):
            raise Rejected("eager leaves elements uninitialized")
        if any(min(one.shape, default=0) < 0 for one in parts):
            raise Rejected("eager's result has a negative size")
        if any(one.numel() > MOST_ELEMENTS or one.dtype.is_complex for one in parts):
            raise Rejected("too large")
        name = f"v{len(self.steps)}"
        self.steps.append(Step(name, target, args, kwargs))
        self.results[name] = made
        for item, one in enumerate(parts[:4]):
            self.values[Ref(name, item) if several else Ref(name)] = one

    def mutable(self) -> Ref | None:
        """A result that shares no memory with a leaf."""
        inputs = {leaf.tensor.untyped_storage().data_ptr() for leaf in self.leaves}
        found = [
            ref
            for ref, value in reversed(self.values.items())
            if value.untyped_storage().data_ptr() not in inputs and ref.name.startswith("v") and value.numel()
        ]
        return self.pick(found[:3]) if found else None

    def graph(self) -> Graph:
        """The graph: it returns what nothing reads, and perhaps more."""
        read = {ref for step in self.steps for ref in refs([*step.args, *step.kwargs.values()])}
        results = [ref for ref in self.values if ref.name.startswith("v")]
        outputs = [ref for ref in results if ref not in read and (ref.item or 0) == 0]
        more = [ref for ref in results if ref not in outputs]
        if more and self.flag(3):
            outputs.append(self.pick(more))
        used = {ref.name for step in self.steps for ref in refs([*step.args, *step.kwargs.values()])}
        leaves = [leaf for leaf in self.leaves if leaf.name in used]
        return Graph(leaves, self.steps, outputs or results[-1:])


def _is_valid_with_elements(target: OpOverload, args: Any, kwargs: Any, get: Callable[[Ref], torch.Tensor]) -> bool:
    """False for a call that eager takes only because its result has no elements."""
    name = str(target).split(".")[1]
    dtypes = [get(ref).dtype for ref in refs([*args, *kwargs.values()])]
    if name in ("index", "index_put"):
        return False  # perhaps: its indices may be out of range
    if name in ("addcmul", "addcdiv"):
        return any(dtype.is_floating_point for dtype in dtypes) or isinstance(kwargs.get("value", 1), int)
    if name in ("cdist", "_cdist_forward"):
        return len(set(dtypes)) == 1
    return name != "scaled_dot_product_attention" or dtypes[0].is_floating_point


_aten = torch.ops.aten
TO_INTEGER: set[OpOverload] = {_aten._to_copy.default, _aten.to.dtype, _aten.copy.default}


REPEATS: dict[OpOverload, int] = {_aten.repeat_interleave.Tensor: 0, _aten.repeat_interleave.self_Tensor: 1}
"""Operators with the number of repeats of each element as a tensor, and the index of this argument."""

SORTING = {"topk", "sort", "argsort", "median"}


def product(shape: Sequence[int]) -> int:
    return math.prod(shape)


class Drawn:
    """A graph, and the eager result of each of its steps by name."""

    def __init__(self, graph: Graph, results: dict[str, Any]) -> None:
        self.graph, self.results = graph, results

    def __repr__(self) -> str:
        return f"a graph of {len(self.graph.steps)} calls"


@st.composite
def graphs(draw: Callable[[Any], Any], kind: str = "any") -> Drawn:
    """A graph of 1 to 6 calls. `kind`: `any`, or `layers` for quantization recipes."""
    from fuzz.calls import choose, layer

    drawer = Drawer(draw, (torch.float32,) if kind == "layers" else DTYPES)
    wanted = drawer.int(1, 6)
    if kind == "layers":
        attempt(drawer, layer)
    for _ in range(wanted):
        attempt(drawer, choose)
    while not drawer.steps:
        drawer.call(_aten.neg.default, drawer.leaf((2, 3), torch.float32, constant=False))
    return Drawn(drawer.graph(), drawer.results)


def attempt(drawer: Drawer, make: Callable[[Drawer], None]) -> None:
    """Let `make` add a call; what it added before it failed stays unused."""
    for _ in range(3):
        try:
            make(drawer)
        except Rejected:
            continue
        return
