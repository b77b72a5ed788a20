"""Each operator that the backend claims: calls of it alone, compiled with the backend, against eager and our kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

import edgecore
from edgecore.conformance import sample_table  # noqa: F401  (fills samples.TABLE)
from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.networks import recipe_programs
from edgecore.conformance.programs import (
    check_reasons,
    compiled,
    difference,
    eager,
    load,
    outputs,
    refusals,
    took,
    took_dtypes,
)
from edgecore.conformance.samples import Sample, evaluate, mixed_samples_of, resolve, samples_of
from edgecore.errors import EdgecoreError, FallbackWarning
from edgecore.ir.dtypes import dtype_name
from edgecore.ir.op_sets import DATA_MOVEMENT

OTHER_DTYPES = (torch.float64, torch.int32)
"""Tried also where they are not claimed: the backend must refuse them, or be right."""

HALF = (torch.float16, torch.bfloat16)

COMPANIONS = ("aten.add.Tensor", "aten.mul.Tensor", "aten.sub.Tensor", "aten.maximum.default")
"""Before an operator that only moves data goes one of these: partitions of nothing else are not worth a delegate."""


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """One check for each row of `operator_support()`."""
    for operator in sorted({row.operator for row in subject.compiler.operator_support()}):
        yield Check(f"operators/{operator}", _Operator(operator), needs_run=True)


class _Operator:
    def __init__(self, operator: str) -> None:
        self.operator = operator

    def __call__(self, subject: BackendUnderTest) -> str:
        if self.operator.startswith("quantized_decomposed."):
            return self._in_networks(subject)
        target = resolve(self.operator)
        if target is None:
            return self._custom()
        rows = [row for row in subject.compiler.operator_support() if row.operator == self.operator]
        claimed = list(dict.fromkeys(_dtype(name, self.operator) for row in rows for name in row.dtypes))
        by_dtype = {dtype: samples_of(self.operator, dtype, subject.quick) for dtype in claimed}
        if subject.quick:  # half precision takes the same way through most backends
            by_dtype |= {dtype: by_dtype[dtype][:1] for dtype in claimed[1:] if dtype in HALF}
        samples = [one for some in by_dtype.values() for one in some]
        if not samples:
            raise Skipped("the suite has no samples for it")
        result = _try(subject, self.operator, samples)
        if not result.taken and any(_has_truth_values(self.operator, sample) for sample in samples):
            result = _try(subject, self.operator, samples, inside=True)
        if not result.seen:
            raise Skipped("edgecore rewrites or removes this operator before a backend is asked")
        if not result.taken:
            dtypes = ", ".join(map(dtype_name, claimed))
            reasons = "; ".join(dict.fromkeys(result.reasons)) or "no reason given"
            sample = f"{self.operator}{samples[0]}"
            raise Failed(f"it claims {dtypes} and takes none of {len(samples)} calls such as {sample}: {reasons}")
        if torch.bool in claimed and not subject.quick:
            result.dtypes |= _try(subject, self.operator, by_dtype[torch.bool], inside=True).dtypes
        for dtype in claimed:
            if by_dtype[dtype] and dtype_name(dtype) not in result.dtypes:
                self._must_take(subject, dtype, claimed[0])
        others = [dtype for dtype in OTHER_DTYPES if dtype not in claimed and not subject.quick]
        if more := [one for dtype in others for one in samples_of(self.operator, dtype, subject.quick)[:2]]:
            _try(subject, self.operator, more)
        return f"{result.taken} of {len(samples)} calls taken"

    def _must_take(self, subject: BackendUnderTest, dtype: torch.dtype, first: torch.dtype) -> None:
        """A dtype of which none of the calls was taken: alone, and together with the `first` one that is claimed."""
        samples, name = samples_of(self.operator, dtype, subject.quick), dtype_name(dtype)
        samples += mixed_samples_of(self.operator, first, dtype, subject.quick) if first != dtype else []
        inside = any(_has_truth_values(self.operator, sample) for sample in samples)
        result = _try(subject, self.operator, samples, inside)
        if result.seen and name not in result.dtypes:
            reasons = "; ".join(dict.fromkeys(result.reasons)) or "no reason given"
            sample = f"{self.operator}{samples[0]}"
            raise Failed(f"it claims {name} and takes none of {len(samples)} calls such as {sample}: {reasons}")

    def _in_networks(self, subject: BackendUnderTest) -> str:
        """Operators of quantized programs: the networks of the backend's own recipes must need them."""
        for recipe, program in recipe_programs(subject).items():
            if count := took(subject, program).count(self.operator):
                return f"{count} calls taken in networks of the recipe {recipe}"
        raise Skipped("no recipe of the backend makes programs with it")

    def _custom(self) -> str:
        raise Skipped("torch has no operator of this name here")


class _Result:
    """Of the calls of an operator in one model."""

    def __init__(self) -> None:
        self.taken = 0
        self.seen = 0
        self.dtypes: set[str] = set()
        """Of the tensors that taken calls read and give."""
        self.reasons: list[str] = []


def _try(subject: BackendUnderTest, operator: str, samples: Sequence[Sample], inside: bool = False) -> _Result:
    """All samples in one model; one by one if that does not compile or run, so that the sentence names the guilty one.

    `inside`: truth values come from comparisons and go to selections, since a backend may have no memory for them.
    """
    if not subject.individually and len(samples) > 1:
        subject.trying(f"{operator}{samples[0]} and {len(samples) - 1} more calls")
        try:
            return _try_together(subject, operator, samples, inside)
        except (EdgecoreError, FallbackWarning):
            pass
    whole = _Result()
    for sample in samples:
        subject.trying(f"{operator}{sample}")
        try:
            one = _try_together(subject, operator, [sample], inside)
        except EdgecoreError as error:
            if not _without_backend(operator, sample):
                continue  # not the backend's fault
            raise Failed(f"{operator}{sample}: {error}") from error
        whole.taken += one.taken
        whole.seen += one.seen
        whole.dtypes |= one.dtypes
        whole.reasons += one.reasons
    return whole


def _try_together(subject: BackendUnderTest, operator: str, samples: Sequence[Sample], inside: bool) -> _Result:
    model, inputs = _model(subject, operator, samples, inside)
    program = compiled(subject, model, inputs)
    what = f"{operator}{samples[0]}" + (" ..." if len(samples) > 1 else "")
    check_reasons(subject, program, what)
    result = _Result()
    result.taken = took(subject, program).count(operator)
    result.dtypes = took_dtypes(subject, program, operator)
    result.reasons = [reason for name, reason in refusals(subject, program) if name == operator]
    result.seen = result.taken + len(result.reasons)
    want = eager(model, inputs)
    got = outputs(load(subject, program).forward(*inputs))
    reference: list[torch.Tensor] | None = None
    if len(got) != len(want):
        raise Failed(f"{what}: {len(got)} results instead of {len(want)}")
    for index, (one, two) in enumerate(zip(got, want, strict=True)):
        problem = difference(subject, one, two)
        if not problem:
            continue
        if reference is None:
            reference = _reference(model, inputs)
        if difference(subject, one, reference[index]):
            raise Failed(f"{operator}{samples[model.owners[index]]}: {problem}")
    return result


def _reference(model: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What our kernels make of it."""
    return outputs(edgecore.load(edgecore.compile(model, tuple(inputs)).buffer).forward(*inputs))


def _without_backend(operator: str, sample: Sample) -> bool:
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
        claimed = {row.operator for row in subject.compiler.operator_support()}
        companion = next((one for one in COMPANIONS if one in claimed and one != operator), "")
    model = _Calls(operator, samples, companion, inside).eval()
    inputs = [tensor for sample in samples for tensor in sample.inputs]
    if inside:
        inputs = [tensor.float() - 0.5 if tensor.dtype == torch.bool else tensor for tensor in inputs]
    return model, tuple(inputs)


def _has_truth_values(operator: str, sample: Sample) -> bool:
    made = outputs(evaluate(operator, sample, sample.inputs))
    return any(tensor.dtype == torch.bool for tensor in [*sample.inputs, *made])


def _is_movement(operator: str) -> bool:
    return operator in {str(target) for target in DATA_MOVEMENT} | {"aten.cat.default"}


_ONE = torch.ones(1)


class _Calls(torch.nn.Module):
    """Calls of one operator, all of whose inputs are inputs of the model and all of whose results are its results."""

    def __init__(self, operator: str, samples: Sequence[Sample], companion: str, inside: bool) -> None:
        super().__init__()
        self.operator = operator
        self.samples = list(samples)
        self.companion = resolve(companion) if companion else None
        self.inside = inside
        self.owners: list[int] = []
        """Which sample a result belongs to; known after a call."""
        self.parts = torch.nn.ModuleList(sample.module for sample in samples if sample.module is not None)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The results of all samples in a row."""
        results: list[torch.Tensor] = []
        owners: list[int] = []
        rest = iter(inputs)
        for index, sample in enumerate(self.samples):
            own = [next(rest) for _ in sample.inputs]
            if self.companion is not None:
                own = [self.companion(one, one) if one.is_floating_point() else one for one in own]
            if self.inside:
                wanted = [one.dtype == torch.bool for one in sample.inputs]
                own = [one > 0 if truth else one for one, truth in zip(own, wanted, strict=True)]
            made = outputs(evaluate(self.operator, sample, own))
            if self.inside:
                made = [torch.where(one, _ONE, -_ONE) if one.dtype == torch.bool else one for one in made]
            results += made
            owners += [index] * len(made)
        self.owners = owners
        return tuple(results)


def _dtype(name: str, operator: str) -> torch.dtype:
    found = getattr(torch, name.removeprefix("torch."), None)
    if not isinstance(found, torch.dtype):
        raise Failed(f"operator_support() names {name!r} among the dtypes of {operator}; torch has no such dtype")
    return found
