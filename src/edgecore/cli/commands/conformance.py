"""`edgecore conformance`: run the conformance suite on a backend."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from edgecore.cli.common import parse_backend, stdout

if TYPE_CHECKING:
    from edgecore.conformance import Row


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An installed backend.")],
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="Option of the backend for compiling; may be repeated."),
    ] = None,
    load_option: Annotated[
        list[str] | None,
        typer.Option("--load-option", metavar="KEY=VALUE", help="Option of the backend for loading; may be repeated."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "-k",
            metavar="PATTERN",
            help="Run only checks whose name contains this text or matches this pattern (*, ?); may be repeated.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Use fewer sizes and repetitions.")] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="ERROR",
            help="Maximum error of floating-point results, relative to the largest value, for a backend that computes "
            "in lower precision than the inputs have.  [default: of the dtype in which it computes]",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=1, metavar="SECONDS", help="A check that makes no progress for this time counts as hanging."),
    ] = None,
    runner: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Command that starts an edgecore-run on another processor or device, with the arguments by which it "
            "finds the backend's library there (--backend PATH); it runs the compiled files. Checks that need more "
            "than edgecore-run offers are skipped.",
        ),
    ] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the results as JUnit XML.")] = None,
    as_json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the results as JSON.")] = None,
) -> None:
    """Check an installed backend: operators, networks, options, blobs, threads, memory; exit status 1 if one fails."""
    from edgecore.conformance import run

    group = ""

    def show(row: Row) -> None:
        nonlocal group
        with stdout.capture() as captured:
            if row.group != group:
                group = row.group
                stdout.print(f"[bold]{group}[/bold]")
            color, mark = _MARKS[row.outcome]
            what = row.name.removeprefix(group + "/") + (f": {row.detail}" if row.detail else "")
            stdout.print(f"  [{color}]{mark}[/{color}] {escape(what)}", soft_wrap=True)
        print(captured.get(), end="", flush=True)  # `print` writes above the progress on the same terminal

    report = run(
        name,
        options=_pairs(option, "--option"),
        load_options=_pairs(load_option, "--load-option"),
        only=only or (),
        quick=quick,
        tolerance=tolerance,
        seconds=seconds,
        runner=runner,
        on_row=show,
    )
    if junit:
        report.to_junit(junit)
    if as_json:
        report.to_json(as_json)
    print(report.summary())
    for row in report.failed:
        print(f"failed: {row.name}")
    if not report.ok:
        raise typer.Exit(1)


_MARKS = {"passed": ("green", "ok     "), "failed": ("red", "FAILED "), "skipped": ("yellow", "skipped")}


def _pairs(texts: list[str] | None, flag: str) -> dict[str, object]:
    """Parse `a=1` and `b=x` into a dict, as `edgecore compile -b name:a=1,b=x` does."""
    values: dict[str, object] = {}
    for text in texts or ():
        key, equals, _ = text.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=flag)
        values |= parse_backend(f"backend:{text}")[1]
    return values
