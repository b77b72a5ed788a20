"""Run the test cases of a `.bpte` file and compare the outputs with the expected ones. Needs numpy."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgecore import format as fmt
from edgecore.errors import ErrorCode, ExecutionError
from edgecore.runtime.nesting import leaves

if TYPE_CHECKING:
    from edgecore.runtime import Method, Program

RTOL, ATOL = 1e-5, 1e-5


@dataclass(frozen=True)
class OutputResult:
    """Result of one output of one test case.

    Attributes:
        method: Name of the method.
        case: Index of the test case.
        output: Index of the output.
        passed: True or False; None if the test case has no expected outputs.
        max_abs: Largest absolute difference from the expected elements.
        max_rel: Largest difference divided by the magnitude of the expected element, over elements that are not 0.
        problem: The reason why the comparison or the run failed; empty otherwise.
    """

    method: str
    case: int
    output: int
    passed: bool | None
    max_abs: float = 0.0
    max_rel: float = 0.0
    problem: str = ""

    def __str__(self) -> str:
        where = f"{self.method}, case {self.case}"
        if self.passed is None:
            return f"RAN   {where}: no outputs to compare with"
        verdict = f"{'ok   ' if self.passed else 'FAILED'} {where}, output {self.output}"
        if self.problem:
            return f"{verdict}: {self.problem}"
        return f"{verdict}: max abs error {self.max_abs:.3g}, max rel error {self.max_rel:.3g}"


@dataclass(frozen=True)
class BundledReport:
    """Results of all test cases. An element passes if it differs by at most `atol + rtol * |expected|`.

    Attributes:
        results: One entry for each output of each test case; a single entry for a case whose outputs cannot be
            compared.
        rtol: Relative tolerance.
        atol: Absolute tolerance.
    """

    results: tuple[OutputResult, ...]
    rtol: float
    atol: float

    @property
    def passed(self) -> bool:
        """True if at least one output was compared and none failed."""
        verdicts = [result.passed for result in self.results]
        return False not in verdicts and True in verdicts

    def __str__(self) -> str:
        count = {verdict: sum(result.passed is verdict for result in self.results) for verdict in (True, False, None)}
        total = f"{count[True]} outputs passed, {count[False]} failed"
        unchecked = f", {count[None]} cases have nothing to compare with" if count[None] else ""
        tolerance = f"tolerance {self.atol:g} + {self.rtol:g} * |expected|"
        return "\n".join([*map(str, self.results), f"{total}{unchecked}; {tolerance}"])


def verify_bundled(
    path: Any,
    data: Sequence[Any] = (),
    *,
    method: str | None = None,
    rtol: float = RTOL,
    atol: float = ATOL,
    threads: int | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    providers: Mapping[str, str] | None = None,
    trust: bool = False,
    limits: Mapping[str, int] | None = None,
) -> BundledReport:
    """Run every test case of a `.bpte` file, or of one method, and compare the outputs with the expected ones.

    A test case that cannot be run counts as failed, and raises no exception.

    Args:
        path: The file: a path, bytes or a binary file object.
        data: As for `edgecore.load`.
        method: Name of the only method to test; all by default.
        rtol: Relative tolerance of floating-point outputs; integers and booleans must be equal.
        atol: Absolute tolerance of floating-point outputs.
        threads: As for `edgecore.load`.
        options: As for `edgecore.load`.
        providers: As for `edgecore.load`.
        trust: As for `edgecore.load`.
        limits: As for `edgecore.load`.

    Returns:
        The results. `report.passed` is True if an output was compared and none failed; `print(report)` shows each.

    Raises:
        FormatError: The file is not a `.bpte` file, or it is damaged.
        ExecutionError: The file has no test case, or none for `method`.

    Example:
        >>> assert edgecore.verify_bundled("model.bpte", rtol=1e-4).passed
    """
    from edgecore import runtime

    bpte = read_bundled(path)
    program = runtime.load(
        bpte.program, data, threads=threads, options=options, providers=providers, trust=trust, limits=limits
    )
    suites = [suite for suite in bpte.method_test_suites if method in (None, suite.method_name)]
    results = tuple(result for suite in suites for result in _suite(program, suite, rtol, atol))
    if not results:
        names = ", ".join(suite.method_name for suite in bpte.method_test_suites) or "none"
        raise ExecutionError(
            f"there is no test case to run; the methods with test cases are: {names}", ErrorCode.INVALID_ARGUMENT
        )
    return BundledReport(results, rtol, atol)


def read_bundled(path: Any) -> fmt.BpteFile:
    """Parse a `.bpte` file. A file that is passed as a path is memory-mapped.

    Args:
        path: The file: a path, bytes or a binary file object.

    Returns:
        The program and its test cases.

    Raises:
        FormatError: The file is not a `.bpte` file, or it is damaged.
    """
    if isinstance(path, (str, os.PathLike)):
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return fmt.read_bpte(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""))
    return fmt.read_bpte(path.read() if hasattr(path, "read") else path)


def _suite(program: Program, suite: fmt.BundledMethodTestSuite, rtol: float, atol: float) -> Iterator[OutputResult]:
    name = suite.method_name
    if name not in program.methods:
        problem = f"the program has no such method; it has: {', '.join(program.methods)}"
        yield from (OutputResult(name, number, 0, False, problem=problem) for number in range(len(suite.test_cases)))
        return
    for number, case in enumerate(suite.test_cases):
        try:
            outputs = run_test_case(program[name], case)
        except Exception as error:
            yield OutputResult(name, number, 0, False, problem=" ".join(str(error).split()))
        else:
            yield from compare_with_test_case(outputs, suite, number, rtol, atol)


def run_test_case(method: Method, case: fmt.BundledMethodTestCase) -> list[Any]:
    """Run a method with the inputs of a test case, and return its outputs as a flat list."""
    return leaves(method(*(_argument(value.val) for value in case.inputs)))


def compare_with_test_case(
    outputs: Sequence[Any], suite: fmt.BundledMethodTestSuite, number: int, rtol: float, atol: float
) -> Iterator[OutputResult]:
    """Compare the outputs of test case `number`; yield a result per output, or a single one if none can be compared."""
    name, expected = suite.method_name, suite.test_cases[number].expected_outputs
    if not expected:
        yield OutputResult(name, number, 0, None)
    elif len(outputs) != len(expected):
        problem = f"{len(expected)} outputs are expected, but the method returned {len(outputs)}"
        yield OutputResult(name, number, 0, False, problem=problem)
    else:
        for index, (output, value) in enumerate(zip(outputs, expected, strict=True)):
            problem, max_abs, max_rel = _compare(output, value.val, rtol, atol)
            yield OutputResult(name, number, index, not problem, max_abs, max_rel, problem)


def _argument(value: Any) -> Any:
    match value:
        case fmt.Int(number) | fmt.Bool(number) | fmt.Double(number):
            return number
        case fmt.BundledTensor(scalar_type=fmt.ScalarType.BFLOAT16):
            import torch  # numpy has no bfloat16

            return torch.from_numpy(_array(value).copy()).to(torch.bfloat16)
        case fmt.BundledTensor():
            return _array(value)
    raise ExecutionError("an input of the test case has no value", ErrorCode.INVALID_ARGUMENT)


def _array(tensor: fmt.BundledTensor) -> Any:
    """Return a numpy view of the tensor's bytes; bfloat16, which numpy lacks, is converted to float32."""
    import numpy

    if tensor.scalar_type == fmt.ScalarType.BFLOAT16:
        flat = (numpy.frombuffer(tensor.data, "<u2").astype("<u4") << 16).view("<f4")
    elif code := fmt.DTYPES[tensor.scalar_type].code:
        flat = numpy.frombuffer(tensor.data, f"<{code}")
    else:
        raise ExecutionError(
            f"test cases cannot hold {tensor.scalar_type.dtype_name} tensors", ErrorCode.INVALID_ARGUMENT
        )
    shape = [tensor.sizes[dim] for dim in tensor.dim_order]
    return flat.reshape(shape).transpose(numpy.argsort(tensor.dim_order))


def _compare(output: Any, value: Any, rtol: float, atol: float) -> tuple[str, float, float]:
    """Return (why the output is wrong or "", largest absolute error, largest error relative to the expected number)."""
    import numpy

    if isinstance(value, fmt.BundledTensor):
        expected = _array(value)
    elif isinstance(value, (fmt.Int, fmt.Bool, fmt.Double)):
        expected = numpy.asarray(_argument(value))
    else:
        return "the expected output has no value", 0.0, 0.0
    got = output if isinstance(output, numpy.ndarray) else numpy.asarray(getattr(output, "tolist", lambda: output)())
    if got.shape != expected.shape:
        return f"it has shape {list(got.shape)}, expected is {list(expected.shape)}", 0.0, 0.0
    if not got.size:
        return "", 0.0, 0.0
    if expected.dtype.kind in "biu":
        wrong = got != expected
        error = numpy.abs(got.astype(float) - expected.astype(float))
    else:
        got, expected = got.astype(float), expected.astype(float)
        with numpy.errstate(invalid="ignore"):
            error = numpy.abs(got - expected)
        same = (got == expected) | (numpy.isnan(got) & numpy.isnan(expected))
        error = numpy.where(same, 0.0, numpy.where(numpy.isnan(error), numpy.inf, error))
        with numpy.errstate(invalid="ignore"):
            wrong = ~same & ~(numpy.isfinite(error) & (error <= atol + rtol * numpy.abs(expected)))
    with numpy.errstate(divide="ignore", invalid="ignore"):
        relative = numpy.where(expected != 0, error / numpy.abs(expected.astype(float)), 0.0)
    relative = numpy.where(numpy.isfinite(error), numpy.nan_to_num(relative, nan=0.0, posinf=numpy.inf), error)
    max_abs, max_rel = float(error.max()), float(relative.max())
    if not wrong.any():
        return "", max_abs, max_rel
    worst = numpy.unravel_index(int(numpy.where(wrong, error, -1.0).argmax()), error.shape)
    problem = (
        f"{int(wrong.sum())} of {wrong.size} elements are wrong, max abs error {max_abs:.3g}, max rel error "
        f"{max_rel:.3g}; the worst is {list(map(int, worst))}: {got[worst]:.9g}, expected {expected[worst]:.9g}"
    )
    return problem, max_abs, max_rel
