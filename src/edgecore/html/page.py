"""Make a page from the parts of a report, with the scripts and the style in `assets`."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from edgecore.errors import EdgecoreError

SCRIPTS = (
    *("dagre", "model", "dom", "state", "compare", "summary", "table", "tables", "drawings", "network", "accuracy"),
    "page",
)
"""JavaScript files in `assets` (without `.js`) for the page of a report; each may use functions of those before it.
`dagre` places the boxes of the network, and is left out without a graph."""
SWEEP_SCRIPTS = ("dom", "tables", "sweep")
"""JavaScript files for the page of a sweep, whose content `edgecore.sweeps.results.page` makes."""

Tensor = tuple[str, str, str, int, int, int, int]
"""Name, module, source line, first byte, bytes, first and last step of a tensor in an arena."""
Owner = tuple[int, int, list[str]]
"""First byte, end, and names of the tensors, of a byte range of an arena that live tensors occupy without a gap."""


def page(title: str, content: Mapping[str, Any], scripts: Sequence[str] = SCRIPTS) -> str:
    """Return a page that shows the parts of a report.

    The browser may run only the page's own script: the page has a content security policy with the hashes of its script
    and style. Data from a model, such as its names, is in the page only as JSON.

    Args:
        title: Title of the page.
        content: The parts, for JSON; each makes a view.

            - "facts": pairs of a name and a sentence. "warnings": sentences.
            - "bars": dicts with "title" and "parts", pairs of a backend and its number of operators.
            - "sections": dicts with "title" and "lines", for the summary.
            - "runs": nanoseconds of each run.
            - "operators": dicts with "name", "operator", "module", "backend", "line", "kernel", "instruction",
              "handles", "node", "calls", "ns", "min", "max" and "rest", averaged over the runs. Without times: "name",
              "operator", "module", "backend", "line", "node", "partition", "shape" and "why".
            - "operatorTable": a result of `table` whose rows are the operators.
            - "timeline": rows [index of the operator, start, length, level]; if the index is -1, a text follows.
            - "memory": results of `arena`. "tables": results of `table`.
            - "accuracy": "rows" with "module", "operator", "line", "backend", "local" and "accumulated" (dB; None for
              equal values, -1000 for NaN), "wrong" and "why"; "culprit": index of the first row that is wrong, or None;
              "own" and "whole": names of "local" and "accumulated"; "title" and "note": the title of the table of rows,
              and a sentence about the drawing.
            - "compare": makes a page of two files, "A" and "B". "timed": True if the files have times. "modules": rows
              like operators, whose "members" are indexes of operators. Operators have "a" and "b" (nanoseconds or
              None), "difference", "interval" and "verdict" as `file_diff.time.difference` returns them. "placement":
              rows with "kind", "module", "operator", "line", "a", "b" and "members".
            - "graph": dicts with "id", "operator", "module", "line", "handles", "backend", "partition", "shape" and
              "inputs", the ids of the nodes whose results the node reads.
        scripts: The scripts of the page: `SCRIPTS` for a report, or `SWEEP_SCRIPTS`.

    Returns:
        The page.

    Raises:
        EdgecoreError: The extra `edgecore[cli]` is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader
        from markupsafe import Markup
    except ModuleNotFoundError as error:
        raise EdgecoreError(f'a page needs the package {error.name}: pip install "edgecore[cli]"') from error

    scripts = [name for name in scripts if name != "dagre" or content.get("graph")]
    environment = Environment(loader=PackageLoader("edgecore.html", "assets"), autoescape=True)
    style, script = _asset("page.css"), "\n".join(['"use strict";', *(_asset(f"{name}.js") for name in scripts)])
    # Escape "<", which could end the script element or begin a comment in it; in JSON it occurs only in strings.
    packed = {**content, **{key: _packed(content[key]) for key in ("operators", "graph") if content.get(key)}}
    data = json.dumps(packed, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; script-src {_hash(script)}; style-src {_hash(style)}"
    )
    return environment.get_template("page.html").render(
        title=title, policy=policy, style=Markup(style), script=Markup(script), data=Markup(data)
    )


def frame(text: str) -> str:
    """Return markup of a frame that shows a page in a notebook and keeps its style and script out of the notebook."""
    return f'<iframe srcdoc="{escape(text)}" title="report" style="width: 100%; height: 480px; border: 0"></iframe>'


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    note: str = "",
    marked: Sequence[int] = (),
    linked: bool = False,
) -> dict[str, Any]:
    """Return a table for `page`.

    Args:
        title: Name of the rows.
        columns: Names of the columns. A first character "#", "@" or "=" is not shown: "#" marks a column of numbers,
            "@" of names of backends, which have the backends' colours, and "=" of texts that stay in one line.
        rows: Texts and numbers of each row.
        note: A sentence under the title.
        marked: Indexes of the rows to highlight.
        linked: True if the rows are the operators of the page, in this order.
    """
    kinds = {"#": "number", "@": "backend", "=": "whole"}
    heads = [(name.lstrip("#@="), kinds.get(name[0], "")) for name in columns]
    return {"title": title, "note": note, "columns": heads, "rows": rows, "marked": marked, "linked": linked}


def arena(name: str, steps: int, tensors: Sequence[Tensor], unit: str = "instruction") -> dict[str, Any]:
    """Return an arena for `page`, with the step that uses the most bytes, and the tensors that are live at this step.

    Args:
        name: Name of the arena.
        steps: Number of steps of the program, such as instructions.
        tensors: The tensors in the arena.
        unit: The name of a step, for the axis of the drawing.
    """
    begins: dict[int, list[Tensor]] = {}
    for tensor in tensors:
        begins.setdefault(tensor[5], []).append(tensor)
    peak, needed, live, owners = 0, -1, list[Tensor](), list[Owner]()
    for step in range(steps):
        live = [tensor for tensor in live if tensor[6] >= step] + begins.get(step, [])
        in_use = _owners(live)
        size = sum(end - begin for begin, end, _ in in_use)
        if size > needed:
            peak, needed, owners = step, size, in_use
    owners.sort(key=lambda owner: owner[0] - owner[1])
    return {
        "name": name,
        "bytes": max((begin + size for _, _, _, begin, size, *_ in tensors), default=0),
        "steps": steps,
        "unit": unit,
        "peak": peak,
        "needed": needed,
        "owners": [[", ".join(names), end - begin] for begin, end, names in owners[:8]],
        "tensors": tensors,
    }


def _owners(live: Sequence[Tensor]) -> list[Owner]:
    """Return the ranges of bytes that live tensors occupy; a tensor may lie inside another tensor."""
    owners: list[Owner] = []
    for name, module, _, begin, size, *_ in sorted(live, key=lambda tensor: (tensor[3], -tensor[4])):
        text = f"{name} of {module}" if module else name
        if owners and begin < owners[-1][1]:
            first, end, names = owners.pop()
            owners.append((first, max(end, begin + size), [*names, text]))
        else:
            owners.append((begin, begin + size, [text]))
    return owners


def _packed(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Store rows with equal keys as one list of keys and a list of values per row, in half the size of dicts."""
    keys = list(rows[0])
    return {"keys": keys, "rows": [[row[key] for key in keys] for row in rows]}


@cache
def _asset(name: str) -> str:
    return (files("edgecore.html") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the source expression with which a content security policy allows an element with this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
