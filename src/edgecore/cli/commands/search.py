"""`edgecore search`: find the best recipe for a model. Exit status: 0, 1 if all lose too much accuracy, 2 failure."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from edgecore.cli.common import Model, failing_with, parse_backend, print_json


class Objective(str, Enum):
    """The values of the option `--objective`."""

    latency = "latency"
    size = "size"


def command(
    model: Model,
    target: Annotated[
        str, typer.Option("-t", "--target", metavar="NAME[:key=value,...]", help="The backend and its options.")
    ] = "xnnpack",
    calibration: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Folder of samples, or module:function that returns samples.")
    ] = None,
    accuracy: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Gets the program as a function and returns a number, the higher the better. By default outputs are "
            "compared with PyTorch.",
        ),
    ] = None,
    max_loss: Annotated[
        float, typer.Option(metavar="LOSS", help="Largest loss of accuracy, or without --accuracy relative error.")
    ] = 0.01,
    objective: Annotated[Objective, typer.Option(help="What to minimize.")] = Objective.latency,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="For the files and results.")] = Path(
        "search"
    ),
    jobs: Annotated[int | None, typer.Option(metavar="N", min=1, help="Files that are made side by side.")] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Run on this Ray cluster, of which this machine is a node."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Try all recipes of a backend, and modules to leave in floating point, and name the best file."""
    with failing_with(2):
        import edgecore

        name, options = parse_backend(target)
        backend: dict[str, Any] = {"backend": name, **options}
        with edgecore.sweeps.Display() as display:
            result = edgecore.search(
                model,
                target=backend,
                calibration=calibration,
                accuracy=accuracy,
                max_loss=max_loss,
                objective=objective.value,
                output=output,
                jobs=jobs,
                ray=ray,
                listener=display,
            )
        if as_json:
            print_json({"best": result.best and asdict(result.best), "recipe": result.recipe and repr(result.recipe)})
        else:
            print(result)
    if result.best is None:
        raise typer.Exit(1)
