"""`edgecore compile`: compile a model to a `.pte` file."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import edgecore
from edgecore.cli.common import (
    InputShapes,
    Json,
    Model,
    Runtime,
    check_folders,
    hold_stderr,
    parse_backend,
    parse_value,
    print_json,
)
from edgecore.cli.models import load_model, stem
from edgecore.cli.recipes import parse_quantize
from edgecore.errors import EdgecoreError
from edgecore.progress import task
from edgecore.sdk.commands import takes


@dataclass(frozen=True)
class CompileArguments:
    """The arguments of `edgecore compile`, in the form that typer reads; an absent option is None or False."""

    model: Model
    input_shapes: InputShapes = None
    backends: Annotated[
        list[str] | None,
        typer.Option(
            "-b",
            "--backend",
            metavar="NAME[:key=value,...]",
            help="A backend and its options, which `edgecore backends NAME` lists. May be repeated: the first has "
            "priority.",
        ),
    ] = None
    runtime: Runtime = "executorch-1.5"
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.pte", help="The output; by default named after MODEL."),
    ] = None
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Write an HTML page: where each operator runs, and why; with -q also the quantization error of each "
            "layer.",
        ),
    ] = None
    external_data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[PATTERN=]NAME",
            help="Write weights to NAME.ptd beside the .pte: all, or those whose qualified name matches. May be "
            "repeated.",
        ),
    ] = None
    segment_alignment: Annotated[
        int,
        typer.Option(
            metavar="BYTES",
            help="Start each segment of the files at a multiple: 4096 to map, lock or read it on its own.",
        ),
    ] = 128
    constant_tensor_alignment: Annotated[
        int | None,
        typer.Option(metavar="BYTES", help="Start each constant tensor at a multiple; by default 16."),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="static", help="Plan memory for inputs and outputs, too; by default the caller supplies it."
        ),
    ] = None
    share_state: Annotated[
        bool,
        typer.Option("--share-state", help="Let all methods use one copy of mutable buffers with the same name."),
    ] = False
    constant_methods: Annotated[
        list[str] | None,
        typer.Option(
            "--constant-method",
            metavar="NAME=VALUE",
            help="Add a method that returns a constant, a JSON value or else text. May be repeated.",
        ),
    ] = None
    quantize: Annotated[
        list[str] | None,
        typer.Option(
            "-q",
            "--quantize",
            metavar="[BACKEND=]RECIPE",
            help="Quantize the model first: int8 (needs --calibration), int8-dynamic, int4-weights, fp16, with "
            "parameters: int4-weights:group=64,skip=head; or a .yaml file with them. May be repeated, for several "
            "backends.",
        ),
    ] = None
    calibration: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of samples: one .npy file each, or, if the model has several inputs, one .npz file each with "
            "an entry per input.",
        ),
    ] = None
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Run the file on the example inputs and compare the outputs with eager PyTorch; exit status 1 if they "
            "differ by more than expected.",
        ),
    ] = False
    dump_passes: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Write the graph after each pass that changed it, into a new or empty folder."
        ),
    ] = None
    etrecord: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Write an ETRecord without weights, for ExecuTorch's developer tools."),
    ] = None
    as_json: Json = False


@takes(CompileArguments)
def command(arguments: CompileArguments) -> None:
    """Compile a model to a .pte file."""
    model = arguments.model
    path = arguments.output or Path(f"{stem(model)}.pte")
    settings = _settings(arguments)
    check_folders(path, arguments.report, arguments.etrecord)
    with task(f"loading {model}"), hold_stderr():
        source, example_inputs, dynamic_shapes = load_model(model, arguments.input_shapes)
    with task(f"compiling {model}"), hold_stderr():
        start = time.perf_counter()
        program = edgecore.compile(source, example_inputs, dynamic_shapes=dynamic_shapes, **settings)
        seconds = time.perf_counter() - start
        path, *data = program.save(path)
        if arguments.etrecord:
            program.get_etrecord().save(arguments.etrecord)
    placement = program.report(quantization=bool(arguments.report and arguments.quantize))
    if arguments.report:
        placement.to_html(arguments.report)
    comparison = None
    if arguments.compare:
        with task(f"running {path}"), hold_stderr():
            comparison = program.compare(source)
    if arguments.as_json:
        print_json(
            {
                "file": str(path),
                "bytes": path.stat().st_size,
                "data": [str(file) for file in data],
                "seconds": round(seconds, 3),
                "runtime": arguments.runtime,
                **placement.as_dict(),
                "comparison": comparison and [_json(asdict(row)) for row in comparison.rows],
            }
        )
    else:
        print(placement)
        for file in data:
            print(f"{file}: {file.stat().st_size:,} bytes")
        print(f"{path}: {path.stat().st_size:,} bytes, compiled in {seconds:.1f} s")
        if comparison is not None:
            print(comparison)
    if comparison is not None and not comparison.ok:
        raise EdgecoreError(f"{path}: {comparison.verdict}")


def _settings(arguments: CompileArguments) -> dict[str, Any]:
    """Return the keyword arguments of `edgecore.compile`."""
    parsed_backends = [parse_backend(text) for text in arguments.backends or ()]
    return {
        "constant_methods": parse_constants(arguments.constant_methods or ()),
        "quantize": parse_quantize(arguments.quantize) if arguments.quantize else None,
        "calibration": arguments.calibration,
        "backends": [edgecore.Backend(name, **options) for name, options in parsed_backends],
        "external_data": parse_external_data(arguments.external_data or ()),
        "runtime": arguments.runtime,
        "segment_alignment": arguments.segment_alignment,
        "constant_tensor_alignment": arguments.constant_tensor_alignment,
        "memory": arguments.memory,
        "share_state": arguments.share_state,
        "dump_passes": arguments.dump_passes,
        "generate_etrecord": arguments.etrecord is not None,
    }


def _json(value: Any) -> Any:
    """Replace infinities (the SQNR of equal values) and NaN, which JSON lacks, by None."""
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def parse_constants(texts: Sequence[str]) -> dict[str, Any]:
    """Parse `get_vocab_size=32000` and `name=demo` into names of methods and the constants that they return."""
    constants: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name.isidentifier() or not equals:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--constant-method")
        if name in constants:
            raise typer.BadParameter(f"the method {name!r} has two constants", param_hint="--constant-method")
        constants[name] = parse_value(value)
    return constants


def parse_external_data(texts: Sequence[str]) -> dict[str, str]:
    """Parse `*lora*=adapter` and `base` into {"*lora*": "adapter", "*": "base"}: pattern to file name.

    A name without a pattern is for all remaining weights, so it comes last.
    """
    split = sorted((text.rpartition("=") for text in texts), key=lambda parts: not parts[1])
    return {pattern if equals else "*": name for pattern, equals, name in split}
