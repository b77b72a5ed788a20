"""A call of a micro-kernel as XNNPACK's operators make it: the arguments, and the size of each buffer.

A kernel's kind follows from the names of its parameters (`calls.calls_of`). For each kind a function yields calls with
sizes around the kernel's tile; these functions are in `calls_elementwise`, `calls_matrix`, `calls_window` and
`calls_moving`. A buffer's `size` is the size of the tensor in bytes; `readable` and `writable` are the bytes that the
operators provide after it. Comments beside a size name the file and the variable of XNNPACK's source code where this
size is computed. The tile is read from the kernel's name (`4x16c8s4__`, `25p32c__`, `_u64`); `padding.py` checks that
this tile agrees with XNNPACK's configurations.
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
    """Constants of XNNPACK's headers: the padding that its operators provide."""

    extra_bytes: int  # XNN_EXTRA_BYTES: bytes after inputs
    quantization_params: int  # XNN_EXTRA_QUANTIZATION_PARAMS: entries after dynamic quantization parameters
    multipass_bytes: int  # XNN_MULTIPASS_EXTRA_BYTES: bytes after the accumulators of a pixel
    planes: int = 1  # field of a GEMM configuration: number of input blocks whose 4-bit weights share bytes

    @property
    def sparse_bytes(self) -> int:
        """Bytes after inputs of the NCHW operators (runtime.c: the workspace ends with 2 * XNN_EXTRA_BYTES)."""
        return 2 * self.extra_bytes


@dataclass
class Room:
    """The number of bytes after a buffer's end that may be read or written."""

    readable: int = 0
    writable: int = 0


@dataclass
class Call:
    """A call of a kernel, whose accesses are examined; `at` describes the sizes of the call in error messages."""

    at: str
    memory: Memory = field(default_factory=Memory)
    arguments: dict[str, int] = field(default_factory=dict)
    fields: dict[str, int] = field(default_factory=dict)  # members of the kernel's parameter structs
    rooms: dict[str, Room] = field(default_factory=dict)

    def buffer(self, name: str, size: int, readable: int = 0, writable: int = 0, *, holds_zeros: bool = False) -> int:
        """Add a buffer and return its address, which becomes the argument of this name."""
        address = self.memory.add(name, size, holds_zeros)
        self.rooms[name] = Room(readable, writable)
        self.arguments.setdefault(name, address)
        return address

    def pointers(self, name: str, addresses: list[int], readable: int = 0) -> int:
        """Add a buffer that holds these addresses as pointers, and return its address."""
        address = self.buffer(name, len(addresses) * POINTER, readable)
        self.memory.contents.update({address + POINTER * i: value for i, value in enumerate(addresses)})
        return address


def round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def element_bytes(kernel: Kernel, parameter: str) -> int:
    """Return the size in bytes of the elements that a parameter points to."""
    for (type_name, _), name in kernel.parameters:
        if name == parameter:
            return 1 if is_vector(type_name) else size_of((type_name, 0), {})
    raise NotUnderstood(f"a kernel without the parameter {parameter}")


def numbers(kernel: Kernel, pattern: str) -> list[int]:
    """Return the numbers that the groups of the regex `pattern` match in the kernel's name; 1 for an absent group."""
    match = re.search(pattern, kernel.name)
    if match is None:
        raise NotUnderstood("a name without its tile")
    return [int(group or 1) for group in match.groups()]


def sizes_around(tile: int) -> list[int]:
    """Return the sizes from 1 to one tile and one more, which have all remainders, and the sizes around two tiles."""
    return sorted({*range(1, tile + 2), *range(2 * tile - 1, 2 * tile + 2)})


# Packed weights of each output channel: bytes of the bias (or of the sum of the weights), of each weight, and of the
# scales and other values at the end (bias_element_size, log2_filter_element_size and extra_weights_bytes of
# src/operators/*.c).
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
