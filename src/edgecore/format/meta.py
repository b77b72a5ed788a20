"""`edgecore.meta.v1`: the one named-data entry that edgecore adds to a `.pte`; `schema/meta.fbs` in flatc's words."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import IntEnum

from edgecore.errors import FormatError

from .flat import Buffer, data, pack, scalar, string, strings, tables, unpack, vector
from .pte import NamedBlob, PteFile

META_KEY = "edgecore.meta.v1"
META_IDENTIFIER = b"ECM1"


class MemoryKind(IntEnum):
    """Lifetime: SCRATCH that of one call, PERSISTENT that of the method, STAGING that of one transfer."""

    SCRATCH = 0
    PERSISTENT = 1
    STAGING = 2


@dataclass(slots=True)
class MemoryNeed:
    """Memory of a delegate beside its arguments, at the greatest shape; members of a shared group need its maximum."""

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
class MethodMeta:
    """`delegates` by delegate index, `instructions` by index in the first chain (empty: no debug information)."""

    name: str = string(0)
    delegates: list[DelegateMeta] = tables(1, DelegateMeta)
    instructions: list[InstructionHandles] = tables(2, InstructionHandles)
    debug_handles: list[DebugHandle] = tables(3, DebugHandle)


@dataclass(slots=True)
class Meta:
    """`shared_state`: qualified names of the mutable buffers of which all methods use one copy."""

    profile: str = string(0)
    producer: str = string(1)
    producer_version: str = string(2)
    methods: list[MethodMeta] = tables(3, MethodMeta)
    shared_state: list[str] = strings(4)

    def method(self, name: str) -> MethodMeta | None:
        return next((method for method in self.methods if method.name == name), None)


def blob_digest(blob: Buffer) -> bytes:
    """SHA-256 of a delegate's blob, 32 bytes."""
    return hashlib.sha256(blob).digest()


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
