"""Attention on the target runtime `edgecore`: one kernel, which reads a KV cache in place."""

from __future__ import annotations

import pytest
import torch
from small_models import Call
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import edgecore
from edgecore.partition import PartitionResult
from edgecore.passes.decompose import KERNEL_REWRITES
from edgecore.pipeline.lowering import LowerOptions, lower

KERNEL = "edgecore::scaled_dot_product_attention.out"
QUERY, KEYS, VALUES = (
    torch.randn(2, heads, 6, 8, generator=torch.Generator().manual_seed(seed)) for seed, heads in enumerate((4, 2, 2))
)


def repeated(keys, times):
    """Repeat heads of [batch, heads, keys, width], as code for models does without `enable_gqa`."""
    batch, heads, count, width = keys.shape
    return keys[:, :, None].expand(batch, heads, times, count, width).reshape(batch, heads * times, count, width)


def grouped(q, k, v, **options):
    return scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)


FORMS = {
    "grouped": grouped,
    "a scale": lambda q, k, v: grouped(q, k, v, scale=0.7),
    "causal": lambda q, k, v: grouped(q, k, v, is_causal=True),
    "repeated by expand": lambda q, k, v: scaled_dot_product_attention(q, repeated(k, 2), repeated(v, 2)),
    "repeated by repeat_interleave": lambda q, k, v: scaled_dot_product_attention(
        q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    ),
    "a mask of booleans": lambda q, k, v: grouped(
        q, k, v, attn_mask=q.sum(-1, keepdim=True) > k[:, :1, :, 0][:, :, None]
    ),
    "a mask of numbers": lambda q, k, v: grouped(q, k, v, attn_mask=q @ q.transpose(-1, -2)),
    "one head": lambda q, k, v: scaled_dot_product_attention(q[0, 0], k[0, 0], v[0, 0]),
    "without heads": lambda q, k, v: scaled_dot_product_attention(q[:, 0], k[:, 0], v[:, 0]),
    "heads in the last but one dim": lambda q, k, v: grouped(
        *(x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    ),
    "transposed": lambda q, k, v: grouped(q, k, v).transpose(1, 2).flatten(2),
}


def compiled_module(module, inputs, **options):
    return edgecore.compile(module.eval(), inputs, **{"runtime": "edgecore"} | options)


def compiled(function, *inputs, **options):
    return compiled_module(Call(function), inputs, **options)


def operators(program):
    """List the operators of the kernels that the first method of a compiled program calls."""
    return [operator.key for operator in program.pte.program.execution_plan[0].operators]


@pytest.mark.parametrize("name", FORMS)
def test_attention_is_one_kernel_and_equals_eager(name):
    function, inputs = FORMS[name], (QUERY, KEYS, VALUES)
    program = compiled(function, *inputs)
    assert KERNEL in operators(program)
    assert not {"aten::_softmax.out", "aten::expand_copy.out"} & set(operators(program))
    torch.testing.assert_close(torch.as_tensor(edgecore.load(program.buffer).forward(*inputs)), function(*inputs))


@pytest.mark.parametrize("runtime", ["edgecore", "executorch-1.5"])
def test_attention_without_channels_gives_the_mean_of_the_values(runtime):
    inputs = torch.empty(1, 2, 4, 0), torch.empty(1, 2, 3, 0), torch.randn(1, 2, 3, 5)
    program = compiled(scaled_dot_product_attention, *inputs, runtime=runtime)
    result = torch.as_tensor(edgecore.load(program.buffer).forward(*inputs))
    torch.testing.assert_close(result, scaled_dot_product_attention(*inputs))


def test_attention_without_heads_has_no_elements():
    inputs = tuple(torch.empty(1, 0, 3, 4) for _ in range(3))
    result = torch.as_tensor(edgecore.load(compiled(scaled_dot_product_attention, *inputs).buffer).forward(*inputs))
    assert result.shape == (1, 0, 3, 4)


def test_numbers_of_tokens_and_keys_may_be_symbolic():
    tokens, keys = torch.export.Dim("tokens", max=64), torch.export.Dim("keys", max=64)
    shapes = {"inputs": ({2: tokens}, {2: keys}, {2: keys})}
    model = edgecore.load(compiled(grouped, QUERY, KEYS, VALUES, dynamic_shapes=shapes).buffer)
    for count, length in ((6, 6), (1, 64), (9, 3)):
        inputs = torch.randn(2, 4, count, 8), torch.randn(2, 2, length, 8), torch.randn(2, 2, length, 8)
        torch.testing.assert_close(torch.as_tensor(model.forward(*inputs)), grouped(*inputs))


NOT_SUPPORTED = {
    "a broadcast batch": lambda q, k, v: grouped(q, k[:1], v[:1]),
    "a mask of another dtype": lambda q, k, v: grouped(q.half(), k.half(), v.half(), attn_mask=q @ q.mT).float(),
}


@pytest.mark.parametrize("name", NOT_SUPPORTED)
def test_attention_that_the_kernel_does_not_support_is_decomposed(name):
    function, inputs = NOT_SUPPORTED[name], (QUERY, KEYS, VALUES)
    program = compiled(function, *inputs)
    assert KERNEL not in operators(program)
    result = torch.as_tensor(edgecore.load(program.buffer).forward(*inputs))
    torch.testing.assert_close(result, function(*inputs), rtol=1e-3, atol=1e-3)


def test_the_other_target_runtime_gets_the_operators_that_it_has():
    program = compiled(grouped, QUERY, KEYS, VALUES, runtime="executorch-1.5")
    assert KERNEL not in operators(program) and "aten::bmm.out" in operators(program)


class Cached(nn.Module):
    """Attention over a cache of two key heads, which query heads share; the mask hides positions that are not in use."""

    def __init__(self, capacity) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, capacity, 8))
        self.register_buffer("values", torch.zeros(1, 2, capacity, 8))
        self.register_buffer("positions", torch.arange(capacity))

    def forward(self, q, k, v, position):
        self.keys[:, :, position] = k
        self.values[:, :, position] = v
        mask = torch.zeros(()).masked_fill(self.positions > position[:, None], -torch.inf)
        return grouped(q, self.keys, self.values, attn_mask=mask)


def step(position):
    return torch.randn(1, 4, 1, 8), torch.randn(1, 2, 1, 8), torch.randn(1, 2, 1, 8), torch.tensor([position])


def test_a_cache_is_updated_and_read_in_place():
    sizes = {}
    for capacity in (32, 1024):
        model, eager = compiled_module(Cached(capacity), step(0)), Cached(capacity)
        loaded = edgecore.load(model.buffer)
        for position in range(6):
            inputs = step(position)
            torch.testing.assert_close(torch.as_tensor(loaded.forward(*inputs)), eager(*inputs))
        sizes[capacity] = sum(model.pte.program.execution_plan[0].non_const_buffer_sizes)
    caches, masks = 2 * 2 * 8 * 4, 1 + 4  # bytes of a position: the caches, the comparison and the mask
    assert sizes[1024] - sizes[32] == (1024 - 32) * (caches + masks)


class KeepsAttention:
    """A partitioner that preserves attention if `preserves`, and tags nothing."""

    def __init__(self, preserves) -> None:
        self.preserves = preserves

    def ops_to_not_decompose(self, program):
        return [torch.ops.aten.scaled_dot_product_attention.default] if self.preserves else [], None

    def partition(self, program):
        return PartitionResult(program, {})


@pytest.mark.parametrize("preserves", [True, False])
def test_a_backend_chooses_between_attention_and_its_decomposition(preserves):
    program = torch.export.export(Call(grouped).eval(), (QUERY, KEYS, VALUES))
    edge = lower(program, [KeepsAttention(preserves)], LowerOptions(rewrites=KERNEL_REWRITES))
    targets = {node.target for node in edge.programs["forward"].graph.nodes}
    assert (torch.ops.edgecore.scaled_dot_product_attention.default in targets) == preserves
    assert (torch.ops.aten.bmm.default in targets) != preserves
