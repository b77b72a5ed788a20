"""Functions that run in a child process: load, run and destroy a program while counting resources or guarding memory.

Each function emits an `input` event before each step, and its results as `result` events; see `process.call`. `program`
and `inputs` are paths of a `.pte` and an `.npz` file; `options` are the options of `edgecore.load`.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import edgecore
from edgecore.conformance.workers.table_patches import writable_table
from edgecore.errors import EdgecoreError

Emit = Callable[[str, Any], None]

CALLS_BETWEEN_EVENTS = 50
"""`repeat` reports progress after this many calls, so that the time limit does not stop a slow (emulated) device."""


def repeat(emit: Emit, program: str, inputs: str, options: dict[str, Any], rounds: int, calls: int) -> None:
    """Load, run and destroy a program in six steps. A step has `rounds` rounds, a round has `calls` calls.

    The function emits for each step: bytes of heap, bytes of address space, number of file descriptors and of threads.

    The heap is the sum of all blocks that glibc's malloc has allocated (mallinfo2); 0 with other C libraries. Unlike
    resident memory, the sum is exact to the byte with the environment variable in `EXACT_HEAP`. The address space shows
    memory that a library maps itself. It is counted without malloc's area, which grows and shrinks with fragmentation.
    """
    arrays = arrays_of(inputs)
    for step in range(6):  # step 0 fills pools and caches and binds symbols; later steps show leaks
        for number in range(rounds):
            model = edgecore.load(program, options=options, trust=True, threads=2)
            for call in range(calls):
                if call % CALLS_BETWEEN_EVENTS == 0:
                    emit("input", f"load, run and destroy, round {step * rounds + number}, call {call}")
                model.forward(*arrays)
            del model
        gc.collect()
        emit("result", [_heap(), _mapped(), _descriptors(), _threads()])


def run_calls(
    emit: Emit, file: str, results: str, rows: Sequence[int], backend_id: str, load_options: dict[str, Any]
) -> None:
    """Run a `.pte` file once for each number of rows (the size of dim 0 of the inputs).

    The outputs are written to `results`, an `.npz` file. The inputs are in the `.npz` file with the same name as the
    `.pte` file. In both `.npz` files an array has the name `ROWS INDEX`: the number of rows, and the index of the input
    or output. If the `.pte` file does not load, the function emits the error message as its result.
    """
    emit("input", "loading")
    try:
        model = edgecore.load(file, options={backend_id: load_options} if load_options else None, trust=True)
    except EdgecoreError as error:
        emit("result", str(error))
        return
    outputs: dict[str, Any] = {}
    inputs = dict(np.load(Path(file).with_suffix(".npz"))) if rows else {}
    for number in rows:
        emit("input", f"{number} rows")
        result = model.forward(*(inputs[f"{number} {index}"] for index in range(len(inputs) // len(rows))))
        arrays = result if isinstance(result, list) else [result]
        outputs |= {f"{number} {index}": array for index, array in enumerate(arrays)}
    np.savez(results, **outputs)


def threads_during(emit: Emit, program: str, inputs: str, options: dict[str, Any]) -> None:
    """Load with threads=1, and count threads before loading, while executing (the maximum), and after destroying.

    Also measures the processor time that the process uses in 0.3 s without a call, to find threads that spin.
    """
    arrays = arrays_of(inputs)
    before = _threads()
    emit("input", "threads while it executes")
    model = edgecore.load(program, options=options, trust=True, threads=1)
    peak = 0
    stop = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not stop.is_set():
            peak = max(peak, _threads() - 1)  # do not count the thread that runs `watch`

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    deadline = time.monotonic() + 0.7
    while time.monotonic() < deadline:
        model.forward(*arrays)
    stop.set()
    watcher.join()
    emit("input", "processor time while it is idle")
    time.sleep(0.05)
    busy = time.process_time()
    time.sleep(0.3)
    busy = time.process_time() - busy
    emit("input", "threads after it is destroyed")
    del model
    gc.collect()
    deadline = time.monotonic() + 2
    while _threads() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    emit("result", {"before": before, "peak": peak, "after": _threads(), "busy": busy})


def guarded(emit: Emit, program: str, inputs: str, outputs: str, options: dict[str, Any]) -> None:
    """Run with buffers that end at the end of mapped memory, unaligned inputs, and an output in the memory of an input.

    An access beyond a buffer is a segmentation fault.
    """
    arrays = arrays_of(inputs)
    want = arrays_of(outputs)
    model = edgecore.load(program, options=options, trust=True)
    keep: list[Any] = []
    emit("input", "inputs that end at the end of mapped memory")
    fenced = [_before_fence(array, keep) for array in arrays]
    _compare(emit, "inputs that end at the end of mapped memory", model.forward(*fenced), want)
    emit("input", "outputs that end at the end of mapped memory")
    out = [_before_fence(np.zeros_like(array), keep) for array in want]
    model.forward(*arrays, out=out)
    _compare(emit, "outputs that end at the end of mapped memory", out, want)
    emit("input", "inputs at addresses that are multiples of their elements only")
    unaligned = [_unaligned(array, keep) for array in arrays]
    _compare(emit, "inputs at addresses that are multiples of their elements only", model.forward(*unaligned), want)
    if len(want) == 1 and (same := [index for index, array in enumerate(arrays) if array.shape == want[0].shape]):
        emit("input", "an output in the memory of an input")
        copies = [array.copy() for array in arrays]
        try:
            model.forward(*copies, out=[copies[same[0]]])
        except (EdgecoreError, ValueError):
            return
        _compare(emit, "an output in the memory of an input", [copies[same[0]]], want)


def trusts(emit: Emit, program: str, options: dict[str, Any]) -> None:
    """Load a file whose blob does not match its digest, with trust=False. Emit the error message, or "" if it loads."""
    emit("input", "a file whose blob was changed")
    try:
        edgecore.load(program, options=options)
    except EdgecoreError as error:
        emit("result", str(error))
        return
    emit("result", "")


def load_without_library(emit: Emit, backend_id: str, program: str) -> None:
    """Load a file for a backend whose library is missing. Emit the library's path, and the error message."""
    from edgecore.plugin import registry

    info = registry.find(backend_id)
    assert info.native_library is not None
    emit("input", "a copy of the package without its library")
    emit("result", {"library": str(info.native_library()), "error": _load_error(program)})


def load_patched(emit: Emit, backend_id: str, program: str, library: str) -> None:
    """Set the interface version in the library's table to 99.0, load a file that needs the library, emit the error."""
    emit("input", "a library that declares interface version 99.0")
    table = writable_table(library)
    table.header.major, table.header.minor = 99, 0
    table.min_host_major, table.min_host_minor = 99, 0
    emit("result", {"error": _load_error(program)})


def _load_error(program: str) -> str:
    try:
        edgecore.load(program, trust=True)
    except EdgecoreError as error:
        return str(error)
    return ""


def _compare(emit: Emit, what: str, got: Any, want: list[Any]) -> None:
    for index, (actual, expected) in enumerate(zip(got if isinstance(got, list) else [got], want, strict=True)):
        scale = max(float(np.abs(expected).max(initial=0)), 1e-6)
        if actual.shape != expected.shape or not np.allclose(actual, expected, rtol=0, atol=1e-3 * scale):
            emit("result", f"{what}: result {index} is wrong")


def _before_fence(array: Any, keep: list[Any]) -> Any:
    """Copy an array so that its last byte is followed by a page that cannot be read. `keep` keeps the memory alive."""
    size = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    if protect(ctypes.c_void_p(address + size), ctypes.c_size_t(mmap.PAGESIZE), 0) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    keep.append(memory)
    copy = np.frombuffer(memory, array.dtype, array.size, size - array.nbytes).reshape(array.shape)
    copy[...] = array
    return copy


def _unaligned(array: Any, keep: list[Any]) -> Any:
    """Copy an array to an address that is a multiple of 64 bytes plus one element. `keep` keeps the memory alive."""
    memory = np.zeros(array.nbytes + 128 + array.itemsize, np.uint8)
    keep.append(memory)
    start = -memory.ctypes.data % 64 + array.itemsize
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def arrays_of(path: str) -> list[Any]:
    """Load the arrays of an `.npz` file that `numpy.savez` wrote without names, in their order."""
    with np.load(path) as stored:
        return [stored[f"arr_{index}"] for index in range(len(stored.files))]


class _MallInfo(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keep",
        )
    )


def _heap() -> int:
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return 0
    mallinfo2.restype = _MallInfo
    info = mallinfo2()
    return int(info.uordblks + info.hblkhd)


def _mapped() -> int:
    """Return the bytes of the address space without malloc's area; maps has lines `begin-end ... NAME`."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    ranges = [line.split(maxsplit=1)[0].split("-") for line in maps if not line.endswith("[heap]")]
    return sum(int(end, 16) - int(begin, 16) for begin, end in ranges)


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208
