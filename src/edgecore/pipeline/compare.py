"""`program.compare(model, inputs)`: what the file gives here beside what the model gives in eager mode."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from edgecore import runtime
from edgecore.errors import CompileError
from edgecore.ir.dtypes import dtype_name
from edgecore.quantize.quality import decibels, signal_to_noise
from edgecore.quantize.rounding import chooses_scales, output_steps, perturbed_eager, quantized_eager

RELATIVE = {torch.float64: 1e-3, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""Greatest error that is expected of the runtime where nothing is rounded to integers, relative to the largest magnitude
of the output. Deep networks lose about 1e-5 by another order of sums; of a wrong row or channel it is 0.1 and more."""

MARGIN = 3.0
"""The runtime may differ from quantized eager by as many times what noise in its roundings changes."""

SEEDS = 3


@dataclass(frozen=True)
class Difference:
    """Of a result from what it should be.

    `largest` is the maximum absolute difference, `relative` the same divided by the maximum magnitude of what it should
    be; `sqnr` in dB, infinite for equal values; `index` of the element with the largest difference, None without any.
    Where both are NaN or the same infinity the difference is 0; where one of them is, it is infinite.
    """

    largest: float
    relative: float
    sqnr: float
    index: tuple[int, ...] | None

    @classmethod
    def of(cls, got: torch.Tensor, want: torch.Tensor) -> Difference:
        """The difference of two tensors of equal shape."""
        if want.numel() == 0:
            return cls(0.0, 0.0, math.inf, None)
        one, two = _real(got), _real(want)
        same = (one == two) | (one.isnan() & two.isnan())
        error = (one - two).abs().masked_fill(same, 0.0)
        error = error.masked_fill(error.isnan(), math.inf)
        place = int(error.argmax())
        largest = float(error.flatten()[place])
        finite = two[two.isfinite()].abs()
        scale = float(finite.max()) if finite.numel() else 0.0
        relative = largest / scale if scale else (math.inf if largest else 0.0)
        index = tuple(int(part) for part in torch.unravel_index(torch.tensor(place), two.shape))
        sqnr = signal_to_noise(two, one)
        if math.isnan(sqnr):  # nothing but zeros is wanted
            sqnr = -math.inf if largest else math.inf
        return cls(largest, relative, sqnr, index)


def _real(value: torch.Tensor) -> torch.Tensor:
    """float64; a complex number is two of them, in a dim after the others."""
    value = value.detach()
    return (torch.view_as_real(value.resolve_conj()) if value.is_complex() else value).double()


@dataclass(frozen=True)
class OutputRow:
    """One output of a method, for the input (a number from 0) where the runtime's own error is largest beside its bound.

    `eager`: the difference of the file's result from the model's, which is the loss of the recipe, if there is one, and
    the runtime's own error. `quantized`: that from quantized eager, which is the runtime's own error alone; None without
    a recipe. `bound`: the largest absolute value that is expected of the runtime's own error. `step`: of the output's
    last rounding, None if it was not rounded with one known scale. `problem`: a result of another shape or dtype.
    """

    method: str
    output: str
    input: int
    shape: tuple[int, ...]
    dtype: str
    eager: Difference
    quantized: Difference | None
    bound: float
    step: float | None = None
    problem: str = ""

    @property
    def own(self) -> Difference:
        """The runtime's own error."""
        return self.quantized or self.eager

    @property
    def exceeded(self) -> bool:
        """True if the runtime differs by more than the bound."""
        return bool(self.problem) or not self.own.largest <= self.bound

    def __str__(self) -> str:
        head = f"{self.method}, output {self.output}, {self.dtype} {list(self.shape)}"
        if self.problem:
            return f"{head}: {self.problem}"
        against = "eager" if self.quantized is None else "float eager"
        lines = [f"{head}: {_text(self.eager)} against {against}"]
        if self.quantized is not None:
            steps = f" ({self.quantized.largest / self.step:.3g} steps)" if self.step else ""
            lines.append(f"{_text(self.quantized)}{steps} against quantized eager")
        if self.exceeded:
            lines.append(f"more than the {self.bound:.3g} that is expected of the runtime")
        where = f" (input {self.input})" if self.input else ""
        return "; ".join(lines) + where


@dataclass(frozen=True)
class Comparison:
    """All outputs of all methods, the worst first: those beyond their bound, then by `sqnr` against eager."""

    rows: Sequence[OutputRow]

    @property
    def ok(self) -> bool:
        """True if no output differs by more than its bound."""
        return not any(row.exceeded for row in self.rows)

    @property
    def verdict(self) -> str:
        """One sentence."""
        bad = [row for row in self.rows if row.exceeded]
        reference = "quantized eager" if any(row.quantized for row in self.rows) else "eager"
        if not bad:
            return f"the runtime agrees with {reference}, as far as expected, in {_count(self.rows)}"
        return (
            f"the runtime differs from {reference} by more than expected in {len(bad)} of {_count(self.rows)}; worst: "
            f"{bad[0].method}, output {bad[0].output}"
            + ("" if bad[0].own.index is None else f", at {list(bad[0].own.index)}")
        )

    def __str__(self) -> str:
        return "\n".join([f"comparison: {self.verdict}", *(f"  {row}" for row in self.rows)])


def compare(
    program: Any,
    model: Any,
    inputs: Any,
    references: Mapping[str, Reference],
    tolerance: float | None,
) -> Comparison:
    """See `CompiledProgram.compare`."""
    loaded = runtime.load(program, trust=True)
    models = dict(model) if isinstance(model, Mapping) else {"forward": model}
    if unknown := sorted(set(models) - set(references)):
        raise CompileError(f"there is no method {unknown[0]!r} to compare; the program has {', '.join(references)}")
    rows: list[OutputRow] = []
    for name, one in models.items():
        reference = references[name]
        given = inputs[name] if isinstance(model, Mapping) and isinstance(inputs, Mapping) else inputs
        calls = list(_calls(given, reference, name))
        rows += _compare_method(name, loaded[name], one, calls, reference, tolerance)
    return Comparison(sorted(rows, key=lambda row: (not row.exceeded, row.eager.sqnr)))


@dataclass(frozen=True)
class Reference:
    """The program that a method is compared with beside the user's model.

    `example`: positional and keyword inputs of the export. `rounded`: the program with its roundings, None where nothing
    is rounded. `computes_in`: the dtype of its floating-point values. `by_recipe`: a recipe made it of the user's model,
    which else rounds by itself.
    """

    example: tuple[tuple[Any, ...], Mapping[str, Any]] | None
    rounded: ExportedProgram | None = None
    computes_in: str = "float32"
    by_recipe: bool = False


Call = tuple[tuple[Any, ...], Mapping[str, Any]]


def _calls(inputs: Any, reference: Reference, method: str) -> Iterator[Call]:
    """One call for a tuple or a tensor, one for each entry of another iterable."""
    if inputs is None:
        if reference.example is None:
            raise CompileError(f"method {method!r}: the exported program has no example inputs; give inputs to compare")
        yield reference.example
    elif isinstance(inputs, (tuple, torch.Tensor)):
        yield _one_call(inputs)
    elif isinstance(inputs, Iterable) and (found := list(inputs)):
        yield from map(_one_call, found)
    else:
        raise CompileError("inputs to compare: a tuple with one entry per argument, a tensor, or a list of these")


def _one_call(inputs: Any) -> Call:
    return (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), {}


def _compare_method(
    name: str,
    method: Any,
    model: Any,
    calls: Sequence[Call],
    reference: Reference,
    tolerance: float | None,
) -> list[OutputRow]:
    wants = _run(model.module() if isinstance(model, ExportedProgram) else model, calls)
    got = [_results(method(*pytree.tree_leaves(call))) for call in calls]
    twins: list[list[list[Any]]] = []
    noisy: list[list[list[Any]]] = []
    steps: list[float | None] = []
    if reference.rounded is not None:
        flat = [tuple(pytree.tree_leaves(call)) for call in calls]
        rounded, dtype = reference.rounded, reference.computes_in
        ways_of_scales = (False, True) if chooses_scales(rounded) else (False,)
        twins = [_apply(quantized_eager(rounded, dtype, by_row=by_row), flat) for by_row in ways_of_scales]
        noisy = [_apply(perturbed_eager(rounded, dtype, seed), flat) for seed in range(SEEDS)]
        steps = output_steps(rounded)
    worst: dict[str, OutputRow] = {}
    for number, (values, want) in enumerate(zip(got, wants, strict=True)):
        if len(values) != len(want):
            raise CompileError(f"method {name!r} gives {len(values)} outputs, the model {len(want)}")
        for index, (label, expected) in enumerate(want):
            ways, moved = ([torch.as_tensor(one[number][index]) for one in of] for of in (twins, noisy))
            row = _row(torch.as_tensor(values[index]), torch.as_tensor(expected), ways, moved, tolerance)
            row = replace(row, method=name, output=label, input=number, step=steps[index] if steps else None)
            if not reference.by_recipe:
                row = replace(row, quantized=None)
            if label not in worst or _excess(row) > _excess(worst[label]):
                worst[label] = row
    return list(worst.values())


def _row(
    got: torch.Tensor,
    eager: torch.Tensor,
    twins: Sequence[torch.Tensor],
    moved: Sequence[torch.Tensor],
    tolerance: float | None,
) -> OutputRow:
    shape, dtype = tuple(got.shape), dtype_name(got.dtype)
    if got.shape != eager.shape or got.dtype != eager.dtype:
        wanted = f"{dtype_name(eager.dtype)} {list(eager.shape)}"
        lost = Difference(math.inf, math.inf, -math.inf, None)
        return OutputRow("", "", 0, shape, dtype, lost, None, 0.0, problem=f"the model gives {wanted}")
    right = twins[0] if twins else eager
    finite = _real(right).abs()
    finite = finite[finite.isfinite()]
    scale = float(finite.max()) if finite.numel() else 0.0
    bound = (RELATIVE.get(right.dtype, 1e-3 if right.is_complex() else 0.0) if tolerance is None else tolerance) * scale
    if tolerance is None:
        bound = max([bound, *(MARGIN * Difference.of(one, right).largest for one in moved)])
    own = min((Difference.of(got, twin) for twin in twins), key=lambda one: one.largest, default=None)
    return OutputRow("", "", 0, shape, dtype, Difference.of(got, eager), own, bound)


def _excess(row: OutputRow) -> float:
    """How much of its bound the runtime's error is."""
    if row.problem:
        return math.inf
    return row.own.largest / row.bound if row.bound else math.inf if row.own.largest else 0.0


def _run(model: Any, calls: Sequence[Call]) -> list[list[tuple[str, Any]]]:
    """Results of each call with their names: keys of a dict, numbers of a sequence."""
    with torch.no_grad(), _buffers_kept(model):
        return [
            [(_label(path), _copy(value)) for path, value in pytree.tree_leaves_with_path(model(*args, **kwargs))]
            for args, kwargs in calls
        ]


def _apply(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [[_copy(value) for value in pytree.tree_leaves(function(*call))] for call in calls]


def _results(made: Any) -> list[Any]:
    return list(made) if isinstance(made, list) else [made]


def _label(path: Sequence[Any]) -> str:
    return ".".join(str(getattr(key, "key", getattr(key, "idx", key))) for key in path) or "0"


def _copy(value: Any) -> Any:
    """A later call may write into what a model returned."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


@contextmanager
def _buffers_kept(model: Any) -> Iterator[None]:
    """Give the buffers of the user's module, such as a cache, back the values that they have now."""
    named = list(model.named_buffers()) if isinstance(model, torch.nn.Module) else []
    saved = [(buffer, buffer.detach().clone()) for _, buffer in named]
    try:
        yield
    finally:
        for buffer, value in saved:
            buffer.copy_(value)


def _text(difference: Difference) -> str:
    if difference.largest == 0:
        return "equal"
    place = "" if difference.index is None else f" at {list(difference.index)}"
    return (
        f"error {difference.largest:.3g}{place}, {difference.relative:.2g} of the largest, {decibels(difference.sqnr)}"
    )


def _count(rows: Sequence[OutputRow]) -> str:
    return "1 output" if len(rows) == 1 else f"{len(rows)} outputs"
