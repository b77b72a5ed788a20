"""`edgecore inspect`: show the content of a file as text, JSON or an HTML page. Needs neither torch nor the runtime."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgecore.cli.common import AnyFile, Json, print_json, read_any, read_file, stdout
from edgecore.errors import EdgecoreError

if TYPE_CHECKING:
    from edgecore.format import PteFile


def command(
    file: AnyFile,
    as_json: Json = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a self-contained HTML page.")] = None,
    blobs: Annotated[
        bool, typer.Option("--blobs", help="Show the content of the delegates' blobs; needs their backends.")
    ] = False,
    blob: Annotated[int | None, typer.Option(metavar="INDEX", help="Show the content of one blob.")] = None,
) -> None:
    """Show the content of a file: inputs, outputs, delegates, operators and memory of each method."""
    from edgecore.cli.blobs import describe_blobs
    from edgecore.cli.describe import describe, describe_cases, describe_data
    from edgecore.format import BpteFile, PtdFile

    content = read_any(file)
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
        html.write_text(_html(facts, pte), encoding="utf-8")
    if as_json:
        print_json(facts)
    elif html:
        print(html)
    else:
        _print(facts)


def _print_data(facts: dict[str, Any]) -> None:
    from rich.table import Table

    print(f"{facts['file']}: {facts['bytes']:,} bytes, {len(facts['data'])} names, {len(facts['segments'])} segments")
    table = Table("name", "content", "bytes")
    for entry in facts["data"]:
        content = f"{entry['dtype']} {entry['shape']}" if "dtype" in entry else "data of a delegate"
        table.add_row(entry["key"], content, f"{entry['bytes']:,}")
    if table.row_count:
        stdout.print(table)


def _print(facts: dict[str, Any]) -> None:
    from rich.table import Table

    origin = f", made by {facts['producer']} for {facts['profile']}" if facts["producer"] else ""
    print(f"{facts['file']}: {facts['bytes']:,} bytes{origin}")
    print(f"constants {facts['constant_bytes']:,} bytes, named data {len(facts['named_data'])} entries")
    if facts["external_data"]:
        print(f"weights in .ptd files: {', '.join(facts['external_data'])}")
    for name, count in facts.get("test_cases", {}).items():
        print(f"test cases of {name}: {count}")
    for method in facts["methods"]:
        print(f"\nmethod {method['name']}")
        for kind in ("inputs", "outputs"):
            for index, value in enumerate(method[kind]):
                name = f" '{value['name']}'" if value["name"] else ""
                print(f"  {kind[:-1]} {index}{name}: {signature(value)}")
        declared = method["delegate_bytes"]
        memory = f"{method['planned_bytes']:,} bytes planned"
        print(f"  memory: {memory}, {'unknown' if declared is None else f'{declared:,} bytes'} for delegates")
        table = Table("runs", "on", "size or count")
        for delegate in method["delegates"]:
            table.add_row("delegate", delegate["backend_id"], f"{delegate['bytes']:,} bytes")
        for name, count in method["operators"].items():
            table.add_row(name, "edgecore's kernels", str(count))
        if table.row_count:
            stdout.print(table)


def _print_blobs(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        print(f"blob {row['blob']}: {row['backend_id']}, {row['bytes']:,} bytes, for {', '.join(row['delegates'])}")
        for line in row["lines"] or [f"no description: {row['problem']}"]:
            print(f"  {line}")
    if not rows:
        print("the file has no delegates")


def signature(value: dict[str, Any]) -> str:
    """Format the type of an input or output: `float32 [batch: 1..8, 3, 224, 224]`, where `batch` is a symbolic size.

    Args:
        value: An entry of `inputs` or `outputs` that `describe` made.
    """
    if value["type"] != "tensor":
        return f"{value['type']} {value['value']}" if "value" in value else str(value["type"])
    return f"{value['dtype']} [{', '.join(map(_dim, value['dims']))}]"


def _dim(dim: dict[str, Any]) -> str:
    if dim["min"] == dim["max"]:
        return str(dim["max"])
    return f"{dim['name'] + ': ' if dim['name'] else ''}{dim['min']}..{dim['max']}"


def _html(facts: dict[str, Any], pte: PteFile) -> str:
    from edgecore.devtools.page import memory_views
    from edgecore.html import page, table

    made_by = [("made by", f"{facts['producer']} for {facts['profile']}")] if facts["producer"] else []
    sizes = [("size", f"{facts['bytes']:,} bytes, of which constants {facts['constant_bytes']:,}")]
    tables, arenas = [], []
    for method in facts["methods"]:
        name = method["name"]
        needs = f"planned memory {method['planned_bytes']:,} bytes"
        if method["delegate_bytes"] is not None:
            needs += f", declared by delegates {method['delegate_bytes']:,}"
        sizes.append((f"method {name}", needs))
        values = [
            (f"{kind[:-1]} {index}", value["name"] or "", signature(value))
            for kind in ("inputs", "outputs") for index, value in enumerate(method[kind])
        ]  # fmt: skip
        tables.append(table(f"{name}: inputs and outputs", ["value", "name", "type"], values))
        delegates = [(one["backend_id"], one.get("made_by", "unknown"), one["bytes"]) for one in method["delegates"]]
        tables.append(table(f"{name}: delegates", ["backend", "made by", "#bytes"], delegates))
        operators = list(method["operators"].items())
        tables.append(table(f"{name}: operators on edgecore's kernels", ["operator", "#calls"], operators))
        arenas += [one | {"name": f"{name}, {one['name']}"} for one in memory_views(pte, name)]
    segments = [(one["kind"], one["offset"], one["bytes"]) for one in facts["segments"]]
    tables.append(table("Segments", ["content", "#offset", "#bytes"], segments))
    shown = [one for one in tables if one["rows"]]
    return page(Path(facts["file"]).name, {"facts": made_by + sizes, "tables": shown, "memory": arenas})
