"""Read a blob that may be damaged or malicious, like `edgecore::backend::ByteReader` in C++ (edgecore/backend.hpp)."""

from __future__ import annotations

from edgecore.errors import FormatError


class ByteReader:
    """Reads little-endian unsigned integers, strings and bytes of a blob, from its start.

    Every method raises `FormatError` if the blob does not contain the requested value.

    Attributes:
        blob: The bytes.
        position: Offset of the next byte to read.
    """

    def __init__(self, blob: bytes | memoryview) -> None:
        self.blob = blob
        self.position = 0

    @property
    def left(self) -> int:
        """Number of bytes that have not been read yet."""
        return len(self.blob) - self.position

    def header(self, magic: bytes, version: int, package: str) -> None:
        """Read the first bytes of a blob and check them.

        Args:
            magic: The bytes with which the blob must begin.
            version: The number that must follow, in 4 bytes.
            package: Name of the backend's package, for error messages.
        """
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
        """Read an unsigned integer of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def numbers(self, count: int) -> tuple[int, ...]:
        """Read `count` unsigned integers of 4 bytes each."""
        data = self.take(4 * count)
        return tuple(int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4))

    def count(self, min_bytes: int) -> int:
        """Read the number of records that follow, and check that the rest of the blob can hold them.

        Without this check a damaged blob could make the caller allocate memory for 2**32 records.

        Args:
            min_bytes: Minimum size of one record in bytes.
        """
        count = self.number()
        if count > self.left // min_bytes:
            raise FormatError(f"the blob is damaged: {count} records in {self.left} bytes")
        return count

    def text(self) -> str:
        """Read a string: its length in bytes as 4 bytes, then its UTF-8 bytes."""
        return self.take(self.number()).decode("utf-8", "replace")

    def align(self, alignment: int) -> None:
        """Skip bytes until the position is a multiple of `alignment` bytes from the start of the blob."""
        self.take(-self.position % alignment)

    def part(self, offset: int, size: int) -> memoryview:
        """Return `size` bytes at `offset` from the start of the blob, without a copy. The position does not change."""
        if offset + size > len(self.blob):
            raise FormatError(
                f"the blob is damaged: bytes {offset} to {offset + size} lie outside its {len(self.blob)} bytes"
            )
        return memoryview(self.blob)[offset : offset + size]

    def finish(self) -> None:
        """Raise `FormatError` if bytes are left."""
        if self.left:
            raise FormatError(f"the blob is damaged: {self.left} bytes follow its end")
