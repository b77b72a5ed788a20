"""Check a file against limits in a `.toml`: sizes, memory, operators, delegates, and time relative to another file."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from edgecore.devtools.describe import describe
from edgecore.devtools.file_arguments import content, program_file
from edgecore.devtools.file_diff import FEWEST, difference, measured_runs
from edgecore.devtools.graph import Operator, operators_of
from edgecore.devtools.memory import delegate_needs, peak
from edgecore.devtools.profiling import KERNELS
from edgecore.errors import EdgecoreError
from edgecore.format import PteFile, get_meta

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LIMITS: dict[str, dict[str, type]] = {
    "size": {"max_file_bytes": int, "max_constant_bytes": int, "max_blob_bytes": int},
    "memory": {"max_planned_bytes": int, "max_peak_bytes": int, "max_delegate_bytes": int},
    "operators": {"allowed": list, "forbidden": list, "max_kernels": int, "min_delegated": float},
    "delegates": {"allowed": list, "max_count": int},
    "time": {"relative_to": str, "max_ratio": float, "method": str, "runs": int, "threads": int},
}
"""The tables and keys that a `.toml` file of limits may have, with the type of each value."""


def figures(file: Any) -> dict[str, Any]:
    """Return the static figures of a file: bytes, memory, operators, delegates.

    Args:
        file: Path or content of a `.pte` or `.bpte`.

    Raises:
        FormatError: The file is of another kind, or damaged.
    """
    raw = content(file)
    return figures_of(program_file(raw), memoryview(raw).nbytes)


def figures_of(pte: PteFile, size: int) -> dict[str, Any]:
    """Return the figures of a program in a file of `size` bytes.

    The memory figures are the maximum over all methods. `delegated` is the share of operators that delegates compute,
    `operators` maps each kernel or ATen name to a number of operators; both are None if the file does not name its
    delegates' operators.
    """
    facts = describe(pte)
    names = [method["name"] for method in facts["methods"]]
    needs = [delegate_needs(pte, name) for name in names]
    backends = Counter(row["backend_id"] for method in facts["methods"] for row in method["delegates"])
    known = get_meta(pte) is not None or not backends
    operators = operators_of(pte)
    kernels = [operator for operator in operators if KERNELS in operator.backend.split("+")]
    return {
        "file_bytes": size,
        "constant_bytes": facts["constant_bytes"],
        "blob_bytes": sum(memoryview(blob).nbytes for blob in pte.delegate_blobs),
        "planned_bytes": max((method["planned_bytes"] for method in facts["methods"]), default=0),
        "peak_bytes": max((peak(pte, name).bytes for name in names), default=0),
        "delegate_bytes": max(map(_sum, needs), default=0) if None not in needs else None,
        "delegates": dict(sorted(backends.items())),
        "kernels": len(kernels),
        "delegated": 1 - len(kernels) / len(operators) if known and operators else None,
        "operators": dict(sorted(Counter(operator.operator for operator in operators).items())) if known else None,
        "kernel_operators": dict(sorted(Counter(operator.operator for operator in kernels).items())),
    }


def _sum(needs: Mapping[str, Mapping[str, int]] | None) -> int:
    return sum(size for uses in (needs or {}).values() for size in uses.values())


def read_expectation(path: Path) -> dict[str, dict[str, Any]]:
    """Read limits from a `.toml`.

    Raises:
        EdgecoreError: The file is not TOML, or has an unknown key or an invalid value.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise EdgecoreError(f"{path} is no TOML: {error}") from error
    for name, table in tables.items():
        if name not in LIMITS:
            raise EdgecoreError(f"{path}: {name!r} is no table of an expectation; there are {', '.join(LIMITS)}")
        if not isinstance(table, dict):
            raise EdgecoreError(f"{path}: {name!r} is a table, so its keys follow a line [{name}]; got {table!r}")
        for key, value in table.items():
            kind = LIMITS[name].get(key)
            if kind is None:
                raise EdgecoreError(f"{path}: [{name}] has no key {key!r}; there are {', '.join(LIMITS[name])}")
            if not _fits(value, kind):
                words = {int: "an integer of at least 0", float: "a number of at least 0", str: "a text"}
                raise EdgecoreError(
                    f"{path}: [{name}] {key} must be {words.get(kind, 'a list of texts')}; got {value!r}"
                )
    time = tables.get("time", {})
    if time and not {"relative_to", "max_ratio"} <= set(time):
        raise EdgecoreError(f"{path}: [time] needs both relative_to and max_ratio")
    for key, minimum in (("runs", FEWEST), ("threads", 1)):
        if time.get(key, minimum) < minimum:
            raise EdgecoreError(f"{path}: [time] {key} must be at least {minimum}; got {time[key]}")
    return tables


def _fits(value: Any, kind: type) -> bool:
    if kind is list:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind is str:
        return isinstance(value, str)
    number = isinstance(value, int) or (kind is float and isinstance(value, float))
    return number and not isinstance(value, bool) and bool(value >= 0)


def check_budget(
    file: Path,
    expectation: Path,
    *,
    data: Sequence[Any] = (),
    arguments: Callable[[Any, Any], Sequence[Any]] | None = None,
) -> list[str]:
    """Compare a file with the limits of a `.toml`, and return the limits that it exceeds.

    Args:
        file: The `.pte` or `.bpte`.
        expectation: The `.toml` with the limits. Paths in it are relative to its folder.
        data: `.ptd` files that the runs need.
        arguments: Function that takes a loaded method and the path of its file, and returns the inputs of the runs.

    Returns:
        One sentence for each exceeded limit, with both numbers.

    Raises:
        EdgecoreError: A file is damaged or cannot run, or lacks the metadata that a limit needs.
    """
    limits = read_expectation(expectation)
    raw = content(file)
    pte = program_file(raw)
    measured = figures_of(pte, memoryview(raw).nbytes)
    broken = []
    for table in ("size", "memory"):
        for key, limit in limits.get(table, {}).items():
            name = key.removeprefix("max_")
            value = _known(measured[name], file, key)
            if value > limit:
                broken.append(f"{_WORDS[name]} {value:,} bytes, and {key} allows {limit:,}")
    broken += _operators(measured, operators_of(pte), limits.get("operators", {}), file)
    broken += _delegates(measured, limits.get("delegates", {}))
    if limits.get("time"):
        reference = expectation.parent / limits["time"]["relative_to"]
        broken += _time((reference, file), limits["time"], data, arguments)
    return broken


_WORDS = {
    "file_bytes": "the file has", "constant_bytes": "constants have", "blob_bytes": "the blobs of delegates have",
    "planned_bytes": "the arenas of a method have", "peak_bytes": "at the peak the arenas hold",
    "delegate_bytes": "delegates declare to need",
}  # fmt: skip


def _known(value: Any, file: Path, key: str) -> Any:
    if value is None:
        raise EdgecoreError(f"{file} has no metadata of edgecore, which {key} needs; leave out this limit")
    return value


def _operators(
    measured: Mapping[str, Any], operators: Sequence[Operator], limits: Mapping[str, Any], file: Path
) -> list[str]:
    """Check limits on operators: kernels may compute only `allowed` operators; `forbidden` ones must not occur."""
    broken = []
    if "allowed" in limits:
        for name, count in measured["kernel_operators"].items():
            if not _matches(name, limits["allowed"]):
                where = next(row for row in operators if row.operator == name and KERNELS in row.backend.split("+"))
                broken.append(f"{_place(name, where)} runs on kernels {_times(count)}, and allowed does not list it")
    for pattern in limits.get("forbidden", ()):
        for name, count in _known(measured["operators"], file, "forbidden").items():
            if _matches(name, [pattern]):
                where = next(row for row in operators if row.operator == name)
                broken.append(f"{_place(name, where)} occurs {_times(count)}, and forbidden lists {pattern!r}")
    if measured["kernels"] > limits.get("max_kernels", measured["kernels"]):
        broken.append(
            f"kernels compute {measured['kernels']} operators, and max_kernels allows {limits['max_kernels']}"
        )
    if "min_delegated" in limits:
        share = _known(measured["delegated"], file, "min_delegated")
        if share < limits["min_delegated"]:
            broken.append(
                f"delegates compute {share:.4f} of the operators, and min_delegated asks for {limits['min_delegated']}"
            )
    return broken


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _place(name: str, operator: Operator) -> str:
    return f"{name} (in {operator.module}, {operator.source})" if operator.module and operator.source else name


def _delegates(measured: Mapping[str, Any], limits: Mapping[str, Any]) -> list[str]:
    broken = []
    for name, count in measured["delegates"].items():
        if "allowed" in limits and not _matches(name, limits["allowed"]):
            broken.append(
                f"backend {name} has {count} delegates, and allowed lists {', '.join(limits['allowed']) or 'none'}"
            )
    total = sum(measured["delegates"].values())
    if total > limits.get("max_count", total):
        broken.append(f"the file has {total} delegates, and max_count allows {limits['max_count']}")
    return broken


def _time(
    files: tuple[Path, Path],
    limits: Mapping[str, Any],
    data: Sequence[Any],
    arguments: Callable[..., Sequence[Any]] | None,
) -> list[str]:
    """Run the file and the reference alternately; return an error if even the lower bound of the 95 % interval of the
    time ratio exceeds `max_ratio`.
    """
    runs, method, threads = limits.get("runs", 50), limits.get("method", "forward"), limits.get("threads")
    times = measured_runs(files, runs, method, (data, data), arguments, threads)
    ratio = difference(times[0], times[1], paired=True)
    low, high = (1 + bound for bound in ratio["interval"])
    if low <= limits["max_ratio"]:
        return []
    return [
        f"a run takes {1 + ratio['difference']:.3f} times as long as one of {files[0].name} (95 % interval {low:.3f} "
        f"to {high:.3f}), and max_ratio allows {limits['max_ratio']}"
    ]


def write_expectation(measured: Mapping[str, Any]) -> str:
    """Return a `.toml` whose limits are the measured figures of a file."""
    lines = ["# Limits for `edgecore budget`: today's figures. docs/ci.md lists all keys.", "[size]"]
    lines += [
        f"max_file_bytes = {measured['file_bytes']}",
        "",
        "[memory]",
        f"max_planned_bytes = {measured['planned_bytes']}",
    ]
    if measured["delegate_bytes"] is not None:
        lines.append(f"max_delegate_bytes = {measured['delegate_bytes']}")
    lines += [
        "",
        "[operators]",
        f"allowed = {json.dumps(list(measured['kernel_operators']))}  # what kernels may compute",
    ]
    if measured["delegated"] is not None:
        share = int(measured["delegated"] * 10_000) / 10_000  # round down, so that the measured file itself passes
        lines.append(f"min_delegated = {share}")
    allowed, count = json.dumps(list(measured["delegates"])), sum(measured["delegates"].values())
    return "\n".join([*lines, "", "[delegates]", f"allowed = {allowed}", f"max_count = {count}", ""])


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
