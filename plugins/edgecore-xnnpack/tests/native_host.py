"""Runs XNNPACK blobs through the delegate's library with the C++ test host, without the edgecore runtime.

``EDGECORE_XNNPACK_BUILD`` names a build folder of ``native/`` with ``-DEDGECORE_XNNPACK_TESTS=ON``; without it the
tests that need the library are skipped.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

SCALAR_TYPES = {"uint8": 0, "int8": 1, "int32": 3, "int64": 4, "float16": 5, "float32": 6}
PADDING = 16  # readable bytes after an input, as the delegate's buffer requirement asks


class _Data(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("data", ctypes.c_void_p), ("size", ctypes.c_uint64)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("capacity", ctypes.c_uint64),
        ("scalar_type", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("shape", ctypes.c_int64 * 8),
        ("dim_order", ctypes.c_uint8 * 8),
    ]


class NativeError(RuntimeError):
    """The delegate refused; `code` is its error code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass
class Output:
    """The max shape, the dtype and the dim order (None: contiguous) of an output."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    dim_order: tuple[int, ...] | None = None


def build_folder() -> Path | None:
    folder = os.environ.get("EDGECORE_XNNPACK_BUILD")
    return Path(folder) if folder else None


def _load(folder: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(folder / "tests" / "libedgecore_xnnpack_test_host.so"))
    library.edgecore_test_open_library.restype = ctypes.c_void_p
    library.edgecore_test_argument_count.restype = ctypes.c_uint64
    library.edgecore_test_close.argtypes = [ctypes.c_void_p]
    library.edgecore_test_argument_count.argtypes = [ctypes.c_void_p]
    library.edgecore_test_run.argtypes = [
        ctypes.c_void_p,
        ctypes.POINTER(_Tensor),
        ctypes.c_uint64,
        ctypes.c_char_p,
        ctypes.c_uint64,
    ]
    return library


class Session:
    """One blob, loaded. Close it, or use it as a context manager."""

    def __init__(self, folder: Path, blob: bytes, named: Mapping[str, bytes], threads: int = 1) -> None:
        self._library = _load(folder)
        self._blob = np.frombuffer(bytearray(blob) or bytearray(1), dtype=np.uint8)
        self._size = len(blob)
        self._named = {key: np.frombuffer(bytearray(data) or bytearray(1), np.uint8) for key, data in named.items()}
        entries = (_Data * len(named))(
            *(_Data(key.encode(), data.ctypes.data, len(named[key])) for key, data in self._named.items())
        )
        self._entries = entries
        self._text = ctypes.create_string_buffer(1024)
        code = ctypes.c_int32()
        self._handle = self._library.edgecore_test_open_library(
            str(folder / "libedgecore_xnnpack.so").encode(),
            ctypes.c_uint32(threads),
            ctypes.c_void_p(self._blob.ctypes.data),
            ctypes.c_uint64(self._size),
            entries,
            ctypes.c_uint64(len(named)),
            ctypes.byref(code),
            self._text,
            ctypes.c_uint64(len(self._text)),
        )
        if not self._handle:
            raise NativeError(code.value, self._text.value.decode(errors="replace"))

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        if self._handle:
            self._library.edgecore_test_close(self._handle)
            self._handle = None

    @property
    def argument_count(self) -> int:
        return int(self._library.edgecore_test_argument_count(self._handle))

    def bind(self, inputs: Sequence[npt.NDArray[Any]], outputs: Sequence[Output]) -> Binding:
        """Buffers for a call. Inputs are copied; their memory order is their dim order."""
        return Binding(inputs, outputs)

    def execute(self, binding: Binding) -> None:
        code = self._library.edgecore_test_run(
            self._handle, binding.tensors, len(binding.tensors), self._text, len(self._text)
        )
        if code != 0:
            raise NativeError(code, self._text.value.decode(errors="replace"))

    def run(self, inputs: Sequence[npt.NDArray[Any]], outputs: Sequence[Output]) -> list[npt.NDArray[Any]]:
        binding = self.bind(inputs, outputs)
        self.execute(binding)
        return binding.results()


class Binding:
    """The arguments of a call: inputs, then outputs."""

    def __init__(self, inputs: Sequence[npt.NDArray[Any]], outputs: Sequence[Output]) -> None:
        self._outputs = outputs
        self._memory: list[npt.NDArray[np.uint8]] = []
        self._count = len(inputs)
        self.tensors = (_Tensor * (len(inputs) + len(outputs)))()
        for index, array in enumerate(inputs):
            order = tuple(int(d) for d in np.argsort([-s for s in array.strides], kind="stable")) if array.ndim else ()
            memory = self._allocate(array.nbytes + PADDING)
            memory[: array.nbytes] = np.frombuffer(array.transpose(order).tobytes(), np.uint8)
            self._fill(self.tensors[index], memory, array.nbytes, str(array.dtype), array.shape, order)
        for index, output in enumerate(outputs, start=len(inputs)):
            size = int(np.prod(output.shape)) * np.dtype(output.dtype).itemsize
            order = output.dim_order or tuple(range(len(output.shape)))
            self._fill(self.tensors[index], self._allocate(size), size, output.dtype, output.shape, order)

    def _allocate(self, size: int) -> npt.NDArray[np.uint8]:
        raw = np.zeros(size + 64, np.uint8)
        start = -raw.ctypes.data % 64
        self._memory.append(raw[start : start + size])
        return self._memory[-1]

    def _fill(
        self,
        tensor: _Tensor,
        memory: npt.NDArray[np.uint8],
        size: int,
        dtype: str,
        shape: Sequence[int],
        order: Sequence[int],
    ) -> None:
        tensor.data = memory.ctypes.data
        tensor.capacity = size
        tensor.scalar_type = SCALAR_TYPES[dtype]
        tensor.ndim = len(shape)
        tensor.shape[: len(shape)] = list(shape)
        tensor.dim_order[: len(shape)] = list(order)

    def results(self) -> list[npt.NDArray[Any]]:
        results = []
        for index, output in enumerate(self._outputs):
            tensor = self.tensors[self._count + index]
            shape = tuple(tensor.shape[: tensor.ndim])
            order = tuple(tensor.dim_order[: tensor.ndim])
            count = int(np.prod(shape))
            flat = self._memory[self._count + index].view(output.dtype)[:count]
            results.append(flat.reshape([shape[d] for d in order]).transpose(np.argsort(order)).copy())
        return results
