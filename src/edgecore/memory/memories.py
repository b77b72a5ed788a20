"""Distribute tensors over several memories of a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgecore.errors import CompileError
from edgecore.ir.dialect.dtypes import dtype_name
from edgecore.memory.planners import align, lower_bound, overlap
from edgecore.memory.specs import TensorSpec


@dataclass(frozen=True)
class Memory:
    """A memory of the device.

    Attributes:
        name: Name in reports and error messages.
        size: Size in bytes; None if there is no limit.
        cost: Cost of an access relative to the other memories.
    """

    name: str
    size: int | None = None
    cost: float = 1.0


def distribute(
    memories: Sequence[Memory], specs: Sequence[TensorSpec], uses: Mapping[TensorSpec, int], alignment: int
) -> None:
    """Set the memory id and offset of each tensor spec, with the most used tensors in the cheapest memories.

    Each tensor is placed at the lowest free offset of the cheapest memory that has room for it.

    Args:
        memories: The memories of the device; the first one has memory id 1.
        specs: The tensor specs to place, with their lifetimes.
        uses: Number of nodes that read or write each spec.
        alignment: Divisor of every offset, in bytes.

    Raises:
        CompileError: A tensor fits into no memory.
    """
    by_cost = sorted(range(len(memories)), key=lambda index: memories[index].cost)
    placed: dict[int, list[TensorSpec]] = {index: [] for index in by_cost}
    for spec in sorted(specs, key=lambda spec: (-uses.get(spec, 0), spec.nbytes, spec.lifetime)):
        for index in by_cost:
            offset = _lowest_offset(spec, placed[index], alignment)
            size = memories[index].size
            if size is None or align(offset + spec.nbytes, alignment) <= size:
                spec.mem_id, spec.mem_offset = index + 1, offset
                placed[index].append(spec)
                break
        else:
            _fail(memories, specs, spec, placed, alignment)


def _lowest_offset(spec: TensorSpec, placed: Sequence[TensorSpec], alignment: int) -> int:
    offset = 0
    for other in sorted((other for other in placed if overlap(spec, other)), key=lambda other: other.mem_offset):
        if offset + spec.nbytes <= other.mem_offset:
            break
        offset = max(offset, align(other.mem_offset + other.nbytes, alignment))
    return offset


def _fail(
    memories: Sequence[Memory],
    specs: Sequence[TensorSpec],
    spec: TensorSpec,
    placed: Mapping[int, Sequence[TensorSpec]],
    alignment: int,
) -> None:
    sizes = ", ".join(
        f"{memory.name} {memory.size} bytes ({lower_bound(placed[index], alignment)} of them used)"
        for index, memory in enumerate(memories)
    )
    raise CompileError(
        f"the memories are too small: a tensor of {spec.nbytes} bytes ({dtype_name(spec.dtype)} "
        f"{list(spec.shape)}) fits into none of {sizes}; all tensors together need at least "
        f"{lower_bound(specs, alignment)} bytes at one time. Increase the size of a memory, or add a memory without a "
        "size"
    )
