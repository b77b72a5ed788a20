"""`edgecore compare`: compile a model, run it here or on a device, and name the first operator with a wrong result."""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgecore.cli.common import (
    DeviceBuild,
    DeviceName,
    InputShapes,
    Model,
    Runtime,
    check_folders,
    hold_stderr,
    parse_backend,
)
from edgecore.cli.models import load_model
from edgecore.cli.recipes import parse_quantize
from edgecore.errors import CompileError, EdgecoreError
from edgecore.files import write_file
from edgecore.progress import task
from edgecore.sdk.commands import takes

if TYPE_CHECKING:
    from edgecore.devtools.comparison import CompareReport


@dataclass(frozen=True)
class CompareArguments:
    """The arguments of `edgecore compare`, in the form that typer reads; an absent option is None."""

    model: Model
    input_shapes: InputShapes = None
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            metavar="REAL.npy",
            help="A real sample: a .npy file, a .npz file with an entry per input, or a folder of them. May be "
            "repeated. By default the samples of --calibration, or the example inputs.",
        ),
    ] = None
    backends: Annotated[
        list[str] | None,
        typer.Option("-b", "--backend", metavar="NAME[:key=value,...]", help="As for `edgecore compile`."),
    ] = None
    quantize: Annotated[
        list[str] | None,
        typer.Option("-q", "--quantize", metavar="[BACKEND=]RECIPE", help="As for `edgecore compile`."),
    ] = None
    calibration: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="As for `edgecore compile`: a folder of samples.")
    ] = None
    runtime: Runtime = "executorch-1.5"
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="DB", help="Exit status 1 if an output has a lower SQNR in dB than this against the float model."
        ),
    ] = None
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="REL",
            min=0,
            help="The largest error of one operator that is no fault, relative to its largest value; by default what "
            "rounding explains. For backends that compute in lower precision.",
        ),
    ] = None
    samples: Annotated[int, typer.Option(metavar="N", min=1, help="The largest number of samples.")] = 8
    top: Annotated[int, typer.Option(metavar="N", min=0, help="Number of rows; 0 for all.")] = 30
    as_json: Annotated[Path | None, typer.Option("--json", metavar="OUT", help="Write all figures as JSON.")] = None
    html: Annotated[Path | None, typer.Option(metavar="OUT", help="Write a page for a browser, in one file.")] = None
    extract: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write the first operator that is wrong as a test case into a folder."),
    ] = None
    device: DeviceName = None
    device_build: DeviceBuild = None


@takes(CompareArguments)
def command(arguments: CompareArguments) -> None:
    """Compare each operator of a model on this machine or a device with PyTorch; exit status 1 if one is wrong."""
    from edgecore.numerics.decibels import decibels

    model, html, as_json, threshold = arguments.model, arguments.html, arguments.as_json, arguments.threshold
    report = _compare(arguments)
    print(report.table(arguments.top, min(shutil.get_terminal_size((120, 24)).columns, 180)))
    if as_json:
        write_file(as_json, json.dumps(report.as_dict(), indent=2) + "\n")
    if html:
        write_file(html, report.to_html(model))
    if arguments.extract and report.culprit is not None:
        with task(f"writing {arguments.extract}"), hold_stderr():
            report.culprit.extract(arguments.extract)
        print(f"{arguments.extract}: the operator as a test case; run {arguments.extract / 'run.py'}")
    if not report.ok:
        raise EdgecoreError(f"{model}: {report.verdict}")
    if threshold is not None and not report.accuracy >= threshold:
        raise EdgecoreError(
            f"{model}: the outputs have {decibels(report.accuracy)} against the float model, less than the threshold "
            f"of {threshold:g} dB"
        )


def _compare(arguments: CompareArguments) -> CompareReport:
    """Load the model and compare it on the samples, by default on its example inputs."""
    import edgecore
    from edgecore.devtools.comparison import compare
    from edgecore.devtools.remote import connect

    model, device = arguments.model, arguments.device
    backends = [parse_backend(text) for text in arguments.backends or ()]
    recipes = parse_quantize(arguments.quantize) if arguments.quantize else None
    check_folders(arguments.as_json, arguments.html)
    with task(f"loading {model}") as work, hold_stderr():
        source, example, dynamic_shapes = load_model(model, arguments.input_shapes)
        inputs = _samples(arguments.inputs, arguments.samples) if arguments.inputs else None
        _check_sample(model, source, example, inputs)
        is_example = inputs is None and arguments.calibration is None
        report = compare(
            source,
            ([example] if example is not None else None) if is_example else inputs,
            backends=[edgecore.Backend(name, **options) for name, options in backends],
            quantize=recipes,
            calibration=arguments.calibration,
            samples=arguments.samples,
            dynamic_shapes=dynamic_shapes,
            runtime=arguments.runtime,
            tolerance=arguments.tolerance,
            device=connect(device, work.describe) if device else None,
            device_build=arguments.device_build,
            progress=work.describe,
        )
    return replace(report, conditions=replace(report.conditions, origin="example")) if is_example else report


def _samples(paths: list[Path], count: int) -> list[Any]:
    """Read at most `count` samples from files and folders.

    Raises:
        CompileError: A path does not exist, or cannot be read.
    """
    from edgecore.quantize.calibration import read_file, samples

    arguments: list[Any] = []
    for path in paths:
        if path.is_dir():
            arguments += [args for args, _ in islice(samples(path), count - len(arguments))]
        elif len(arguments) < count:
            arguments.append(read_file(path))
    return arguments


def _check_sample(model: str, source: Any, example: Any, inputs: list[Any] | None) -> None:
    """Run the model on the first sample if this has other shapes than the example, before torch.export traces it.

    Raises:
        CompileError: The model fails. Of a failed export, the message would be about torch.export.
    """
    import torch

    from edgecore.ir.torch_compat import pytree

    if not inputs or example is None or not isinstance(source, torch.nn.Module):
        return
    wanted, got = (
        ", ".join(f"{list(value.shape)}" for value in pytree.tree_leaves(values) if isinstance(value, torch.Tensor))
        for values in (example, inputs[0])
    )
    if wanted == got:
        return
    try:
        with torch.no_grad():
            deepcopy(source)(*inputs[0])  # a copy, because the run may change buffers
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise CompileError(
            f"{model} does not accept --input: the first sample has the shape {got}, the model's example {wanted}: "
            f"{reason}"
        ) from error
