"""Blobs that are damaged, cut, empty or somebody else's: an error or a result, never a death or a hang."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.process import call

Emit = Callable[[str, Any], None]
Damaged = Iterator[tuple[str, bytes]]

HANG = 20
"""Seconds after which a file that neither loads nor is refused counts as hanging."""

PLANNED = 64 << 20
ADDRESS_SPACE = 8 << 30
"""Bytes that a child may map beyond what it has: a blob that asks for more gets an error from the allocator."""


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """A row for each kind of damage."""
    for kind in KINDS:
        yield Check(f"blobs/{kind}", _Damage(kind), seconds=3 * HANG, needs_run=True)


class _Damage:
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, subject: BackendUnderTest) -> str:
        from edgecore.conformance.lifetime import written

        if "NEEDS_TRUSTED_BLOBS" in subject.declared.flags:
            raise Skipped("it declares NEEDS_TRUSTED_BLOBS: the runtime refuses blobs that differ from their SHA-256")
        files = written(subject)
        count = 60 if subject.quick else 400
        arguments = {"kind": self.kind, "count": count, **{key: files[key] for key in ("program", "inputs", "options")}}
        ends: dict[str, int] = {"ran": 0, "refused": 0, "out of memory": 0}
        last = ""
        for event, value in call("edgecore.conformance.blobs:try_all", arguments, seconds=subject.seconds or HANG):
            if event == "input":
                last = value
                subject.trying(value)
            elif event == "result":
                ends[value] += 1
            elif event == "died":
                raise Failed(f"{last}: the process {value}")
        return ", ".join(f"{count} {end}" for end, count in ends.items() if count)


def try_all(emit: Emit, kind: str, count: int, program: str, inputs: str, options: dict[str, Any]) -> None:
    """In a process of its own, without torch: load and run the program with each damaged blob in turn."""
    import resource

    import edgecore
    from edgecore import format as fmt
    from edgecore.conformance.measure import arrays_of

    data = Path(program).read_bytes()
    given = arrays_of(inputs)
    edgecore.load(data, options=options).forward(*given)  # libraries and pools are there from here on
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE, used + ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pte = fmt.read_pte(data)
    sound = [bytes(blob) for blob in pte.delegate_blobs]
    for index, blob in enumerate(sound):
        for what, damaged in KINDS[kind](blob, count // len(sound) or 1, random.Random(index)):
            emit("input", f"{what} (blob {index} of {len(blob)} bytes)")
            pte.delegate_blobs[index] = damaged
            try:
                model = edgecore.load(fmt.write_pte(pte), options=options, limits={"planned_bytes": PLANNED})
                model.forward(*given)
            except (edgecore.errors.EdgecoreError, ValueError, TypeError):
                emit("result", "refused")
            except MemoryError:
                emit("result", "out of memory")
            else:
                emit("result", "ran")
            pte.delegate_blobs[index] = blob


def _flipped(blob: bytes, count: int, rng: random.Random) -> Damaged:
    """One to three bits; the first bytes, where sizes and offsets mostly are, as often as all others."""
    for _ in range(count):
        changed = bytearray(blob)
        places = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            most = len(blob) if rng.random() < 0.5 else min(len(blob), 512)
            at, bit = rng.randrange(most), rng.randrange(8)
            changed[at] ^= 1 << bit
            places.append(f"bit {bit} of byte {at}")
        yield f"{' and '.join(places)} flipped", bytes(changed)


def _overwritten(blob: bytes, count: int, rng: random.Random) -> Damaged:
    """Numbers that sizes, offsets and counts are not: none, all bits, the least negative, a little too many."""
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
    places = sorted(
        {0, 1, 4, 8, 16, 32, len(blob) // 2, len(blob) - 1} | {rng.randrange(len(blob)) for _ in range(count // 4)}
    )
    for size in places:
        if 0 <= size < len(blob):
            yield f"cut to {size} bytes" if size else "empty", blob[:size]


def _foreign(blob: bytes, count: int, rng: random.Random) -> Damaged:
    """Random bytes, text, another backend's header, the sound blob behind something or twice."""
    for size in (1, 7, 64, 4096, len(blob)):
        yield f"{size} random bytes", rng.randbytes(size)
    yield "text", b"This is no blob of any backend.\n" * 10
    yield "zeros", bytes(len(blob))
    yield "a header of an XNNPACK blob and nothing behind it", b"\0\0\0\0XH00" + bytes(22)
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
"""Kinds of damage: (what, blob) of each damaged copy."""
