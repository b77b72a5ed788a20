"""The kernels of `llama::*` beside executorch's own operators, for each instruction set of this processor."""

from __future__ import annotations

import pytest
import torch
from llm_kernels import INSTRUCTIONS, compiled, run
from llm_peer_export import need_peer

import edgecore
from edgecore.errors import EdgecoreError

need_peer()
llama = torch.ops.llama
ROWS = 48


class Layer(torch.nn.Module):
    """Writes keys and values into a cache, then attends to it."""

    def __init__(self, kv_heads=2, size=8, batch=1, scale=None):
        super().__init__()
        self.scale = scale
        self.register_buffer("k_cache", torch.zeros(batch, ROWS, kv_heads, size))
        self.register_buffer("v_cache", torch.zeros(batch, ROWS, kv_heads, size))

    def forward(self, q, k, v, position):
        start = position.item()
        torch._check(start >= 0)
        torch._check(start + q.shape[1] <= ROWS)
        return self.attend(q, k, v, start)

    def attend(self, q, k, v, start):
        llama.update_cache(k, self.k_cache, start)
        llama.update_cache(v, self.v_cache, start)
        return llama.custom_sdpa(q, self.k_cache, self.v_cache, start, None, 0.0, True, self.scale)


class OneOperator(Layer):
    def attend(self, q, k, v, start):
        return llama.sdpa_with_kv_cache(
            q, k, v, self.k_cache, self.v_cache, start, q.shape[1], None, 0.0, True, self.scale
        )


class NotCausal(Layer):
    def attend(self, q, k, v, start):
        llama.update_cache(k, self.k_cache, start)
        llama.update_cache(v, self.v_cache, start)
        return llama.custom_sdpa(q, self.k_cache, self.v_cache, start, None, 0.0, False, self.scale)


class Ring(Layer):
    """The places of the tokens and what they see are values of the graph."""

    def attend(self, q, k, v, start):
        positions = torch.arange(q.shape[1]) + start
        rows = (positions * 5 % ROWS).unsqueeze(0).expand(q.shape[0], -1).contiguous()
        llama.update_cache_with_indices(k, self.k_cache, start, rows)
        llama.update_cache_with_indices(v, self.v_cache, start, rows)
        seen = torch.arange(ROWS)[None] <= positions[:, None] * 5 % ROWS
        mask = torch.where(seen, 0.0, -float("inf"))
        return llama.custom_sdpa(q, self.k_cache, self.v_cache, start, mask, 0.0, False, self.scale)


def inputs(tokens, position, heads, kv_heads, size, batch=1):
    generator = torch.Generator().manual_seed(position)
    shapes = (batch, tokens, heads, size), (batch, tokens, kv_heads, size), (batch, tokens, kv_heads, size)
    return *(torch.randn(shape, generator=generator) for shape in shapes), torch.tensor([position])


def file_of(layer, example, path):
    tokens = torch.export.Dim("tokens", min=1, max=20)
    return compiled(layer, example, path, {"q": {1: tokens}, "k": {1: tokens}, "v": {1: tokens}, "position": None})


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
@pytest.mark.parametrize(
    ("kind", "heads", "kv_heads", "size", "batch", "scale"),
    [
        (Layer, 6, 2, 8, 1, None),
        (Layer, 5, 5, 37, 2, 0.3),
        (OneOperator, 4, 1, 64, 1, None),
        (NotCausal, 4, 2, 100, 1, None),
        (Ring, 3, 3, 24, 2, 0.2),
    ],
)
def test_attention_over_a_cache(kind, heads, kv_heads, size, batch, scale, instructions, tmp_path):
    shape = (heads, kv_heads, size, batch)
    calls = [inputs(tokens, position, *shape) for tokens, position in ((5, 0), (1, 5), (20, 6), (1, 26), (20, 28))]
    file = file_of(kind(kv_heads, size, batch, scale), calls[0], tmp_path / "layer.pte")
    eager = kind(kv_heads, size, batch, scale)
    for found, call in zip(run(file, calls, instructions, tmp_path), calls, strict=True):
        torch.testing.assert_close(found, eager(*call), atol=2e-6, rtol=1e-5)


def test_tokens_outside_of_a_cache_are_refused(tmp_path):
    forward = edgecore.load(file_of(Layer(), inputs(5, 0, 4, 2, 8), tmp_path / "layer.pte")).forward
    for position in (-1, ROWS - 4, 1 << 60):
        given = inputs(5, 0, 4, 2, 8)[:3]
        with pytest.raises(EdgecoreError):
            forward(*given, torch.tensor([position]))


class Update(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.register_buffer("cache", torch.zeros(1, 4, 2, 1, dtype=dtype))

    def forward(self, value, indices):
        llama.update_cache_with_indices(value, self.cache, 0, indices)
        return self.cache + 0


@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32])
def test_caches_of_any_dtype(dtype, tmp_path):
    value, indices = torch.tensor([3, 4, 5, 6]).reshape(1, 2, 2, 1).to(dtype), torch.tensor([[2, 0]])
    forward = edgecore.load(compiled(Update(dtype), (value, indices), tmp_path / "update.pte")).forward
    found = forward(value, indices)
    assert torch.as_tensor(found.numpy()).flatten().tolist() == [5, 6, 0, 0, 3, 4, 0, 0]
    with pytest.raises(EdgecoreError, match=r"llama::update_cache_with_indices: an index is outside of the cache"):
        forward(value, torch.tensor([[2, 4]]))
