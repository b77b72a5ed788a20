"""Check each operator that the backend claims: compile and run sample calls, and compare with eager PyTorch.

A result that differs from eager PyTorch counts as right if it agrees with the result of edgecore's own CPU kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

import edgecore
from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.checks.networks import recipe_programs
from edgecore.conformance.programs import (
    as_supported,
    calibrating_recipe,
    check_reasons,
    compiled,
    delegated_calls,
    delegated_dtypes,
    difference,
    eager,
    integer_recipe,
    load,
    output_steps,
    outputs,
    quantized,
    undelegated_calls,
)
from edgecore.conformance.samples import sample_table  # noqa: F401  (fills calls.TABLE)
from edgecore.conformance.samples.calls import Sample, evaluate, mixed_samples_of, resolve, round_inputs, samples_of
from edgecore.conformance.workers.runner import Died
from edgecore.errors import EdgecoreError, FallbackWarning
from edgecore.ir.dialect.dtypes import dtype_name
from edgecore.ir.dialect.op_sets import DATA_MOVEMENT

OTHER_DTYPES = (torch.float64, torch.int32)
"""Dtypes that the suite tries even if the backend does not claim them, because each delegated call must be correct."""

HALF = (torch.float16, torch.bfloat16)

RUNTIMES = ("executorch-1.5", "edgecore")
"""Target runtimes to compile for, in this order: in files for the second one, a backend may support more calls."""

COMPANIONS = ("aten.add.Tensor", "aten.mul.Tensor", "aten.sub.Tensor", "aten.maximum.default")
"""Operators to call before one that only moves data, because backends delegate no partition that computes nothing."""


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """Yield one check for each operator of `operator_support()`."""
    for operator in sorted({row.operator for row in subject.operators}):
        yield Check(f"operators/{operator}", _Operator(operator), needs_run=True)


class _Operator:
    def __init__(self, operator: str) -> None:
        self.operator = operator

    def __call__(self, subject: BackendUnderTest) -> str:
        if self.operator.startswith("quantized_decomposed."):
            return self._in_networks(subject)
        target = resolve(self.operator)
        if target is None:
            raise Skipped("torch has no operator of this name in this process")
        rows = [row for row in subject.operators if row.operator == self.operator]
        claimed = list(dict.fromkeys(_dtype(name, self.operator) for row in rows for name in row.dtypes))
        by_dtype = {dtype: samples_of(self.operator, dtype, subject.quick) for dtype in claimed}
        if subject.tolerance is not None:  # round inputs here: else the backend rounds them, and x < y may differ
            round_inputs(by_dtype.get(torch.float32, ()))
        if subject.quick:  # one sample for each 16-bit dtype: most backends use float32's code for them
            by_dtype |= {dtype: by_dtype[dtype][:1] for dtype in claimed[1:] if dtype in HALF}
        samples = [sample for of_dtype in by_dtype.values() for sample in of_dtype]
        if not samples:
            raise Skipped("the suite has no samples for it")
        result = _Result()
        for runtime in RUNTIMES:
            result.add(_try(subject, self.operator, samples, runtime))
            if not result.delegated and any(_has_booleans(self.operator, sample) for sample in samples):
                result.add(_try(subject, self.operator, samples, runtime, inside=True))
            if {dtype_name(dtype) for dtype in claimed if by_dtype[dtype]} <= result.dtypes:
                break
        recipe = calibrating_recipe(subject)
        if result.seen and not result.delegated and recipe is not None and integer_recipe(subject) is None:
            result.add(_try(subject, self.operator, samples, RUNTIMES[-1], recipe=recipe))
        if not result.seen:
            raise Skipped("edgecore rewrites or removes this operator before partitioning")
        if not result.delegated:
            dtypes = ", ".join(map(dtype_name, claimed))
            reasons = "; ".join(dict.fromkeys(result.reasons)) or "no reason given"
            sample = f"{self.operator}{samples[0]}"
            raise Failed(f"it claims {dtypes} and supports none of {len(samples)} calls such as {sample}: {reasons}")
        if torch.bool in claimed and not subject.quick:
            result.dtypes |= _try(subject, self.operator, by_dtype[torch.bool], RUNTIMES[0], inside=True).dtypes
        for dtype in claimed:
            if by_dtype[dtype] and dtype_name(dtype) not in result.dtypes:
                self._must_support(subject, dtype, claimed[0])
        others = [dtype for dtype in OTHER_DTYPES if dtype not in claimed and not subject.quick]
        if more := [sample for dtype in others for sample in samples_of(self.operator, dtype, subject.quick)[:2]]:
            _try(subject, self.operator, more, RUNTIMES[0])
        return f"{result.delegated} of {len(samples)} calls delegated"

    def _must_support(self, subject: BackendUnderTest, dtype: torch.dtype, first: torch.dtype) -> None:
        """Raise `Failed` if no call of the operator with the claimed dtype `dtype` is delegated.

        Tries calls whose tensors all have this dtype, and calls with two tensors, one of dtype `first` and one of
        `dtype`, because a backend may support a dtype only together with another one.
        """
        samples, name = samples_of(self.operator, dtype, subject.quick), dtype_name(dtype)
        samples += mixed_samples_of(self.operator, first, dtype, subject.quick) if first != dtype else []
        inside = any(_has_booleans(self.operator, sample) for sample in samples)
        result = _Result()
        for runtime in RUNTIMES:
            if name not in result.dtypes:
                result.add(_try(subject, self.operator, samples, runtime, inside))
        if result.seen and name not in result.dtypes:
            reasons = "; ".join(dict.fromkeys(result.reasons)) or "no reason given"
            sample = f"{self.operator}{samples[0]}"
            raise Failed(f"it claims {name} and supports none of {len(samples)} calls such as {sample}: {reasons}")

    def _in_networks(self, subject: BackendUnderTest) -> str:
        """Check an operator of torch's library `quantized_decomposed`, for which the suite has no sample calls.

        The check passes if a network that one of the backend's recipes quantizes has a delegated call of the operator.
        """
        for recipe, program in recipe_programs(subject).items():
            if count := delegated_calls(subject, program).count(self.operator):
                return f"{count} calls delegated in networks of the recipe {recipe}"
        raise Skipped("no recipe of the backend makes programs with it")


class _Result:
    """Result of compiling sample calls of an operator: how many are delegated, and why the others are not."""

    def __init__(self) -> None:
        self.delegated = 0
        self.seen = 0
        """Number of calls of the operator in the compiled program, delegated or not."""
        self.dtypes: set[str] = set()
        """Dtypes of the inputs and outputs of delegated calls."""
        self.reasons: list[str] = []
        """The backend's reasons for the calls that it did not delegate."""

    def add(self, other: _Result) -> None:
        """Merge the result of another program with the same calls: take the larger counts, join dtypes and reasons."""
        self.delegated = max(self.delegated, other.delegated)
        self.seen = max(self.seen, other.seen)
        self.dtypes |= other.dtypes
        self.reasons += other.reasons


def _try(
    subject: BackendUnderTest,
    operator: str,
    samples: Sequence[Sample],
    runtime: str,
    inside: bool = False,
    recipe: str | None = None,
) -> _Result:
    """Compile and run all samples in one model. If this fails, run them one by one, to name the failing sample.

    Args:
        subject: The backend under test.
        operator: The operator, such as "aten.add.Tensor".
        samples: The calls of the operator to compile.
        runtime: The target runtime.
        inside: Let the model take and return floats in place of booleans: it computes boolean inputs by `x > 0` and
            converts boolean results by `torch.where`. A backend may support booleans only inside of a delegate.
        recipe: Quantize the model by this recipe, because a backend may support an operator only on integers.
    """
    if not subject.individually and len(samples) > 1:
        subject.trying(f"{operator}{samples[0]} and {len(samples) - 1} more calls")
        try:
            return _try_together(subject, operator, samples, runtime, inside, recipe)
        except (EdgecoreError, FallbackWarning, Died):
            pass
    total = _Result()
    for sample in samples:
        subject.trying(f"{operator}{sample}")
        try:
            result = _try_together(subject, operator, [sample], runtime, inside, recipe)
        except EdgecoreError as error:
            if not _runs_without_backend(operator, sample):
                continue  # skip the sample, as edgecore fails on it without the backend, too
            raise Failed(f"{operator}{sample}: {error}") from error
        except Died as problem:
            raise Failed(f"{operator}{sample}: {problem}") from problem
        total.delegated += result.delegated
        total.seen += result.seen
        total.dtypes |= result.dtypes
        total.reasons += result.reasons
    return total


def _try_together(
    subject: BackendUnderTest, operator: str, samples: Sequence[Sample], runtime: str, inside: bool, recipe: str | None
) -> _Result:
    in_float, inputs = _model(subject, operator, samples, inside)
    model = as_supported(subject, in_float, inputs) if recipe is None else quantized(subject, recipe, in_float, inputs)
    program = compiled(subject, model, inputs, runtime=runtime)
    description = f"{operator}{samples[0]}" + (" ..." if len(samples) > 1 else "")
    check_reasons(subject, program, description)
    result = _Result()
    result.delegated = delegated_calls(subject, program).count(operator)
    result.dtypes = delegated_dtypes(subject, program, operator)
    result.reasons = [reason for name, reason in undelegated_calls(subject, program) if name == operator]
    result.seen = result.delegated + len(result.reasons)
    want = eager(model, inputs)
    got = outputs(load(subject, program).forward(*inputs))
    steps = output_steps(model) or [None] * len(want)
    reference: list[torch.Tensor] | None = None
    if len(got) != len(want):
        raise Failed(f"{description}: {len(got)} results instead of {len(want)}")
    for index, (actual, expected, step) in enumerate(zip(got, want, steps, strict=True)):
        problem = difference(subject, actual, expected, step)
        if not problem:
            continue
        if reference is None:
            reference = _reference(model, inputs)
            eager(in_float, inputs)  # sets `in_float.owners`: output index -> sample index
        if difference(subject, actual, reference[index], step):
            raise Failed(f"{operator}{samples[in_float.owners[index]]}: {problem}")
    return result


def _reference(model: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Compute a model's results with edgecore's CPU kernels, without the backend."""
    return outputs(edgecore.load(edgecore.compile(model, tuple(inputs)).buffer).forward(*inputs))


def _runs_without_backend(operator: str, sample: Sample) -> bool:
    try:
        model = _Calls(operator, [sample], "", False).eval()
        _reference(model, sample.inputs)
    except EdgecoreError:
        return False
    return True


def _model(
    subject: BackendUnderTest, operator: str, samples: Sequence[Sample], inside: bool
) -> tuple[_Calls, tuple[torch.Tensor, ...]]:
    companion = ""
    if resolve(operator) in DATA_MOVEMENT or _is_movement(operator):
        claimed = {row.operator for row in subject.operators}
        companion = next((name for name in COMPANIONS if name in claimed and name != operator), "")
    model = _Calls(operator, samples, companion, inside).eval()
    inputs = [tensor for sample in samples for tensor in sample.inputs]
    if inside:
        inputs = [tensor.float() - 0.5 if tensor.dtype == torch.bool else tensor for tensor in inputs]
    return model, tuple(inputs)


def _has_booleans(operator: str, sample: Sample) -> bool:
    results = outputs(evaluate(operator, sample, sample.inputs))
    return any(tensor.dtype == torch.bool for tensor in [*sample.inputs, *results])


def _is_movement(operator: str) -> bool:
    return operator in {str(target) for target in DATA_MOVEMENT} | {"aten.cat.default", "aten.split_copy.Tensor"}


_ONE = torch.ones(1)


class _Calls(torch.nn.Module):
    """A model that calls an operator once for each sample. Its inputs are the tensors of all samples in order."""

    def __init__(self, operator: str, samples: Sequence[Sample], companion: str, inside: bool) -> None:
        super().__init__()
        self.operator = operator
        self.samples = list(samples)
        self.companion = resolve(companion) if companion else None
        self.inside = inside
        self.owners: list[int] = []
        """For each result, the index of the sample whose call returned it; set by `forward`."""
        self.parts = torch.nn.ModuleList(sample.module for sample in samples if sample.module is not None)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Call the operator for each sample, and return the results of all samples as one tuple."""
        results: list[torch.Tensor] = []
        owners: list[int] = []
        rest = iter(inputs)
        for index, sample in enumerate(self.samples):
            tensors = [next(rest) for _ in sample.inputs]
            if self.companion is not None:
                tensors = [self.companion(x, x) if x.is_floating_point() else x for x in tensors]
            if self.inside:
                is_bool = [tensor.dtype == torch.bool for tensor in sample.inputs]
                tensors = [x > 0 if as_bool else x for x, as_bool in zip(tensors, is_bool, strict=True)]
            computed = outputs(evaluate(self.operator, sample, tensors))
            if self.inside:
                computed = [torch.where(y, _ONE, -_ONE) if y.dtype == torch.bool else y for y in computed]
            results += computed
            owners += [index] * len(computed)
        self.owners = owners
        return tuple(results)


def _dtype(name: str, operator: str) -> torch.dtype:
    dtype = getattr(torch, name.removeprefix("torch."), None)
    if not isinstance(dtype, torch.dtype):
        raise Failed(f"operator_support() names {name!r} among the dtypes of {operator}; torch has no such dtype")
    return dtype
