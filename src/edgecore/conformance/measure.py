"""What runs in processes of its own: loading, running and destroying while something is counted, guarded or missing."""

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
from edgecore.errors import EdgecoreError

Emit = Callable[[str, Any], None]


def repeat(emit: Emit, program: str, inputs: str, options: dict[str, Any], rounds: int, calls: int) -> None:
    """Load, run, destroy, again and again. Results: heap bytes, address space, descriptors and threads at five times.

    The heap is what malloc of glibc has given out (mallinfo2), exact to the byte and free of the noise of pages; elsewhere
    0. What a library takes from the system by itself shows in the address space (/proc/self/statm).
    """
    given = arrays_of(inputs)
    for step in range(6):  # the first one warms up: pools, caches, lazily bound symbols
        for number in range(rounds):
            emit("input", f"load, run and destroy, round {step * rounds + number}")
            model = edgecore.load(program, options=options, trust=True, threads=2)
            for _ in range(calls):
                model.forward(*given)
            del model
        gc.collect()
        emit("result", [_heap(), _pages(), _descriptors(), _threads()])


def run_calls(
    emit: Emit, file: str, results: str, rows: Sequence[int], backend_id: str, load_options: dict[str, Any]
) -> None:
    """Run a file on the inputs beside it (`.npz`, by number of rows and index), and write what it gives to `results`.

    Result: the sentence, where the file does not load.
    """
    emit("input", "loading")
    try:
        model = edgecore.load(file, options={backend_id: load_options} if load_options else None, trust=True)
    except EdgecoreError as error:
        emit("result", str(error))
        return
    made: dict[str, Any] = {}
    given = dict(np.load(Path(file).with_suffix(".npz"))) if rows else {}
    for number in rows:
        emit("input", f"{number} rows")
        gave = model.forward(*(given[f"{number} {index}"] for index in range(len(given) // len(rows))))
        made |= {f"{number} {index}": one for index, one in enumerate(gave if isinstance(gave, list) else [gave])}
    np.savez(results, **made)


def threads_during(emit: Emit, program: str, inputs: str, options: dict[str, Any]) -> None:
    """Numbers of threads, with threads=1: before loading, most while executing, idle, after destroying."""
    given = arrays_of(inputs)
    before = _threads()
    emit("input", "threads while it executes")
    model = edgecore.load(program, options=options, trust=True, threads=1)
    most = 0
    stop = threading.Event()

    def watch() -> None:
        nonlocal most
        while not stop.is_set():
            most = max(most, _threads() - 1)  # without this one

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    deadline = time.monotonic() + 0.7
    while time.monotonic() < deadline:
        model.forward(*given)
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
    emit("result", {"before": before, "most": most, "after": _threads(), "busy": busy})


def guarded(emit: Emit, program: str, inputs: str, outputs: str, options: dict[str, Any]) -> None:
    """Run with inputs and outputs that end where memory ends, then with inputs at odd addresses."""
    given = arrays_of(inputs)
    want = arrays_of(outputs)
    model = edgecore.load(program, options=options, trust=True)
    keep: list[Any] = []
    emit("input", "inputs that end at the end of mapped memory")
    fenced = [_before_fence(array, keep) for array in given]
    _compare(emit, "inputs that end at the end of mapped memory", model.forward(*fenced), want)
    emit("input", "outputs that end at the end of mapped memory")
    out = [_before_fence(np.zeros_like(array), keep) for array in want]
    model.forward(*given, out=out)
    _compare(emit, "outputs that end at the end of mapped memory", out, want)
    emit("input", "inputs at addresses that are multiples of their elements only")
    odd = [_odd(array, keep) for array in given]
    _compare(emit, "inputs at addresses that are multiples of their elements only", model.forward(*odd), want)
    if len(want) == 1 and (same := [index for index, one in enumerate(given) if one.shape == want[0].shape]):
        emit("input", "an output in the memory of an input")
        own = [array.copy() for array in given]
        try:
            model.forward(*own, out=[own[same[0]]])
        except (EdgecoreError, ValueError):
            return
        _compare(emit, "an output in the memory of an input", [own[same[0]]], want)


def trusts(emit: Emit, program: str, options: dict[str, Any]) -> None:
    """The error of loading a file whose blobs do not have the digests that it says, without trust."""
    emit("input", "a file whose blob was changed")
    try:
        edgecore.load(program, options=options)
    except EdgecoreError as error:
        emit("result", str(error))
        return
    emit("result", "")


def load_and_check(emit: Emit, backend_id: str, program: str) -> None:
    """In a process of its own: the library's path, the error of loading, the problems that the compiler reports."""
    from edgecore.plugin import registry

    info = registry.find(backend_id)
    assert info.native_library is not None
    emit("input", "a copy of the package without its library")
    answer: dict[str, Any] = {"library": str(info.native_library()), "error": _load_error(program)}
    answer["problems"] = [problem.what for problem in registry.load_compiler(info).check()]
    emit("result", answer)


def load_patched(emit: Emit, backend_id: str, program: str, library: str) -> None:
    """In a process of its own: load the library, patch its table, and load a file that needs it."""
    emit("input", "a library that says it was built for interface version 99.0")
    entry = getattr(ctypes.CDLL(library), "edgecore_backend_v0")
    entry.restype = ctypes.c_void_p
    address = entry()
    page = address & ~(mmap.PAGESIZE - 1)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    size = ctypes.c_size_t(2 * mmap.PAGESIZE)
    if protect(ctypes.c_void_p(page), size, mmap.PROT_READ | mmap.PROT_WRITE) != 0:
        size = ctypes.c_size_t(mmap.PAGESIZE)  # the table's page is the last one of its mapping
        protect(ctypes.c_void_p(page), size, mmap.PROT_READ | mmap.PROT_WRITE)
    versions = (ctypes.c_uint16 * 4).from_address(address + 4)
    versions[0], versions[1], versions[2], versions[3] = 99, 0, 99, 0
    emit("result", {"error": _load_error(program)})


def _load_error(program: str) -> str:
    try:
        edgecore.load(program, trust=True)
    except EdgecoreError as error:
        return str(error)
    return ""


def _compare(emit: Emit, what: str, got: Any, want: list[Any]) -> None:
    for index, (one, two) in enumerate(zip(got if isinstance(got, list) else [got], want, strict=True)):
        scale = max(float(np.abs(two).max(initial=0)), 1e-6)
        if one.shape != two.shape or not np.allclose(one, two, rtol=0, atol=1e-3 * scale):
            emit("result", f"{what}: result {index} is another one")


def _before_fence(array: Any, keep: list[Any]) -> Any:
    """A copy whose last byte is the last one before a page that may not be read."""
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


def _odd(array: Any, keep: list[Any]) -> Any:
    """A copy whose address is a multiple of one element's size and of no more."""
    room = np.zeros(array.nbytes + 128 + array.itemsize, np.uint8)
    keep.append(room)
    start = -room.ctypes.data % 64 + array.itemsize
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def arrays_of(path: str) -> list[Any]:
    """The arrays of a `.npz` file that was written without names, in their order."""
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
        ask = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return 0
    ask.restype = _MallInfo
    answer = ask()
    return int(answer.uordblks + answer.hblkhd)


def _pages() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208
