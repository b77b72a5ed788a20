"""Define the operators `edgecore_llm::*` in torch, with reference implementations.

T tokens of any sequences are computed in one call: `positions` has the place of each token in its sequence, and `slots`
the sequence, which is 0 where it is None. The result of a token does not depend on the other tokens of the call.

A cache is [slots, kv_heads, rows, head_dim]. Position p lies in row p if p is below `sinks`, and in row
`sinks + (p - sinks) % (rows - sinks)` else, so a cache of fewer rows than positions is a ring, of which the first `sinks`
rows are never written again. A ring for calls of up to T tokens needs `sinks + window + T - 1` rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

_F = TypeVar("_F", bound=Callable[..., Any])

_library: Any = torch.library.Library("edgecore_llm", "DEF")  # type: ignore[no-untyped-call]
_library.define("rope(Tensor x, Tensor table, Tensor positions) -> Tensor")
_library.define(
    "update_cache(Tensor(a!) cache, Tensor values, Tensor positions, Tensor? slots=None, int sinks=0) -> ()"
)
_library.define(
    "attend(Tensor q, Tensor k_cache, Tensor v_cache, Tensor positions, Tensor? slots=None, int window=0, int sinks=0, "
    "float scale=1.0, float softcap=0.0) -> Tensor"
)


def _fake(name: str) -> Callable[[_F], _F]:
    register: Callable[[_F], _F] = torch.library.register_fake(f"edgecore_llm::{name}", lib=_library)
    return register


@torch.library.impl(_library, "rope", "CompositeExplicitAutograd")
def rope(x: Tensor, table: Tensor, positions: Tensor) -> Tensor:
    """Turn the heads of x [T, heads, head_dim] by `table` [context, dims] of `edgecore_llm.model.rotary`.

    Values beyond `dims` stay as they are.
    """
    half = table.shape[1] // 2
    cos, sin = table.index_select(0, positions)[:, None].to(torch.float32).chunk(2, -1)
    first, second, rest = x[..., :half].float(), x[..., half : 2 * half].float(), x[..., 2 * half :]
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
    return torch.cat([turned.to(x.dtype), rest], -1)


@_fake("rope")
def _rope_fake(x: Tensor, table: Tensor, positions: Tensor) -> Tensor:
    return torch.empty_like(x)


def cache_rows(positions: Tensor, rows: int, sinks: int) -> Tensor:
    """Return the rows of positions in a cache of `rows` rows."""
    return torch.where(positions < sinks, positions, sinks + (positions - sinks) % (rows - sinks))


@torch.library.impl(_library, "update_cache", "CompositeExplicitAutograd")
def update_cache(cache: Tensor, values: Tensor, positions: Tensor, slots: Tensor | None = None, sinks: int = 0) -> None:
    """Write values [T, kv_heads, head_dim] to the rows of their positions."""
    rows = cache_rows(positions, cache.shape[2], sinks)
    cache[torch.zeros_like(positions) if slots is None else slots, :, rows] = values.to(cache.dtype)


@_fake("update_cache")
def _update_cache_fake(
    cache: Tensor, values: Tensor, positions: Tensor, slots: Tensor | None = None, sinks: int = 0
) -> None:
    return None


@torch.library.impl(_library, "attend", "CompositeExplicitAutograd")
def attend(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    positions: Tensor,
    slots: Tensor | None = None,
    window: int = 0,
    sinks: int = 0,
    scale: float = 1.0,
    softcap: float = 0.0,
) -> Tensor:
    """Attend from q [T, heads, head_dim] to the cache, which holds the tokens of the call already.

    Each token sees the positions up to its own: all of them, or the last `window` and the first `sinks`. Query head h reads
    head `h // (heads // kv_heads)` of the cache.

    Raises:
        IndexError: A position lies beyond a cache that is not a ring.
    """
    kv_heads, rows, head_dim = k_cache.shape[1:]
    outside = positions[(positions < 0) | (positions >= rows)] if not window else positions[positions < 0]
    if len(outside):
        raise IndexError(f"position {int(outside[0])} lies outside of a cache of {rows} rows")
    hidden = torch.zeros(len(positions), rows).masked_fill_(~_seen(positions, rows, window, sinks), -torch.inf)
    out = torch.empty_like(q)
    # Token by token: products of several rows may round otherwise than those of one. So may products of data at other
    # alignments, hence the copy.
    for token, slot in enumerate([0] * len(positions) if slots is None else slots.tolist()):
        query = q[token].to(torch.float32, copy=True).view(kv_heads, -1, head_dim)
        scores = query @ k_cache[slot].float().transpose(1, 2) * scale
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        out[token] = ((scores + hidden[token]).softmax(-1) @ v_cache[slot].float()).view(-1, head_dim).to(q.dtype)
    return out


def _seen(positions: Tensor, rows: int, window: int, sinks: int) -> Tensor:
    """Return bool [T, rows]: the rows that each token sees."""
    own, row = positions[:, None], torch.arange(rows)
    # The last position up to the token's own that lies in the row.
    held = torch.where(row < sinks, row, own - (own - row) % (rows - sinks))
    is_near = (held >= sinks) & ((held > own - window) if window else True)
    return (held >= 0) & (held <= own) & (is_near | (row < sinks))


@_fake("attend")
def _attend_fake(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    positions: Tensor,
    slots: Tensor | None = None,
    window: int = 0,
    sinks: int = 0,
    scale: float = 1.0,
    softcap: float = 0.0,
) -> Tensor:
    return torch.empty_like(q)
