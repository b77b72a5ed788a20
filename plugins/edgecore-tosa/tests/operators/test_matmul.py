"""Products of computed matrices, and attention, as TOSA graphs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from tosa_lowered import CONFIGS, Call, assert_near, graphs_of, quantized, random, run, run_float

from edgecore_tosa.schema import Op
from edgecore_tosa.spec import TosaSpec

LIMITS = {"int8": 1, "int16x8": 3}
"""The greatest difference from PyTorch in steps of the result; the sums of int16 are scaled by factors of 16 bits."""

ROWS, COLUMNS = random(2, 6, 16), random(2, 16, 10, seed=1)
IMAGES = random(2, 3, 6, 16), random(2, 3, 16, 6, seed=1)

PRODUCTS = {
    "matmul": (torch.matmul, IMAGES),
    "matmul of two dims": (torch.matmul, (ROWS[0], COLUMNS[0])),
    "matmul with one second matrix": (torch.matmul, (ROWS, COLUMNS[0])),
    "matmul with a constant": (lambda x: x @ COLUMNS, (ROWS,)),
    "bmm": (torch.bmm, (ROWS, COLUMNS)),
    "bmm of a transposed factor": (lambda y, x: torch.bmm(x, y.transpose(1, 2)), (random(2, 10, 16, seed=1), ROWS)),
    "mm": (torch.mm, (ROWS[0], COLUMNS[0])),
    "addmm": (torch.addmm, (random(10, seed=2), ROWS[0], COLUMNS[0])),
    "baddbmm": (lambda x, y, z: torch.baddbmm(z, x, y), (ROWS, COLUMNS, random(2, 6, 10, seed=2))),
    "scaled product": (lambda x, y: torch.matmul(x, y) / 4, IMAGES),
}

QUERY, KEY, VALUE = (random(1, 2, 8, 16, seed=seed) for seed in range(3))
SEEN = torch.ones(8, 8).tril() > 0
ADDED = torch.zeros(8, 8).masked_fill(~SEEN, -math.inf) + random(8, 8, seed=4)
MINIMUM = ADDED.clamp(min=torch.finfo().min)
attention = functional.scaled_dot_product_attention

ATTENTION = {
    "attention": attention,
    "attention with a scale": lambda q, k, v: attention(q, k, v, scale=0.3),
    "causal attention": lambda q, k, v: attention(q, k, v, is_causal=True),
    "attention with a boolean mask": lambda q, k, v: attention(q, k, v, attn_mask=SEEN),
    "attention with an added mask": lambda q, k, v: attention(q, k, v, attn_mask=ADDED),
    "attention with the lowest number": lambda q, k, v: attention(q, k, v, attn_mask=MINIMUM),
}
OWN = {
    "masked scores": lambda k, q, v: (
        torch.softmax((q @ k.transpose(-2, -1) * 0.25).masked_fill(~SEEN, -math.inf), -1) @ v
    ),
    "sum with a mask": lambda k, q, v: torch.softmax(q @ k.transpose(-2, -1) + ADDED, -1) @ v,
    "a mask made of constants": lambda q, k, v: attention(q, k, v, attn_mask=torch.full((8, 8), -math.inf).triu(1)),
    "a large negative number": lambda k, q, v: (
        torch.softmax((q @ k.transpose(-2, -1)).masked_fill(~SEEN, -1e9), -1) @ v
    ),
}
"""Attention that a model spells out."""


class Encoder(nn.Module):
    """A layer of a transformer's encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(32, 32) for _ in range(4))
        self.first, self.second = nn.LayerNorm(32), nn.LayerNorm(32)
        self.hidden = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x):
        normed = self.first(x)
        heads = [layer(normed).view(1, 10, 4, 8).transpose(1, 2) for layer in (self.query, self.key, self.value)]
        x = x + self.out(attention(*heads, is_causal=True).transpose(1, 2).reshape(1, 10, 32))
        return x + self.hidden(self.second(x))


def check(function, inputs, config: str, most: int | None = None):
    outcome = run(Call(function), inputs, config)
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    assert outcome.simulator.shape == outcome.torch.shape and np.unique(outcome.simulator).size > 20
    assert outcome.steps.max() <= (LIMITS[config] if most is None else most), outcome.steps.max()
    return outcome


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_has_the_integers_of_pytorch(name, config):
    check(*PRODUCTS[name], config)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_of_real_numbers_agrees_with_pytorch(name):
    function, inputs = PRODUCTS[name]
    assert_near(run_float(Call(function), inputs))


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", [*ATTENTION, *OWN])
def test_attention_has_the_integers_of_pytorch(name, config):
    """Attention adds the errors of two products and of the softmax between them, whose integers PyTorch rounds too."""
    check({**ATTENTION, **OWN}[name], (QUERY, KEY, VALUE), config, {"int8": 2, "int16x8": 12}[config])


@pytest.mark.parametrize("name", [*ATTENTION, "masked scores", "a large negative number"])
def test_attention_of_real_numbers_agrees_with_pytorch(name):
    assert_near(run_float(Call({**ATTENTION, **OWN}[name]), (QUERY, KEY, VALUE)))


@pytest.mark.parametrize("config", CONFIGS)
def test_hidden_elements_do_not_change_the_result(config):
    """A score that the mask hides may be far above those that it does not hide."""
    query, key = QUERY.clone(), KEY.clone()
    query[..., 0], key[..., -1, 0], key[..., :-1, 0] = 6.0, 12.0, -4.0
    check(ATTENTION["causal attention"], (query, key, VALUE), config, {"int8": 2, "int16x8": 12}[config])


def test_a_scale_after_a_product_is_no_operator():
    graph = check(*PRODUCTS["scaled product"], "int8").graph
    assert [operator.op for operator in graph.operators] == [Op.RESHAPE, Op.RESHAPE, Op.MATMUL, Op.RESCALE, Op.RESHAPE]


@pytest.mark.parametrize("config", CONFIGS)
def test_an_encoder_layer_is_one_graph(config):
    torch.manual_seed(0)
    outcome = run(Encoder(), (random(1, 10, 32),), config)
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    assert outcome.steps.mean() <= {"int8": 0.3, "int16x8": 4}[config], (outcome.steps.mean(), outcome.steps.max())


def test_a_mask_that_hides_a_row_is_refused():
    mask = torch.ones(8, 8, dtype=torch.bool)
    mask[3] = False
    call = Call(
        lambda q, k, v: torch.softmax((q @ k.transpose(-2, -1)).masked_fill(~mask, -math.inf), -1).nan_to_num() @ v
    )
    program = torch.export.export(call, (QUERY, KEY, VALUE))
    _, edge = graphs_of(program, TosaSpec.parse("TOSA-1.0+FP"))
    assert "its mask hides all elements of a row" in str(edge.report())


def test_a_sum_with_low_numbers_is_no_mask_unless_a_softmax_reads_it():
    call = Call(lambda x: x + torch.tensor([0.0, -2000.0]))
    sample = random(8, 2)
    result = quantized(call, (sample,), CONFIGS["int8"]()).module()(sample)
    torch.testing.assert_close(result, call(sample), atol=8.0, rtol=0)


def test_a_mask_before_another_operator_than_softmax_is_refused():
    call = Call(lambda x: torch.relu(x.masked_fill(SEEN, -math.inf)))
    _, edge = graphs_of(quantized(call, (random(8, 8),), CONFIGS["int8"]()))
    assert "a user that is not softmax" in str(edge.report())
