"""MIL operators (of Core ML's ML programs) that move elements: shapes, slices, concatenation, gathering, padding."""

from __future__ import annotations

import torch
from torch import Tensor

from edgecore_coreml_standin.registry import dims_of, ints, mil, ones_if_absent


@mil()
def reshape(x: Tensor, shape: Tensor) -> Tensor:
    sizes = [x.shape[d] if size == 0 else size for d, size in enumerate(ints(shape))]
    return x.reshape(sizes)


@mil()
def transpose(x: Tensor, perm: Tensor) -> Tensor:
    return x.permute(ints(perm))


@mil()
def expand_dims(x: Tensor, axes: Tensor) -> Tensor:
    for axis in sorted(axis % (x.dim() + len(axes)) for axis in ints(axes)):
        x = x.unsqueeze(axis)
    return x


@mil()
def squeeze(x: Tensor, axes: Tensor | None = None) -> Tensor:
    return x.squeeze(dims_of(x, axes))


@mil()
def concat(values: list[Tensor], axis: Tensor, interleave: Tensor | bool = False) -> Tensor:
    if not interleave:
        return torch.cat([value.reshape(value.shape or (1,)) for value in values], int(axis))  # MIL joins scalars, too
    dim = int(axis) % values[0].dim()
    return torch.stack(values, dim + 1).flatten(dim, dim + 1)


@mil()
def stack(values: list[Tensor], axis: Tensor) -> Tensor:
    return torch.stack(values, int(axis))


@mil()
def split(
    x: Tensor, num_splits: Tensor | float = 1, split_sizes: Tensor | None = None, axis: Tensor | float = 0
) -> tuple[Tensor, ...]:
    if split_sizes is not None:
        return torch.split(x, ints(split_sizes), int(axis))
    return torch.split(x, x.shape[int(axis)] // int(num_splits), int(axis))


@mil()
def fill(shape: Tensor, value: Tensor | float = 0.0) -> Tensor:
    return torch.full(ints(shape), torch.as_tensor(value).item(), dtype=torch.as_tensor(value).dtype)


@mil()
def band_part(x: Tensor, lower: Tensor | int = -1, upper: Tensor | int = -1) -> Tensor:
    below = torch.arange(x.shape[-2])[:, None] - torch.arange(x.shape[-1])
    kept = torch.ones_like(below, dtype=torch.bool)
    if lower >= 0:
        kept &= below <= lower
    if upper >= 0:
        kept &= -below <= upper
    return torch.where(kept, x, torch.zeros_like(x))


@mil()
def tile(x: Tensor, reps: Tensor) -> Tensor:
    return x.repeat(ints(reps))


@mil()
def reverse(x: Tensor, axes: Tensor | None = None) -> Tensor:
    return x.flip(dims_of(x, axes))


def _sliced(
    x: Tensor,
    begin: Tensor,
    end: Tensor,
    stride: Tensor | None = None,
    begin_mask: Tensor | None = None,
    end_mask: Tensor | None = None,
    squeeze_mask: Tensor | None = None,
) -> list[int | Tensor]:
    """Return, for each dim of `x`, the indices that a slice keeps; or one int if the slice removes the dim."""
    rank = x.dim()
    steps = ones_if_absent(stride, rank)
    masks = [list(mask) if mask is not None else [False] * rank for mask in (begin_mask, end_mask, squeeze_mask)]
    index: list[int | Tensor] = []
    for d in range(rank):
        first, last, step, size = int(begin[d]), int(end[d]), steps[d], x.shape[d]
        if masks[2][d]:
            index.append(first)
            continue
        first = (0 if step > 0 else size - 1) if masks[0][d] else first + size * (first < 0)
        last = (size if step > 0 else -1) if masks[1][d] else last + size * (last < 0)
        index.append(torch.arange(size)[first:last:step] if step > 0 else torch.arange(first, last, step))
    return index


@mil()
def slice_by_index(x: Tensor, begin: Tensor, end: Tensor, **more: Tensor | None) -> Tensor:
    for d, kept in reversed(list(enumerate(_sliced(x, begin, end, **more)))):
        x = x.select(d, kept) if isinstance(kept, int) else x.index_select(d, kept)
    return x


@mil()
def slice_update(x: Tensor, update: Tensor, begin: Tensor, end: Tensor, **more: Tensor | None) -> Tensor:
    index = _sliced(x, begin, end, **more)
    rows = [torch.tensor([kept]) if isinstance(kept, int) else kept for kept in index]
    result = x.clone()
    result[torch.meshgrid(*rows, indexing="ij")] = update.reshape([len(row) for row in rows])
    return result


def _rows(indices: Tensor, size: int) -> Tensor:
    """Replace the negative indices of a dim of `size` elements: -1 becomes size - 1.

    Raises:
        IndexError: An index is out of range; Core ML defines no result for such an index.
    """
    if not bool(((indices >= -size) & (indices < size)).all()):
        wrong = indices[(indices < -size) | (indices >= size)].flatten()[0]
        raise IndexError(f"index {int(wrong)} is out of range for a dim of size {size}")
    return indices.long() % size


@mil()
def scatter(
    data: Tensor,
    indices: Tensor,
    updates: Tensor,
    axis: Tensor | float = 0,
    mode: str = "add",
    validate_indices: Tensor | bool = False,
) -> Tensor:
    assert mode in ("add", "update") and indices.dim() == 1
    write = data.index_add if mode == "add" else data.index_copy
    return write(int(axis), _rows(indices, data.shape[int(axis)]), updates)


@mil()
def scatter_nd(
    data: Tensor, indices: Tensor, updates: Tensor, mode: str = "add", validate_indices: Tensor | bool = False
) -> Tensor:
    assert mode in ("add", "update")
    rows = tuple(_rows(index, size) for index, size in zip(indices.unbind(-1), data.shape, strict=False))
    return data.index_put(rows, updates, accumulate=mode == "add")


@mil()
def slice_by_size(x: Tensor, begin: Tensor, size: Tensor) -> Tensor:
    for d, (first, count) in enumerate(zip(ints(begin), ints(size), strict=True)):
        x = x.narrow(d, first, x.shape[d] - first if count == -1 else count)
    return x


@mil()
def gather(
    x: Tensor,
    indices: Tensor,
    axis: Tensor | float = 0,
    batch_dims: Tensor | float = 0,
    validate_indices: Tensor | bool = False,
) -> Tensor:
    assert not int(batch_dims)
    axis = int(axis) % x.dim()
    flat = x.index_select(axis, _rows(indices, x.shape[axis]).reshape(-1))
    return flat.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


@mil()
def gather_along_axis(
    x: Tensor, indices: Tensor, axis: Tensor | float = 0, validate_indices: Tensor | bool = False
) -> Tensor:
    return torch.gather(x, int(axis), _rows(indices, x.shape[int(axis)]))


@mil()
def pad(x: Tensor, pad: Tensor, mode: str = "constant", constant_val: Tensor | float = 0.0) -> Tensor:
    value = float(constant_val) if mode == "constant" else None
    return torch.nn.functional.pad(x, ints(pad.reshape(-1, 2).flip(0).flatten()), mode, value)


@mil()
def pixel_unshuffle(x: Tensor, downscale_factor: Tensor) -> Tensor:
    factor = int(downscale_factor)
    n, channels, height, width = x.shape
    blocks = x.reshape(n, channels, height // factor, factor, width // factor, factor)
    return blocks.permute(0, 1, 3, 5, 2, 4).reshape(n, -1, height // factor, width // factor)


@mil()
def shape(x: Tensor) -> Tensor:
    return torch.tensor(x.shape, dtype=torch.int32)
