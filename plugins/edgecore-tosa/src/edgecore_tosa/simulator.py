"""Run TOSA graphs on this machine with Arm's reference model.

Integer results equal the results of every conforming TOSA device; floating-point results are within the specification's
error bounds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import edgecore_tosa
from edgecore.errors import EdgecoreError, FormatError
from edgecore.plugin import own_library
from edgecore_tosa.graph import NUMPY, Array
from edgecore_tosa.schema import DType

# Result codes that the C functions of `simulator.h` return for a graph.
_OK, _INVALID_GRAPH, _NOT_SUPPORTED, _OUT_OF_MEMORY = 0, 1, 2, 4
# Value ranges of the dtypes that numpy stores in wider integers.
_LIMITS = {DType.INT4: (-7, 7), DType.INT48: (-(2**47), 2**47 - 1)}


class SimulationError(EdgecoreError):
    """TOSA does not define the result of a graph for the given inputs."""


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a TOSA graph.

    Attributes:
        shape: Sizes of the dims.
        dtype: Element type in the graph.
    """

    shape: tuple[int, ...]
    dtype: DType

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype of the numpy array for the tensor: int8 for INT4, int64 for INT48, uint16 (the bits) for BF16."""
        return NUMPY[self.dtype]


def simulator_library() -> str:
    """Return the absolute path of the simulator's shared library, whose C interface is `edgecore_tosa/simulator.h`."""
    return own_library(edgecore_tosa.__path__, "edgecore_tosa_simulator")


class Simulator:
    """A simulated TOSA graph, which can run repeatedly, by one thread at a time.

    Args:
        graph: A TOSA flatbuffer of version 1.0, or of the 1.1 draft, with one region of one block.

    Attributes:
        inputs: Shape and dtype of each input of the graph.
        outputs: Shape and dtype of each output of the graph.

    Raises:
        FormatError: The graph is damaged, breaks a rule of TOSA, or needs something that is not supported.
    """

    def __init__(self, graph: bytes) -> None:
        self._model = ctypes.c_void_p()
        self._library = _library()
        code, message = self._call("load", graph, len(graph), ctypes.byref(self._model))
        if code == _OUT_OF_MEMORY:
            raise MemoryError(message)
        if code != _OK:
            raise FormatError(f"The TOSA graph cannot be simulated: {message}")
        self.inputs = self._describe("input")
        self.outputs = self._describe("output")

    def __del__(self) -> None:
        if getattr(self, "_model", None):
            self._library.edgecore_tosa_destroy(self._model)

    def run(self, *arrays: Array) -> list[Array]:
        """Compute the outputs for an array per input, which must have the shape and the `numpy_dtype` of the input.

        Raises:
            ValueError: The number of arrays, a shape, a dtype or a value does not fit the inputs.
            SimulationError: TOSA does not define the result, for example for an index out of bounds.
        """
        if len(arrays) != len(self.inputs):
            raise ValueError(f"{len(arrays)} arrays for the {len(self.inputs)} inputs of the TOSA graph")
        checked = [
            _checked(array, info, index) for index, (array, info) in enumerate(zip(arrays, self.inputs, strict=True))
        ]
        results = [np.empty(info.shape, info.numpy_dtype) for info in self.outputs]
        code, message = self._call("run", self._model, _pointers(checked), _pointers(results))
        if code == _OUT_OF_MEMORY:
            raise MemoryError(message)
        if code != _OK:
            raise SimulationError(f"The TOSA graph failed: {message}")
        return results

    def _call(self, function: str, *arguments: Any) -> tuple[int, str]:
        error = ctypes.create_string_buffer(2048)
        code = getattr(self._library, f"edgecore_tosa_{function}")(*arguments, error, len(error))
        return code, error.value.decode(errors="replace")

    def _describe(self, kind: str) -> tuple[TensorInfo, ...]:
        count = getattr(self._library, f"edgecore_tosa_{kind}_count")(self._model)
        infos = []
        for index in range(count):
            dtype, rank, size = ctypes.c_uint32(), ctypes.c_size_t(), ctypes.c_size_t()
            dims = ctypes.POINTER(ctypes.c_int32)()
            values = [ctypes.byref(value) for value in (dtype, dims, rank, size)]
            getattr(self._library, f"edgecore_tosa_{kind}")(self._model, index, *values)
            infos.append(TensorInfo(tuple(dims[: rank.value]), DType(dtype.value)))
        return tuple(infos)


@cache
def _library() -> ctypes.CDLL:
    path = simulator_library()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise EdgecoreError(
            f"the simulator of edgecore-tosa does not load ({error}); reinstall edgecore-tosa"
        ) from error
    size, pointer, text = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p
    library.edgecore_tosa_load.argtypes = [text, size, pointer, text, size]
    library.edgecore_tosa_destroy.argtypes = [pointer]
    library.edgecore_tosa_destroy.restype = None
    library.edgecore_tosa_run.argtypes = [pointer, pointer, pointer, text, size]
    for kind in ("input", "output"):
        counter = getattr(library, f"edgecore_tosa_{kind}_count")
        counter.argtypes, counter.restype = [pointer], size
        getattr(library, f"edgecore_tosa_{kind}").argtypes = [pointer, size, *[pointer] * 4]
    return library


def _checked(array: Array, info: TensorInfo, index: int) -> Array:
    """Return an array in contiguous memory, after checking that its shape, dtype and values fit the input `info`."""
    where = f"input {index} of the TOSA graph"
    if array.shape != info.shape:
        raise ValueError(f"an array of shape {array.shape} for {where}, which has the shape {info.shape}")
    if array.dtype != info.numpy_dtype:
        raise ValueError(
            f"an array of {array.dtype} for {where}, which is {info.dtype.name} and takes {info.numpy_dtype}"
        )
    low, high = _LIMITS.get(info.dtype, (0, 0))
    if low < high and array.size and (array.min() < low or array.max() > high):
        raise ValueError(f"values beyond {low} to {high} for {where}, which is {info.dtype.name}")
    return np.ascontiguousarray(array)


def _pointers(arrays: Sequence[Array]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*[array.ctypes.data for array in arrays])
