"""`edgecore inspect`: what a file holds, as text, JSON or one HTML page. Needs neither torch nor the runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from edgecore.cli.common import File, Json, print_json, read_file, stdout


def command(
    file: File,
    as_json: Json = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a self-contained HTML page.")] = None,
) -> None:
    """Show what a file holds. For each method: inputs, outputs, delegates, operators, memory."""
    from edgecore.cli.describe import describe

    facts = {"file": str(file), "bytes": file.stat().st_size, **describe(read_file(file))}
    if html:
        html.write_text(_html(facts), encoding="utf-8")
    if as_json:
        print_json(facts)
    elif html:
        print(html)
    else:
        _print(facts)


def _print(facts: dict[str, Any]) -> None:
    from rich.table import Table

    origin = f", made by {facts['producer']} for {facts['profile']}" if facts["producer"] else ""
    print(f"{facts['file']}: {facts['bytes']:,} bytes{origin}")
    print(f"constants {facts['constant_bytes']:,} bytes, named data {len(facts['named_data'])} entries")
    for method in facts["methods"]:
        print(f"\nmethod {method['name']}")
        for kind in ("inputs", "outputs"):
            for index, value in enumerate(method[kind]):
                print(f"  {kind[:-1]} {index}: {signature(value)}")
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


def signature(value: dict[str, Any]) -> str:
    """`float32 [1, 3, 224, 224]`; a dynamic shape shows its greatest sizes."""
    if value["type"] != "tensor":
        return f"{value['type']} {value['value']}" if "value" in value else str(value["type"])
    return f"{value['dtype']} {value['shape']}{' at most' if value['dynamic'] else ''}"


def _html(facts: dict[str, Any]) -> str:
    from jinja2 import Environment, PackageLoader, select_autoescape

    environment = Environment(loader=PackageLoader("edgecore.cli"), autoescape=select_autoescape())
    return environment.get_template("inspect.html").render(facts=facts, signature=signature)
