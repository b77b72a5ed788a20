"""Read a blob that anybody may have written; the twin of `edgecore::backend::ByteReader` in `edgecore/backend.hpp`."""

from __future__ import annotations

from edgecore.errors import FormatError


class ByteReader:
    """Reads a blob from its start: little-endian unsigned numbers, texts, bytes.

    Every method raises `FormatError` with a sentence where the blob does not hold what is asked for.

    Attributes:
        blob: The bytes.
        position: Offset of the next byte to read.
    """

    def __init__(self, blob: bytes | memoryview) -> None:
        self.blob = blob
        self.position = 0

    @property
    def left(self) -> int:
        """Number of bytes that were not read yet."""
        return len(self.blob) - self.position

    def header(self, magic: bytes, version: int, package: str) -> None:
        """Read the start of a blob: `magic`, and a number of 4 bytes that must be `version`; errors name `package`."""
        if self.blob[self.position : self.position + len(magic)] != magic:
            raise FormatError(f"the blob was not written by {package}")
        self.position += len(magic)
        blob_version = self.number()
        if blob_version != version:
            raise FormatError(
                f"the blob has version {blob_version} and this {package} reads version {version}: "
                "install the release that compiled it"
            )

    def take(self, size: int) -> bytes:
        """Read the next `size` bytes."""
        if size > self.left:
            raise FormatError(f"the blob is damaged: its {len(self.blob)} bytes end too early")
        self.position += size
        return bytes(self.blob[self.position - size : self.position])

    def number(self, size: int = 4) -> int:
        """Read a number of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def numbers(self, count: int) -> tuple[int, ...]:
        """Read `count` numbers of 4 bytes."""
        data = self.take(4 * count)
        return tuple(int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4))

    def count(self, min_bytes: int) -> int:
        """Read the number of records that follow, of at least `min_bytes` each: as many must fit into the rest."""
        count = self.number()
        if count > self.left // min_bytes:
            raise FormatError(f"the blob is damaged: {count} records in {self.left} bytes")
        return count

    def text(self) -> str:
        """Read a length of 4 bytes, and as many bytes of UTF-8."""
        return self.take(self.number()).decode("utf-8", "replace")

    def align(self, alignment: int) -> None:
        """Skip to a multiple of `alignment` bytes from the start of the blob."""
        self.take(-self.position % alignment)

    def part(self, offset: int, size: int) -> memoryview:
        """Return `size` bytes from `offset` of the blob, without a copy; the position stays."""
        if offset + size > len(self.blob):
            raise FormatError(
                f"the blob is damaged: bytes {offset} to {offset + size} lie outside its {len(self.blob)} bytes"
            )
        return memoryview(self.blob)[offset : offset + size]

    def finish(self) -> None:
        """Raise an error unless the end of the blob is here."""
        if self.left:
            raise FormatError(f"the blob is damaged: {self.left} bytes follow its end")
