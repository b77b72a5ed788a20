"""`.ptd` files: what is written is read, damage is one sentence, large files are laid out without their bytes."""

from __future__ import annotations

import io
import mmap
import struct

import pytest

from edgecore import format as fmt
from edgecore.format.segments import Layout


def sample() -> fmt.PtdFile:
    weight = struct.pack("<6f", *range(6))
    layout = fmt.TensorLayout(fmt.ScalarType.FLOAT, [2, 3], [0, 1])
    flat = fmt.TensorLayout(fmt.ScalarType.FLOAT, [6], [0])
    return fmt.PtdFile(
        {
            "weight": fmt.ExternalData(weight, layout, 16),
            "weight_too": fmt.ExternalData(weight, flat, 16),
            "packed": fmt.ExternalData(b"a delegate's", None, 4096),
            "empty": fmt.ExternalData(b"", fmt.TensorLayout(fmt.ScalarType.LONG, [0], [0]), 16),
        }
    )


def test_weights_are_read_as_they_were_written() -> None:
    ptd = sample()
    buffer = fmt.write_ptd(ptd)
    assert fmt.read_ptd(buffer) == ptd
    stream = io.BytesIO()
    assert fmt.write_ptd_to(ptd, stream) == len(buffer)
    assert stream.getvalue() == buffer
    again = fmt.read_ptd(buffer)
    assert len(again.segments) == 3, "two names of one object share a segment"
    assert all(segment.offset % 128 == 0 for segment in again.segments)
    assert again.entries["packed"].alignment == 4096


def test_a_name_whose_bytes_do_not_fit_its_layout_is_not_written() -> None:
    ptd = fmt.PtdFile({"w": fmt.ExternalData(b"123", fmt.TensorLayout(fmt.ScalarType.FLOAT, [1], [0]))})
    with pytest.raises(fmt.FormatError, match="'w' has 3 bytes, but sizes \\[1\\] need 4"):
        fmt.write_ptd(ptd)


DAMAGE = {
    "no .ptd file": (lambda b: b[:4] + b"ET12" + b[8:], "identifier 'FT01'"),
    "no header": (lambda b: b[:8] + b"XXXX" + b[12:], "no extended header 'FH01'"),
    "short header": (lambda b: b[:12] + struct.pack("<I", 8) + b[16:], "at least 40 are needed"),
    "truncated": (lambda b: b[:-1], "truncated"),
    "overlap": (lambda b: b[:32] + struct.pack("<Q", 64) + b[40:], "segments start at byte 64, inside the tables"),
    "endless": (lambda b: b[:40] + struct.pack("<Q", 1 << 63) + b[48:], "truncated"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_ptd_file_is_refused_in_one_sentence(damage: str) -> None:
    change, message = DAMAGE[damage]
    with pytest.raises(fmt.FormatError, match=message):
        fmt.read_ptd(change(fmt.write_ptd(sample())))


def test_verify_names_entries_whose_layout_does_not_fit() -> None:
    assert fmt.verify_ptd(fmt.read_ptd(fmt.write_ptd(sample()))) == []
    ptd = sample()
    ptd.entries["weight"].layout = fmt.TensorLayout(fmt.ScalarType.FLOAT, [2, 2], [0, 0])
    ptd.entries[fmt.META_KEY] = fmt.ExternalData(b"")
    text = "\n".join(map(str, fmt.verify_ptd(ptd)))
    assert "'weight': it has 24 bytes, but sizes [2, 2] need 16" in text
    assert "'weight': dim order [0, 0] is no permutation of 2 dims" in text
    assert f"'{fmt.META_KEY}': the metadata must be in the .pte" in text


class Sparse:
    """A file that keeps only what is small and counts the rest, as a sparse file on a disk would."""

    def __init__(self) -> None:
        self.position = 0
        self.small: dict[int, bytes] = {}

    def write(self, chunk: memoryview) -> int:
        if len(chunk) < 1 << 16:
            self.small[self.position] = bytes(chunk)
        self.position += len(chunk)
        return len(chunk)


@pytest.mark.parametrize("kind", ["pte", "ptd"])
def test_files_of_more_than_four_gigabytes_are_written_piece_by_piece(kind: str, huge) -> None:
    """5 GiB of weights that are neither in memory nor on disk: offsets beyond 32 bits, nothing joined."""
    big, small = huge(5 << 30), b"after it"
    file = Sparse()
    if kind == "ptd":
        length = [1 << 16, (5 << 30) >> 16]
        layout = fmt.TensorLayout(fmt.ScalarType.BYTE, length, [0, 1])
        ptd = fmt.PtdFile({"big": fmt.ExternalData(big, layout), "small": fmt.ExternalData(small)})
        written = fmt.write_ptd_to(ptd, file)  # type: ignore[arg-type]
    else:
        plan = fmt.ExecutionPlan(name="forward", chains=[fmt.Chain()], non_const_buffer_sizes=[0])
        pte = fmt.PteFile(
            fmt.Program(execution_plan=[plan]),
            constants=[b"", big],
            named_data={"small": fmt.NamedBlob(small)},
        )
        written = fmt.write_pte_to(pte, file)  # type: ignore[arg-type]
    assert written == file.position > 5 << 30
    place, last = max(file.small.items())
    assert last == small
    assert place > 5 << 30
    assert place % 128 == 0


def test_a_file_of_five_gigabytes_is_read(tmp_path, huge) -> None:
    """On disk it is sparse: only the tables and the last segment are written."""
    big, small = huge(5 << 30), b"after it"
    ptd = fmt.PtdFile({"big": fmt.ExternalData(big), "small": fmt.ExternalData(small)})
    sparse = Sparse()
    fmt.write_ptd_to(ptd, sparse)  # type: ignore[arg-type]
    path = tmp_path / "big.ptd"
    with path.open("wb") as file:
        for place, chunk in sparse.small.items():
            file.seek(place)
            file.write(chunk)
    with path.open("rb") as file:
        read = fmt.read_ptd(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    assert memoryview(read.entries["big"].data).nbytes == 5 << 30
    assert bytes(read.entries["small"].data) == small


def test_offsets_of_segments_exceed_32_bits() -> None:
    layout = Layout(fmt.DEFAULT_ALIGNMENTS)
    layout.end = 2**32 + 1
    layout.add([b"x"], 1)
    assert layout.segments[0].offset == 2**32 + 128
