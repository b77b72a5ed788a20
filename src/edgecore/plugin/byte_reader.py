"""Reading a blob that anybody may have written; `edgecore::backend::ByteReader` of `edgecore/backend.hpp` is its twin."""

from __future__ import annotations

from edgecore.errors import FormatError


class ByteReader:
    """Reads a blob from its start: little-endian unsigned numbers, texts, bytes.

    Every method raises `FormatError` with a sentence where the blob does not hold what is asked for.
    """

    def __init__(self, blob: bytes) -> None:
        self.blob = blob
        self.position = 0

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return len(self.blob) - self.position

    def header(self, magic: bytes, version: int, package: str) -> None:
        """The start of a blob: `magic`, and a number of 4 bytes that must be `version`. `package` is for the sentence."""
        if self.blob[self.position : self.position + len(magic)] != magic:
            raise FormatError(f"the blob was not written by {package}")
        self.position += len(magic)
        if (found := self.number()) != version:
            raise FormatError(
                f"the blob has version {found} and this {package} reads version {version}: "
                "install the release that compiled it"
            )

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        if size > self.left:
            raise FormatError(f"the blob is damaged: its {len(self.blob)} bytes end too early")
        self.position += size
        return self.blob[self.position - size : self.position]

    def number(self, size: int = 4) -> int:
        """A number of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def numbers(self, count: int) -> tuple[int, ...]:
        """`count` numbers of 4 bytes."""
        data = self.take(4 * count)
        return tuple(int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4))

    def count(self, least_bytes: int) -> int:
        """The number of records, of `least_bytes` each at least, that follow somewhere: so many fit into the rest."""
        count = self.number()
        if count > self.left // least_bytes:
            raise FormatError(f"the blob is damaged: {count} records in {self.left} bytes")
        return count

    def text(self) -> str:
        """A length of 4 bytes, and so many bytes of UTF-8."""
        return self.take(self.number()).decode("utf-8", "replace")

    def align(self, alignment: int) -> None:
        """Skip to a multiple of `alignment` bytes from the start of the blob."""
        self.take(-self.position % alignment)

    def finish(self) -> None:
        """The end of the blob must be here."""
        if self.left:
            raise FormatError(f"the blob is damaged: {self.left} bytes follow its end")
