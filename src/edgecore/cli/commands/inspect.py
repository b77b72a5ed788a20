"""`edgecore inspect`: show the content of a file as text, JSON or an HTML page. Needs neither torch nor the runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from edgecore.cli.common import AnyFile, Json, print_json, read_any, read_file, stdout
from edgecore.errors import EdgecoreError
from edgecore.files import write_file


def command(
    file: AnyFile,
    as_json: Json = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a self-contained HTML page.")] = None,
    blobs: Annotated[
        bool, typer.Option("--blobs", help="Show the content of the delegates' blobs; needs their backends.")
    ] = False,
    blob: Annotated[int | None, typer.Option(metavar="INDEX", help="Show the content of one blob.")] = None,
    memory: Annotated[
        bool,
        typer.Option("--memory", help="Show the arenas over time, the owners of the peak, and what delegates need."),
    ] = False,
) -> None:
    """Show the content of a file: inputs, outputs, delegates, operators and memory of each method."""
    from edgecore.cli.blobs import describe_blobs
    from edgecore.devtools.describe import describe, describe_cases, describe_data
    from edgecore.format import BpteFile, PtdFile

    content = read_any(file)
    if memory:
        from edgecore.devtools.memory import describe_memory, memory_text

        if html or blobs or blob is not None:
            raise EdgecoreError("--memory shows memory only; leave out --html, --blob and --blobs")
        rows = describe_memory(read_file(file))
        print_json(rows) if as_json else print(memory_text(rows))
        return
    if blobs or blob is not None:
        if html:
            raise EdgecoreError("--html cannot show blobs; leave out --html or --blobs")
        rows = describe_blobs(read_file(file), blob)
        print_json(rows) if as_json else _print_blobs(rows)
        return
    facts: dict[str, Any] = {"file": str(file), "bytes": file.stat().st_size}
    if isinstance(content, PtdFile):
        facts |= describe_data(content)
        if html:
            raise EdgecoreError(f"{file} holds weights only; --html needs a .pte or .bpte file")
        if as_json:
            print_json(facts)
        else:
            _print_data(facts)
        return
    pte = read_file(file)
    facts |= describe(pte)
    if isinstance(content, BpteFile):
        facts["test_cases"] = describe_cases(content)
    if html:
        from edgecore.devtools.pages import file_page

        write_file(html, file_page(facts, pte))
    if as_json:
        print_json(facts)
    elif html:
        print(html)
    else:
        _print(facts)


def _show(line: str) -> None:
    """Print a line; names from the file may contain control characters, which `printable` replaces."""
    from edgecore.devtools.printable import printable

    print(printable(line))


def _print_data(facts: dict[str, Any]) -> None:
    from rich.table import Table

    from edgecore.devtools.printable import printable

    _show(f"{facts['file']}: {facts['bytes']:,} bytes, {len(facts['data'])} names, {len(facts['segments'])} segments")
    table = Table("name", "content", "bytes")
    for entry in facts["data"]:
        content = f"{entry['dtype']} {entry['shape']}" if "dtype" in entry else "data of a delegate"
        table.add_row(printable(entry["key"]), content, f"{entry['bytes']:,}")
    if table.row_count:
        stdout.print(table, markup=False)


def _print(facts: dict[str, Any]) -> None:
    from rich.table import Table

    from edgecore.devtools.describe import signature
    from edgecore.devtools.printable import printable

    origin = f", made by {facts['producer']} for {facts['profile']}" if facts["producer"] else ""
    _show(f"{facts['file']}: {facts['bytes']:,} bytes{origin}")
    _show(f"constants {facts['constant_bytes']:,} bytes, named data {len(facts['named_data'])} entries")
    if facts["external_data"]:
        _show(f"weights in .ptd files: {', '.join(facts['external_data'])}")
    for name, count in facts.get("test_cases", {}).items():
        _show(f"test cases of {name}: {count}")
    for method in facts["methods"]:
        print()
        _show(f"method {method['name']}")
        for kind in ("inputs", "outputs"):
            for index, value in enumerate(method[kind]):
                name = f" '{value['name']}'" if value["name"] else ""
                _show(f"  {kind[:-1]} {index}{name}: {signature(value)}")
        declared = method["delegate_bytes"]
        memory = f"{method['planned_bytes']:,} bytes planned"
        _show(f"  memory: {memory}, {'unknown' if declared is None else f'{declared:,} bytes'} for delegates")
        table = Table("runs", "on", "size or count")
        for delegate in method["delegates"]:
            table.add_row("delegate", printable(delegate["backend_id"]), f"{delegate['bytes']:,} bytes")
        for name, count in method["operators"].items():
            table.add_row(printable(name), "edgecore's kernels", str(count))
        if table.row_count:
            stdout.print(table, markup=False)


def _print_blobs(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        _show(f"blob {row['blob']}: {row['backend_id']}, {row['bytes']:,} bytes, for {', '.join(row['delegates'])}")
        for line in row["lines"] or [f"no description: {row['problem']}"]:
            _show(f"  {line}")
    if not rows:
        print("the file has no delegates")
