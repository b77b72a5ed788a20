"""The metadata that edgecore adds to a `.pte`: the named data `edgecore.meta.v1`; the schema is `schema/meta.fbs`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from edgecore.errors import FormatError

from .flat import Buffer, data, pack, scalar, string, strings, tables, unpack, vector
from .pte import NamedBlob, PteFile
from .segments import CONSTANT_ALIGNMENT, parts

META_KEY = "edgecore.meta.v1"
META_IDENTIFIER = b"ECM1"


class MemoryKind(IntEnum):
    """The purpose for which a delegate uses memory.

    SCRATCH is used during a single call, PERSISTENT keeps its content between calls. STAGING is for transfers between
    the host and the device.
    """

    SCRATCH = 0
    PERSISTENT = 1
    STAGING = 2


@dataclass(slots=True)
class MemoryNeed:
    """Memory that a delegate needs in addition to its arguments, for the largest shape.

    Delegates with the same `shared_group` share memory: together they need the maximum of the group, not the sum.
    """

    kind: MemoryKind = scalar(0, "i8", enum=MemoryKind)
    space: int = scalar(1, "u32")
    bytes: int = scalar(2, "u64")
    alignment: int = scalar(3, "u32")
    shared_group: str = string(4)


@dataclass(slots=True)
class DebugHandle:
    """The origin of a graph node: `source` such as "file.py:12", `module_path` such as "features.0.conv"."""

    handle: int = scalar(0, "u32")
    source: str = string(1)
    operator_name: str = string(2)
    module_path: str = string(3)


@dataclass(slots=True)
class DelegateOperation:
    """An operation inside a delegate. Traces identify it by `name`, or by the number `id` if the name is empty.

    Attributes:
        handles: The debug handles of the graph nodes that the operation computes.
        dim_order: The dims of the operation's value from the outermost to the innermost in memory; empty if they are
            in the graph's order.
    """

    id: int = scalar(0, "i64")
    name: str = string(1)
    handles: list[int] = vector(2, "u32")
    dim_order: list[int] = vector(3, "u8")


@dataclass(slots=True)
class GraphNode:
    """An operation in a blob.

    Its `DelegateOperation` has the same `id` or `name`. `inputs` and `outputs` are numbers of `GraphValue`s.
    """

    id: int = scalar(0, "i64")
    name: str = string(1)
    kind: str = string(2)
    inputs: list[int] = vector(3, "u32")
    outputs: list[int] = vector(4, "u32")


@dataclass(slots=True)
class GraphValue:
    """A value in a blob, with a readable description of its dtype and sizes."""

    number: int = scalar(0, "u32")
    text: str = string(1)


@dataclass(slots=True)
class CycleEstimate:
    """The cycles that the backend's compiler estimates for a `DelegateOperation` on its device."""

    id: int = scalar(0, "i64")
    name: str = string(1)
    cycles: int = scalar(2, "u64")


@dataclass(slots=True)
class DelegateDetails:
    """Facts about a delegate that only tools read.

    Attributes:
        nodes: The operations of the blob in the order of execution; empty if the graph can be read from the blob.
        inputs: `GraphValue.number` of each input of the graph.
        outputs: `GraphValue.number` of each output of the graph.
        values: Descriptions of values: dtype and sizes.
        cycles: The estimates of the backend's compiler.
    """

    nodes: list[GraphNode] = tables(0, GraphNode)
    inputs: list[int] = vector(1, "u32")
    outputs: list[int] = vector(2, "u32")
    values: list[GraphValue] = tables(3, GraphValue)
    cycles: list[CycleEstimate] = tables(4, CycleEstimate)


@dataclass(slots=True)
class DelegateMeta:
    """Metadata of one delegate.

    Attributes:
        sha256: The SHA-256 of the delegate's blob, 32 bytes.
        compatibility: The backend's description of the devices and versions that can load the blob.
        distribution: The pip package that compiled the blob.
        distribution_version: The version of that package.
        memory: The memory that the delegate needs.
        handles: Debug handles of the nodes in the delegate.
        operations: The delegate's own operations, with the nodes that they compute.
        details: A flatbuffer of `DelegateDetails`, or empty. It is separate, so that the runtime need not verify it.
    """

    sha256: Buffer = data(0)
    compatibility: str = string(1)
    distribution: str = string(2)
    distribution_version: str = string(3)
    memory: list[MemoryNeed] = tables(4, MemoryNeed)
    handles: list[int] = vector(5, "u32")
    operations: list[DelegateOperation] = tables(6, DelegateOperation)
    details: Buffer = data(7)

    def read_details(self) -> DelegateDetails:
        """Unpack `details`, the facts that only tools read; return empty facts if the file has none.

        Raises:
            FormatError: The facts are damaged.
        """
        return unpack(DelegateDetails, self.details) if len(self.details) else DelegateDetails()


@dataclass(slots=True)
class InstructionHandles:
    handles: list[int] = vector(0, "u32")


@dataclass(slots=True)
class DimMeta:
    """The sizes that one dim may have: at least `min`, and at most its size in the program.

    If `symbol` is not -1, the size is `multiple` * n + `offset`, where the integer n is the same for all dims of the
    method with that symbol. `symbol` is -1 for fixed sizes, and for other expressions.
    """

    name: str = string(0)
    min: int = scalar(1, "i64")
    symbol: int = scalar(2, "i32", default=-1)
    multiple: int = scalar(3, "i64", default=1)
    offset: int = scalar(4, "i64")

    def max_size(self, size: int) -> int:
        """Return the largest valid size of a dim whose size in the program is `size`.

        This is the largest number `multiple` * n + `offset` up to `size`, or `size` itself if that number is below
        `min`.
        """
        rest = (size - self.offset) % self.multiple if self.multiple > 0 else 0
        return size - rest if size - rest >= self.min else size


@dataclass(slots=True)
class ArgumentMeta:
    """An input or output. `dims` has an entry for each dim of a tensor with a dynamic shape; otherwise it is empty."""

    name: str = string(0)
    dims: list[DimMeta] = tables(1, DimMeta)


@dataclass(slots=True)
class MethodMeta:
    """Metadata of one method.

    Attributes:
        name: The name of the method.
        delegates: One entry for each delegate of the method.
        instructions: Debug handles of each instruction in the method's first chain (`ExecutionPlan.chains[0]`); empty
            if there is no debug information.
        debug_handles: The origin of each graph node that a handle identifies.
        inputs: One entry for each input; empty if unknown.
        outputs: One entry for each output; empty if unknown.
    """

    name: str = string(0)
    delegates: list[DelegateMeta] = tables(1, DelegateMeta)
    instructions: list[InstructionHandles] = tables(2, InstructionHandles)
    debug_handles: list[DebugHandle] = tables(3, DebugHandle)
    inputs: list[ArgumentMeta] = tables(4, ArgumentMeta)
    outputs: list[ArgumentMeta] = tables(5, ArgumentMeta)


@dataclass(slots=True)
class DataDigest:
    """The SHA-256 (32 bytes) of the data with the key `key`, which is in the `.pte` or in one of its `.ptd` files."""

    key: str = string(0)
    sha256: Buffer = data(1)


@dataclass(slots=True)
class Meta:
    """The metadata of a file.

    Attributes:
        profile: The target runtime: `executorch-1.5` or `edgecore`.
        producer: The program that made the file.
        producer_version: The version of that program.
        methods: One entry for each method.
        shared_state: Qualified names of the mutable buffers that all methods share.
        constants_sha256: Digest of the segment with constants; empty if there is no such segment.
        state_sha256: Digest of the segment with mutable buffers' initial values; empty if there is no such segment.
        data: Digests of named data and external data, in ascending order of their keys as UTF-8.
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
    """Return the SHA-256 of a delegate's blob or of named data, 32 bytes."""
    digest = hashlib.sha256()
    for part in parts(blob):
        digest.update(part)
    return digest.digest()


def segment_digest(buffers: Sequence[Buffer], alignment: int = CONSTANT_ALIGNMENT) -> bytes:
    """Return the SHA-256 of the segment in which a file stores `buffers`; empty if the file has no segment for them.

    The segment does not contain the first buffer, a placeholder for tensors without data. The other buffers start at
    multiples of `alignment` bytes.
    """
    if len(buffers) < 2:
        return b""
    digest, size = hashlib.sha256(), 0
    for buffer in buffers[1:]:
        padding = -size % alignment
        digest.update(bytes(padding))
        for part in parts(buffer):
            digest.update(part)
        size += padding + memoryview(buffer).nbytes
    return digest.digest()


def get_meta(pte: PteFile) -> Meta | None:
    """Return the metadata of a file; None if there is none.

    Raises:
        FormatError: The metadata is damaged.
    """
    blob = pte.named_data.get(META_KEY)
    if blob is None:
        return None
    try:
        return unpack(Meta, blob.data, META_IDENTIFIER)
    except FormatError as error:
        raise FormatError(f"named data '{META_KEY}': {error}") from error


def set_meta(pte: PteFile, meta: Meta) -> None:
    """Set the metadata of a file; replace existing metadata."""
    pte.named_data[META_KEY] = NamedBlob(pack(meta, META_IDENTIFIER), 16)
