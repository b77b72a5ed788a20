"""Call the kernel library through ctypes: build values of the C interface from torch tensors and Python numbers."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Sequence
from ctypes import POINTER, Structure, Union, c_char, c_double, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64
from pathlib import Path
from typing import Any

import torch

VARIANTS = ("baseline", "avx2", "avx512")
"""The variants of the library for the instruction sets."""

SCALAR_TYPES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.complex32: 8,
    torch.complex64: 9,
    torch.complex128: 10,
    torch.bool: 11,
    torch.bfloat16: 15,
    torch.uint16: 27,
    torch.uint32: 28,
}
TAG_NONE, TAG_INT, TAG_DOUBLE, TAG_BOOL, TAG_TENSOR, TAG_STRING = range(6)
TAG_INT_LIST, TAG_DOUBLE_LIST, TAG_BOOL_LIST, TAG_TENSOR_LIST = range(6, 10)


class Header(Structure):
    _fields_ = [("struct_size", c_uint32), ("major", c_uint16), ("minor", c_uint16)]


class Str(Structure):
    _fields_ = [("data", POINTER(c_char)), ("size", c_uint64)]

    def text(self) -> str:
        return ctypes.string_at(self.data, self.size).decode()


class DLDtype(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("dtype", DLDtype),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class Tensor(Structure):
    _fields_ = [
        ("header", Header),
        ("flags", c_uint32),
        ("scalar_type", c_int32),
        ("dl", DLTensor),
        ("dim_order", POINTER(c_uint8)),
        ("max_shape", POINTER(c_int64)),
        ("capacity", c_uint64),
        ("buffer", ctypes.c_void_p),
    ]


class List(Structure):
    _fields_ = [("items", ctypes.c_void_p), ("count", c_uint64)]


class As(Union):
    _fields_ = [("i", c_int64), ("d", c_double), ("tensor", POINTER(Tensor)), ("list", POINTER(List))]


class Value(Structure):
    _fields_ = [("tag", c_uint32), ("reserved", c_uint32), ("value", As)]


class Kernel(Structure):
    _fields_ = [("header", Header), ("name", Str), ("overload", Str), ("dtypes", c_uint64), ("run", ctypes.c_void_p)]


class KernelLibrary(Structure):
    _fields_ = [
        ("header", Header),
        ("package", Str),
        ("version", Str),
        ("kernels", POINTER(Kernel)),
        ("kernel_count", c_uint64),
        ("kernel_stride", c_uint32),
        ("reserved", c_uint32),
    ]


class KernelError(Exception):
    """The failure of a kernel: its error code and its message."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code:#x}: {text}")
        self.code = code
        self.text = text


class Arguments:
    """An array of C argument values. It keeps the memory that the values point to alive."""

    def __init__(self, args: Sequence[Any]) -> None:
        self._alive: list[Any] = []
        self.values = (Value * len(args))()
        self.tensors: dict[int, Tensor] = {}
        for value, arg in zip(self.values, args, strict=True):
            self._set(value, arg)

    def _keep_alive(self, owner: Any) -> Any:
        self._alive.append(owner)
        return owner

    def tensor(self, t: torch.Tensor) -> Tensor:
        ndim = t.dim()
        bits = t.element_size() * 8
        order = sorted(range(ndim), key=lambda d: -t.stride(d))
        native = self._keep_alive(Tensor())
        native.header = Header(ctypes.sizeof(Tensor), 0, 1)
        native.scalar_type = SCALAR_TYPES[t.dtype]
        native.dl = DLTensor(t.data_ptr(), 1, 0, ndim, DLDtype(0, bits, 1))
        native.dl.shape = self._keep_alive((c_int64 * ndim)(*t.shape))
        native.dl.strides = self._keep_alive((c_int64 * ndim)(*t.stride()))
        native.dim_order = self._keep_alive((c_uint8 * ndim)(*order))
        native.max_shape = self._keep_alive((c_int64 * ndim)(*t.shape))
        native.capacity = t.untyped_storage().nbytes() - t.storage_offset() * t.element_size()
        self._keep_alive(t)
        self.tensors[id(t)] = native
        return native

    def _list(self, value: Value, tag: int, items: Any, count: int) -> None:
        value.tag = tag
        self._keep_alive(items)
        value.value.list = ctypes.pointer(self._keep_alive(List(ctypes.cast(items, ctypes.c_void_p), count)))

    def _set(self, value: Value, arg: Any) -> None:
        if arg is None:
            value.tag = TAG_NONE
        elif isinstance(arg, bool):
            value.tag, value.value.i = TAG_BOOL, int(arg)
        elif isinstance(arg, int):
            value.tag, value.value.i = TAG_INT, arg
        elif isinstance(arg, float):
            value.tag, value.value.d = TAG_DOUBLE, arg
        elif isinstance(arg, torch.Tensor):
            value.tag, value.value.tensor = TAG_TENSOR, ctypes.pointer(self.tensor(arg))
        elif isinstance(arg, torch.dtype):
            value.tag, value.value.i = TAG_INT, SCALAR_TYPES[arg]
        elif isinstance(arg, (torch.memory_format, torch.layout, torch.device)):
            value.tag = TAG_NONE
        elif isinstance(arg, str):
            data = arg.encode()
            self._list(value, TAG_STRING, ctypes.create_string_buffer(data), len(data))
        elif isinstance(arg, (list, tuple)):
            self._set_list(value, list(arg))
        else:
            raise TypeError(f"a kernel argument cannot be a {type(arg).__name__}")

    def _set_list(self, value: Value, items: list[Any]) -> None:
        n = len(items)
        if any(isinstance(item, torch.Tensor) for item in items):
            pointers = [None if t is None else ctypes.pointer(self.tensor(t)) for t in items]
            self._list(value, TAG_TENSOR_LIST, self._keep_alive((POINTER(Tensor) * n)(*pointers)), n)
        elif items and all(isinstance(item, bool) for item in items):
            self._list(value, TAG_BOOL_LIST, (c_uint8 * n)(*items), n)
        elif any(isinstance(item, float) for item in items):
            self._list(value, TAG_DOUBLE_LIST, (c_double * n)(*items), n)
        else:
            self._list(value, TAG_INT_LIST, (c_int64 * n)(*items), n)


class Library:
    """The built kernel library in one of its variants. None selects the best variant for this processor."""

    def __init__(self, path: Path, variant: str | None = None) -> None:
        self._dll = ctypes.CDLL(str(path))
        self._dll.edgecore_kernels_v0.restype = POINTER(KernelLibrary)
        self._dll.edgecore_kernels_test_variant.restype = POINTER(KernelLibrary)
        self._dll.edgecore_kernels_test_call.argtypes = [
            ctypes.c_void_p,
            POINTER(Value),
            c_uint64,
            c_uint32,
            ctypes.c_char_p,
        ]
        table = self._dll.edgecore_kernels_v0()
        if variant is not None:
            table = self._dll.edgecore_kernels_test_variant(variant.encode())
        self.available = bool(table)
        self.kernels: dict[str, int] = {}
        for i in range(table.contents.kernel_count if table else 0):
            kernel = table.contents.kernels[i]
            name = f"{kernel.name.text()}.{kernel.overload.text()}".rstrip(".")
            assert name not in self.kernels, f"{name} appears twice"
            self.kernels[name] = kernel.run

    @contextlib.contextmanager
    def refused_scratch(self) -> Iterator[None]:
        """Refuse kernels the first block of scratch memory that they ask for, in calls within this context."""
        self._dll.edgecore_kernels_test_refuse_scratch(ctypes.c_bool(True))
        try:
            yield
        finally:
            self._dll.edgecore_kernels_test_refuse_scratch(ctypes.c_bool(False))

    def call(self, name: str, *args: Any, workers: int = 3) -> Arguments:
        """Run kernel `name` with its schema arguments, followed by its outputs.

        Returns:
            The C values of the call. A kernel may have changed the shapes of output tensors and the results of numbers.

        Raises:
            KernelError: The kernel reported an error.
        """
        arguments = Arguments(args)
        code, text = self.run(name, arguments, workers)
        if code != 0:
            raise KernelError(code, text)
        return arguments

    def run(self, name: str, arguments: Arguments, workers: int) -> tuple[int, str]:
        """Run kernel `name` and return its error code and message."""
        text = ctypes.create_string_buffer(600)
        values = arguments.values
        code = self._dll.edgecore_kernels_test_call(self.kernels[name], values, len(values), workers, text)
        return code, text.value.decode()
