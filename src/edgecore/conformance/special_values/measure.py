"""Where a backend differs from PyTorch for NaN, infinities and denormal numbers, measured and written as a page.

    from edgecore.conformance import special_values

    def test_the_page_of_special_values_lists_every_difference():
        special_values.check_page(PAGE, special_values.measure("acme"))

One program for each dtype has all operators that the backend supports and that compute values: elementwise operators,
reductions, poolings and normalizations. Their inputs have special elements among ordinary ones, in several places. What
reads ordinary elements alone must be right.
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
from edgecore.ir.dialect.dtypes import dtype_name

BEGIN = "<!-- special values: {} -->"
END = "<!-- end of special values -->"
SAME = "The same as above."

DTYPES = (torch.float32, torch.float16)

TOLERANCE = {torch.float32: 1e-3, torch.float16: 1e-2}
"""Error of an ordinary number, relative to it or to 1. Rounding is not the subject here."""

LARGE = 1e4
"""Numbers from here on are no results of the ordinary numbers of the inputs."""

SECONDS = 240
"""Time limit of a run."""

_ONE = torch.ones(1)


@dataclass(frozen=True)
class Difference:
    """A kind of result that differs from PyTorch's.

    Attributes:
        operator: The operator, such as "aten.relu.default".
        dtype: The dtype of its inputs, such as "float32".
        reads: What the element reads; see `special_calls.Call`.
        expected: PyTorch's result: "NaN", "inf", "-inf", "0", "denormal", "number", "True", "False"; or a large
            number, by `special_words.highest`.
        result: The backend's result, in these words.
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
        differences: The differences by the name of a set of kernels; "" if the backend has one.
        faults: Wrong results of elements that read ordinary numbers alone.
        tried: The dtypes in which each operator ran in the backend.
        outside: The dtypes in which an operator of the backend's table ran outside of it, as quantized calls alone do.
        refused: Why this machine cannot run a set of kernels, by its name.
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
        configurations: Environment variables by the name of a set of kernels. The program runs once with each set that
            this machine can run. By default it runs once.
        tolerance: Largest relative error of ordinary numbers, for a backend that computes in a lower precision.

    Raises:
        Failed: The backend delegates no call of an operator that its table has, or a run fails.
    """
    backend = Backend(name, **(options or {})) if name is not None else None
    measured = Measured(name or "edgecore")
    for dtype in DTYPES:
        supported = _supported(name, options or {}, dtype)
        calls = [made for operator in sorted(VALUES & supported) for made in calls_of(operator, dtype) if _runs(made)]
        if not calls:
            continue
        model = _Calls(calls, inside="aten.where.self" in supported)
        program = edgecore.compile(
            model.eval(), model.inputs, backends=[backend] if backend else [], runtime="edgecore"
        )
        inside, outside = _delegated(name, program, {made.operator for made in calls})
        for operator in inside:
            measured.tried.setdefault(operator, []).append(dtype_name(dtype))
        for operator in outside:
            measured.outside.setdefault(operator, []).append(dtype_name(dtype))
        with torch.no_grad():
            want = [_references(made) for made in calls]
        for kernels, environment in (configurations or {"": {}}).items():
            got = _run(program, name, load_options or {}, model.inputs, kernels, environment)
            if isinstance(got, str):
                measured.refused[kernels] = got
                continue
            differences = measured.differences.setdefault(kernels, set())
            for made, expected, result in zip(calls, want, got, strict=True):
                _compare(measured, differences, made, expected, result, max(tolerance, TOLERANCE[dtype]))
    return measured


def check_page(page: Path, measured: Measured) -> None:
    """Compare the tables of a page with what was measured; with the environment variable EDGECORE_WRITE_PAGES=1 write them.

    The table of the set of kernels NAME stands between the lines `<!-- special values: NAME -->` and
    `<!-- end of special values -->`; a backend without sets of kernels has one table, and the NAME `all`. The first table
    is complete, the others have the rows in which a set of kernels differs from the first. A table of kernels that this
    machine cannot run stays as it is.

    Args:
        page: A Markdown file with these lines.
        measured: Result of `measure`.

    Raises:
        Failed: A table lists a difference that was not measured, or lacks one; or what reads ordinary elements alone is
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
        page.write_text(updated, encoding="utf-8")
    elif present != updated:
        old, new = present.splitlines(), updated.splitlines()
        lines = [f"- {line}" for line in old if line not in new] + [f"+ {line}" for line in new if line not in old]
        raise Failed(
            f"{page} has other special values than {measured.backend} gives: run this test with EDGECORE_WRITE_PAGES=1, "
            "and read what changed:\n" + "\n".join(lines)
        )


def _changes(first: set[Difference], others: set[Difference]) -> set[Difference]:
    """Return the differences that `first` lacks; differences that only `first` has become rows with PyTorch's result."""
    keys = {(row.operator, row.dtype, row.reads) for row in first ^ others}
    here = {row for row in others if (row.operator, row.dtype, row.reads) in keys}
    differing = {(row.operator, row.dtype, row.reads) for row in here}
    gone = {row for row in first if (row.operator, row.dtype, row.reads) in keys - differing}
    return here | {replace(row, result=row.expected) for row in gone}


def _supported(name: str | None, options: Mapping[str, Any], dtype: torch.dtype) -> set[str]:
    """Return the operators that the backend's table has for a dtype."""
    if name is None:
        return set(VALUES) | {"aten.where.self"}
    from edgecore.plugin import TargetingCompiler, registry

    compiler = registry.load_compiler(registry.find_by_name(name))
    if isinstance(compiler, TargetingCompiler):
        rows = compiler.operator_support_with(compiler.Options(**options))
    else:
        rows = compiler.operator_support()
    return {row.operator for row in rows if dtype_name(dtype) in row.dtypes}


def _runs(made: Call) -> bool:
    try:
        made.function(*made.inputs)
    except NotImplementedError:
        return False  # eager PyTorch has no kernel for this dtype
    return True


def _references(made: Call) -> list[torch.Tensor]:
    """Return the results of eager PyTorch in the dtype and in float64: its vectors and single elements may differ.

    In PyTorch 2.14 `gelu(inf)` is NaN in vectors of float32 and inf in the elements after the last vector, for example.
    """
    want = made.function(*made.inputs)
    try:
        exact = made.function(*(tensor.double() for tensor in made.inputs))
    except RuntimeError:
        return [want]  # a weight has the other dtype
    return [want, exact.to(want.dtype)]


def _delegated(name: str | None, program: Any, operators: set[str]) -> tuple[list[str], list[str]]:
    """Return the operators that run in the backend, and those whose calls all stay outside.

    Operators that edgecore replaces by others are in neither list.

    Raises:
        Failed: None runs in the backend, or the backend gives no reason.
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
    """A model of many calls. Boolean results become numbers by `where`, as some backends have them inside only."""

    def __init__(self, calls: Sequence[Call], inside: bool) -> None:
        super().__init__()
        self.calls = list(calls)
        self.inside = inside
        tensors: dict[tuple[Any, bytes], torch.Tensor] = {}
        keys = [[(tensor.shape, tensor.numpy().tobytes()) for tensor in made.inputs] for made in calls]
        for made, of_call in zip(calls, keys, strict=True):
            tensors |= dict(zip(of_call, made.inputs, strict=True))
        self.inputs = tuple(tensors.values())
        """The inputs of all calls, each tensor once."""
        places = {key: index for index, key in enumerate(tensors)}
        self.places = [[places[key] for key in of_call] for of_call in keys]

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the result of each call."""
        values = []
        for made, places in zip(self.calls, self.places, strict=True):
            result = made.function(*(inputs[place] for place in places))
            is_bool = result.dtype == torch.bool and self.inside
            values.append(torch.where(result, _ONE, -_ONE) if is_bool else result)
        return tuple(values)


def _run(
    program: Any,
    name: str | None,
    load_options: Mapping[str, Any],
    inputs: Sequence[torch.Tensor],
    kernels: str,
    environment: Mapping[str, str],
) -> list[torch.Tensor] | str:
    """Run a program in a child process; return its results, or why it does not load with these environment variables.

    Raises:
        Failed: It does not load with the default kernels, or the process died.
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
    made: Call,
    references: Sequence[torch.Tensor],
    got: torch.Tensor,
    tolerance: float,
) -> None:
    """Add the differences and faults of one call. Any of `references`, the results of PyTorch, is right."""
    want = references[0]
    dtype = dtype_name(made.inputs[0].dtype)
    if want.dtype == torch.bool:
        got = got > 0
    if want.shape != got.shape or want.dtype != got.dtype:
        measured.faults.append(f"{made.operator}, {dtype}: {dtype_name(got.dtype)}{list(got.shape)}")
        return
    if made.is_index:
        assert made.read is not None
        rows, got = made.read, got.clamp(0, made.read.shape[1] - 1)
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
    for index, label in enumerate(made.labels):
        value, expected = actual[index].item(), want.flatten()[index].item()
        word = _word(expected, tiny)
        if right[index]:
            agrees.add((label, word))
            continue
        # 0 is special to powers, quotients and logarithms.
        if all(part in (*NUMBERS, ORDINARY) for part in label) and set(label) != {"0"} and np.isfinite(expected):
            measured.faults.append(f"{made.operator}, {dtype}, {', '.join(label)}: {value} instead of {expected}")
            continue
        other = _word(bool(value) if want.dtype == torch.bool else value, tiny)
        row = made.read[index] if made.read is not None and not made.is_index else None
        if (
            row is not None
            and other not in ("NaN", "0")
            and not _right(row.double(), actual[index], tolerance, 0.0).any()
        ):
            other += ", which no input is"
        new.add(Difference(made.operator, dtype, label, word, "another number" if word == other else other))
    # In another place, or with other arguments, such an element may be right.
    new |= {replace(row, result=row.expected) for row in new if (row.reads, row.expected) in agrees}
    differences |= new


def _right(want: torch.Tensor, got: torch.Tensor, tolerance: float, tiny: float) -> torch.Tensor:
    """Compare elements. A denormal number is near 0, and yet another number."""
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
