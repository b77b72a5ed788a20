"""`program.compare(model, inputs)`: compare a program that runs on this machine with the model in eager mode."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram

from edgecore import runtime
from edgecore.errors import CompileError
from edgecore.ir.dialect.dtypes import dtype_name
from edgecore.ir.program.copying import module_to_run, unchanged_buffers
from edgecore.ir.program.lazy_constants import load_all
from edgecore.ir.program.outputs import has_gradients
from edgecore.ir.torch_compat import pytree
from edgecore.numerics.decibels import decibels
from edgecore.numerics.evaluate import copied
from edgecore.numerics.limits import NOISE_SEEDS, error_limit
from edgecore.numerics.metrics import Difference, measure
from edgecore.numerics.rounding import chooses_scales, output_steps, perturbed_eager, quantized_eager
from edgecore.runtime.nesting import leaves


@dataclass(frozen=True)
class OutputRow:
    """The errors of one output of a method, for the call with the largest ratio of the runtime's error to its bound.

    Attributes:
        method: The name of the method.
        output: The name of the output.
        input: The number of the call, from 0.
        shape: The shape of the program's output.
        dtype: The dtype of the program's output.
        eager: The difference of the program's output from the model's output. It includes the error of the runtime and,
            if `edgecore.compile` quantized the model, the quantization error. In that case, this difference is taken
            from the call with the lowest SQNR.
        quantized: The difference from the quantized program in eager mode, which is the error of the runtime alone;
            None if `edgecore.compile` did not quantize the model.
        bound: The largest accepted absolute error of the runtime.
        step: The scale, if a per-tensor dequantize node with a constant scale computes the output; otherwise None.
        problem: A sentence if the model returns another shape or dtype than the program; otherwise empty.
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
        """The difference that must not exceed `bound`: `quantized` if it is not None, otherwise `eager`."""
        return self.quantized or self.eager

    @property
    def exceeded(self) -> bool:
        """True if the runtime's error exceeds the bound, or is infinite or NaN, or if `problem` is not empty."""
        return bool(self.problem) or not math.isfinite(self.own.largest) or not self.own.largest <= self.bound

    @property
    def undecided(self) -> bool:
        """True if the error cannot be judged: rounding alone makes elements infinite or NaN in eager mode."""
        return not self.exceeded and not math.isfinite(self.bound)

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
        elif self.undecided:
            lines.append("decides nothing: rounding alone makes other elements infinite or NaN")
        where = f" (input {self.input})" if self.input else ""
        return "; ".join(lines) + where


@dataclass(frozen=True)
class Comparison:
    """All outputs of all methods: first those whose error exceeds the bound, then those without a bound, then the rest.

    Each group is sorted by `eager.sqnr`, the lowest first.
    """

    rows: Sequence[OutputRow]

    @property
    def ok(self) -> bool:
        """True if each output has a bound and an error within it."""
        return not any(row.exceeded or row.undecided for row in self.rows)

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        exceeded = [row for row in self.rows if row.exceeded]
        reference = "quantized eager" if any(row.quantized for row in self.rows) else "eager"
        undecided = [row for row in self.rows if row.undecided]
        if not exceeded and undecided:
            return (
                f"nothing is decided about {_count(undecided)} of {len(self.rows)}, whose elements rounding alone "
                f"makes infinite or NaN; first: {undecided[0].method}, output {undecided[0].output}"
            )
        if not exceeded:
            lossy = [row for row in self.rows if row.quantized]
            lowest = min(lossy, key=lambda row: row.eager.sqnr, default=None)
            loss = ""
            if lowest is not None and lowest.eager.largest:
                loss = (
                    f"; from the model itself {lowest.method}, output {lowest.output} has {decibels(lowest.eager.sqnr)}"
                )
            return f"the runtime agrees with {reference}, as far as expected, in {_count(self.rows)}{loss}"
        worst = exceeded[0]
        return (
            f"the runtime differs from {reference} by more than expected in {len(exceeded)} of {_count(self.rows)}; "
            f"worst: {worst.method}, output {worst.output}"
            + ("" if worst.own.index is None else f", at {list(worst.own.index)}")
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
    """Implement `CompiledProgram.compare`. `references` maps the name of each method to its reference program."""
    loaded = runtime.load(program, trust=True)
    models = dict(model) if isinstance(model, Mapping) else {"forward": model}
    if unknown := sorted(set(models) - set(references)):
        raise CompileError(f"there is no method {unknown[0]!r} to compare; the program has {', '.join(references)}")
    rows: list[OutputRow] = []
    for name, method_model in models.items():
        reference = references[name]
        for executed in (method_model, *([reference.rounded] if reference.rounded is not None else [])):
            load_all(executed)
        method_inputs = inputs[name] if isinstance(model, Mapping) and isinstance(inputs, Mapping) else inputs
        calls = list(_calls(method_inputs, reference, name))
        rows += _compare_method(name, loaded[name], method_model, calls, reference, tolerance)
    return Comparison(sorted(rows, key=lambda row: (not row.exceeded, not row.undecided, row.eager.sqnr)))


@dataclass(frozen=True)
class Reference:
    """The program with which a method is compared, in addition to the user's model.

    Attributes:
        example: The example inputs of the export: positional and keyword arguments.
        rounded: The exported program, if `edgecore.compile(quantize=...)` quantized it, if the user's model contains
            quantize nodes, or if a backend computes in another dtype than float32; otherwise None.
        computes_in: The dtype in which `rounded` computes floating-point values.
        steps: The error that all recipes allow, in quantization steps: the smallest `RecipeSupport.steps`.
        by_recipe: True if `edgecore.compile(quantize=...)` quantized the program.
        calls: The number of consecutive calls with the example inputs; several for a program with state.
    """

    example: tuple[tuple[Any, ...], Mapping[str, Any]] | None
    rounded: ExportedProgram | None = None
    computes_in: str = "float32"
    steps: int = 0
    by_recipe: bool = False
    calls: int = 1


Call = tuple[tuple[Any, ...], Mapping[str, Any]]


def _calls(inputs: Any, reference: Reference, method: str) -> Iterator[Call]:
    """Yield (args, kwargs) of each call: one for a tuple or tensor, one per list entry, the example inputs for None."""
    if inputs is None:
        if reference.example is None:
            raise CompileError(
                f"method {method!r}: the exported program has no example inputs; pass inputs to compare(model, inputs)"
            )
        yield from [reference.example] * reference.calls
    elif isinstance(inputs, (tuple, torch.Tensor)):
        yield _call(inputs)
    elif isinstance(inputs, Iterable) and (entries := list(inputs)):
        yield from map(_call, entries)
    else:
        raise CompileError(
            "the inputs to compare must be a tuple with one entry per argument, a tensor, or a list of these"
        )


def _call(inputs: Any) -> Call:
    return (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), {}


def _compare_method(
    name: str,
    method: Any,
    model: Any,
    calls: Sequence[Call],
    reference: Reference,
    tolerance: float | None,
) -> list[OutputRow]:
    """Run all calls of a method. For each output, return the row of the call with the largest error / bound."""
    model_results = _run(model, calls)
    if isinstance(model, ExportedProgram) and has_gradients(model):
        names = [output.name for output in method.outputs]
        model_results = [[(name, value) for name, (_, value) in zip(names, call)] for call in model_results]
    program_results = [leaves(method(*pytree.tree_leaves(call))) for call in calls]
    # results of the quantized program, indexed [choice of dynamic scales][call][output]
    quantized: list[list[list[Any]]] = []
    noisy: list[list[list[Any]]] = []  # results of the quantized program with noise, indexed [seed][call][output]
    steps: list[float | None] = []
    if reference.rounded is not None:
        flat = [tuple(pytree.tree_leaves(call)) for call in calls]
        rounded, dtype = reference.rounded, reference.computes_in
        # A backend may choose a dynamic scale for a tensor or for each row. Run the eager program both ways, and use
        # the result that is closer to the backend's output.
        by_row_choices = (False, True) if chooses_scales(rounded) else (False,)
        quantized = [_apply(rounded, quantized_eager(rounded, dtype, by_row=by_row), flat) for by_row in by_row_choices]
        noisy = [
            _apply(rounded, perturbed_eager(rounded, dtype, seed, reference.steps), flat) for seed in range(NOISE_SEEDS)
        ]
        steps = output_steps(rounded)
    worst: dict[str, OutputRow] = {}
    # Output -> its difference from the model in the call with the lowest SQNR, if a recipe quantized the program.
    lowest: dict[str, Difference] = {}
    for number, (values, expected_values) in enumerate(zip(program_results, model_results, strict=True)):
        if len(values) != len(expected_values):
            raise CompileError(
                f"method {name!r} returns {len(values)} outputs, but the model returns {len(expected_values)}; compare "
                "with the model that was compiled; a model that writes its inputs cannot be compared"
            )
        for index, (label, expected) in enumerate(expected_values):
            of_quantized, of_noisy = (
                [torch.as_tensor(run[number][index]) for run in runs] for runs in (quantized, noisy)
            )
            row = _row(torch.as_tensor(values[index]), torch.as_tensor(expected), of_quantized, of_noisy, tolerance)
            row = replace(row, method=name, output=label, input=number, step=steps[index] if steps else None)
            if not reference.by_recipe:
                row = replace(row, quantized=None)
            if row.quantized is not None and (label not in lowest or row.eager.sqnr < lowest[label].sqnr):
                lowest[label] = row.eager
            if label not in worst or _excess(row) > _excess(worst[label]):
                worst[label] = row
    return [replace(row, eager=lowest.get(label, row.eager)) for label, row in worst.items()]


def _row(
    got: torch.Tensor,
    eager: torch.Tensor,
    quantized: Sequence[torch.Tensor],
    noisy: Sequence[torch.Tensor],
    tolerance: float | None,
) -> OutputRow:
    """Compare an output of the program (`got`) with the same output of the model (`eager`).

    `quantized` and `noisy` are this output of the quantized program in eager mode, without and with noise before each
    quantization.
    """
    shape, dtype = tuple(got.shape), dtype_name(got.dtype)
    if got.shape != eager.shape or got.dtype != eager.dtype:
        expected = f"{dtype_name(eager.dtype)} {list(eager.shape)}"
        unequal = Difference(-math.inf, math.inf, math.inf, differing=1.0)
        return OutputRow("", "", 0, shape, dtype, unequal, None, 0.0, problem=f"the model returns {expected}")
    reference = quantized[0] if quantized else eager
    bound = error_limit(reference, got, noisy if tolerance is None else (), tolerance=tolerance)
    differences = (measure(expected, got) for expected in quantized)
    own = min(differences, key=lambda difference: difference.largest, default=None)
    return OutputRow("", "", 0, shape, dtype, measure(eager, got), own, bound)


def _excess(row: OutputRow) -> float:
    """Return the runtime's error divided by its bound; 1 without a bound."""
    if row.problem or not math.isfinite(row.own.largest):
        return math.inf
    if row.undecided:
        return 1.0
    return row.own.largest / row.bound if row.bound else math.inf if row.own.largest else 0.0


def _run(model: Any, calls: Sequence[Call]) -> list[list[tuple[str, Any]]]:
    """Return (name, value) of all results of each call; the name of a result is its key in a dict, or its position."""
    module = module_to_run(model) if isinstance(model, ExportedProgram) else model
    with torch.no_grad(), unchanged_buffers(model):
        return [
            [(_label(path), copied(value)) for path, value in pytree.tree_leaves_with_path(module(*args, **kwargs))]
            for args, kwargs in calls
        ]


def _apply(program: ExportedProgram, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """Return the results of consecutive calls of a function that runs `program`, then restore the program's buffers."""
    with unchanged_buffers(program):
        return [[copied(value) for value in pytree.tree_leaves(function(*call))] for call in calls]


def _label(path: Sequence[Any]) -> str:
    return ".".join(str(getattr(key, "key", getattr(key, "idx", key))) for key in path) or "0"


def _text(difference: Difference) -> str:
    if difference.largest == 0:
        return decibels(difference.sqnr)
    index = "" if difference.index is None else f" at {list(difference.index)}"
    return (
        f"error {difference.largest:.3g}{index}, {difference.relative:.2g} of the largest, {decibels(difference.sqnr)}"
    )


def _count(rows: Sequence[OutputRow]) -> str:
    return "1 output" if len(rows) == 1 else f"{len(rows)} outputs"
