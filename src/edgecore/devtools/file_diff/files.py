"""Compare two files: sizes, signature, placement of operators, weights, memory and time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgecore import format as fmt
from edgecore.devtools.describe import describe, signature
from edgecore.devtools.file_arguments import content, program_file
from edgecore.devtools.file_diff.differences import Differences
from edgecore.devtools.file_diff.page import diff_page
from edgecore.devtools.file_diff.text import diff_text
from edgecore.devtools.file_diff.time import measured_times, read_traces, traced_times
from edgecore.devtools.file_diff.weights import compare_weights, weights_of
from edgecore.devtools.graph import Operator, operators_of
from edgecore.devtools.memory import delegate_needs, peak
from edgecore.devtools.profiling import Trace
from edgecore.format import BPTE_IDENTIFIER, META_KEY, Buffer, PteFile, get_meta, read_bpte
from edgecore.html import frame


@dataclass(slots=True)
class Diff(Differences):
    """The comparison of two files: the differences, as text and as a page.

    Attributes:
        sources: The data of the page: the two programs, their traces or None, and the method whose times were compared.
    """

    sources: tuple[Sequence[PteFile], Sequence[Trace] | None, str] = field(default=((), None, ""), repr=False)

    def text(self) -> str:
        """Return the comparison as text of at most 40 lines."""
        return diff_text(self)

    def to_html(self) -> str:
        """Return the comparison as an HTML page; its operators have times if `diff` received traces."""
        return diff_page(self, *self.sources)

    def _repr_html_(self) -> str:
        """Return the page for a notebook."""
        return frame(self.to_html())


@dataclass(slots=True)
class _Side:
    """One of the two files to compare: its bytes, their number by kind of content, and the parsed program."""

    name: str
    raw: bytes
    kinds: dict[str, int]
    pte: PteFile
    facts: dict[str, Any]
    operators: list[Operator] = field(default_factory=list)


def diff(
    a: Any,
    b: Any,
    *,
    traces: tuple[Any, Any] | None = None,
    runs: int = 0,
    method: str = "forward",
    data: tuple[Sequence[Any], Sequence[Any]] = ((), ()),
    arguments: Callable[[Any, Any], Sequence[Any]] | None = None,
    threads: int | None = None,
) -> Diff:
    """Compare two files.

    Args:
        a: Path of the first `.pte` or `.bpte`.
        b: Path of the second `.pte` or `.bpte`.
        traces: ETDumps of both files; their times are compared.
        runs: Number of runs of each file on this machine, alternately; 0 measures no times.
        method: The method whose times are compared.
        data: The `.ptd` files of each file. Without them, weights in `.ptd` files are compared by their hashes.
        arguments: Takes a loaded method and the path of its file; returns the inputs for `runs`.
        threads: As in `edgecore.load`, for `runs`.

    Returns:
        The comparison.

    Raises:
        FormatError: A file is of another kind, or damaged.
        EdgecoreError: A file cannot be run, or a trace has no run of the method.

    Example:
        >>> print(edgecore.devtools.diff("old.pte", "new.pte").text())
    """
    first, second = _side(a), _side(b)
    weights_a, weights_b = (_ptd(files) for files in data)
    programs = (first.pte, second.pte)
    times, read = None, None
    if traces:
        read = read_traces(programs, traces, method)
        times = traced_times(read)
    elif runs:
        times = measured_times((a, b), runs, method, data, arguments, threads)
    return Diff(
        first.name,
        second.name,
        first.raw == second.raw,
        _sizes(first, second),
        _signatures(first, second),
        _operators(first, second),
        compare_weights(weights_of(first.pte, weights_a), weights_of(second.pte, weights_b)),
        _memory(first, second),
        times,
        (programs, read, method),
    )


def _side(path: Any) -> _Side:
    raw = bytes(content(path))
    pte = program_file(raw)
    return _Side(Path(path).name, raw, bytes_by_kind(raw, pte), pte, describe(pte), operators_of(pte))


def _ptd(files: Sequence[Any]) -> dict[str, fmt.ExternalData]:
    return {key: entry for file in files for key, entry in fmt.read_ptd(content(file)).entries.items()}


def bytes_by_kind(raw: Buffer, pte: PteFile) -> dict[str, int]:
    """Count the bytes of each kind of content, such as constants or metadata; the counts add up to the file's size.

    Args:
        raw: Content of the `.pte` or `.bpte`.
        pte: The program that was read from it.
    """
    names = {"mutable": "initial state", "delegate": "delegate blobs", "named": "data of delegates"}
    sizes: Counter[str] = Counter()
    for part in fmt.without_shared(pte.segments):
        sizes[names.get(part.kind, part.kind)] += part.size
    meta = pte.named_data.get(META_KEY)
    if meta is not None:
        size = memoryview(meta.data).nbytes
        sizes["metadata"] += size
        sizes["data of delegates"] -= size
    total = memoryview(raw).nbytes
    if bytes(memoryview(raw)[4:8]) == BPTE_IDENTIFIER:
        sizes["test cases"] = total - memoryview(read_bpte(raw).program).nbytes
    sizes["tables and padding"] = total - sum(sizes.values())
    return {name: size for name, size in sizes.items() if size}


def _sizes(a: _Side, b: _Side) -> dict[str, Any]:
    sides = {key: {"bytes": len(side.raw), "kinds": side.kinds} for key, side in (("a", a), ("b", b))}
    return {"different": sides["a"] != sides["b"], **sides}


def _signatures(a: _Side, b: _Side) -> dict[str, Any]:
    first, second = ({method["name"]: method for method in side.facts["methods"]} for side in (a, b))
    only = {"a": [name for name in first if name not in second], "b": [name for name in second if name not in first]}
    changed = []
    for name in (name for name in first if name in second):
        for kind in ("inputs", "outputs"):
            rows = [side[name][kind] for side in (first, second)]
            for index in range(max(map(len, rows))):
                values = [row[index] if index < len(row) else None for row in rows]
                named = all(value and value["name"] for value in values)  # files of other compilers have no names
                old, new = (value and (f"{value['name']} " if named else "") + signature(value) for value in values)
                if old != new:
                    changed.append({"method": name, "kind": kind[:-1], "index": index, "a": old, "b": new})
    return {"different": bool(changed or only["a"] or only["b"]), "only": only, "changed": changed}


def _operators(a: _Side, b: _Side) -> dict[str, Any]:
    """Compare the backend of each operator, unless a file does not record which operators its delegates compute."""
    delegates = {
        key: [row for method in side.facts["methods"] for row in method["delegates"]] for key, side in zip("ab", (a, b))
    }
    unknown = [side.name for key, side in zip("ab", (a, b)) if delegates[key] and get_meta(side.pte) is None]
    blobs = {key: dict(Counter(row["backend_id"] for row in rows)) for key, rows in delegates.items()}
    section: dict[str, Any] = {
        "different": blobs["a"] != blobs["b"],
        "unknown": unknown,
        "delegates": blobs,
        "count": {"a": len(a.operators), "b": len(b.operators)},
        "moved": [],
        "changed": [],
        "gone": [],
        "added": [],
    }
    if unknown:
        return section
    first, second = ({operator.key: operator for operator in side.operators} for side in (a, b))
    for key, old in first.items():
        new = second.get(key)
        if new is None:
            section["gone"].append(_row(old) | {"backend": old.backend})
        elif new.backend != old.backend:
            section["moved"].append(_row(old) | {"a": old.backend, "b": new.backend})
        elif new.arguments != old.arguments:
            section["changed"].append(_row(old) | {"a": list(old.arguments), "b": list(new.arguments)})
    section["added"] = [_row(old) | {"backend": old.backend} for key, old in second.items() if key not in first]
    section["different"] |= any(section[name] for name in ("moved", "changed", "gone", "added"))
    return section


def _row(operator: Operator) -> dict[str, Any]:
    return {name: getattr(operator, name) for name in ("method", "module", "operator", "ordinal", "source")}


def _memory(a: _Side, b: _Side) -> dict[str, Any]:
    methods = []
    names = [[plan.name for plan in side.pte.program.execution_plan] for side in (a, b)]
    for name in (name for name in names[0] if name in names[1]):
        row: dict[str, Any] = {"method": name}
        for key, side in (("a", a), ("b", b)):
            plan = next(plan for plan in side.pte.program.execution_plan if plan.name == name)
            highest = peak(side.pte, name)
            row[key] = {
                "arenas": list(plan.non_const_buffer_sizes[1:]),
                "peak": highest.bytes,
                "owners": highest.as_rows()[:10],
                "delegates": delegate_needs(side.pte, name),
            }
        figures = [(row[key]["arenas"], row[key]["peak"], row[key]["delegates"]) for key in ("a", "b")]
        methods.append(row | {"different": figures[0] != figures[1]})
    return {"different": any(row["different"] for row in methods), "methods": methods}
