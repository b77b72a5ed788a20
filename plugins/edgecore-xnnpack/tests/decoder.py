"""A small decoder as in Llama, with a static KV cache in mutable buffers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, LAYERS = 96, 2


@dataclass(frozen=True)
class Sizes:
    """Numbers of positions that the cache holds, of channels, and of heads of queries, and of keys and values."""

    capacity: int = 256
    width: int = 64
    heads: int = 4
    kv_heads: int = 2

    @property
    def head(self) -> int:
        """Channels of a head."""
        return self.width // self.heads


class Cache(nn.Module):
    """Keys and values of all positions so far."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.register_buffer("k", torch.zeros(1, sizes.kv_heads, sizes.capacity, sizes.head))
        self.register_buffer("v", torch.zeros(1, sizes.kv_heads, sizes.capacity, sizes.head))

    def forward(self, position, k, v):
        self.k[:, :, position] = k
        self.v[:, :, position] = v
        return self.k, self.v


class Layer(nn.Module):
    """Attention with rotary positions over a cache, and a gated feed-forward network."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        width, kv_width = sizes.width, sizes.kv_heads * sizes.head
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = nn.Linear(width, kv_width, bias=False), nn.Linear(width, kv_width, bias=False)
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        self.attention_norm, self.norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.cache = Cache(sizes)

    def forward(self, x, position, mask, cos, sin):
        y = self.attention_norm(x)
        q, k, v = (layer(y).unflatten(2, (-1, self.sizes.head)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        keys, values = self.cache(position, rotate(k, cos, sin), v)
        y = F.scaled_dot_product_attention(rotate(q, cos, sin), keys, values, attn_mask=mask, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def rotate(x, cos, sin):
    """Apply rotary position embedding to [1, heads, tokens, channels]; `cos` and `sin` are [tokens, channels]."""
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class Decoder(nn.Module):
    """Maps tokens [1, T] at positions [T] to logits [1, T, VOCABULARY]."""

    def __init__(self, sizes: Sizes | None = None, seed: int = 0) -> None:
        super().__init__()
        sizes = sizes or Sizes()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(VOCABULARY, sizes.width)
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(LAYERS))
        self.norm = nn.RMSNorm(sizes.width)
        self.head = nn.Linear(sizes.width, VOCABULARY, bias=False)
        frequencies = 10000.0 ** (-torch.arange(0, sizes.head, 2) / sizes.head)
        angles = torch.outer(torch.arange(sizes.capacity), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("index", torch.arange(sizes.capacity))

    def forward(self, tokens, position):
        x = self.embedding(tokens)
        cos, sin = self.cos[position], self.sin[position]
        mask = torch.zeros(()).masked_fill(self.index > position[:, None], float("-inf"))
        for layer in self.layers:
            x = layer(x, position, mask, cos, sin)
        return self.head(self.norm(x))
