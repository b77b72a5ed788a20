"""Define the operators `edgecore_llm::*` in torch, with reference implementations; `native/` has the kernels.

A call computes T tokens, which may belong to several sequences. `positions` [T] has each token's position in its
sequence, and `slots` [T] the index of its sequence (all 0 if None). Tokens affect each other only through the key-value
cache.

Cached keys are [slots, kv_heads, rows / 16, key_size, 16], cached values [slots, kv_heads, rows, value_size]: float32,
float16 or int8. An int8 row has one scale per head: largest magnitude / 127. Position p lies in row p if
p < `sinks`, else in row `sinks + (p - sinks) % (rows - sinks)`. So a cache with fewer rows than positions is a ring
buffer whose first `sinks` rows (attention sinks) are never overwritten. For calls of T tokens, a ring buffer needs
`sinks + window + T - 1` rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from edgecore_llm.quantize import packed as packing
from edgecore_llm.quantize.hadamard import factors, transform

_F = TypeVar("_F", bound=Callable[..., Any])

KEY_BLOCK = 16
"""Cached keys of 16 rows are interleaved; gates and values of `gate_up_proj` alternate in blocks of 16 outputs."""

_library: Any = torch.library.Library("edgecore_llm", "DEF")  # type: ignore[no-untyped-call]
_library.define(
    "linear(Tensor x, Tensor packed, int outputs, Tensor? bias=None, Tensor? norm=None, float eps=0.0, "
    'Tensor? residual=None, str activation="none") -> Tensor'
)
_library.define("embedding(Tensor packed, Tensor ids, int rows, int size) -> Tensor")
_library.define(
    "rope_update_cache(Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor qkv, Tensor? table, Tensor positions, "
    "Tensor? slots, int heads, int sinks=0, Tensor? q_norm=None, Tensor? k_norm=None, float eps=0.0, "
    "Tensor(c!)? k_scales=None, Tensor(d!)? v_scales=None) -> Tensor"
)
_library.define(
    "attend(Tensor q, Tensor k_cache, Tensor v_cache, Tensor positions, Tensor? slots=None, int window=0, int sinks=0, "
    "float scale=1.0, float softcap=0.0, Tensor? k_scales=None, Tensor? v_scales=None) -> Tensor"
)
_library.define("rotate(Tensor x) -> Tensor")


def _fake(name: str) -> Callable[[_F], _F]:
    register: Callable[[_F], _F] = torch.library.register_fake(f"edgecore_llm::{name}", lib=_library)
    return register


@torch.library.impl(_library, "linear", "CompositeExplicitAutograd")
def linear(
    x: Tensor,
    packed: Tensor,
    outputs: int,
    bias: Tensor | None = None,
    norm: Tensor | None = None,
    eps: float = 0.0,
    residual: Tensor | None = None,
    activation: str = "none",
) -> Tensor:
    """Multiply rows x [..., inputs] by a packed matrix [outputs, inputs]; x is also quantized, in groups of 32.

    Args:
        x: float32.
        packed: The matrix, see `edgecore_llm.quantize.packed`.
        outputs: The number of rows of the matrix.
        bias: float32 [outputs], added to the product.
        norm: float32 [inputs], weights of an RMS norm that is applied to x first.
        eps: Epsilon of the RMS norm.
        residual: Added at the end; has the shape of the result.
        activation: "silu" or "gelu_tanh": the result [..., outputs / 2] is activation(gates) * values. Gates and values
            alternate in blocks of 16 outputs.
    """
    if norm is not None:
        x = F.rms_norm(x, norm.shape, norm, eps)
    return finish_product(packing.linear(x, packed, outputs), bias, residual, activation)


def finish_product(product: Tensor, bias: Tensor | None, residual: Tensor | None, activation: str) -> Tensor:
    """Apply the bias, activation and residual of the operator `linear` to a product of its matrix."""
    if bias is not None:
        product = product + bias
    if activation != "none":
        gates, values = product.reshape(*product.shape[:-1], -1, 2, KEY_BLOCK).unbind(-2)
        gates = F.silu(gates) if activation == "silu" else F.gelu(gates, approximate="tanh")
        product = (gates * values).flatten(-2)
    return product if residual is None else product + residual


@_fake("linear")
def _linear_fake(
    x: Tensor,
    packed: Tensor,
    outputs: int,
    bias: Tensor | None = None,
    norm: Tensor | None = None,
    eps: float = 0.0,
    residual: Tensor | None = None,
    activation: str = "none",
) -> Tensor:
    return x.new_empty(*x.shape[:-1], outputs if activation == "none" else outputs // 2)


@torch.library.impl(_library, "embedding", "CompositeExplicitAutograd")
def embedding(packed: Tensor, ids: Tensor, rows: int, size: int) -> Tensor:
    """Return the rows [T, size] of a packed matrix [rows, size] that `ids` [T] select."""
    return packing.unpack(packed, rows, size).dequantize()[ids]


@_fake("embedding")
def _embedding_fake(packed: Tensor, ids: Tensor, rows: int, size: int) -> Tensor:
    return packed.new_empty(ids.shape[0], size, dtype=torch.float32)


def cache_rows(positions: Tensor, rows: int, sinks: int) -> Tensor:
    """Return the rows that hold `positions` in a ring buffer of `rows` rows, whose first `sinks` rows are fixed."""
    return torch.where(positions < sinks, positions, sinks + (positions - sinks) % (rows - sinks))


def turn(x: Tensor, table: Tensor, positions: Tensor) -> Tensor:
    """Apply rotary embeddings (a table [context, dims]) to the first `dims` values of heads x [T, heads, size]."""
    half = table.shape[1] // 2
    cos, sin = table.index_select(0, positions)[:, None].chunk(2, -1)
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], -1)


@torch.library.impl(_library, "rope_update_cache", "CompositeExplicitAutograd")
def rope_update_cache(
    k_cache: Tensor,
    v_cache: Tensor,
    qkv: Tensor,
    table: Tensor | None,
    positions: Tensor,
    slots: Tensor | None,
    heads: int,
    sinks: int = 0,
    q_norm: Tensor | None = None,
    k_norm: Tensor | None = None,
    eps: float = 0.0,
    k_scales: Tensor | None = None,
    v_scales: Tensor | None = None,
) -> Tensor:
    """Write the keys and values of T tokens into the cache; return their queries [T, heads, key_size], rotated.

    Args:
        k_cache: The keys of the cache, which are written.
        v_cache: The values of the cache, which are written.
        qkv: float32 [T, heads * key_size + kv_heads * (key_size + value_size)]: queries, keys, values of each token.
        table: float32 [context, dims] from `edgecore_llm.model.rotary`, which rotates queries and keys; None: no
            rotation.
        positions: int64 [T], the position of each token in its sequence.
        slots: int64 [T], the index of each token's sequence in the cache; None: all 0.
        heads: The number of query heads.
        sinks: Number of attention sinks: first rows of the cache that are never overwritten.
        q_norm: float32 [key_size], weights of an RMS norm of each query head before the rotation.
        k_norm: float32 [key_size], weights of an RMS norm of each key head before the rotation.
        eps: Epsilon of the RMS norms.
        k_scales: float32 [slots, kv_heads, rows]: scales of int8 keys, which are written.
        v_scales: float32 [slots, kv_heads, rows]: scales of int8 values, which are written.
    """
    kv_heads, rows, key_size = k_cache.shape[1], v_cache.shape[2], k_cache.shape[3]
    q_end = heads * key_size
    k_end = q_end + kv_heads * key_size
    q = qkv[:, :q_end].reshape(-1, heads, key_size)
    k = qkv[:, q_end:k_end].reshape(-1, kv_heads, key_size)
    v = qkv[:, k_end:].reshape(-1, kv_heads, v_cache.shape[3])
    q = q.clone() if q_norm is None else F.rms_norm(q, q_norm.shape, q_norm, eps)
    k = k if k_norm is None else F.rms_norm(k, k_norm.shape, k_norm, eps)
    if table is not None:
        q, k = turn(q, table, positions), turn(k, table, positions)
    at = cache_rows(positions, rows, sinks)
    slot = torch.zeros_like(positions) if slots is None else slots
    k, scales = round_heads(k, k_cache.dtype)
    k_cache[slot, :, at // KEY_BLOCK, :, at % KEY_BLOCK] = k
    if k_scales is not None:
        k_scales[slot, :, at] = scales
    v, scales = round_heads(v, v_cache.dtype)
    v_cache[slot, :, at] = v
    if v_scales is not None:
        v_scales[slot, :, at] = scales
    return q


def round_heads(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Convert heads x [T, heads, size] to a cache's dtype; return the result and scales [T, heads], 1 unless int8."""
    if dtype == torch.int8:
        values, scales = packing.round_rows(x, x.shape[-1])
        return values.flatten(2), scales[..., 0]
    largest = torch.finfo(dtype).max
    return x.clamp(-largest, largest).to(dtype), torch.ones(x.shape[:-1])


@_fake("rope_update_cache")
def _rope_update_cache_fake(
    k_cache: Tensor,
    v_cache: Tensor,
    qkv: Tensor,
    table: Tensor | None,
    positions: Tensor,
    slots: Tensor | None,
    heads: int,
    *_: Any,
    **__: Any,
) -> Tensor:
    return qkv.new_empty(qkv.shape[0], heads, k_cache.shape[3])


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
    k_scales: Tensor | None = None,
    v_scales: Tensor | None = None,
) -> Tensor:
    """Compute the attention of q [T, heads, key_size] to the cache, which already has this call's keys and values.

    A token sees all positions up to its own; with a window, only the last `window` of them and the first `sinks`. Query
    head h reads head `h // (heads // kv_heads)` of the cache. The result is [T, heads * value_size].

    Raises:
        IndexError: A position is beyond the rows of a cache that is not a ring buffer.
    """
    kv_heads, rows, value_size = v_cache.shape[1:]
    key_size = q.shape[-1]
    out = q.new_empty(*q.shape[:-1], value_size)
    for token, position in enumerate(positions.tolist()):
        if not 0 <= position < rows and (not window or position < 0):
            raise IndexError(f"position {position} lies outside of a cache of {rows} rows")
        first = max(0, position - window + 1) if window else 0
        seen = torch.cat([torch.arange(min(sinks, first)), torch.arange(first, position + 1)])
        slot = 0 if slots is None else int(slots[token])
        seen_rows = cache_rows(seen, rows, sinks)
        keys = k_cache[slot].transpose(2, 3).flatten(1, 2)[:, seen_rows].float()
        values = v_cache[slot][:, seen_rows].float()
        if k_scales is not None and v_scales is not None:
            keys = keys * k_scales[slot][:, seen_rows, None]
            values = values * v_scales[slot][:, seen_rows, None]
        scores = q[token].reshape(kv_heads, -1, key_size) @ keys.transpose(1, 2) * scale
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        out[token] = (scores.softmax(-1) @ values).reshape(-1, value_size)
    return out.flatten(1)


@_fake("attend")
def _attend_fake(q: Tensor, k_cache: Tensor, v_cache: Tensor, *_: Any, **__: Any) -> Tensor:
    return q.new_empty(q.shape[0], q.shape[1] * v_cache.shape[3])


@torch.library.impl(_library, "rotate", "CompositeExplicitAutograd")
def rotate(x: Tensor) -> Tensor:
    """Multiply each row of x [T, 2^k] by the orthonormal Hadamard matrix of size 2^k, as SpinQuant requires."""
    return transform(x, *factors(x.shape[1]))


@_fake("rotate")
def _rotate_fake(x: Tensor) -> Tensor:
    return torch.empty_like(x)
