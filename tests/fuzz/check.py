"""Compiles and runs graphs, and compares with eager: raises `Finding` for a bare exception or a wrong number.

The bound of a result comes from eager itself: each input and each result of a call is changed by as much as one rounding
of its dtype (or of the recipe) may, several times, and the result may be off by a few times what it moved. A result at
which eager jumps (a rounding, a comparison) may therefore jump here too, and nothing else may.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from fuzz.graph import Graph, Module, Ref, Step, exported, fill, joined, refs
from torch.fx import Interpreter
from torch.utils._pytree import tree_leaves

import edgecore
from edgecore.errors import EdgecoreError, FallbackWarning

ROUNDING = {torch.float64: 2.0**-50, torch.float32: 2.0**-21, torch.float16: 2.0**-9, torch.bfloat16: 2.0**-6}
"""Noise of one call by dtype, relative: a few units in the last place, which our kernels and eager's may differ by."""

EXACT = re.compile(
    r"view|reshape|permute|transpose|expand|slice|select|unbind|split|cat|stack|squeeze|index|gather|flip|roll|repeat|"
    r"clone|copy|to\.|floor|ceil|round|trunc|sign|\.[lg][te]\.|eq|ne\.|(?<!soft)m(ax|in)|argm|pad|where|masked|relu|shuffle|"
    r"abs|neg|diagonal|embedding|fill|like|full|tri[lu]|sort|topk|any|all|logical|bitwise|alias|detach|chunk|flatten|movedim|"
    r"remainder|fmod|frac|bucketize|searchsorted|one_hot|contiguous"
)
"""Calls without a rounding of their own: their inputs stay as they are if they are leaves, so that a tie stays one."""


class Finding(AssertionError):
    """A wrong number or a bare exception; the message ends with the guilty graph as code."""


@dataclass(frozen=True)
class Variant:
    """A way to compile a graph."""

    backends: tuple[str, ...] = ()
    runtime: str = "executorch-1.5"
    recipe: str | None = None
    trace: bool = False
    """With `torch.export` instead of the program put together by hand."""
    dynamic: bool = False
    """The first dim of inputs may vary, those of equal size together; implies `trace`."""


EXPECTED = (
    "no kernel in target runtime",
    "torch.export could not export",
    "has no kernel",
    "(dtype rule of",
    "is not an operator of the edge dialect and torch has no decomposition for it",
    "the model has no",
    "has size u",
    "which have no range to observe",
)
"""Parts of the sentences that say of a small graph that it cannot be compiled; sizes u0, u1, ... depend on data, and values
that are not finite cannot be quantized."""


def check(graphs: Sequence[Graph], results: Sequence[dict[str, Any]], variant: Variant) -> int:
    """Check all graphs at once, one by one if that is refused; the number of graphs that ran."""
    if len(graphs) > 1:
        whole = joined(graphs)
        together = {f"g{i}_{name}": made for i, one in enumerate(results) for name, made in one.items()}
        try:
            _check(whole, together, variant)
        except EdgecoreError:
            return sum(_one(graph, made, variant) for graph, made in zip(graphs, results, strict=True))
        except Finding:
            for graph, made in zip(graphs, results, strict=True):
                _one(graph, made, variant)
            raise
        return len(graphs)
    return _one(graphs[0], results[0], variant)


def _one(graph: Graph, results: dict[str, Any], variant: Variant) -> int:
    try:
        _check(graph, results, variant)
    except EdgecoreError as error:
        if any(part in str(error) for part in EXPECTED):
            return 0
        if not variant.trace and not variant.dynamic:  # the program put together by hand may be the fault
            return _one(graph, results, replace(variant, trace=True))
        raise Finding(f"{variant}: {type(error).__name__}: {error}\n{graph}") from error
    return 1


def _check(graph: Graph, results: dict[str, Any], variant: Variant) -> None:
    inputs = graph.inputs
    traced = variant.trace or variant.dynamic
    model: Any = Module(graph).eval() if traced else exported(graph, results)
    settings: dict[str, Any] = {"quantize": variant.recipe} if variant.recipe else {}
    if variant.recipe == "int8":
        settings["calibration"] = [inputs]
    size = _varying(inputs) if variant.dynamic else 0
    if size:
        dim = torch.export.Dim("size", max=2 * size + 2)
        settings["dynamic_shapes"] = ([{0: dim} if one.dim() and one.shape[0] == size else None for one in inputs],)
    with _said(graph, variant), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        program = edgecore.compile(
            model, inputs if traced else None, backends=list(variant.backends), runtime=variant.runtime, **settings
        )
        loaded = edgecore.load(program.buffer, threads=1)
        got = loaded.forward(*inputs)
    for one in said:
        if issubclass(one.category, FallbackWarning):
            raise Finding(f"{variant}: warning: {one.message}\n{graph}")
    undefined = _undefined(graph, results, variant)
    if variant.recipe:
        quantized = _Quantized(program.quantized["forward"].program, variant.recipe)
        return _compare(
            graph,
            variant,
            got,
            quantized.outputs(inputs, None),
            lambda seed: quantized.outputs(inputs, seed),
            undefined,
        )
    want = [_value(results, ref, graph) for ref in graph.outputs]
    tiles = "xnnpack" in variant.backends
    _compare(graph, variant, got, want, lambda seed: _noisy(graph, inputs, seed, tiles), undefined)
    for other in {size + 1, 2, 2 * size + 2} if size else ():
        given = tuple(_resized(one, other) if one.dim() and one.shape[0] == size else one for one in inputs)
        try:
            want = list(Module(graph)(*given))
        except (RuntimeError, IndexError):
            continue  # torch.export saw that this size does not occur, or should have
        with _said(graph, variant):
            got = loaded.forward(*given)
        _compare(graph, variant, got, want, lambda seed, given=given: _noisy(graph, given, seed, tiles))
    return None


@contextmanager
def _said(graph: Graph, variant: Variant) -> Iterator[None]:
    """Make a finding of any exception that is not an error of edgecore's."""
    try:
        yield
    except EdgecoreError:
        raise
    except Exception as error:
        raise Finding(f"{variant}: bare {type(error).__name__}: {error}\n{graph}") from error


def _varying(inputs: Sequence[torch.Tensor]) -> int:
    """The commonest size of a first dim above 1; 0 if there is none."""
    sizes = Counter(one.shape[0] for one in inputs if one.dim() and one.shape[0] > 1)
    return sizes.most_common(1)[0][0] if sizes else 0


def _resized(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """The tensor with as many rows as asked, its own in turn."""
    return tensor[torch.arange(size) % tensor.shape[0]]


def _compare(
    graph: Graph,
    variant: Variant,
    made: Any,
    want: list[torch.Tensor],
    again: Callable[[int], list[torch.Tensor]],
    undefined: Collection[str] = (),
) -> None:
    got = [
        torch.from_dlpack(one) for one in (made if isinstance(made, list) else [made])
    ]  # without inputs: no tensor of torch's
    if len(got) != len(want):
        raise Finding(f"{variant}: {len(got)} results instead of {len(want)}\n{graph}")
    noisy: list[list[torch.Tensor]] = []
    for index, (one, two) in enumerate(zip(got, want, strict=True)):
        problem = difference(one, two, noisy, again, index)
        if problem and "xnnpack" in variant.backends:  # whose selections make infinities of NaN, as its README says
            kept = torch.where(two.isnan(), one, two) if one.shape == two.shape else two
            problem = difference(one, kept, noisy, again, index)
        if problem and graph.outputs[index].name not in undefined:
            raise Finding(f"{variant}: result {graph.outputs[index]}: {problem}\n{graph}")


def _undefined(graph: Graph, results: dict[str, Any], variant: Variant) -> set[str]:
    """The names of steps whose results are not defined, and of those that use them.

    Booleans, indices and signs of NaN, if XNNPACK computes comparisons and maxima: its README says so. Interpolations of
    infinities: a neighbour with the weight 0 gives NaN where it is multiplied, and nothing where it is left out; eager
    does both within one tensor. The mean of infinities beside a variance: NaN or infinite, as the order of the sum has it.
    """
    found: set[str] = set()
    for step in graph.steps:
        target = str(step.target)
        counts = any(not one.is_floating_point() for one in tree_leaves(results[step.name]))
        compares = "xnnpack" in variant.backends and (counts or target in ("aten.sign.default", "aten.sgn.default"))
        interpolates = "upsample" in target or "grid_sample" in target or "var_mean" in target
        for ref in refs([*step.args, *step.kwargs.values()]):
            value = _value(results, ref, graph)
            is_undefined = (compares and value.isnan().any()) or (interpolates and value.isinf().any())
            if ref.name in found or is_undefined:
                found.add(step.name)
    return found


def _value(results: dict[str, Any], ref: Ref, graph: Graph) -> torch.Tensor:
    if ref.name not in results:
        return next(leaf.tensor for leaf in graph.leaves if leaf.name == ref.name)
    made = results[ref.name]
    found: torch.Tensor = made if ref.item is None else made[ref.item]
    return found


RUNS = (6, 40)


def difference(
    got: torch.Tensor,
    want: torch.Tensor,
    noisy: list[list[torch.Tensor]],
    again: Callable[[int], list[torch.Tensor]],
    index: int,
) -> str:
    """Say where `got` is off by more than eager may be; empty if nowhere. `noisy`: runs with noise, made when needed."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype} {list(got.shape)} instead of {want.dtype} {list(want.shape)}"
    if not _wrong(got, want, []).any():
        return ""
    for runs in RUNS:
        while len(noisy) < runs:
            noisy.append(again(len(noisy) + 1))
        wrong = _wrong(got, want, [run[index] for run in noisy])
        if not wrong.any():
            return ""
    place = tuple(int(one) for one in wrong.nonzero()[0])
    return f"{int(wrong.sum())} of {got.numel()} values differ, at {place} {got[place].item()} instead of {want[place].item()}"


def _wrong(got: torch.Tensor, want: torch.Tensor, runs: list[torch.Tensor]) -> torch.Tensor:
    if not got.dtype.is_floating_point:
        one, two = got, want
        if not runs:
            return one != two
        spread = torch.stack([run.double() - two.double() for run in runs]).abs().amax(0)
        return (one != two) & ((one.double() - two.double()).abs() > 2 * spread)
    one, two = got.double(), want.double()
    same = (one == two) | (one.isnan() & two.isnan())
    usual = two[two.isfinite()].abs()
    bound = ROUNDING[got.dtype] * (2 * two.abs() + (float(usual.max()) if usual.numel() else 0))
    unstable = torch.zeros_like(same)
    for run in runs:
        other = run.double()
        bound = bound.maximum(4 * (other - two).abs().nan_to_num(0, 0, 0))
        unstable |= other.isfinite() != two.isfinite()
    return ~same & ~unstable & ~((one - two).abs() <= bound + 1e-37)


def _jolt(
    value: torch.Tensor, random: torch.Generator, rounding: float | None = None, absolute: float = 0.0
) -> torch.Tensor:
    """The tensor with each element changed by up to a rounding, up or down."""
    if not value.is_floating_point() or not value.numel():
        return value
    noise = torch.rand(value.shape, generator=random, dtype=torch.float64) * 2 - 1
    size = ROUNDING[value.dtype] if rounding is None else rounding
    return (value.double() + noise * (size * value.double().abs() + absolute)).to(value.dtype)


def _absolute(name: str, given: Sequence[torch.Tensor], dtype: torch.dtype) -> float:
    """The noise of the results of a call that does not depend on their size: 1 + erf(x) in a gelu cancels."""
    sizes = [float(one.double().abs().nan_to_num(0, 0, 0).max()) for one in given if one.numel()]
    places = 16 if "sample" in name else 1  # places in an image are rounded, too
    return ROUNDING[dtype] / 4 * max(sizes, default=0.0) * places


_ORDER = {"cdist": 2, "_cdist_forward": 2, "pdist": 1}
"""Index of the argument p by the name of a distance."""


def _root(step: Step) -> float:
    """The p of a distance if it is below 1: a p-th root makes the rounding of its sum 1 / p times as large."""
    index = _ORDER.get(str(step.target).split(".")[1])
    order = float(step.args[index]) if index is not None and index < len(step.args) else 1.0
    return min(order, 1.0) or 1.0


def _has_filter_3x3(step: Step, values: dict[str, Any]) -> bool:
    """Return True for a convolution whose filter has 3x3 taps, which XNNPACK's backend may compute by Winograd's tiles."""
    is_convolution = str(step.target).startswith(("aten.conv2d", "aten.convolution"))
    return is_convolution and isinstance(step.args[1], Ref) and values[step.args[1].name].shape[-2:] == (3, 3)


def _noisy(graph: Graph, inputs: Sequence[torch.Tensor], seed: int, tiles: bool) -> list[torch.Tensor]:
    """The results of the graph with noise; with that of Winograd's algorithm if `tiles` is True."""
    random, rest = torch.Generator().manual_seed(seed), iter(inputs)
    leaves = {leaf.name: leaf.tensor if leaf.constant else next(rest) for leaf in graph.leaves}
    values: dict[str, Any] = dict(leaves)

    for step in graph.steps:
        exact = EXACT.search(str(step.target)) is not None

        # A norm divides by the spread of its input, which may be as small as a rounding: each of its inputs is noisy.
        norm = "_norm" in str(step.target)

        def get(ref: Ref, exact: bool = exact, norm: bool = norm) -> Any:
            value = values[ref.name] if ref.item is None else values[ref.name][ref.item]
            return _jolt(value, random) if norm or (ref.name in leaves and not exact) else value

        kwargs = {key: fill(value, get) for key, value in step.kwargs.items()}
        made = step.target(*fill(list(step.args), get), **kwargs)
        if not exact:
            given = [get(ref, True, False) for ref in refs([*step.args, *step.kwargs.values()])]
            several = isinstance(made, (tuple, list))
            for one in made if several else [made]:
                if one.is_floating_point() and one.numel() and not any(size == 0 for size in one.stride()):
                    rounding = ROUNDING[one.dtype] / _root(step)
                    absolute = _absolute(str(step.target), given, one.dtype)
                    if tiles and one.dtype == torch.float32 and _has_filter_3x3(step, values):
                        # Winograd's F(4x4) errs by up to 2e-6 of the largest sum of a tile, which is four times this.
                        absolute += ROUNDING[one.dtype] * float(one.double().abs().nan_to_num(0, 0, 0).max())
                    one.copy_(_jolt(one, random, rounding, absolute))  # in place: others may have views of it
        values[step.name] = made
    return [values[ref.name] if ref.item is None else values[ref.name][ref.item] for ref in graph.outputs]


class _Quantized(Interpreter):
    """A quantized program, run eagerly: quantized values may be a step off, others what the recipe computes with."""

    def __init__(self, program: Any, recipe: str) -> None:
        super().__init__(program.module())
        self.recipe = recipe
        self.random: torch.Generator | None = None

    def outputs(self, inputs: Sequence[torch.Tensor], seed: int | None) -> list[torch.Tensor]:
        """The results, with the noise of this seed."""
        self.random = None if seed is None else torch.Generator().manual_seed(seed)
        with torch.no_grad():
            made = self.run(*inputs)
        return list(made) if isinstance(made, (tuple, list)) else [made]

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self._noise(super().placeholder(target, args, kwargs), "")

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        return self._noise(super().call_function(target, args, kwargs), str(target), given)

    def _noise(self, made: Any, name: str, given: Sequence[torch.Tensor] = ()) -> Any:
        if self.random is None or not isinstance(made, torch.Tensor) or not made.numel():
            return made
        if "quantize_" in name and "dequantize" not in name:
            step = torch.randint(-1, 2, made.shape, generator=self.random)
            info = torch.iinfo(made.dtype)
            return (made.to(torch.int64) + step).clamp(info.min, info.max).to(made.dtype)
        if self.recipe == "fp16" and made.dtype == torch.float32:
            return _jolt(made, self.random, 2.0**-9, 2.0**-13)
        computes = made.is_floating_point() and "quantize" not in name and EXACT.search(name) is None
        return _jolt(made, self.random, absolute=_absolute(name, given, made.dtype) if computes else 0.0)
