"""Constants whose bytes a function yields when the file is made, so that a large model never has to fit into memory.

For `torch.export`, a lazy constant is an ordinary tensor: it has an address range, for which the system allocates
memory only when it is accessed. The emitter does not access it, but calls the function. Code that needs the values
earlier, such as a backend that takes the constant, calls `load`.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Any
from weakref import WeakValueDictionary

import torch

from edgecore.errors import CompileError
from edgecore.format import Buffer

Pieces = Callable[[], Iterable[Buffer]]
"""A function that yields the bytes of a constant in order, in pieces of any size."""


class _Reserved(mmap.mmap):
    """The address range of a lazy constant. The tensor keeps this object alive, and this object keeps `pieces`."""

    pieces: Pieces
    is_loaded: bool

    def read_pieces(self) -> Iterator[memoryview]:
        """Yield the bytes of the constant from `pieces`, and check the total number of bytes."""
        count = 0
        for piece in self.pieces():
            view = memoryview(piece).cast("B") if memoryview(piece).nbytes else memoryview(b"")
            count += len(view)
            if count > len(self):
                break
            yield view
        if count != len(self):
            size = "more" if count > len(self) else f"{count} bytes"
            raise CompileError(f"a lazy constant has {len(self)} bytes, but its function gave {size}")


# address of a lazy constant -> its address range
_RESERVED: WeakValueDictionary[int, _Reserved] = WeakValueDictionary()


def lazy_constant(shape: Sequence[int], dtype: torch.dtype, pieces: Pieces) -> torch.Tensor:
    """Make a constant whose bytes are requested in pieces when the file is made, and are never in memory all at once.

    Use it as a parameter or buffer of the module to compile. `to_executorch` calls the function once, and keeps the
    bytes in a temporary file (in the folder of the environment variable TMPDIR) until the program is saved. If a
    backend, a pass, `quantize` or `compare` needs the values earlier, they are loaded into memory. If you run or copy
    the module yourself, the constant has zeros.

    Args:
        shape: The shape.
        dtype: The element type.
        pieces: Yields the elements in row-major order, as bytes, arrays or other buffers of any size.

    Returns:
        A contiguous tensor.

    Example:
        >>> weight = edgecore.lazy_constant((4096, 4096), torch.float16, lambda: read_by_rows("layer.0.weight"))
        >>> layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    """
    size = prod(shape) * dtype.itemsize
    if size == 0:
        return torch.empty(tuple(shape), dtype=dtype)
    if sys.platform == "win32":
        reserved = _Reserved(-1, size)
    else:
        reserved = _Reserved(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0))
    reserved.pieces, reserved.is_loaded = pieces, False
    tensor = torch.frombuffer(reserved, dtype=dtype).view(tuple(shape))
    _RESERVED[tensor.data_ptr()] = reserved
    return tensor


def _pending(tensor: torch.Tensor) -> _Reserved | None:
    """If `tensor` is a lazy constant that is not loaded, or a view of one, return its address range; otherwise None."""
    if not _RESERVED or type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.device.type != "cpu":
        return None
    reserved = _RESERVED.get(tensor.untyped_storage().data_ptr())
    return None if reserved is None or reserved.is_loaded else reserved


def is_lazy(tensor: torch.Tensor) -> bool:
    """Return True for a lazy constant whose values are not loaded into memory yet."""
    return _pending(tensor) is not None


def pieces_of(tensor: torch.Tensor) -> Iterator[memoryview] | None:
    """Return the bytes of a lazy constant in pieces; None for other tensors, and for partial or permuted views."""
    reserved = _pending(tensor)
    if reserved is None or not tensor.is_contiguous() or tensor.nbytes != len(reserved):
        return None
    return reserved.read_pieces()


def load(tensor: torch.Tensor) -> torch.Tensor:
    """Load the values of `tensor` if it is a lazy constant or a view of one, and return `tensor`."""
    reserved = _pending(tensor)
    if reserved is not None:
        offset = 0
        for piece in reserved.read_pieces():
            reserved[offset : offset + len(piece)] = piece
            offset += len(piece)
        reserved.is_loaded = True
    return tensor


def load_all(model: Any) -> None:
    """Load the lazy constants of a module or an exported program, before PyTorch runs it."""
    for tensor in (*model.parameters(), *model.buffers()):
        load(tensor)
