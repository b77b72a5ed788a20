"""`edgecore run`: run a method once, or the test cases of a `.bpte` file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from edgecore.cli.common import (
    AnyFile,
    Data,
    Json,
    LoadOptions,
    Method,
    Threads,
    choose_method,
    complain,
    is_bundled,
    parse_load_options,
    print_json,
)
from edgecore.devtools.random_inputs import NUMBERS, random_arguments
from edgecore.errors import EdgecoreError
from edgecore.files import write_files
from edgecore.runtime.nesting import leaves
from edgecore.sdk.commands import takes


@dataclass(frozen=True)
class RunArguments:
    """The arguments of `edgecore run`, in the form that typer reads; an absent option is None."""

    file: AnyFile
    method: Method = None
    inputs: Annotated[
        list[Path] | None,
        typer.Option("--input", metavar="X.npy", help="Repeat for each input, in order; by default inputs are random."),
    ] = None
    output_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the outputs to DIR/output_0.npy, DIR/output_1.npy, ...")
    ] = None
    data: Data = None
    backends: LoadOptions = None
    threads: Threads = None
    rtol: Annotated[float | None, typer.Option(help="Relative tolerance for the test cases of a .bpte.")] = None
    atol: Annotated[float | None, typer.Option(help="Absolute tolerance for the test cases of a .bpte.")] = None
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE.etdp", help="Write the times of all instructions as an ETDump.")
    ] = None
    as_json: Json = False


@takes(RunArguments)
def command(arguments: RunArguments) -> None:
    """Run a method once and show its outputs. Of a .bpte, run all test cases; exit status 1 if one fails."""
    file = arguments.file
    if is_bundled(file):
        if arguments.inputs or arguments.output_dir or arguments.backends or arguments.threads:
            raise typer.BadParameter(
                f"{file} contains its inputs and runs as it is; leave out --input, --output-dir, --backend and "
                "--threads"
            )
        _run_bundled(arguments)
    elif arguments.rtol is not None or arguments.atol is not None:
        raise typer.BadParameter(f"--rtol and --atol need a .bpte file, and {file} is not such a file")
    else:
        _run_method(arguments)


def _run_method(arguments: RunArguments) -> None:
    import edgecore

    file, trace = arguments.file, arguments.trace
    options = parse_load_options(arguments.backends)
    model = edgecore.load(
        file, arguments.data or (), threads=arguments.threads, options=options, trace=trace is not None
    )
    name = choose_method(list(model.methods), arguments.method, file)
    method = model.load_method(name)
    inputs = read_arguments(file, name, method.inputs, arguments.inputs or ())
    start = time.perf_counter()
    result = method(*inputs)
    elapsed = (time.perf_counter() - start) * 1e3
    if trace:
        model.write_trace(trace)
    outputs = leaves(result)
    rows = [_summary(output) for output in outputs]
    if arguments.output_dir:
        for row, path in zip(rows, _write_npy(outputs, arguments.output_dir), strict=True):
            row["file"] = str(path)
    if arguments.as_json:
        print_json({"method": name, "ms": round(elapsed, 3), "outputs": rows})
        return
    print(f"{name}: {elapsed:.2f} ms (first run)")
    for index, row in enumerate(rows):
        print(f"output {index}: " + "  ".join(f"{key} {_short(value)}" for key, value in row.items()))


def _run_bundled(arguments: RunArguments) -> None:
    from edgecore.runtime.bundled import ATOL, RTOL, verify_bundled

    file = arguments.file
    rtol = RTOL if arguments.rtol is None else arguments.rtol
    atol = ATOL if arguments.atol is None else arguments.atol
    try:
        report = verify_bundled(file, arguments.data or (), method=arguments.method, rtol=rtol, atol=atol)
    except ModuleNotFoundError as error:
        raise EdgecoreError(f"comparing outputs needs {error.name}; run: pip install {error.name}") from error
    if arguments.as_json:
        print_json({"passed": report.passed, **asdict(report)})
    else:
        print(report)
    if any(result.passed is False for result in report.results):
        complain(f"{file}: {sum(result.passed is False for result in report.results)} outputs failed")
        raise typer.Exit(1)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def read_arguments(file: Path, method: str, infos: Sequence[Any], inputs: Sequence[Path]) -> list[Any]:
    """Read the arguments of a method from `.npy` files; without files, make random ones and tell the user."""
    if not inputs:
        arguments = random_arguments(file, method, infos)
        if arguments:
            complain("no --input: the inputs are random (seed 0)")
        return arguments
    arguments = [_read_npy(path) for path in inputs]
    for index, info in enumerate(infos[: len(arguments)]):
        if info.dtype in NUMBERS and arguments[index].ndim == 0:
            arguments[index] = arguments[index].item()
    return arguments


def _read_npy(path: Path) -> Any:
    numpy = _numpy()
    try:
        array = numpy.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        # Replace numpy's message: it advises to load the file as a pickle, which can execute code.
        raise EdgecoreError(f"{path} is not a .npy file with numbers; numpy.save writes such a file") from error
    if not isinstance(array, numpy.ndarray):
        raise EdgecoreError(f"{path} is an archive of arrays; pass one .npy file for each input")
    return array


def _write_npy(outputs: Sequence[Any], folder: Path) -> list[Path]:
    numpy = _numpy()
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"output_{index}.npy" for index in range(len(outputs))]
    arrays = [numpy.asarray(output) for output in outputs]
    write_files({path: partial(numpy.save, arr=array) for path, array in zip(paths, arrays, strict=True)})
    return paths


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise EdgecoreError(".npy files need numpy; run: pip install numpy") from error
    return numpy


def _summary(output: Any) -> dict[str, Any]:
    """Return dtype, shape and statistics of a tensor, or the value of any other output."""
    try:
        view = memoryview(output)
    except TypeError:
        return {"value": output}
    row: dict[str, Any] = {"dtype": str(getattr(output, "dtype", view.format)), "shape": list(view.shape or ())}
    try:
        flat: Any = view.cast("B")
        values = flat.cast(view.format).tolist()
    except (TypeError, ValueError):  # no statistics: memoryview supports neither float16 nor bfloat16
        return row
    if values:
        row |= {"min": min(values), "max": max(values), "mean": sum(values) / len(values)}
        row["argmax"] = values.index(row["max"])
    return row
