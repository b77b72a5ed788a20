#!/usr/bin/env python3
"""Compare what each micro-kernel of XNNPACK touches past its buffers' ends with what the library provides there.

Run by get_xnnpack.py on the patched sources before they are compiled, or by hand: ``python3 padding.py SOURCES``. The
kernels are those that ``src/configs/*.c`` names for the architectures below. Each is called over the sizes around its
tile (``footprint.calls``), with its addresses alone (``footprint``), and may read and write no byte that is not there.
Besides, the tile in its name must be the one by which the operators pack weights, which the same tables say.

Not run: assembly (Arm), of which the rows are taken from the name, and the inputs by a rule (see ``assembly``); the
kernels of KleidiAI, which are no part of these sources; other architectures, for which nothing is built here.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from footprint.call import Call, Provided, Room
from footprint.calls import calls_of
from footprint.kernel import Kernel, Source
from footprint.source import NotUnderstood, preprocess

FOOTPRINT = Path(__file__).with_name("footprint")
ARCHITECTURES = {"x86-64": "XNN_ARCH_X86_64", "arm64": "XNN_ARCH_ARM64", "arm": "XNN_ARCH_ARM"}
COMPILER = {"x86-64": {"__x86_64__"}, "arm64": {"__aarch64__", "__GNUC__"}, "arm": {"__arm__", "__GNUC__"}}
PARALLEL = 50  # kernels that are worth starting processes for
KLEIDIAI = re.compile(r"xnn_(?:qp8|pf32|x8_packq|x32_pack_lh)")
KERNEL = re.compile(r"\bxnn_\w+_ukernel(?:_\w+)?\b")
# XNNPACK allocates these at multiples of XNN_ALLOCATION_ALIGNMENT.
ALIGNED = {"w", "weights", "packed_weights", "buffer", "accumulation_buffer", "index_buffer", "zero", "table"}
ROW_PARAMETERS = 8  # bytes of struct xnn_qd8_quantization_params


class PaddingError(ValueError):
    """A kernel and a buffer that is too short for it."""


class Fault(Exception):
    """An error of a kernel that no room after a buffer would mend."""


@dataclass(frozen=True)
class Selected:
    """A kernel that a configuration selects, with what the table says of it."""

    architecture: str
    configuration: str  # the file
    kernel: str
    rows: int | None  # the index in a table of matrix kernels
    fields: tuple[tuple[str, int], ...]  # nr, log2_kr, ..., where the table says them


@dataclass(frozen=True)
class Finding:
    """The most that a kernel reads or writes of one buffer past its end, in bytes."""

    architecture: str
    configuration: str
    kernel: str
    buffer: str
    access: str  # "read" or "write"
    bytes: int
    provided: int
    at: str  # the sizes of the call

    @property
    def is_short(self) -> bool:
        return self.bytes > self.provided

    def sentence(self) -> str:
        verb = {"read": "reads", "write": "writes"}[self.access]
        return (
            f"{self.kernel} ({self.configuration}, {self.architecture}) {verb} {self.bytes} bytes past the end of "
            f"{self.buffer} ({self.at}), where {self.provided} are provided"
        )


# ---- the tables


def macros(architecture: str, assembly: bool) -> dict[str, int]:
    """Macros of the preprocessor when XNNPACK is built for `architecture` with all that it has."""
    known = {ARCHITECTURES[architecture]: 1, "XNN_ENABLE_KLEIDIAI": 0, "XNN_ENABLE_ASSEMBLY": int(assembly)}
    known |= dict.fromkeys([*COMPILER[architecture], "__AVX512FP16__", "XNN_SIMD_HAS_NATIVE_FMA"], 1)
    return known


class Known(dict[str, int]):
    """Every feature is enabled; what else is not named is not defined."""

    def __missing__(self, name: str) -> int:
        return int(name.startswith("XNN_ENABLE_"))


def provided(sources: Path, architecture: str) -> Provided:
    """The constants of the headers. Raises ValueError if one is missing."""
    known = Known(macros(architecture, assembly=True))
    texts = [
        preprocess((sources / name).read_text(), known.__getitem__)
        for name in ("src/xnnpack/common.h", "include/xnnpack.h")
    ]
    values: dict[str, str] = {}
    for text in texts:
        values.update(re.findall(r"^\s*#\s*define\s+(XNN_\w+)\s+(\w+)\s*$", text, re.M))

    def constant(name: str) -> int:
        while not values.get(name, "").isdigit():
            if name not in values:
                raise ValueError(f"XNNPACK's headers do not define {name}; padding.py was written for others.")
            name = values[name]
        return int(values[name])

    extra, params = constant("XNN_EXTRA_BYTES"), constant("XNN_EXTRA_QUANTIZATION_PARAMS")
    # The header compares the width with 16 (#if), which the preprocessor here cannot.
    return Provided(extra, params, max(constant("XNN_MAX_SIMD_SIZE"), 16))


def selected(sources: Path, architecture: str) -> Iterator[Selected]:
    """All kernels that the tables name for one architecture, each table read with and without assembly."""
    seen: set[Selected] = set()
    for file in sorted((sources / "src" / "configs").glob("*.c")):
        raw = file.read_text()
        for assembly in (True, False) if "XNN_ENABLE_ASSEMBLY" in raw else (True,):
            text = preprocess(raw, Known(macros(architecture, assembly)).__getitem__)
            for entry in entries(text, architecture, file.name):
                if entry not in seen:
                    seen.add(entry)
                    yield entry


def entries(text: str, architecture: str, configuration: str) -> Iterator[Selected]:
    """The kernels of one table, each with the numbers that are assigned to its configuration in the same block."""
    for found in KERNEL.finditer(text):
        name = found[0]
        if name.endswith("_fn") or name.startswith("xnn_init_") or KLEIDIAI.match(name):
            continue
        line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        target = re.match(r"\s*([\w\[\]]+)\.[^=]*=", line)
        index = re.search(r"XNN_MR_TO_INDEX\((\d+)\)", line)
        fields: dict[str, int] = {}
        if target is not None:
            assigned = re.compile(rf"^\s*{re.escape(target[1])}\.(\w+)\s*=\s*(\d+);", re.M)
            for field, value in assigned.findall(block_after(text, found.end())):
                fields.setdefault(field, int(value))
        yield Selected(
            architecture, configuration, name, int(index[1]) if index else None, tuple(sorted(fields.items()))
        )


def block_after(text: str, start: int) -> str:
    """Text of the assignments after `start`: to the end or a break of its block, then of the blocks around up to a tile."""
    depth, kept, skips = 0, "", False
    for part in re.finditer(r"[{}]|[^{}]+", text[start:]):
        if part[0] == "{":
            depth += 1
        elif part[0] == "}":
            depth = max(depth - 1, -1)
            if depth < 0:
                if re.search(r"\.(?:mr|nr|channel_tile)\s*=", kept):
                    break
                depth, skips = 0, False
        elif depth == 0 and not skips:
            before, *rest = re.split(r"\bbreak\s*;", part[0])
            kept += before
            skips = bool(rest)
    return kept


# ---- the kernels


def definitions(sources: Path) -> dict[str, tuple[Path, bool]]:
    """The file that defines each kernel, of the files that are compiled; and whether the architecture matters to it."""
    found: dict[str, tuple[Path, bool]] = {}
    for listing in sorted((sources / "cmake" / "gen").glob("*_microkernels.cmake")):
        for files in re.findall(r"SET\(PROD_\w+([^)]*)\)", listing.read_text()):
            for file in files.split():
                text = (sources / file).read_text(errors="replace")
                for name in re.findall(r"^(?:void|\s*BEGIN_FUNCTION)\s+(xnn_\w+_ukernel\w*)", text, re.M):
                    found[name] = sources / file, "_ARCH_" in text
    return found


def examine(entry: Selected, file: Path, sources: Path, constants: Provided) -> list[Finding]:
    """All findings of one kernel. Raises NotUnderstood, and Fault for what is wrong of any number of bytes."""
    if file.suffix == ".S":
        return list(assembly(entry, constants))
    constants = replace(constants, planes=dict(entry.fields).get("planes", 1))
    kernel = Source(sources, file, macros(entry.architecture, assembly=True)).kernel(entry.kernel)
    if "M.tile(" in kernel.code:
        last_row_last(kernel)
    worst: dict[tuple[str, str], Finding] = {}
    for call in calls_of(kernel)(kernel, constants):
        arguments = {name: 0 for _, name in kernel.parameters if name.endswith("params")} | call.arguments
        try:
            kernel.run(call.memory, arguments, call.fields)
        except NotUnderstood:  # of what it read beyond an end, perhaps
            short = [finding for finding in touched(entry, call) if finding.is_short]
            if short:
                return short
            raise
        for finding in touched(entry, call):
            before = worst.get((finding.buffer, finding.access))
            if before is None or before.bytes - before.provided < finding.bytes - finding.provided:
                worst[finding.buffer, finding.access] = finding
    return list(worst.values())


def last_row_last(kernel: Kernel) -> None:
    """Raise Fault unless a kernel for AMX stores from its last row to its first.

    A tile has the rows that there are. The rows of the result that are missing hold what was on the stack, and are
    stored where the last row belongs; that one has to come after them. Other kernels compute the last row once more.
    """
    rows = [int(row) for row in re.findall(r"M\.write\(\(?c(\d+)\b", kernel.code)]
    begin = [after for before, after in itertools.pairwise(rows) if after > before]
    if not rows or any(row != max(rows) for row in begin) or rows[0] != max(rows) or rows[-1] != 0:
        raise Fault("does not store its rows from the last to the first, as a tile with fewer rows needs")


def touched(entry: Selected, call: Call) -> Iterator[Finding]:
    """List the bytes that one call touched of each buffer. Raises Fault."""
    for buffer in call.memory.buffers[1:]:
        room = call.rooms.get(buffer.name, Room())
        if buffer.unaligned:
            traps = f"accesses {buffer.unaligned} bytes of {buffer.name} at an address that must be a multiple of them"
            raise Fault(f"{traps} and is not ({call.at})")
        if buffer.aligned and buffer.name in call.rooms and buffer.name not in ALIGNED:
            raise Fault(f"needs {buffer.name} at a multiple of {buffer.aligned}, which nobody promises ({call.at})")
        for access, (low, high), most in (
            ("read", buffer.read, room.readable),
            ("write", buffer.written, room.writable),
        ):
            if low < 0:
                raise Fault(f"{access}s before the start of {buffer.name} ({call.at})")
            if high > 0:
                yield Finding(*names(entry), buffer.name, access, high - buffer.size, most, call.at)


def names(entry: Selected) -> tuple[str, str, str]:
    return entry.architecture, entry.configuration, entry.kernel


def assembly(entry: Selected, constants: Provided) -> Iterator[Finding]:
    """List the bytes that a kernel in assembly touches, by its name.

    A kernel reads a parameter for each row of its tile. Of its inputs it reads at most one 16-byte register from the
    last element on, as the C kernels of the same instruction set do, for which that is found and not assumed.
    """
    size = {"f32": 4, "f16": 2}.get(entry.kernel.split("_")[1], 1)
    yield Finding(*names(entry), "a", "read", 16 - size, constants.extra_bytes, "by the rule for assembly")
    if "_qd8_" in entry.kernel:
        found = re.search(r"ukernel_(\d+)x\d+", entry.kernel)
        if found is None:
            raise NotUnderstood("a name without its tile")
        read = (int(found[1]) - 1) * ROW_PARAMETERS
        provided = constants.quantization_params * ROW_PARAMETERS
        yield Finding(*names(entry), "quantization_params", "read", read, provided, "by its rows, for one row")


def tile_mismatch(entry: Selected) -> str | None:
    """A sentence where the name's tile is not the one by which operators pack and count rows."""
    fields = dict(entry.fields)
    tile = re.search(r"(?:gemm|igemm)_\w*?ukernel_(\d+)x(\d+)(?:c(\d+))?(?:s(\d+))?__", entry.kernel)
    says: list[tuple[str, int, int | None]] = []
    if tile is not None and "packw" not in entry.kernel:
        rows, columns, kr, sr = (int(group or 1) for group in tile.groups())
        says = [("rows", rows, entry.rows), ("nr", columns, fields.get("nr"))]
        if "nr" in fields:
            says += [("kr", kr, 1 << fields.get("log2_kr", 0)), ("sr", sr, 1 << fields.get("log2_sr", 0))]
    elif unipass := re.search(r"dwconv_\w*?ukernel_(\d+)p(\d+)c__", entry.kernel):
        says = [("primary_tile", int(unipass[1]), fields.get("primary_tile"))]
        says.append(("channel_tile", int(unipass[2]), fields.get("channel_tile")))
    for what, name, table in says:
        if table is not None and table != name:
            return f"{entry.kernel} ({entry.configuration}, {entry.architecture}) has {what} {name} by its name, and {table} by its table"
    return None


# ---- the check


def check_one(work: tuple[Selected, Path, Path, Provided]) -> tuple[list[Finding], str | None]:
    """Findings of one kernel, or a sentence why there are none."""
    entry, file, sources, constants = work
    try:
        return examine(entry, file, sources, constants), None
    except Fault as fault:
        return [], f"{entry.kernel} ({entry.configuration}, {entry.architecture}) {fault}"
    except (NotUnderstood, ArithmeticError, LookupError, NameError, SyntaxError, TypeError) as error:
        return [], f"{entry.kernel} ({entry.configuration}, {entry.architecture}) was not understood: {error!r}"


def survey(sources: Path, architectures: Iterable[str] = tuple(ARCHITECTURES)) -> list[Finding]:
    """Examine every kernel that is selected under `sources`. Raises PaddingError with all that is wrong."""
    files = definitions(sources)
    problems: list[str] = []
    work: dict[tuple[str, Provided, str], tuple[Selected, Path, Path, Provided]] = {}
    others: dict[tuple[str, Provided, str], list[str]] = {}  # architectures whose kernel is the same
    for architecture in architectures:
        constants = provided(sources, architecture)
        for entry in selected(sources, architecture):
            if entry.kernel not in files:
                problems.append(f"{entry.kernel} ({entry.configuration}, {architecture}) is defined in no file")
                continue
            if (mismatch := tile_mismatch(entry)) is not None:
                problems.append(mismatch)
            file, depends = files[entry.kernel]
            key = (entry.kernel, constants, architecture if depends else "")
            if key not in work:
                work[key] = (entry, file, sources, constants)
            elif architecture not in (work[key][0].architecture, *others.get(key, [])):
                others.setdefault(key, []).append(architecture)
    if len(work) < PARALLEL:
        results = [check_one(one) for one in work.values()]
    else:
        with multiprocessing.Pool(os.cpu_count()) as pool:
            results = pool.map(check_one, work.values(), chunksize=16)
    findings = [finding for found, _ in results for finding in found]
    for (found, _), key in zip(results, work):
        findings += [replace(finding, architecture=other) for other in others.get(key, []) for finding in found]
    problems += [problem for _, problem in results if problem is not None]
    problems += [finding.sentence() for finding in findings if finding.is_short]
    if problems:
        raise PaddingError(".\n".join(problems) + ".")
    return findings


def table(findings: Iterable[Finding]) -> str:
    """The findings as tab-separated lines with a head."""
    head = "architecture\tconfiguration\tkernel\tbuffer\taccess\tbytes past the end\tbytes provided\tsizes"
    rows = [
        f"{f.architecture}\t{f.configuration}\t{f.kernel}\t{f.buffer}\t{f.access}\t{f.bytes}\t{f.provided}\t{f.at}"
        for f in findings
    ]
    return "\n".join([head, *sorted(rows)]) + "\n"


def summary(findings: list[Finding]) -> str:
    """Describe what was examined: the number of kernels, and for each kind of buffer the longest overrun and its kernel."""
    kernels = {(f.architecture, f.kernel) for f in findings}
    worst: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = (finding.buffer, finding.access)
        if finding.bytes > 0 and (key not in worst or worst[key].bytes < finding.bytes):
            worst[key] = finding
    counts = ", ".join(f"{sum(a == name for a, _ in kernels)} of {name}" for name in ARCHITECTURES)
    lines = [f"{len(kernels)} kernels ({counts}), {len(findings)} buffers; the most past an end:"]
    for (buffer, access), f in sorted(worst.items()):
        lines.append(f"  {buffer:20} {access:5} {f.bytes:4} bytes of {f.provided:4}: {f.kernel}")
    return "\n".join(lines)


def main() -> int:
    try:
        findings = survey(Path(sys.argv[1]))
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(table(findings), end="")
    print(summary(findings), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
