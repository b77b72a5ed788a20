"""Measure where a backend differs from PyTorch for NaN, infinities and denormal numbers, and write a page about it.

    from edgecore.conformance import special_values

    def test_the_page_of_special_values_lists_every_difference():
        special_values.check_page(PAGE, special_values.measure("acme"))

For each dtype, one program calls all operators that compute values and that the backend supports: elementwise
operators, reductions, poolings and normalizations. Their inputs have special elements among ordinary ones, in several
places. A result that depends on ordinary elements alone must be right.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import edgecore
from edgecore.backend import Backend
from edgecore.conformance.check import Failed
from edgecore.conformance.special_values.calls import NUMBERS, ORDINARY, VALUES, Call, Label, calls_of
from edgecore.conformance.special_values.words import highest, table, tried
from edgecore.conformance.workers.process import call, results
from edgecore.files import write_file
from edgecore.ir.dialect.dtypes import dtype_name

BEGIN = "<!-- special values: {} -->"
END = "<!-- end of special values -->"
SAME = "The same as above."

DTYPES = (torch.float32, torch.float16)

TOLERANCE = {torch.float32: 1e-3, torch.float16: 1e-2}
"""Maximum error of a number x, relative to max(|x|, 1); it is generous, since other checks are about rounding."""

LARGE = 1e4
"""Results of at least this size are called large: the ordinary numbers among the inputs give no such results."""

SECONDS = 240
"""Time limit in seconds for one run of the program in a child process."""

_ONE = torch.ones(1)


@dataclass(frozen=True)
class Difference:
    """A result of a backend that differs from PyTorch's result, for one kind of inputs.

    Attributes:
        operator: The operator, such as "aten.relu.default".
        dtype: The dtype of its inputs, such as "float32".
        reads: The inputs on which the result depends.
        expected: PyTorch's result: "NaN", "inf", "-inf", "0", "denormal", "number", "True", "False", or the name that
            `words.highest` gives to a large number.
        result: The backend's result, in the same words; "another number" if both are a "number".
    """

    operator: str
    dtype: str
    reads: Label
    expected: str
    result: str


@dataclass
class Measured:
    """The results of `measure`.

    Attributes:
        backend: Name of the backend.
        differences: The differences of each set of kernels, by its name; the name is "" if the backend has one set.
        faults: Wrong results that depend on ordinary numbers alone.
        tried: The dtypes in which each operator ran in the backend.
        outside: The dtypes in which each operator of the backend's table was not delegated, for example because the
            backend runs the operator only quantized.
        refused: Name of a set of kernels -> the reason that this machine cannot run it.
    """

    backend: str
    differences: dict[str, set[Difference]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    tried: dict[str, list[str]] = field(default_factory=dict)
    outside: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def measure(
    name: str | None,
    *,
    options: Mapping[str, Any] | None = None,
    load_options: Mapping[str, Any] | None = None,
    configurations: Mapping[str, Mapping[str, str]] | None = None,
    tolerance: float = 0.0,
) -> Measured:
    """Run all operators with special values, and compare with eager PyTorch.

    Args:
        name: The name of an installed backend; None for edgecore's own kernels.
        options: Options of the backend for compiling.
        load_options: Options of the backend for loading.
        configurations: Environment variables that select a set of kernels, by the name of the set. The program runs
            once with each set that this machine can run. By default it runs once.
        tolerance: Largest relative error of ordinary numbers, for a backend that computes in a lower precision.

    Raises:
        Failed: The backend delegates no call of an operator that its table has, or a run fails.
    """
    backend = Backend(name, **(options or {})) if name is not None else None
    measured = Measured(name or "edgecore")
    for dtype in DTYPES:
        supported = _supported(name, options or {}, dtype)
        calls = [case for operator in sorted(VALUES & supported) for case in calls_of(operator, dtype) if _runs(case)]
        if not calls:
            continue
        model = _Calls(calls, has_where="aten.where.self" in supported)
        program = edgecore.compile(
            model.eval(), model.inputs, backends=[backend] if backend else [], runtime="edgecore"
        )
        inside, outside = _delegated(name, program, {case.operator for case in calls})
        for operator in inside:
            measured.tried.setdefault(operator, []).append(dtype_name(dtype))
        for operator in outside:
            measured.outside.setdefault(operator, []).append(dtype_name(dtype))
        with torch.no_grad():
            want = [_references(case) for case in calls]
        for kernels, environment in (configurations or {"": {}}).items():
            got = _run(program, name, load_options or {}, model.inputs, kernels, environment)
            if isinstance(got, str):
                measured.refused[kernels] = got
                continue
            differences = measured.differences.setdefault(kernels, set())
            for case, expected, result in zip(calls, want, got, strict=True):
                _compare(measured, differences, case, expected, result, max(tolerance, TOLERANCE[dtype]))
    return measured


def check_page(page: Path, measured: Measured) -> None:
    """Compare the tables of a page with the measured differences; with EDGECORE_WRITE_PAGES=1 set, write the tables.

    The table of the set of kernels NAME stands between the lines `<!-- special values: NAME -->` and
    `<!-- end of special values -->`; a backend with one set of kernels has one table, with the NAME `all`. The first
    table is complete. Each other table has only the rows in which its kernels differ from the first set of kernels. The
    table of kernels that this machine cannot run is left unchanged.

    Args:
        page: A Markdown file with these lines.
        measured: Result of `measure`.

    Raises:
        Failed: A table differs from the measured differences, or a result that depends on ordinary elements alone is
            wrong.
    """
    if measured.faults:
        raise Failed(f"{measured.backend}: {len(measured.faults)} faults:\n" + "\n".join(measured.faults[:20]))
    present = page.read_text(encoding="utf-8")
    updated = present
    first = next(iter(measured.differences.values()))
    for kernels, differences in measured.differences.items():
        begin = BEGIN.format(kernels or "all")
        before, marker, rest = updated.partition(begin)
        _, end, after = rest.partition(END)
        if not marker or not end:
            raise Failed(f"{page} has no table of special values: add the lines {begin!r} and {END!r}")
        if differences is first:
            text = f"{table(differences)}\n{tried(measured.tried, measured.outside)}"
        else:
            text = table(_changes(first, differences), SAME)
        updated = f"{before}{begin}\n\n{text}\n{END}{after}"
    if os.environ.get("EDGECORE_WRITE_PAGES") == "1":
        write_file(page, updated)
    elif present != updated:
        old, new = present.splitlines(), updated.splitlines()
        lines = [f"- {line}" for line in old if line not in new] + [f"+ {line}" for line in new if line not in old]
        raise Failed(
            f"{page} has other special values than {measured.backend} gives: run this test with "
            "EDGECORE_WRITE_PAGES=1, and read what changed:\n" + "\n".join(lines)
        )


def _changes(first: set[Difference], others: set[Difference]) -> set[Difference]:
    """Return the rows that only `others` has; of rows that only `first` has, set `result` to PyTorch's result."""
    keys = {(row.operator, row.dtype, row.reads) for row in first ^ others}
    here = {row for row in others if (row.operator, row.dtype, row.reads) in keys}
    differing = {(row.operator, row.dtype, row.reads) for row in here}
    gone = {row for row in first if (row.operator, row.dtype, row.reads) in keys - differing}
    return here | {replace(row, result=row.expected) for row in gone}


def _supported(name: str | None, options: Mapping[str, Any], dtype: torch.dtype) -> set[str]:
    """Return the operators that the backend supports with inputs of a dtype, according to its operator table."""
    if name is None:
        return set(VALUES) | {"aten.where.self"}
    from edgecore.plugin import TargetingCompiler, registry

    compiler = registry.load_compiler(registry.find_by_name(name))
    if isinstance(compiler, TargetingCompiler):
        rows = compiler.operator_support_with(compiler.Options(**options))
    else:
        rows = compiler.operator_support()
    return {row.operator for row in rows if dtype_name(dtype) in row.dtypes}


def _runs(case: Call) -> bool:
    try:
        case.function(*case.inputs)
    except NotImplementedError:
        return False  # skip the call: eager PyTorch has no kernel for this dtype
    return True


def _references(case: Call) -> list[torch.Tensor]:
    """Return two results of eager PyTorch, one computed in the dtype of the inputs, one in float64; a backend may match
    either.

    The two may differ: PyTorch 2.14 computes `gelu(inf)` in float32 as NaN in full vectors, and as inf in the elements
    after the last full vector.
    """
    want = case.function(*case.inputs)
    try:
        exact = case.function(*(tensor.double() for tensor in case.inputs))
    except RuntimeError:
        return [want]  # no result in float64: the call fails, because one of its constants has the dtype of `want`
    return [want, exact.to(want.dtype)]


def _delegated(name: str | None, program: Any, operators: set[str]) -> tuple[list[str], list[str]]:
    """Return two lists: the operators with a call that runs in the backend, and the operators without one.

    Operators that lowering replaces by other operators are in neither list.

    Raises:
        Failed: No operator runs in the backend, or the backend fails to compile a partition.
    """
    from edgecore.plugin import registry

    if name is None:
        return sorted(operators), []
    backend_id = registry.find_by_name(name).backend_id
    report = program.report()
    inside = {row.operator for row in report.rows if row.where == backend_id} & operators
    outside = {row.operator: row.reasons for row in report.left_outside if row.operator in operators - inside}
    if not inside or report.failures:
        raise Failed(f"{name} runs none of these calls: {outside or report.failures}")
    return sorted(inside), sorted(outside)


class _Calls(torch.nn.Module):
    """A model that makes many calls, and returns their results.

    If `has_where` is true, the model converts booleans to numbers by `where`, since some backends have booleans only
    inside of a delegate.
    """

    def __init__(self, calls: Sequence[Call], has_where: bool) -> None:
        super().__init__()
        self.calls = list(calls)
        self.has_where = has_where
        tensors: dict[tuple[Any, bytes], torch.Tensor] = {}
        keys = [[(tensor.shape, tensor.numpy().tobytes()) for tensor in case.inputs] for case in calls]
        for case, of_call in zip(calls, keys, strict=True):
            tensors |= dict(zip(of_call, case.inputs, strict=True))
        self.inputs = tuple(tensors.values())
        """Inputs of the model: the input tensors of all calls, without duplicates."""
        places = {key: index for index, key in enumerate(tensors)}
        self.places = [[places[key] for key in of_call] for of_call in keys]

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Make all calls, and return one output for each; `inputs` are the tensors of all calls."""
        values = []
        for case, places in zip(self.calls, self.places, strict=True):
            result = case.function(*(inputs[place] for place in places))
            convert = result.dtype == torch.bool and self.has_where
            values.append(torch.where(result, _ONE, -_ONE) if convert else result)
        return tuple(values)


def _run(
    program: Any,
    name: str | None,
    load_options: Mapping[str, Any],
    inputs: Sequence[torch.Tensor],
    kernels: str,
    environment: Mapping[str, str],
) -> list[torch.Tensor] | str:
    """Run a program in a child process; return its results, or the error message if it does not load.

    Raises:
        Failed: The program does not load with the default kernels, or the process died.
    """
    from edgecore.plugin import registry

    with tempfile.TemporaryDirectory(prefix="edgecore-special-") as folder:
        file, results_file = Path(folder) / "calls.pte", Path(folder) / "results.npz"
        file.write_bytes(program.buffer)
        arrays = {f"1 {index}": tensor.numpy() for index, tensor in enumerate(inputs)}
        np.savez(file.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]
        arguments = {
            "file": str(file),
            "results": str(results_file),
            "rows": [1],
            "backend_id": registry.find_by_name(name).backend_id if name is not None else "",
            "load_options": dict(load_options),
        }
        events = call(
            "edgecore.conformance.workers.measure:run_calls", arguments, seconds=SECONDS, environment=environment
        )
        if errors := results(events, lambda text: None):
            if not environment:
                raise Failed(f"{name}: {errors[0]}")
            return str(errors[0])
        with np.load(results_file) as stored:
            return [torch.from_numpy(stored[f"1 {index}"]) for index in range(len(stored.files))]


def _compare(
    measured: Measured,
    differences: set[Difference],
    case: Call,
    references: Sequence[torch.Tensor],
    got: torch.Tensor,
    tolerance: float,
) -> None:
    """Add each element of `got` that agrees with none of `references` to `differences` or `measured.faults`."""
    want = references[0]
    dtype = dtype_name(case.inputs[0].dtype)
    if want.dtype == torch.bool:
        got = got > 0
    if want.shape != got.shape or want.dtype != got.dtype:
        measured.faults.append(f"{case.operator}, {dtype}: {dtype_name(got.dtype)}{list(got.shape)}")
        return
    if case.is_index:
        assert case.read is not None
        rows, got = case.read, got.clamp(0, case.read.shape[1] - 1)
        references, got = (
            [rows.gather(1, index.reshape(-1, 1)) for index in references],
            rows.gather(1, got.reshape(-1, 1)),
        )
        want = references[0]
    tiny = torch.finfo(want.dtype).tiny if want.dtype.is_floating_point else 0.0
    actual = got.flatten().double()
    right = torch.stack([_right(value.flatten().double(), actual, tolerance, tiny) for value in references]).any(0)
    new = set[Difference]()
    agrees = set[tuple[Label, str]]()
    for index, label in enumerate(case.labels):
        value, expected = actual[index].item(), want.flatten()[index].item()
        word = _word(expected, tiny)
        if right[index]:
            agrees.add((label, word))
            continue
        # A wrong result from ordinary inputs is a fault, unless all inputs are 0, as in 0 ** 0 or a logarithm.
        if all(part in (*NUMBERS, ORDINARY) for part in label) and set(label) != {"0"} and np.isfinite(expected):
            measured.faults.append(f"{case.operator}, {dtype}, {', '.join(label)}: {value} instead of {expected}")
            continue
        other = _word(bool(value) if want.dtype == torch.bool else value, tiny)
        row = case.read[index] if case.read is not None and not case.is_index else None
        if (
            row is not None
            and other not in ("NaN", "0")
            and not _right(row.double(), actual[index], tolerance, 0.0).any()
        ):
            other += ", which no input is"
        new.add(Difference(case.operator, dtype, label, word, "another number" if word == other else other))
    # If equal inputs give the right result in another place or with other arguments, list both results.
    new |= {replace(row, result=row.expected) for row in new if (row.reads, row.expected) in agrees}
    differences |= new


def _right(want: torch.Tensor, got: torch.Tensor, tolerance: float, tiny: float) -> torch.Tensor:
    """Return a mask of the elements of `got` that count as equal to `want`; 0 and a denormal number are not equal."""
    same = (want == got) | (want.isnan() & got.isnan())
    near = (want - got).abs() <= tolerance * want.abs().clamp(min=1)
    is_denormal = (want != 0) & (want.abs() < tiny)
    return same | torch.where(is_denormal, (want - got).abs() <= want.abs() / 2, near)


def _word(value: float | bool, tiny: float) -> str:
    if isinstance(value, bool):
        return str(value)
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0:
        return "0"
    if abs(value) < tiny:
        return "denormal"
    return highest(value) if abs(value) >= LARGE else "number"
