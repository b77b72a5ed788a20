"""Check that damaged, truncated, empty and foreign blobs cause an error or a result, but never a crash or a hang."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from edgecore import format as fmt
from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.workers.process import call
from edgecore.conformance.workers.runner import Died
from edgecore.errors import EdgecoreError

Emit = Callable[[str, Any], None]
Damaged = Iterator[tuple[str, bytes]]

HANG = 20
"""Time limit in seconds for loading and running one damaged file."""

MAX_PLANNED_BYTES = 64 << 20
ADDRESS_SPACE = 8 << 30
"""Bytes of address space that the child process may map after its first run. Without this limit, a damaged blob that
makes the backend allocate without end would fill the machine's memory.
"""


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """Yield one check for each kind of damage."""
    for kind in KINDS:
        yield Check(f"blobs/{kind}", _Damage(kind), seconds=3 * HANG, needs_run=True)


class _Damage:
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, subject: BackendUnderTest) -> str:
        from edgecore.conformance.checks.lifetime import write_files

        if "NEEDS_TRUSTED_BLOBS" in subject.declared.flags:
            raise Skipped("it declares NEEDS_TRUSTED_BLOBS: the runtime rejects blobs that differ from their SHA-256")
        count = 60 if subject.quick else 400
        if subject.runner is not None:
            return _summary(_outcomes_of_runner(subject, self.kind, count))
        files = write_files(subject)
        arguments = {"kind": self.kind, "count": count, **{key: files[key] for key in ("program", "inputs", "options")}}
        outcomes: list[str] = []
        last = ""
        for event, value in call(
            "edgecore.conformance.checks.blobs:try_all", arguments, seconds=subject.seconds or HANG
        ):
            if event == "input":
                last = value
                subject.trying(value)
            elif event == "result":
                outcomes.append(value)
            elif event == "died":
                raise Failed(f"{last}: the process {value}")
        return _summary(outcomes)


def _summary(outcomes: Iterable[str]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in Counter(outcomes).most_common())


def _outcomes_of_runner(subject: BackendUnderTest, kind: str, count: int) -> Iterator[str]:
    """Load and run each damaged file by the command `subject.runner`; yield "rejected" or "ran" for each file."""
    from edgecore.conformance.checks.networks import delegated
    from edgecore.conformance.programs import load

    _, _, inputs, program = delegated(subject)
    for description, file in _damaged_files(kind, count, program.buffer):
        subject.trying(description)
        try:
            load(subject, file, trust=False).forward(*inputs)
        except EdgecoreError:
            yield "rejected"
        except Died as problem:
            raise Failed(f"{description}: {problem}") from None
        else:
            yield "ran"


def _damaged_files(kind: str, count: int, file: bytes) -> Iterator[tuple[str, bytes]]:
    """Damage the blobs of a `.pte` file one at a time; yield (description, damaged file)."""
    pte = fmt.read_pte(file)
    blobs = [bytes(blob) for blob in pte.delegate_blobs]
    for index, blob in enumerate(blobs):
        for damage, damaged in KINDS[kind](blob, count // len(blobs) or 1, random.Random(index)):
            pte.delegate_blobs[index] = damaged
            yield f"{damage} (blob {index} of {len(blob)} bytes)", fmt.write_pte(pte)
            pte.delegate_blobs[index] = blob


def try_all(emit: Emit, kind: str, count: int, program: str, inputs: str, options: dict[str, Any]) -> None:
    """Load and run the program with one damaged blob after another. Runs in a child process without torch.

    Args:
        emit: Sends an event to the parent process.
        kind: The kind of damage, a key of `KINDS`.
        count: Number of damaged blobs.
        program: Path of the `.pte` file.
        inputs: Path of the inputs as `.npz`.
        options: As for `edgecore.load`.
    """
    import resource

    import edgecore
    from edgecore.conformance.workers.measure import arrays_of

    data = Path(program).read_bytes()
    arrays = arrays_of(inputs)
    # Run once first: this loads libraries and fills memory pools, which the limit on address space must not include.
    edgecore.load(data, options=options).forward(*arrays)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE, used + ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for description, file in _damaged_files(kind, count, data):
        emit("input", description)
        try:
            model = edgecore.load(file, options=options, limits={"planned_bytes": MAX_PLANNED_BYTES})
            model.forward(*arrays)
        except (EdgecoreError, ValueError, TypeError):
            emit("result", "rejected")
        except MemoryError:
            emit("result", "out of memory")
        else:
            emit("result", "ran")


def _flipped(blob: bytes, count: int, rng: random.Random) -> Damaged:
    """Flip one to three bits, mostly in the first 512 bytes, which usually hold sizes and offsets."""
    for _ in range(count):
        changed = bytearray(blob)
        positions = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            end = len(blob) if rng.random() < 0.5 else min(len(blob), 512)
            at, bit = rng.randrange(end), rng.randrange(8)
            changed[at] ^= 1 << bit
            positions.append(f"bit {bit} of byte {at}")
        yield f"{' and '.join(positions)} flipped", bytes(changed)


def _overwritten(blob: bytes, count: int, rng: random.Random) -> Damaged:
    """Overwrite 1, 2, 4 or 8 aligned bytes of the blob by a number that parsers may not expect, such as 0 or 0xFFFF."""
    values = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
    for _ in range(count):
        width = rng.choice((1, 2, 4, 4, 8))
        if len(blob) < width:
            continue
        at = rng.randrange(0, len(blob) - width + 1) // width * width
        value = rng.choice(values) & ((1 << 8 * width) - 1)
        yield (
            f"byte {at} and {width - 1} more set to {value:#x}",
            blob[:at] + value.to_bytes(width, "little") + blob[at + width :],
        )


def _truncated(blob: bytes, count: int, rng: random.Random) -> Damaged:
    sizes = sorted(
        {0, 1, 4, 8, 16, 32, len(blob) // 2, len(blob) - 1} | {rng.randrange(len(blob)) for _ in range(count // 4)}
    )
    for size in sizes:
        if 0 <= size < len(blob):
            yield f"cut to {size} bytes" if size else "empty", blob[:size]


def _foreign(blob: bytes, count: int, rng: random.Random) -> Damaged:
    """Replace the blob by random bytes, text or another format, put bytes before it, or repeat it."""
    for size in (1, 7, 64, 4096, len(blob)):
        yield f"{size} random bytes", rng.randbytes(size)
    yield "text", b"This is not a blob of a backend.\n" * 10
    yield "zeros", bytes(len(blob))
    yield "a header of an XNNPACK blob and nothing after it", b"\0\0\0\0XH00" + bytes(22)
    yield "an ELF header", b"\x7fELF\x02\x01\x01" + bytes(57)
    yield "a ZIP file", b"PK\x03\x04" + rng.randbytes(60)
    yield "4 bytes before it", b"\0\0\0\0" + blob
    yield "twice", blob + blob


KINDS: dict[str, Callable[[bytes, int, random.Random], Damaged]] = {
    "bit flips": _flipped,
    "hostile numbers": _overwritten,
    "truncated": _truncated,
    "foreign": _foreign,
}
"""Functions that damage a blob: each yields pairs of a description and a damaged copy."""
