"""The kernels beside the reference implementations in PyTorch, for each instruction set of this processor."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from llm_kernels import INSTRUCTIONS, MISSING, Caches, Call, compiled, run

import edgecore
from edgecore.errors import EdgecoreError
from edgecore_llm import operators  # noqa: F401  (registers the operators)
from edgecore_llm.model.decoder import CACHE_DTYPES
from edgecore_llm.quantize.packed import pack, round_rows
from edgecore_llm.quantize.rounding import quantize

ops = torch.ops.edgecore_llm


def test_an_unknown_instruction_set_is_an_error(tmp_path):
    model = Call(lambda x, packed: ops.linear(x, packed, 32), pack(quantize(torch.randn(32, 64), 4)))
    x = torch.randn(2, 64)
    file = compiled(model, (x,), tmp_path / "model.pte")
    with pytest.raises(AssertionError, match=MISSING):
        run(file, [(x,)], "sse9", tmp_path)


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
@pytest.mark.parametrize("bits", [4, 8])
def test_products_are_those_of_pytorch(bits, instructions, tmp_path):
    torch.manual_seed(bits)
    for outputs, inputs, rows in ((70, 200, 5), (64, 512, 1), (33, 96, 30), (150, 2080, 1)):
        matrix = quantize(torch.randn(outputs, inputs), bits)
        model = Call(lambda x, packed, n=outputs: ops.linear(x, packed, n), pack(matrix))
        x = torch.randn(rows, inputs)
        file = compiled(model, (x,), tmp_path / "model.pte")
        (found,) = run(file, [(x,)], instructions, tmp_path)
        torch.testing.assert_close(found, model(x), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
@pytest.mark.parametrize("bits", [4, 8])
def test_a_row_has_the_same_bits_alone_and_among_others(bits, instructions, tmp_path):
    torch.manual_seed(bits)
    model = Call(lambda x, packed: ops.linear(x, packed, 150), pack(quantize(torch.randn(150, 2080), bits)))
    x = torch.randn(3, 2080)
    rows = torch.export.Dim("rows", max=3)
    file = compiled(model, (x,), tmp_path / "model.pte", {"inputs": (({0: rows}),)})
    together, *alone = run(file, [(x,), *((row[None],) for row in x)], instructions, tmp_path)
    assert torch.equal(torch.cat(alone), together)


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
@pytest.mark.parametrize("activation", ["none", "silu", "gelu_tanh"])
def test_steps_around_a_product(activation, instructions, tmp_path):
    torch.manual_seed(3)
    outputs, inputs = 96, 72
    columns = outputs if activation == "none" else outputs // 2
    matrix, bias, norm = quantize(torch.randn(outputs, inputs), 8), torch.randn(outputs), torch.rand(inputs) + 0.5

    def function(x, residual, packed):
        return ops.linear(x, packed, outputs, bias, norm, 1e-5, residual, activation)

    model = Call(function, pack(matrix))
    x, residual = torch.randn(20, inputs) * 3, torch.randn(20, columns)
    file = compiled(model, (x, residual), tmp_path / "model.pte")
    (found,) = run(file, [(x, residual)], instructions, tmp_path)
    # Normalized values differ in their last bits, so a few may be rounded to the other neighbour.
    step = float(
        round_rows(torch.nn.functional.rms_norm(x, norm.shape, norm))[1].max() * matrix.dequantize().abs().max()
    )
    largest = 1.0 if activation == "none" else 6.0
    torch.testing.assert_close(found, model(x, residual), rtol=1e-5, atol=2 * step * largest)
    assert (found - model(x, residual)).abs().median() < 1e-4


@pytest.mark.parametrize("bits", [4, 8])
def test_embeddings_are_those_of_the_packed_matrix(bits, tmp_path):
    matrix = quantize(torch.randn(50, 72), bits)
    model = Call(lambda ids, packed: ops.embedding(packed, ids, 50, 72), pack(matrix))
    ids = torch.tensor([0, 49, 17, 17])
    found = edgecore.load(compiled(model, (ids,), tmp_path / "model.pte")).forward(ids.numpy())
    assert torch.equal(torch.from_numpy(np.array(found)), matrix.dequantize()[ids])


CACHES = {
    "all": ((2, 320, 16, 16, 6), {}),
    "one head": ((1, 320, 128, 80, 1), {}),
    "many query heads": ((1, 304, 24, 24, 9), {"softcap": 5.0}),
    "window": ((2, 96, 20, 28, 4), {"window": 60}),
    "window and sinks": ((2, 336, 16, 16, 4), {"window": 290, "sinks": 5}),
}


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
@pytest.mark.parametrize("bits", [32, 16, 8])
@pytest.mark.parametrize("name", CACHES)
def test_caches_and_attention(name, bits, instructions, tmp_path):
    torch.manual_seed(len(name))
    (kv_heads, rows, key_size, value_size, heads), options = CACHES[name]
    model = Caches(kv_heads, rows, key_size, value_size, heads, CACHE_DTYPES[bits], **options)
    tokens, context = (300, 320) if "window" not in options else (700, 720)
    width = heads * key_size + kv_heads * (key_size + value_size)
    qkv, table = torch.randn(tokens, width), torch.randn(context, key_size // 4 * 2)
    norms = (torch.rand(key_size) + 0.5, torch.rand(key_size) + 0.5)
    count = torch.export.Dim("tokens", min=1, max=31)

    def call(start, size, slot):
        part = slice(start, start + size)
        return qkv[part], table, torch.arange(tokens)[part], torch.full((len(qkv[part]),), slot), *norms

    dims = ({0: count}, None, {0: count}, {0: count}, None, None)
    file = compiled(model, call(0, 4, 0), tmp_path / "model.pte", dims)
    for buffer in model.buffers():
        buffer.zero_()
    calls = [call(start, 31, 1) for start in range(0, tokens, 31)]
    expected = torch.cat([model(*inputs) for inputs in calls])
    found = torch.cat(run(file, calls, instructions, tmp_path))
    # A key or a value that lies between two numbers of few bits goes here or there by its last bit.
    torch.testing.assert_close(found, expected, rtol=1e-5, atol={32: 1e-5, 16: 2e-3, 8: 3e-2}[bits])
    assert (found - expected).abs().median() < 1e-6
    if instructions == "baseline":  # too slow
        return
    single = [call(start, 1, 0) for start in range(tokens)]
    assert torch.equal(torch.cat(run(file, single, instructions, tmp_path)), found)


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
@pytest.mark.parametrize("bits", [16, 8])
def test_values_are_stored_in_few_bits(bits, instructions, tmp_path):
    # A token that sees itself alone gets its value. 24 elements are not a whole number of vectors.
    model = Caches(1, 64, 16, 24, 1, CACHE_DTYPES[bits], window=1)
    torch.manual_seed(bits)
    v = torch.randn(60, 24) * 2.0 ** torch.arange(-40, 20)[:, None]
    v[0], v[1, 3], v[2, :4] = 0, 1e5, torch.tensor([2.0**-24, 2.0**-25, 3 * 2.0**-25, 65520.0])
    if bits == 16:
        v[3, 3] = v[4, 20] = torch.nan  # in a whole vector, and in the rest
    qkv = torch.cat([torch.zeros(60, 32), v], 1)
    table, norm = torch.ones(64, 2), torch.ones(16)
    inputs = (qkv, table, torch.arange(60), torch.zeros(60, dtype=torch.int64), norm, norm)
    file = compiled(model, inputs, tmp_path / "model.pte")
    (found,) = run(file, [inputs], instructions, tmp_path)
    if bits == 16:
        expected = v.clamp(-65504, 65504).half().float()
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        return
    scales = v.abs().amax(1, keepdim=True) / 127
    assert ((found - v).abs() <= 0.50001 * scales).all()
    torch.testing.assert_close(found, model(*inputs), rtol=1e-6, atol=0)


def error_of(model, example, tmp_path, inputs=None) -> str:
    file = compiled(model, example, tmp_path / "model.pte")
    with pytest.raises(EdgecoreError) as caught:
        edgecore.load(file).forward(*(x.numpy() for x in inputs or example))
    return str(caught.value)


def test_errors_of_products(tmp_path):
    packed = pack(quantize(torch.randn(32, 64), 8))
    x = torch.randn(1, 64)
    cases = [
        (lambda x, packed: ops.linear(x, packed, 33), x, "does not have that number of outputs"),
        (lambda x, packed: ops.linear(x, packed, 32, None, None, 0.0, None, "relu"), x, "none, silu or gelu_tanh"),
        (lambda x, packed: ops.linear(x, packed, 32, torch.ones(3)), x, "bias must have one value for each output"),
    ]
    for function, example, text in cases:
        model = Call(function, packed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("edgecore_llm.quantize.packed.linear", lambda x, packed, n: x.new_zeros(*x.shape[:-1], n))
            assert text in error_of(model, (example,), tmp_path)
    ids = torch.tensor([3])
    model = Call(lambda ids, packed: ops.embedding(packed, ids, 32, 64), packed)
    assert "an id is outside of the vocabulary" in error_of(model, (ids,), tmp_path, (torch.tensor([32]),))


def test_errors_of_positions(tmp_path):
    model = Caches(1, 32, 8, 8, 2)
    table, norms = torch.randn(64, 4), (torch.ones(8), torch.ones(8))

    def inputs(position, slot=0):
        return torch.randn(1, 32), table, torch.tensor([position]), torch.tensor([slot]), *norms

    for position, slot, text in (
        (32, 0, "a position is beyond the rows of the cache"),
        (64, 0, "a position is beyond the rows of the table"),
        (-1, 0, "a position is negative or too large"),
        (0, 2, "a slot is outside of the cache"),
    ):
        assert text in error_of(model, inputs(0), tmp_path, inputs(position, slot))


def test_errors_of_scales(tmp_path):
    example = (*Caches(1, 32, 8, 8, 2, torch.int8).buffers(), torch.randn(1, 2, 8), torch.tensor([0]))
    text = "caches of int8 need k_scales and v_scales, and others must not have them"

    def attend(k, v, k_scales, v_scales, q, positions):
        return ops.attend(q, k, v, positions, k_scales=k_scales, v_scales=v_scales)

    assert text in error_of(Call(lambda k, v, s, t, q, p: ops.attend(q, k, v, p)), example, tmp_path)
    floats = (example[0].float(), example[1].float(), *example[2:])
    assert text in error_of(Call(attend), floats, tmp_path)
    wrong = (*example[:2], torch.zeros(2, 1, 16), *example[3:])
    assert "k_scales and v_scales must be [slots, heads, rows]" in error_of(Call(attend), wrong, tmp_path)


def test_errors_of_empty_arguments(tmp_path):
    packed = torch.zeros(1, 0, 288, dtype=torch.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgecore_llm.quantize.packed.linear", lambda x, packed, n: x.new_zeros(*x.shape[:-1], n))
        model = Call(lambda x, packed: ops.linear(x, packed, 16), packed)
        assert "the packed matrix is empty" in error_of(model, (torch.zeros(2, 0),), tmp_path)
    example = torch.zeros(1, 1, 8), torch.zeros(0, 1, 1, 8, 16), torch.zeros(0, 1, 16, 8), torch.tensor([0])
    assert "a slot is outside of the cache" in error_of(Call(ops.attend), example, tmp_path)


def test_a_ring_that_is_too_short_for_a_call_is_an_error(tmp_path):
    model = Caches(1, 32, 8, 8, 2, window=30)
    example = torch.randn(8, 32), torch.randn(64, 4), torch.arange(8), torch.zeros(8, dtype=torch.int64)
    inputs = (*example, torch.ones(8), torch.ones(8))
    later = (*inputs[:2], torch.arange(40, 48), *inputs[3:])
    assert "too few rows for the window and the tokens of one call" in error_of(model, inputs, tmp_path, later)
