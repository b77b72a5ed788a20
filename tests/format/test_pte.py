"""`.pte` files: round trip, layout, files without segments, damage."""

from __future__ import annotations

import io
import random
import struct
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

import edgecore
from edgecore import format as fmt
from edgecore.errors import EdgecoreError
from edgecore.format import FormatError, NamedBlob, PteFile, read_pte, write_pte, write_pte_to


def padded(buffers: list[fmt.Buffer]) -> list[bytes]:
    """Constants come back with the padding of all but the last."""
    plain = [bytes(b) for b in buffers]
    return [b + bytes(-len(b) % 16) for b in plain[:-1]] + plain[-1:]


def test_a_program_is_read_as_it_was_written(pte: PteFile) -> None:
    read = read_pte(write_pte(pte))
    assert read.program == pte.program
    assert read.constants == padded(pte.constants)
    assert (read.mutable, read.delegate_blobs, read.named_data) == (pte.mutable, pte.delegate_blobs, pte.named_data)
    assert write_pte(read) == write_pte(pte)


def test_writing_leaves_the_program_alone(pte: PteFile) -> None:
    before = repr(pte)
    write_pte(pte)
    assert repr(pte) == before


def test_streaming_writes_the_same_bytes(pte: PteFile) -> None:
    file = io.BytesIO()
    assert write_pte_to(pte, file) == len(write_pte(pte))
    assert file.getvalue() == write_pte(pte)


def test_segments_are_aligned_and_in_the_order_that_runtimes_expect(pte: PteFile) -> None:
    """Every segment at a multiple of 128 (of its own alignment too), in the order that the runtimes expect."""
    buffer = write_pte(pte)
    magic, length, program_size, base, size = struct.unpack_from("<4sIQQQ", buffer, 8)
    assert (buffer[4:8], magic, length) == (b"ET12", b"eh00", 32)
    assert program_size <= base and base + size == len(buffer)
    segments = read_pte(buffer).segments
    assert [s.kind for s in segments] == ["constants", "mutable", "delegate", "delegate", "named", "named"]
    assert all(s.offset % 128 == 0 for s in segments)
    assert sorted(s.offset for s in segments) == [s.offset for s in segments]
    assert buffer.index(b"\5" * 7) % 4096 == 0
    assert all(buffer.index(bytes([i]) * n) % 16 == 0 for i, n in ((1, 8), (2, 33), (3, 8)))


def test_segments_and_constants_are_aligned_as_the_file_asks(pte: PteFile) -> None:
    pte.alignments = fmt.Alignments(segment=8192, constant=64)
    buffer = write_pte(pte)
    read = read_pte(buffer)
    assert all(segment.offset % 8192 == 0 for segment in read.segments)
    assert [bytes(constant) for constant in read.constants[1:]] == [b"\1" * 8 + bytes(56), b"\2" * 33]
    constants = next(segment.data for segment in read.segments if segment.kind == "constants")
    assert fmt.segment_digest(pte.constants, 64) == fmt.blob_digest(constants)


@pytest.mark.parametrize(
    ("alignments", "words"),
    [
        ({"segment": 64}, "segment alignment must be a power of two of at least 128; got 64"),
        ({"segment": 384}, "segment alignment must be a power of two of at least 128; got 384"),
        ({"constant": 8}, "constant alignment must be a power of two of at least 16; got 8"),
    ],
)
def test_other_alignments_are_refused(alignments: dict[str, int], words: str) -> None:
    with pytest.raises(FormatError, match=words):
        fmt.Alignments(**alignments)


def test_a_program_without_any_data_is_written_and_read() -> None:
    buffer = write_pte(PteFile(fmt.Program(execution_plan=[fmt.ExecutionPlan(name="forward")])))
    assert struct.unpack_from("<4sIQQQ", buffer, 8) == (b"eh00", 32, len(buffer), 0, 0)
    assert read_pte(buffer) == PteFile(fmt.Program(execution_plan=[fmt.ExecutionPlan(name="forward")]))


def test_equal_blobs_are_stored_once(pte: PteFile) -> None:
    shared = b"weights" * 10
    pte.delegate_blobs = [b"same blob", bytes(bytearray(b"same blob"))]
    pte.named_data = {"a": NamedBlob(shared), "b": NamedBlob(shared, 256)}
    buffer = write_pte(pte)
    assert buffer.count(b"same blob") == 1 and buffer.count(shared) == 1
    read = read_pte(buffer)
    assert [read.delegate_blob(d) for d in read.program.execution_plan[0].delegates] == [b"same blob"] * 2
    assert read.named_data["a"].data == read.named_data["b"].data == shared
    assert write_pte(read) == buffer


def test_named_data_that_a_constant_tensor_has_too_are_stored_once(pte: PteFile) -> None:
    shared = bytes(range(256)) * 64
    pte.constants += [b"odd", shared, shared[:-1] + b"x"]
    pte.named_data = {"tied": NamedBlob(bytes(shared), 16), "other": NamedBlob(shared[::-1], 16)}
    content = write_pte(pte)
    read = read_pte(content)
    assert read.named_data["tied"].data == shared and read.named_data["other"].data == shared[::-1]
    assert content.count(shared) == 1
    pte.named_data["tied"].alignment = 1 << 20  # the tensor's place is no such multiple
    assert write_pte(pte).count(shared) == 2
    pte.named_data["tied"].alignment = 16
    pte.alignments = fmt.Alignments(segment=4096)  # the user wants to map each segment on its own
    assert write_pte(pte).count(shared) == 2


def test_named_data_inside_the_constants_keep_their_alignment(pte: PteFile) -> None:
    shared = bytes(range(250)) * 4
    pte.constants = [b"", shared]
    pte.named_data = {"tied": NamedBlob(bytes(shared), 4096)}
    content = write_pte(pte)
    assert content.count(shared) == 1 and content.index(shared) % 4096 == 0
    read = read_pte(content)
    assert len(read.constants[1]) == len(shared) and read.named_data["tied"].alignment >= 4096
    assert write_pte(read) == content


def test_named_data_stay_inside_the_constants_if_a_file_is_read_and_written(pte: PteFile) -> None:
    shared = bytes(range(250)) * 4
    pte.constants = [b"", shared, b"next"]  # after reading, the first ends in padding
    pte.named_data = {"tied": NamedBlob(bytes(shared), 16)}
    content = write_pte(pte)
    assert write_pte(read_pte(content)) == content


def test_empty_blobs_are_written_and_read(pte: PteFile) -> None:
    pte.delegate_blobs = [b"", b"x"]
    pte.named_data = {"empty": NamedBlob(b"")}
    read = read_pte(write_pte(pte))
    assert [read.delegate_blob(d) for d in read.program.execution_plan[0].delegates] == [b"", b"x"]
    assert read.named_data == {"empty": NamedBlob(b"")}


def test_the_order_of_named_data_does_not_matter(pte: PteFile) -> None:
    reverse = replace(pte, named_data=dict(reversed(pte.named_data.items())))
    assert write_pte(reverse) == write_pte(pte)


def test_a_file_of_the_old_layout_without_segments_is_read(pte: PteFile) -> None:
    """The old layout: constants and delegate data inside the flatbuffer, no extended header."""
    plan = pte.program.execution_plan[0]
    delegates = [
        replace(d, processed=fmt.BackendDelegateDataReference(fmt.DataLocation.INLINE, 1 - i))
        for i, d in enumerate(plan.delegates)
    ]
    program = replace(
        pte.program,
        execution_plan=[replace(plan, delegates=delegates)],
        constant_buffer=[fmt.ConstantBuffer(c) for c in pte.constants],
        backend_delegate_data=[fmt.BackendDelegateInlineData(b) for b in reversed(pte.delegate_blobs)],
    )
    buffer = bytes(fmt.pack(program, b"ET12"))
    assert all(buffer.index(bytes(data)) % 16 == 0 for data in (*pte.constants[1:], *pte.delegate_blobs))
    read = read_pte(buffer)
    assert (read.constants, read.delegate_blobs, read.program) == (pte.constants, pte.delegate_blobs, pte.program)
    assert read_pte(write_pte(read)).delegate_blobs == pte.delegate_blobs


def test_references_to_data_that_do_not_exist_are_not_written(pte: PteFile) -> None:
    pte.delegate_blobs.pop()
    with pytest.raises(FormatError, match="'DemoBackend' refers to blob 1 of 1"):
        write_pte(pte)
    pte.constants[0] = b"x"
    with pytest.raises(FormatError, match=r"constants\[0\] is the placeholder"):
        write_pte(pte)


@pytest.mark.parametrize(
    ("position", "code", "value", "message"),
    [
        (4, "4s", b"ET11", "not a .pte file"),
        (12, "I", 8, "says that it has 8 bytes"),
        (12, "I", 2**31, "says that it has 2147483648 bytes"),
        (16, "Q", 39, "a program of 39 bytes, which ends inside the header"),
        (16, "Q", 2**40, "truncated: the header announces a program of"),
        (24, "Q", 64, "segments start at byte 64, inside the program"),
        (32, "Q", 2**50, "truncated: the header announces"),
        (32, "Q", 130, "ends outside the segment data"),
        (0, "I", 2**31, "lie outside the buffer"),
    ],
)
def test_a_damaged_header_is_refused_in_one_sentence(
    pte: PteFile, position: int, code: str, value: object, message: str
) -> None:
    buffer = bytearray(write_pte(pte))
    struct.pack_into("<" + code, buffer, position, value)
    with pytest.raises(FormatError, match=message):
        read_pte(buffer)


def test_read_pte_refuses_each_header_that_the_runtime_refuses(pte: PteFile) -> None:
    buffer = bytearray(write_pte(pte))
    length, program_size, base, size = struct.unpack_from("<IQQQ", buffer, 12)
    end = len(buffer)
    lengths = (0, 23, 24, 31, length, end - 8, end - 7, 2**32 - 1)
    program_sizes = (0, 31, 32, 39, 40, program_size, end, end + 1, 2**64 - 1)
    bases = (0, 1, program_size - 1, program_size, base, end, end + 1, 2**64 - 1)
    headers = list(product(lengths, program_sizes, bases, (0, size, size + 1, 2**64 - 1)))
    refused = 0
    for header in headers:
        struct.pack_into("<IQQQ", buffer, 12, *header)
        with pytest.raises(EdgecoreError) as error:
            edgecore.load(bytes(buffer))  # no package has the program's backend
        if "The extended header" in str(error.value):
            refused += 1
            with pytest.raises(FormatError, match="header|segments start"):
                read_pte(buffer)
    assert 0 < refused < len(headers)


def test_every_truncation_is_refused(pte: PteFile) -> None:
    pte.named_data["bias"].alignment = 1
    buffer = write_pte(pte)
    for length in range(len(buffer)):
        with pytest.raises(FormatError):
            read_pte(buffer[:length])


def test_random_damage_gives_a_format_error_or_a_file(pte: PteFile) -> None:
    pte.named_data["bias"].alignment = 1
    original = write_pte(pte)
    program_size = struct.unpack_from("<Q", original, 16)[0]
    rng = random.Random(2)
    refused = 0
    for _ in range(3000):
        buffer = bytearray(original)
        for _ in range(rng.randint(1, 4)):
            position = rng.randrange(program_size // 4) * 4
            if rng.randrange(2):
                buffer[position + rng.randrange(4)] = rng.randrange(256)
            else:
                word = rng.choice((0, 1, 4, 2**31, 2**32 - 1, rng.randrange(program_size)))
                struct.pack_into("<I", buffer, position, word)
        try:
            fmt.verify(read_pte(buffer))
        except FormatError:
            refused += 1
    assert 0 < refused < 3000


def test_a_segment_without_offsets_has_one_empty_entry() -> None:
    """Whoever reads it must not look for the placeholder."""
    segments = [fmt.DataSegment(0, 16)]
    program = fmt.Program(segments=segments, mutable_data_segments=[fmt.SubsegmentOffsets(0, [])])
    flatbuffer = fmt.pack(program, b"ET12")
    size = len(flatbuffer) + 32
    root = struct.unpack_from("<I", flatbuffer)[0] + 32
    header = struct.pack("<I4s4sIQQQ", root, b"ET12", b"eh00", 32, size, 1024, 16)
    assert read_pte((header + flatbuffer[8:]).ljust(1040, b"\0")).mutable == [b""]


def test_a_program_of_more_than_4_gib_is_written_piece_by_piece() -> None:
    """More than 4 GiB in one file, made of views of the same megabyte."""

    class Sink(io.RawIOBase):
        total = 0

        def write(self, chunk: object) -> int:
            size = memoryview(chunk).nbytes  # type: ignore[arg-type]
            self.total += size
            return size

    block = memoryview(bytes(2**20))
    named = {f"w{i:04}": NamedBlob(block[: 2**20 - i]) for i in range(4200)}
    sink = Sink()
    assert write_pte_to(PteFile(fmt.Program(), named_data=named), sink) == sink.total > 2**32  # type: ignore[arg-type]


def test_reading_imports_neither_torch_nor_numpy(pte: PteFile, tmp_path: Path) -> None:
    path = tmp_path / "file.pte"
    path.write_bytes(write_pte(pte))
    code = (
        "import sys; from edgecore.format import read_pte, verify; from pathlib import Path;"
        f"assert verify(read_pte(Path({str(path)!r}).read_bytes())) == [];"
        "heavy = {'torch', 'numpy', 'pydantic', 'typer', 'rich'} & set(sys.modules); assert not heavy, heavy"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
