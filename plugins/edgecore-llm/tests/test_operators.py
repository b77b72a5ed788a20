"""The operators beside straightforward definitions over whole sequences."""

from __future__ import annotations

import pytest
import torch

from edgecore_llm import operators  # noqa: F401  (registers the operators)
from edgecore_llm.quantize.packed import pack
from edgecore_llm.quantize.rounding import quantize

ops = torch.ops.edgecore_llm
HEADS, KV_HEADS, DIM = 6, 2, 8


def tensors(count: int, tokens: int = 50) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(count)
    return [torch.randn(tokens, heads, DIM, generator=generator) for heads in (HEADS, KV_HEADS, KV_HEADS)[:count]]


def attend_by_mask(q, k, v, window: int, sinks: int, scale: float, softcap: float) -> torch.Tensor:
    """Attention over a whole sequence, by a mask."""
    own, other = torch.arange(len(q))[:, None], torch.arange(len(q))
    seen = (other <= own) & ((other > own - window) | (other < sinks) | (not window))
    keys, values = (x.repeat_interleave(HEADS // KV_HEADS, 1).transpose(0, 1) for x in (k, v))
    scores = q.transpose(0, 1) @ keys.transpose(1, 2) * scale
    if softcap:
        scores = (scores / softcap).tanh() * softcap
    return (scores.masked_fill(~seen, -torch.inf).softmax(-1) @ values).transpose(0, 1)


def caches(slots: int, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(slots, KV_HEADS, rows // 16, DIM, 16), torch.zeros(slots, KV_HEADS, rows, DIM)


def joined(q, k, v) -> torch.Tensor:
    return torch.cat([x.flatten(1) for x in (q, k, v)], 1)


def run(q, k, v, rows: int, chunk: int, **options) -> torch.Tensor:
    """The same by the operators, in calls of `chunk` tokens."""
    cache, qkv, out = caches(1, -(-rows // 16) * 16), joined(q, k, v), []
    for start in range(0, len(q), chunk):
        part = slice(start, start + chunk)
        positions = torch.arange(len(q))[part]
        queries = ops.rope_update_cache(*cache, qkv[part], None, positions, None, HEADS, sinks=options.get("sinks", 0))
        out.append(ops.attend(queries, *cache, positions, **options))
    return torch.cat(out).unflatten(1, (HEADS, DIM))


@pytest.mark.parametrize("chunk", [1, 7, 50])
@pytest.mark.parametrize(("window", "sinks", "softcap"), [(0, 0, 0.0), (0, 0, 2.0), (12, 0, 0.0), (12, 3, 0.0)])
def test_attention_over_a_cache_is_attention_over_the_sequence(chunk, window, sinks, softcap):
    q, k, v = tensors(3)
    rows = sinks + window + chunk - 1 if window else len(q)
    out = run(q, k, v, rows, chunk, window=window, sinks=sinks, scale=0.3, softcap=softcap)
    torch.testing.assert_close(out, attend_by_mask(q, k, v, window, sinks, 0.3, softcap), rtol=0, atol=1e-5)


def test_a_token_has_the_same_bits_whatever_else_is_in_the_call():
    q, k, v = tensors(3)
    alone = run(q, k, v, 64, 1)
    assert all(torch.equal(run(q, k, v, 64, chunk), alone) for chunk in (7, 13, 50))


def test_tokens_of_several_sequences_are_kept_apart():
    q, k, v = tensors(3)
    slots, positions, cache = torch.arange(50) % 2, torch.arange(50) // 2, caches(2, 32)
    queries = ops.rope_update_cache(*cache, joined(q, k, v), None, positions, slots, HEADS)
    out = ops.attend(queries, *cache, positions, slots).unflatten(1, (HEADS, DIM))
    for slot in (0, 1):
        expected = attend_by_mask(q[slot::2], k[slot::2], v[slot::2], 0, 0, 1.0, 0.0)
        torch.testing.assert_close(out[slot::2], expected, rtol=0, atol=1e-5)


def test_a_position_beyond_a_full_cache_is_an_error():
    (q,) = tensors(1)
    with pytest.raises(IndexError, match="position 16 lies outside of a cache of 16 rows"):
        ops.attend(q[:1], *caches(1, 16), torch.tensor([16]))
    with pytest.raises(IndexError, match="position -1 "):
        ops.attend(q[:1], *caches(1, 16), torch.tensor([-1]), window=4)


def test_rotation_turns_pairs_of_the_first_values_only():
    q, k, v = (x[:3] for x in tensors(3))
    angles = torch.rand(20, 2)
    positions, cache = torch.tensor([4, 0, 15]), caches(1, 16)
    table = torch.cat([angles.cos(), angles.sin()], 1)
    turned_q = ops.rope_update_cache(*cache, joined(q, k, v), table, positions, None, HEADS)
    turned_k = cache[0][0, :, 0].permute(2, 0, 1)[positions]
    for x, out in ((q, turned_q), (k, turned_k)):
        for pair in range(2):
            before = torch.complex(x[..., pair], x[..., pair + 2])
            turn = torch.polar(torch.ones(3), angles[positions, pair])[:, None]
            torch.testing.assert_close(torch.complex(out[..., pair], out[..., pair + 2]), before * turn)
        assert torch.equal(out[..., 4:], x[..., 4:])
    assert torch.equal(cache[1][0].transpose(0, 1)[positions], v)


@pytest.mark.parametrize("name", ["linear", "embedding", "rope_update_cache", "attend"])
def test_operators_keep_the_rules_of_torch(name):
    q, k, v = (x[:4] for x in tensors(3))
    positions, packed = torch.arange(4), pack(quantize(torch.randn(32, 40), 4))
    arguments = {
        "linear": (torch.randn(3, 40), packed, 32, torch.randn(32), torch.ones(40), 1e-5, torch.randn(3, 16), "silu"),
        "embedding": (packed, positions, 32, 40),
        "rope_update_cache": (*caches(1, 16), joined(q, k, v), torch.rand(8, 4), positions, None, HEADS),
        "attend": (q, *caches(1, 16), positions),
    }
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(getattr(ops, name).default, arguments[name], test_utils=tests)
