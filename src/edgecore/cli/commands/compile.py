"""`edgecore compile`: compile a model to a `.pte` file."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.status import Status

from edgecore.cli.common import (
    Json,
    Model,
    Runtime,
    check_folders,
    hold_stderr,
    parse_backend,
    parse_value,
    print_json,
    progress,
)
from edgecore.cli.models import load_model, stem
from edgecore.cli.recipes import parse_quantize
from edgecore.errors import EdgecoreError


def command(
    model: Model,
    backends: Annotated[
        list[str] | None,
        typer.Option(
            "-b",
            "--backend",
            metavar="NAME[:key=value,...]",
            help="A backend and its options, which `edgecore backends NAME` lists. May be repeated: the first has priority.",
        ),
    ] = None,
    runtime: Runtime = "executorch-1.5",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.pte", help="The output; by default named after MODEL."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Write an HTML page: where each operator runs, and why; with -q also the quantization error of each layer.",
        ),
    ] = None,
    external_data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[PATTERN=]NAME",
            help="Write weights to NAME.ptd beside the .pte: all, or those whose qualified name matches. May be repeated.",
        ),
    ] = None,
    segment_alignment: Annotated[
        int,
        typer.Option(
            metavar="BYTES",
            help="Start each segment of the files at a multiple: 4096 to map, lock or read it on its own.",
        ),
    ] = 128,
    constant_tensor_alignment: Annotated[
        int | None,
        typer.Option(metavar="BYTES", help="Start each constant tensor at a multiple; by default 16."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="static", help="Plan memory for inputs and outputs, too; by default the caller supplies it."
        ),
    ] = None,
    share_state: Annotated[
        bool,
        typer.Option("--share-state", help="Let all methods use one copy of mutable buffers with the same name."),
    ] = False,
    constant_methods: Annotated[
        list[str] | None,
        typer.Option(
            "--constant-method",
            metavar="NAME=VALUE",
            help="Add a method that returns a constant, a JSON value or else text. May be repeated.",
        ),
    ] = None,
    quantize: Annotated[
        list[str] | None,
        typer.Option(
            "-q",
            "--quantize",
            metavar="[BACKEND=]RECIPE",
            help="Quantize the model first: int8 (needs --calibration), int8-dynamic, int4-weights, fp16, with parameters: "
            "int4-weights:group=64,skip=head; or a .yaml file with them. May be repeated, for several backends.",
        ),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of samples: one .npy file each, or, if the model has several inputs, one .npz file each with an "
            "entry per input.",
        ),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Run the file on the example inputs and compare the outputs with eager PyTorch; exit status 1 if they "
            "differ by more than expected.",
        ),
    ] = False,
    dump_passes: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Write the graph after each pass that changed it, into a new or empty folder."
        ),
    ] = None,
    etrecord: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Write an ETRecord without weights, for ExecuTorch's developer tools."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compile a model to a .pte file."""
    import edgecore

    parsed_backends = [parse_backend(text) for text in backends or ()]
    constants = parse_constants(constant_methods or ())
    recipes = parse_quantize(quantize) if quantize else None
    output = output or Path(f"{stem(model)}.pte")
    check_folders(output, report, etrecord)
    with progress(f"loading {model}"), hold_stderr():
        source, example_inputs, dynamic_shapes = load_model(model)
    with progress(f"compiling {model}") as status, hold_stderr():
        start = time.perf_counter()
        program = edgecore.compile(
            source,
            example_inputs,
            backends=[edgecore.Backend(name, **backend_options) for name, backend_options in parsed_backends],
            dynamic_shapes=dynamic_shapes,
            runtime=runtime,
            external_data=parse_external_data(external_data or ()),
            segment_alignment=segment_alignment,
            constant_tensor_alignment=constant_tensor_alignment,
            memory=memory,
            share_state=share_state,
            constant_methods=constants,
            quantize=recipes,
            calibration=calibration and CountedSamples(calibration, status),
            dump_passes=dump_passes,
            generate_etrecord=etrecord is not None,
        )
        seconds = time.perf_counter() - start
        output, *data = program.save(output)
        if etrecord:
            program.get_etrecord().save(etrecord)
    placement = program.report(quantization=bool(report and quantize))
    if report:
        placement.to_html(report)
    comparison = None
    if compare:
        with progress(f"running {output}"), hold_stderr():
            comparison = program.compare(source)
    size = output.stat().st_size
    if as_json:
        print_json(
            {
                "file": str(output),
                "bytes": size,
                "data": [str(path) for path in data],
                "seconds": round(seconds, 3),
                "runtime": runtime,
                "delegates": placement.delegates,
                "failures": [asdict(failure) for failure in placement.failures],
                "left_outside": [asdict(row) for row in placement.left_outside],
                "buffers": [asdict(row) for row in placement.buffers],
                "quantization": placement.quantization and [_json(asdict(row)) for row in placement.quantization],
                "comparison": comparison and [_json(asdict(row)) for row in comparison.rows],
            }
        )
    else:
        print(placement)
        for path in data:
            print(f"{path}: {path.stat().st_size:,} bytes")
        print(f"{output}: {size:,} bytes, compiled in {seconds:.1f} s")
        if comparison is not None:
            print(comparison)
    if comparison is not None and not comparison.ok:
        raise EdgecoreError(f"{output}: {comparison.verdict}")


class CountedSamples:
    """The calibration samples of a folder, whose number the animated line `status` shows while they are read."""

    def __init__(self, folder: Path, status: Status) -> None:
        self.folder = folder
        self.status = status

    def __iter__(self) -> Iterator[Any]:
        from edgecore.quantize import samples

        text = self.status.status
        for count, (sample, _) in enumerate(samples(self.folder), 1):
            self.status.update(f"{text}, calibration sample {count}")
            yield sample
        self.status.update(text)


def _json(value: Any) -> Any:
    """Replace infinities and NaN, which JSON does not have, by None.

    An SQNR is infinite if quantization changed nothing.
    """
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
