"""`edgecore.meta.v1`: the one named-data entry that edgecore adds to a `.pte`; `schema/meta.fbs` in flatc's words."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from edgecore.errors import FormatError

from .flat import Buffer, data, pack, scalar, string, strings, tables, unpack, vector
from .pte import NamedBlob, PteFile
from .segments import CONSTANT_ALIGNMENT

META_KEY = "edgecore.meta.v1"
META_IDENTIFIER = b"ECM1"


class MemoryKind(IntEnum):
    """Lifetime: SCRATCH that of one call, PERSISTENT that of the method, STAGING that of one transfer."""

    SCRATCH = 0
    PERSISTENT = 1
    STAGING = 2


@dataclass(slots=True)
class MemoryNeed:
    """Memory of a delegate beside its arguments, at the maximum shape; members of a shared group need its maximum."""

    kind: MemoryKind = scalar(0, "i8", enum=MemoryKind)
    space: int = scalar(1, "u32")
    bytes: int = scalar(2, "u64")
    alignment: int = scalar(3, "u32")
    shared_group: str = string(4)


@dataclass(slots=True)
class DebugHandle:
    """Origin of a graph node: `source` is "file.py:12", `module_path` such as "features.0.conv"."""

    handle: int = scalar(0, "u32")
    source: str = string(1)
    operator_name: str = string(2)
    module_path: str = string(3)


@dataclass(slots=True)
class DelegateOperation:
    """An operation within a delegate as traces name it: by number, or by name if that is not empty."""

    id: int = scalar(0, "i64")
    name: str = string(1)
    handles: list[int] = vector(2, "u32")


@dataclass(slots=True)
class DelegateMeta:
    """Facts about one delegate: digest of its blob (32 bytes), who made it, what it needs, which nodes it holds, and
    what its own operations came from.
    """

    sha256: Buffer = data(0)
    compatibility: str = string(1)
    distribution: str = string(2)
    distribution_version: str = string(3)
    memory: list[MemoryNeed] = tables(4, MemoryNeed)
    handles: list[int] = vector(5, "u32")
    operations: list[DelegateOperation] = tables(6, DelegateOperation)


@dataclass(slots=True)
class InstructionHandles:
    handles: list[int] = vector(0, "u32")


@dataclass(slots=True)
class DimMeta:
    """One dim whose size is at least `min`, and at most its size in the program.

    With a `symbol` the size is `multiple` * n + `offset` for a whole number n that all dims of that symbol in the method
    share; -1 for a fixed size and for one that is not of that form.
    """

    name: str = string(0)
    min: int = scalar(1, "i64")
    symbol: int = scalar(2, "i32", default=-1)
    multiple: int = scalar(3, "i64", default=1)
    offset: int = scalar(4, "i64")

    def max_size(self, size: int) -> int:
        """The maximum of a dim whose size in the program is `size`, which need not be one that the dim may have."""
        rest = (size - self.offset) % self.multiple if self.multiple > 0 else 0
        return size - rest if size - rest >= self.min else size


@dataclass(slots=True)
class ArgumentMeta:
    """An input or output; `dims` has one entry for each dim of a tensor whose shape may vary, none for others."""

    name: str = string(0)
    dims: list[DimMeta] = tables(1, DimMeta)


@dataclass(slots=True)
class MethodMeta:
    """`delegates` by delegate index, `instructions` by index in the first chain (empty: no debug information), `inputs`
    and `outputs` by their index (empty: not known).
    """

    name: str = string(0)
    delegates: list[DelegateMeta] = tables(1, DelegateMeta)
    instructions: list[InstructionHandles] = tables(2, InstructionHandles)
    debug_handles: list[DebugHandle] = tables(3, DebugHandle)
    inputs: list[ArgumentMeta] = tables(4, ArgumentMeta)
    outputs: list[ArgumentMeta] = tables(5, ArgumentMeta)


@dataclass(slots=True)
class DataDigest:
    """SHA-256 (32 bytes) of named data of the file, or of what a `.ptd` beside it has under that key."""

    key: str = string(0)
    sha256: Buffer = data(1)


@dataclass(slots=True)
class Meta:
    """`shared_state`: qualified names of the mutable buffers of which all methods use one copy.

    `constants_sha256`, `state_sha256`: of the segments with constants and with initial values of mutable buffers; empty if
    there is none, or for a file of an earlier edgecore. `data` is in ascending order of its keys as UTF-8.
    """

    profile: str = string(0)
    producer: str = string(1)
    producer_version: str = string(2)
    methods: list[MethodMeta] = tables(3, MethodMeta)
    shared_state: list[str] = strings(4)
    constants_sha256: Buffer = data(5)
    state_sha256: Buffer = data(6)
    data: list[DataDigest] = tables(7, DataDigest)

    def method(self, name: str) -> MethodMeta | None:
        return next((method for method in self.methods if method.name == name), None)


def blob_digest(blob: Buffer) -> bytes:
    """SHA-256 of a delegate's blob or of named data, 32 bytes."""
    return hashlib.sha256(blob).digest()


def segment_digest(buffers: Sequence[Buffer]) -> bytes:
    """SHA-256 of the segment that a file has `buffers` in (constants or mutable data); empty if there are none.

    The first buffer is the placeholder of tensors without data. The others start at multiples of 16 bytes.
    """
    if len(buffers) < 2:
        return b""
    digest, size = hashlib.sha256(), 0
    for buffer in buffers[1:]:
        padding = -size % CONSTANT_ALIGNMENT
        digest.update(bytes(padding))
        digest.update(buffer)
        size += padding + memoryview(buffer).nbytes
    return digest.digest()


def get_meta(pte: PteFile) -> Meta | None:
    """The metadata of the file, None if it has none; FormatError if they are damaged."""
    blob = pte.named_data.get(META_KEY)
    if blob is None:
        return None
    try:
        return unpack(Meta, blob.data, META_IDENTIFIER)
    except FormatError as error:
        raise FormatError(f"named data '{META_KEY}': {error}") from error


def set_meta(pte: PteFile, meta: Meta) -> None:
    """Puts the metadata into the file, in place of what it had."""
    pte.named_data[META_KEY] = NamedBlob(pack(meta, META_IDENTIFIER), 16)
