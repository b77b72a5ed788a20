#!/usr/bin/env python3
"""Check that XNNPACK's micro-kernels access no memory beyond their buffers and the padding that operators provide.

XNNPACK's kernels read and write whole vectors, also beyond the end of a buffer; the operators provide padding there. If
a kernel needs more padding than it gets, it reads or overwrites other data, or faults at the end of a page, for some
shapes only. This check finds such kernels for all instruction sets, on any machine, without running them.

get_xnnpack.py runs the check on the patched sources before they are compiled; by hand: ``python3 padding.py SOURCES``.
The kernels are those that ``src/configs/*.c`` selects for the architectures below. ``footprint`` executes the address
arithmetic of each kernel, with the sizes around its tile (``footprint.calls``); every accessed byte must lie in the
buffer or its padding. The tile in the kernel's name must also be the tile in the configuration, by which the operators
pack weights.

Not executed: kernels in assembly (Arm), which are checked by a rule (see ``assembly_accesses``); the kernels of
KleidiAI, which are not part of these sources; other architectures, for which nothing is built here.
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
MIN_PARALLEL = 50  # number of kernels from which on worker processes are started
KLEIDIAI = re.compile(r"xnn_(?:qp8|pf32|x8_packq|x32_pack_lh)")
KERNEL = re.compile(r"\bxnn_\w+_ukernel(?:_\w+)?\b")
# Buffers that XNNPACK allocates with XNN_ALLOCATION_ALIGNMENT; others may have any alignment.
ALIGNED = {"w", "weights", "packed_weights", "buffer", "accumulation_buffer", "index_buffer", "zero", "table"}
ROW_PARAMETERS = 8  # bytes of struct xnn_qd8_quantization_params


class PaddingError(ValueError):
    """The failure of the check; its text has a sentence for each error, such as an access beyond the padding."""


class Fault(Exception):
    """An error of a kernel that more padding would not correct, such as an unaligned access."""


@dataclass(frozen=True)
class Selected:
    """A kernel that a configuration selects, with the tile that the configuration states."""

    architecture: str
    configuration: str  # the file
    kernel: str
    rows: int | None  # GEMM kernels: the number of rows for which the configuration selects the kernel
    fields: tuple[tuple[str, int], ...]  # other numbers of the tile that the configuration states, such as nr


@dataclass(frozen=True)
class Finding:
    """The max number of bytes that a kernel reads or writes past the end of a buffer."""

    architecture: str
    configuration: str
    kernel: str
    buffer: str
    access: str  # "read" or "write"
    bytes: int
    provided: int
    at: str  # the sizes of the call, for messages

    @property
    def is_short(self) -> bool:
        return self.bytes > self.provided

    def sentence(self) -> str:
        verb = {"read": "reads", "write": "writes"}[self.access]
        return (
            f"{self.kernel} ({self.configuration}, {self.architecture}) {verb} {self.bytes} bytes past the end of "
            f"{self.buffer} ({self.at}), where {self.provided} are provided"
        )


# ---- the configurations


def macros(architecture: str, assembly: bool) -> dict[str, int]:
    """Return the preprocessor's macros for a build of XNNPACK for `architecture` with all features but KleidiAI."""
    values = {ARCHITECTURES[architecture]: 1, "XNN_ENABLE_KLEIDIAI": 0, "XNN_ENABLE_ASSEMBLY": int(assembly)}
    values |= dict.fromkeys([*COMPILER[architecture], "__AVX512FP16__", "XNN_SIMD_HAS_NATIVE_FMA"], 1)
    return values


class Macros(dict[str, int]):
    """Macros by name; of those that are missing, XNN_ENABLE_* are 1 and all others are undefined (0)."""

    def __missing__(self, name: str) -> int:
        return int(name.startswith("XNN_ENABLE_"))


def provided(sources: Path, architecture: str) -> Provided:
    """Read the padding's constants from XNNPACK's headers. Raises ValueError if a constant is missing."""
    defined = Macros(macros(architecture, assembly=True))
    texts = [
        preprocess((sources / name).read_text(), defined.__getitem__)
        for name in ("src/xnnpack/common.h", "include/xnnpack.h")
    ]
    values: dict[str, str] = {}
    for text in texts:
        values.update(re.findall(r"^\s*#\s*define\s+(XNN_\w+)\s+(\w+)\s*$", text, re.M))

    def constant(name: str) -> int:
        while not values.get(name, "").isdigit():
            if name not in values:
                raise ValueError(f"XNNPACK's headers do not define {name} as a number; update padding.py.")
            name = values[name]
        return int(values[name])

    extra, params = constant("XNN_EXTRA_BYTES"), constant("XNN_EXTRA_QUANTIZATION_PARAMS")
    # XNN_MULTIPASS_EXTRA_BYTES is computed here: the header defines it as max(XNN_MAX_SIMD_SIZE, 16) with an #if that
    # compares numbers, which `preprocess` does not support.
    return Provided(extra, params, max(constant("XNN_MAX_SIMD_SIZE"), 16))


def selected(sources: Path, architecture: str) -> Iterator[Selected]:
    """Yield the kernels that the configurations select for an architecture, with assembly and without."""
    seen: set[Selected] = set()
    for file in sorted((sources / "src" / "configs").glob("*.c")):
        raw = file.read_text()
        for assembly in (True, False) if "XNN_ENABLE_ASSEMBLY" in raw else (True,):
            text = preprocess(raw, Macros(macros(architecture, assembly)).__getitem__)
            for entry in entries(text, architecture, file.name):
                if entry not in seen:
                    seen.add(entry)
                    yield entry


def entries(text: str, architecture: str, configuration: str) -> Iterator[Selected]:
    """Yield the kernels in a configuration's text, each with the tile sizes that the text assigns after the kernel."""
    for match in KERNEL.finditer(text):
        name = match[0]
        if name.endswith("_fn") or name.startswith("xnn_init_") or KLEIDIAI.match(name):
            continue
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        target = re.match(r"\s*([\w\[\]]+)\.[^=]*=", line)
        index = re.search(r"XNN_MR_TO_INDEX\((\d+)\)", line)
        fields: dict[str, int] = {}
        if target is not None:
            assigned = re.compile(rf"^\s*{re.escape(target[1])}\.(\w+)\s*=\s*(\d+);", re.M)
            for field, value in assigned.findall(block_after(text, match.end())):
                fields.setdefault(field, int(value))
        yield Selected(
            architecture, configuration, name, int(index[1]) if index else None, tuple(sorted(fields.items()))
        )


def block_after(text: str, start: int) -> str:
    """Return the assignments that follow `start` in control flow.

    These are the statements up to the end of the block, or up to its `break`. If they do not assign the tile, the
    statements after that block in the block around it follow, and so on. Blocks that begin after `start` are skipped.
    """
    depth, result, is_skipping = 0, "", False
    for part in re.finditer(r"[{}]|[^{}]+", text[start:]):
        if part[0] == "{":
            depth += 1
        elif part[0] == "}":
            depth = max(depth - 1, -1)
            if depth < 0:
                if re.search(r"\.(?:mr|nr|channel_tile)\s*=", result):
                    break
                depth, is_skipping = 0, False
        elif depth == 0 and not is_skipping:
            before, *rest = re.split(r"\bbreak\s*;", part[0])
            result += before
            is_skipping = bool(rest)
    return result


# ---- the kernels


def definitions(sources: Path) -> dict[str, tuple[Path, bool]]:
    """Map each kernel to the compiled file that defines it, and to True if this file depends on the architecture."""
    files_by_kernel: dict[str, tuple[Path, bool]] = {}
    for listing in sorted((sources / "cmake" / "gen").glob("*_microkernels.cmake")):
        for files in re.findall(r"SET\(PROD_\w+([^)]*)\)", listing.read_text()):
            for file in files.split():
                text = (sources / file).read_text(errors="replace")
                for name in re.findall(r"^(?:void|\s*BEGIN_FUNCTION)\s+(xnn_\w+_ukernel\w*)", text, re.M):
                    files_by_kernel[name] = sources / file, "_ARCH_" in text
    return files_by_kernel


def examine(entry: Selected, file: Path, sources: Path, constants: Provided) -> list[Finding]:
    """Return the findings of a kernel: its worst access of each buffer. Raises NotUnderstood and Fault."""
    if file.suffix == ".S":
        return list(assembly_accesses(entry, constants))
    constants = replace(constants, planes=dict(entry.fields).get("planes", 1))
    kernel = Source(sources, file, macros(entry.architecture, assembly=True)).kernel(entry.kernel)
    if "M.tile(" in kernel.code:
        check_row_order(kernel)
    worst: dict[tuple[str, str], Finding] = {}
    for call in calls_of(kernel)(kernel, constants):
        arguments = {name: 0 for _, name in kernel.parameters if name.endswith("params")} | call.arguments
        try:
            kernel.run(call.memory, arguments, call.fields)
        except NotUnderstood:  # perhaps because it used a value that it had read beyond the end of a buffer
            short = [finding for finding in accesses(entry, call) if finding.is_short]
            if short:
                return short
            raise
        for finding in accesses(entry, call):
            previous = worst.get((finding.buffer, finding.access))
            if previous is None or previous.bytes - previous.provided < finding.bytes - finding.provided:
                worst[finding.buffer, finding.access] = finding
    return list(worst.values())


def check_row_order(kernel: Kernel) -> None:
    """Raise Fault unless an AMX kernel stores its rows from the last to the first.

    If the kernel is called with fewer rows than its tile has, the pointers of the missing rows equal that of the last
    row. AMX does not compute the missing rows: their part of the result holds uninitialized stack memory. So the last
    row must be stored after the missing rows, which it overwrites. Other kernels compute the last row once more for
    each missing row, so the order of their stores does not matter.
    """
    rows = [int(row) for row in re.findall(r"M\.write\(\(?c(\d+)\b", kernel.code)]
    starts = [after for before, after in itertools.pairwise(rows) if after > before]
    if not rows or any(row != max(rows) for row in starts) or rows[0] != max(rows) or rows[-1] != 0:
        raise Fault("does not store its rows from the last to the first, as a tile with fewer rows needs")


def accesses(entry: Selected, call: Call) -> Iterator[Finding]:
    """Yield the bytes past the end of each buffer that a call accessed. Raises Fault."""
    for buffer in call.memory.buffers[1:]:
        room = call.rooms.get(buffer.name, Room())
        if buffer.unaligned:
            size = buffer.unaligned
            raise Fault(
                f"accesses {size} bytes of {buffer.name} with an instruction that needs an address aligned to {size}, "
                f"at an unaligned address ({call.at})"
            )
        if buffer.aligned and buffer.name in call.rooms and buffer.name not in ALIGNED:
            raise Fault(f"needs {buffer.name} at a multiple of {buffer.aligned}, which nobody promises ({call.at})")
        for access, (low, high), allowed in (
            ("read", buffer.read, room.readable),
            ("write", buffer.written, room.writable),
        ):
            if low < 0:
                raise Fault(f"{access}s before the start of {buffer.name} ({call.at})")
            if high > 0:
                yield Finding(*names(entry), buffer.name, access, high - buffer.size, allowed, call.at)


def names(entry: Selected) -> tuple[str, str, str]:
    return entry.architecture, entry.configuration, entry.kernel


def assembly_accesses(entry: Selected, constants: Provided) -> Iterator[Finding]:
    """Yield the accesses past the end that a kernel in assembly may make, by a rule: assembly cannot be translated.

    The rule assumes that the kernel's last read of an input is one 16-byte register, which begins at the last element
    or before it, and that the kernel reads quantization parameters for each row of its tile. The C kernels for the same
    instruction set, whose address arithmetic is executed, obey this rule.
    """
    size = {"f32": 4, "f16": 2}.get(entry.kernel.split("_")[1], 1)
    yield Finding(*names(entry), "a", "read", 16 - size, constants.extra_bytes, "by the rule for assembly")
    if "_qd8_" in entry.kernel:
        match = re.search(r"ukernel_(\d+)x\d+", entry.kernel)
        if match is None:
            raise NotUnderstood("a name without its tile")
        read = (int(match[1]) - 1) * ROW_PARAMETERS
        allowed = constants.quantization_params * ROW_PARAMETERS
        yield Finding(*names(entry), "quantization_params", "read", read, allowed, "by its rows, for one row")


def tile_mismatch(entry: Selected) -> str | None:
    """Return a sentence if the tile in the kernel's name differs from the configuration's, else None."""
    fields = dict(entry.fields)
    tile = re.search(r"(?:gemm|igemm)_\w*?ukernel_(\d+)x(\d+)(?:c(\d+))?(?:s(\d+))?__", entry.kernel)
    pairs: list[tuple[str, int, int | None]] = []  # field, number in the name, number in the configuration
    if tile is not None and "packw" not in entry.kernel:
        rows, columns, kr, sr = (int(group or 1) for group in tile.groups())
        pairs = [("rows", rows, entry.rows), ("nr", columns, fields.get("nr"))]
        if "nr" in fields:
            pairs += [("kr", kr, 1 << fields.get("log2_kr", 0)), ("sr", sr, 1 << fields.get("log2_sr", 0))]
    elif unipass := re.search(r"dwconv_\w*?ukernel_(\d+)p(\d+)c__", entry.kernel):
        pairs = [("primary_tile", int(unipass[1]), fields.get("primary_tile"))]
        pairs.append(("channel_tile", int(unipass[2]), fields.get("channel_tile")))
    for field, named, configured in pairs:
        if configured is not None and configured != named:
            return (
                f"{entry.kernel} ({entry.configuration}, {entry.architecture}) "
                f"has {field} {named} by its name, and {configured} by its table"
            )
    return None


# ---- the check


def check_one(work: tuple[Selected, Path, Path, Provided]) -> tuple[list[Finding], str | None]:
    """Return the findings of a kernel, or a sentence that says why it cannot be examined."""
    entry, file, sources, constants = work
    try:
        return examine(entry, file, sources, constants), None
    except Fault as fault:
        return [], f"{entry.kernel} ({entry.configuration}, {entry.architecture}) {fault}"
    except (NotUnderstood, ArithmeticError, LookupError, NameError, SyntaxError, TypeError) as error:
        return [], f"{entry.kernel} ({entry.configuration}, {entry.architecture}) was not understood: {error!r}"


def survey(sources: Path, architectures: Iterable[str] = tuple(ARCHITECTURES)) -> list[Finding]:
    """Examine every kernel that the configurations in `sources` select.

    Returns a finding for each kernel, buffer and kind of access. Raises PaddingError with a sentence for each error.
    """
    files = definitions(sources)
    problems: list[str] = []
    work: dict[tuple[str, Provided, str], tuple[Selected, Path, Path, Provided]] = {}
    others: dict[tuple[str, Provided, str], list[str]] = {}  # further architectures with the same kernel
    for architecture in architectures:
        constants = provided(sources, architecture)
        for entry in selected(sources, architecture):
            if entry.kernel not in files:
                problems.append(f"{entry.kernel} ({entry.configuration}, {architecture}) is defined in no file")
                continue
            if (mismatch := tile_mismatch(entry)) is not None:
                problems.append(mismatch)
            file, depends_on_architecture = files[entry.kernel]
            key = (entry.kernel, constants, architecture if depends_on_architecture else "")
            if key not in work:
                work[key] = (entry, file, sources, constants)
            elif architecture not in (work[key][0].architecture, *others.get(key, [])):
                others.setdefault(key, []).append(architecture)
    if len(work) < MIN_PARALLEL:
        results = [check_one(item) for item in work.values()]
    else:
        with multiprocessing.Pool(os.cpu_count()) as pool:
            results = pool.map(check_one, work.values(), chunksize=16)
    findings = [finding for of_kernel, _ in results for finding in of_kernel]
    for (of_kernel, _), key in zip(results, work):
        findings += [replace(finding, architecture=other) for other in others.get(key, []) for finding in of_kernel]
    problems += [problem for _, problem in results if problem is not None]
    problems += [finding.sentence() for finding in findings if finding.is_short]
    if problems:
        raise PaddingError(".\n".join(problems) + ".")
    return findings


def table(findings: Iterable[Finding]) -> str:
    """Return the findings as tab-separated lines with a header line."""
    header = "architecture\tconfiguration\tkernel\tbuffer\taccess\tbytes past the end\tbytes provided\tsizes"
    rows = [
        f"{f.architecture}\t{f.configuration}\t{f.kernel}\t{f.buffer}\t{f.access}\t{f.bytes}\t{f.provided}\t{f.at}"
        for f in findings
    ]
    return "\n".join([header, *sorted(rows)]) + "\n"


def summary(findings: list[Finding]) -> str:
    """Return the number of kernels, and for each kind of buffer the max access past its end, with the kernel."""
    kernels = {(f.architecture, f.kernel) for f in findings}
    worst: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = (finding.buffer, finding.access)
        if finding.bytes > 0 and (key not in worst or worst[key].bytes < finding.bytes):
            worst[key] = finding
    counts = ", ".join(f"{sum(a == name for a, _ in kernels)} of {name}" for name in ARCHITECTURES)
    lines = [
        f"{len(kernels)} kernels ({counts}), {len(findings)} buffers; the max past the end of each kind of buffer:"
    ]
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
