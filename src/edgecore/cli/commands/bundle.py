"""`edgecore bundle`: put test cases into a file, which a device checks without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgecore.cli.common import (
    Data,
    File,
    InputShapes,
    Model,
    check_folders,
    complain,
    hold_stderr,
    is_bundled,
    read_file,
)
from edgecore.cli.models import load_model
from edgecore.errors import EdgecoreError
from edgecore.progress import task


def command(
    model: Model,
    file: File,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.bpte", help="The output; by default named after FILE.pte."),
    ] = None,
    method: Annotated[str, typer.Option(metavar="NAME", help="Name of the method in the file.")] = "forward",
    samples: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of inputs, a test case each: one .npy file, or, if the model has several inputs, one .npz "
            "file with an entry per input. By default the example inputs are the only case.",
        ),
    ] = None,
    data: Data = None,
    input_shapes: InputShapes = None,
) -> None:
    """Bundle a .pte file with test cases: inputs, and the outputs that MODEL computes for them in PyTorch.

    MODEL must have the weights with which FILE.pte was compiled.
    """
    import edgecore
    from edgecore.pipeline.bundled import eager_suite

    output = output or file.with_suffix(".bpte")
    check_folders(output)
    if is_bundled(file):
        raise typer.BadParameter(f"{file} has test cases already; give its .pte file")
    read_file(file)  # reject a file of another kind now, because running the model may take long
    with task(f"running {model}"), hold_stderr():
        source, example, _ = load_model(model, input_shapes)
        suite = eager_suite(method, source, example, samples)
        edgecore.BundledProgram(None, [suite], file).save(output)
    count = len(suite.test_cases)
    try:
        wrong = sum(result.passed is False for result in edgecore.verify_bundled(output, data or ()).results)
    except EdgecoreError as error:  # skip the check of the file: this machine lacks a backend or the weights
        complain(f"{output} is not checked here: {error}")
        wrong = 0
    if wrong:
        outputs = "1 output differs" if wrong == 1 else f"{wrong} outputs differ"
        complain(
            f"on this machine {outputs} from those of {model} by more than `edgecore run` allows: it is another model, "
            "or its weights are random, or FILE.pte is quantized (then give --rtol and --atol to run)"
        )
    print(f"{output}: {output.stat().st_size:,} bytes, {count} test case{'s' * (count > 1)}")
