"""Several memories: which tensor goes to which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgecore.errors import CompileError
from edgecore.ir.dtypes import dtype_name
from edgecore.memory.planners import align, lower_bound, overlap
from edgecore.memory.specs import TensorSpec


@dataclass(frozen=True)
class Memory:
    """A memory of the device: `size` in bytes, None without limit; `cost` of an access, only compared with others'."""

    name: str
    size: int | None = None
    cost: float = 1.0


def distribute(
    memories: Sequence[Memory], specs: Sequence[TensorSpec], uses: Mapping[TensorSpec, int], alignment: int
) -> None:
    """Set memory id and offset of each spec: the most used ones into the cheapest memory where they fit.

    Ids count `memories` from 1. Each spec goes to the lowest free offset of the first memory, by cost, that has room.

    Raises:
        CompileError: A tensor fits nowhere.
    """
    by_cost = sorted(range(len(memories)), key=lambda index: memories[index].cost)
    placed: dict[int, list[TensorSpec]] = {index: [] for index in by_cost}
    for spec in sorted(specs, key=lambda spec: (-uses.get(spec, 0), spec.nbytes, spec.lifetime)):
        for index in by_cost:
            offset = _lowest(spec, placed[index], alignment)
            size = memories[index].size
            if size is None or align(offset + spec.nbytes, alignment) <= size:
                spec.mem_id, spec.mem_offset = index + 1, offset
                placed[index].append(spec)
                break
        else:
            _refuse(memories, specs, spec, placed, alignment)


def _lowest(spec: TensorSpec, placed: Sequence[TensorSpec], alignment: int) -> int:
    offset = 0
    for rival in sorted((other for other in placed if overlap(spec, other)), key=lambda other: other.mem_offset):
        if offset + spec.nbytes <= rival.mem_offset:
            break
        offset = max(offset, align(rival.mem_offset + rival.nbytes, alignment))
    return offset


def _refuse(
    memories: Sequence[Memory],
    specs: Sequence[TensorSpec],
    spec: TensorSpec,
    placed: Mapping[int, Sequence[TensorSpec]],
    alignment: int,
) -> None:
    have = ", ".join(
        f"{memory.name} {memory.size} bytes ({lower_bound(placed[index], alignment)} of them taken)"
        for index, memory in enumerate(memories)
    )
    raise CompileError(
        f"the memories are too small: a tensor of {spec.nbytes} bytes ({dtype_name(spec.dtype)} "
        f"{list(spec.shape)}) fits into none of {have}; all tensors together need at least "
        f"{lower_bound(specs, alignment)} bytes at one time. Give a memory more bytes, or one without a size"
    )
