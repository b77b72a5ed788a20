"""One call of a micro-kernel, as XNNPACK's operators make them: the arguments, and how many bytes each buffer has.

A kernel's parameters say of which kind it is. For each kind there is a function that yields calls over sizes around
the kernel's tile (`calls_elementwise`, `calls_matrix`, `calls_window`, `calls_moving`, found by `calls`). A buffer's `size` is what the call is about (as many bytes as the tensor has), `readable` and
`writable` are what operators provide after it; the comment beside each names the allocation in XNNPACK's source. The
sizes come from the kernel's name (`4x16c8s4__`, `25p32c__`, `_u64`), which `padding` compares with the processor's
tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from footprint.kernel import Kernel
from footprint.memory import Memory
from footprint.nodes import is_vector
from footprint.source import NotUnderstood, size_of

POINTER = 8


@dataclass(frozen=True)
class Provided:
    """The library's constants, in bytes or entries."""

    extra_bytes: int  # XNN_EXTRA_BYTES, after inputs
    quantization_params: int  # XNN_EXTRA_QUANTIZATION_PARAMS, after dynamic quantization parameters
    multipass_bytes: int  # XNN_MULTIPASS_EXTRA_BYTES, after the accumulators of a pixel
    planes: int = 1  # of gemm configurations: blocks of inputs whose 4-bit weights share bytes

    @property
    def sparse_bytes(self) -> int:
        """After inputs of the operators over planes (runtime.c: the workspace ends with 2 * XNN_EXTRA_BYTES)."""
        return 2 * self.extra_bytes


@dataclass
class Room:
    """Numbers of bytes that may be read and written after a buffer's end."""

    readable: int = 0
    writable: int = 0


@dataclass
class Call:
    """One call of a kernel; `at` tells its sizes."""

    at: str
    memory: Memory = field(default_factory=Memory)
    arguments: dict[str, int] = field(default_factory=dict)
    fields: dict[str, int] = field(default_factory=dict)
    rooms: dict[str, Room] = field(default_factory=dict)

    def buffer(self, name: str, size: int, readable: int = 0, writable: int = 0, *, holds_zeros: bool = False) -> int:
        """Make a buffer; it is the argument of its name, if there is one."""
        address = self.memory.add(name, size, holds_zeros)
        self.rooms[name] = Room(readable, writable)
        self.arguments.setdefault(name, address)
        return address

    def pointers(self, name: str, addresses: list[int], readable: int = 0) -> int:
        """Make a buffer of pointers."""
        address = self.buffer(name, len(addresses) * POINTER, readable)
        self.memory.contents.update({address + POINTER * i: value for i, value in enumerate(addresses)})
        return address


def up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def item(kernel: Kernel, parameter: str) -> int:
    """Bytes of the elements that a parameter points to."""
    for (name, _), found in kernel.parameters:
        if found == parameter:
            return 1 if is_vector(name) else size_of((name, 0), {})
    raise NotUnderstood(f"no parameter {parameter}")


def numbers(kernel: Kernel, pattern: str) -> list[int]:
    """The numbers that `pattern` finds in the kernel's name; an absent group is 1."""
    found = re.search(pattern, kernel.name)
    if found is None:
        raise NotUnderstood("a name without its tile")
    return [int(group or 1) for group in found.groups()]


def around(tile: int) -> list[int]:
    """Each remainder of a tile, alone and after whole tiles."""
    return sorted({*range(1, tile + 2), *range(2 * tile - 1, 2 * tile + 2)})


# Of each output: bytes of its bias (or of the sum of its weights), of each weight, and of scales and what else follows
# (bias_element_size, log2_filter_element_size and extra_weights_bytes of src/operators/*.c).
WEIGHTS = {
    "f32": (4, 4.0, 0), "f16": (2, 2.0, 0), "f16_f32acc": (2, 2.0, 0), "f32_qc8w": (4, 1.0, 4), "f32_qc4w": (4, 0.5, 4),
    "qs8": (4, 1.0, 0), "qs8_qc8w": (4, 1.0, 4), "qu8": (4, 1.0, 0), "qd8_f32_qc8w": (4, 1.0, 8),
    "qd8_f16_qc8w": (4, 1.0, 8), "qd8_f32_qc4w": (4, 0.5, 8), "qd8_f16_qc4w": (4, 0.5, 8),
    "qd8_f32_qb4w": (4, 0.5, 4), "qd8_f16_qb4w": (4, 0.5, 4),
}  # fmt: skip


def weights_of(kernel: Kernel, operation: str) -> tuple[int, float, int]:
    kind = kernel.name[len("xnn_") : kernel.name.index(operation)]
    if kind not in WEIGHTS:
        raise NotUnderstood(f"weights of {kind}")
    return WEIGHTS[kind]
