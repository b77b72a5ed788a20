"""`edgecore sweep`: try many models, backends and recipes. Exit status: 0, 1 if a combination fails, 2 failure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgecore.cli.common import complain, failing_with, print_json
from edgecore.files import write_file


def command(
    file: Annotated[
        Path | None, typer.Argument(metavar="SWEEP.toml", help="The models, backends and recipes, and limits.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FOLDER", help="For the results; by default named after SWEEP.toml."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Files that are made side by side; by default the processors. Times are measured alone.",
        ),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print the cells, and run nothing.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute all cells again.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Compute the cells again that are not ok.")] = False,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="OLD NEW",
            help="Compare the results in two folders instead, regressions first; exit status 1 if there is one.",
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="OUT", help="With --compare: write a page for a browser, in one file.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Run the cells on this Ray cluster, of which this machine is a node."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Compile, verify, compare and measure many models on many backends and recipes, each combination in a process."""
    with failing_with(2):
        import edgecore

        if compare is not None:
            worse = _compare(*compare, html, as_json)
            raise typer.Exit(1 if worse else 0)
        if file is None:
            raise typer.BadParameter("name a SWEEP.toml, or --compare OLD NEW", param_hint="SWEEP.toml")
        if plan:
            names = [cell.name for cell in edgecore.sweeps.make_plan(file).cells]
            print_json(names) if as_json else print("\n".join([*names, f"{len(names)} cells"]))
            return
        with edgecore.sweeps.Display() as display:
            result = edgecore.sweep(file, output, jobs=jobs, fresh=fresh, retry=retry, ray=ray, listener=display)
        if as_json:
            print((result.folder / "results.jsonl").read_text(encoding="utf-8"), end="")
        else:
            print(result)
        bad = [row for row in result.rows if row.status not in edgecore.sweeps.GOOD]
    if bad:
        complain(
            f"{len(bad)} of {len(result.rows)} cells are wrong or failed; {result.folder / 'index.html'} shows them"
        )
        raise typer.Exit(1)


def _compare(old: Path, new: Path, html: Path | None, as_json: bool) -> bool:
    """Print the changes between two sweeps; return True if there is a regression."""
    from dataclasses import asdict

    import edgecore
    from edgecore.devtools.printable import join_lines

    rows = edgecore.sweeps.read_results(new)
    changes = edgecore.sweeps.compare_sweeps(edgecore.sweeps.read_results(old), rows)
    if html is not None:
        write_file(html, edgecore.sweeps.sweep_page(rows, f"{old} and {new}", changes))
    if as_json:
        print_json([{key: value for key, value in asdict(change).items() if key != "size"} for change in changes])
    else:
        lines = [f"{'worse' if change.worse else 'other':<6} {change.cell}: {change.what}" for change in changes]
        print(join_lines(lines or ["nothing has changed"]))
    return any(change.worse for change in changes)
