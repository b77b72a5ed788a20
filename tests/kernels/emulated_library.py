"""Call kernels that were compiled for another processor, in a process that qemu runs (runtime_cpp/kernels/tests)."""

from __future__ import annotations

import contextlib
import ctypes
import struct
import subprocess
from collections.abc import Iterator
from ctypes import POINTER, c_int64, c_uint8
from pathlib import Path
from typing import Any

from native import (
    TAG_BOOL_LIST,
    TAG_STRING,
    TAG_TENSOR,
    TAG_TENSOR_LIST,
    Arguments,
    Library,
    List,
    Tensor,
    Value,
)

PROCESSORS = ("cortex-a53", "neoverse-n1", "max")
"""Plain NEON; with dot products and fp16; with all that qemu knows."""
SYSTEM = "/usr/aarch64-linux-gnu"
NULL = 0xFFFFFFFF


def at(address: int, kind: Any, count: int) -> Any:
    """Return `count` C values at an address as an array."""
    return (kind * count).from_address(address) if count else []


class Memory:
    """The blocks of memory of a call: those of tensors that overlap are one block."""

    def __init__(self, tensors: list[Tensor]) -> None:
        ranges = sorted((t.dl.data, t.dl.data + t.capacity) for t in tensors if t.dl.data)
        self.blocks: list[list[int]] = []
        for begin, end in ranges:
            if self.blocks and begin < self.blocks[-1][1]:
                self.blocks[-1][1] = max(end, self.blocks[-1][1])
            else:
                self.blocks.append([begin, end])

    def find(self, tensor: Tensor) -> tuple[int, int]:
        """Return the index of a tensor's block, and the tensor's offset in it."""
        for index, (begin, end) in enumerate(self.blocks):
            if tensor.dl.data and begin <= tensor.dl.data <= end and (tensor.dl.data < end or not tensor.capacity):
                return index, tensor.dl.data - begin
        return NULL, 0

    def packed(self) -> Iterator[bytes]:
        yield struct.pack("<I", len(self.blocks))
        for begin, end in self.blocks:
            yield struct.pack("<QI", end - begin, begin % 64)
            yield ctypes.string_at(begin, end - begin)


class EmulatedLibrary(Library):
    """The kernels of a program for 64-bit Arm, which is run as if on the processor `cpu`."""

    def __init__(self, program: Path, cpu: str) -> None:
        command = ["qemu-aarch64", "-L", SYSTEM, "-cpu", cpu, str(program)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._refuse = 0
        (count,) = self._read("<I")
        self.kernels = {self._read_text(): index for index in range(count)}
        self.available = bool(self.kernels)

    def __enter__(self) -> EmulatedLibrary:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()

    def _read_bytes(self, size: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        assert len(data) == size, f"the program with the kernels has ended with the code {self._process.wait()}"
        return data

    def _read(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack(layout, self._read_bytes(struct.calcsize(layout)))

    def _read_text(self) -> str:
        (size,) = self._read("<I")
        return self._read_bytes(size).decode()

    @contextlib.contextmanager
    def refused_scratch(self) -> Iterator[None]:
        self._refuse = 1
        try:
            yield
        finally:
            self._refuse = 0

    def run(self, name: str, arguments: Arguments, workers: int) -> tuple[int, str]:
        values = arguments.values
        tensors = list(tensors_of(values))
        memory = Memory(tensors)
        indices = {ctypes.addressof(t): i for i, t in enumerate(tensors)}
        encoded = name.encode()
        parts = [struct.pack("<I", len(encoded)), encoded, struct.pack("<II", workers, self._refuse), *memory.packed()]
        parts += [struct.pack("<I", len(tensors)), *(packed_tensor(t, *memory.find(t)) for t in tensors)]
        parts += [struct.pack("<I", len(values)), *(packed_value(value, indices) for value in values)]
        assert self._process.stdin is not None
        self._process.stdin.write(b"".join(parts))
        self._process.stdin.flush()
        (code,) = self._read("<i")
        text = self._read_text()
        for begin, end in memory.blocks:
            ctypes.memmove(begin, self._read_bytes(end - begin), end - begin)
        for tensor in tensors:
            index, offset = self._read("<IQ")
            if index != NULL:
                tensor.dl.data = memory.blocks[index][0] + offset
            for numbers in (tensor.dl.shape, tensor.dl.strides):
                ctypes.memmove(numbers, self._read_bytes(8 * tensor.dl.ndim), 8 * tensor.dl.ndim)
        for value in values:
            tag, number = self._read("<Iq")
            if value.tag < TAG_TENSOR:
                value.tag, value.value.i = tag, number
        return code, text


def tensors_of(values: Any) -> Iterator[Tensor]:
    """Yield each tensor of the values of a call once."""
    seen = set()
    for value in values:
        found = []
        if value.tag == TAG_TENSOR:
            found = [value.value.tensor]
        elif value.tag == TAG_TENSOR_LIST:
            items = value.value.list.contents
            found = [pointer for pointer in at(items.items, POINTER(Tensor), items.count) if pointer]
        for pointer in found:
            tensor = pointer.contents
            if ctypes.addressof(tensor) not in seen:
                seen.add(ctypes.addressof(tensor))
                yield tensor


def packed_tensor(tensor: Tensor, block: int, offset: int) -> bytes:
    dl, ndim = tensor.dl, tensor.dl.ndim
    head = struct.pack(
        "<IiIQQII", tensor.flags, tensor.scalar_type, block, offset, tensor.capacity, dl.dtype.bits, ndim
    )
    sizes = [ctypes.string_at(numbers, 8 * ndim) for numbers in (dl.shape, dl.strides, tensor.max_shape)]
    return b"".join([head, *sizes, ctypes.string_at(tensor.dim_order, ndim)])


def packed_value(value: Value, tensors: dict[int, int]) -> bytes:
    if value.tag == TAG_TENSOR:
        return struct.pack("<II", value.tag, tensors[ctypes.addressof(value.value.tensor.contents)])
    if value.tag < TAG_TENSOR:
        return struct.pack("<Iq", value.tag, value.value.i)
    items: List = value.value.list.contents
    head = struct.pack("<II", value.tag, items.count)
    if value.tag in (TAG_STRING, TAG_BOOL_LIST):
        return head + bytes(at(items.items, c_uint8, items.count))
    if value.tag == TAG_TENSOR_LIST:
        pointers = at(items.items, POINTER(Tensor), items.count)
        found = [tensors[ctypes.addressof(p.contents)] if p else NULL for p in pointers]
        return head + struct.pack(f"<{len(found)}I", *found)
    return head + bytes(at(items.items, c_int64, items.count))
