"""Scaled dot product attention: one delegate, whatever the mask and the heads."""

from __future__ import annotations

import math

import pytest
import torch
from lowered import check, compiled, refusals
from torch.nn.functional import scaled_dot_product_attention as attend

B, H, L, S, E = 2, 4, 5, 7, 8


def tensors(heads: int = H, length: int = L) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randn(B, H, length, E), torch.randn(B, heads, S, E), torch.randn(B, heads, S, 6)


BLIND = torch.randn(L, S) > 0
BLIND[2] = False

ATTENTIONS = {
    "plain": attend,
    "scale": lambda q, k, v: attend(q, k, v, scale=0.7),
    "causal": lambda q, k, v: attend(q, k, v, is_causal=True),
    "constant mask of numbers": lambda q, k, v: attend(q, k, v, torch.linspace(-3, 3, L * S).reshape(L, S)),
    "constant mask, blind row": lambda q, k, v: attend(q, k, v, BLIND),
    "mask that is computed from constants": lambda q, k, v: attend(
        q, k, v, (torch.arange(S) >= 2).reshape(1, 1, 1, S).expand(B, 1, L, S)
    ),
    "mask that hides nothing": lambda q, k, v: attend(q, k, v, torch.ones(L, S, dtype=torch.bool)),
    "three dims": lambda q, k, v: attend(q[0], k[0], v[0]),
    "transposed": lambda q, k, v: attend(q.transpose(1, 2).clone().transpose(1, 2), k, v).transpose(1, 2),
}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_is_one_delegate_whatever_its_mask_and_heads(name: str) -> None:
    check(ATTENTIONS[name], *tensors())


def test_query_heads_may_share_keys() -> None:
    mask = torch.ones(L, S, dtype=torch.bool).tril()
    check(lambda q, k, v: attend(q, k, v, mask, enable_gqa=True), *tensors(heads=2))
    check(lambda q, k, v: attend(q, k, v, enable_gqa=True), *tensors(heads=1))


def test_a_mask_may_be_computed_at_run_time() -> None:
    """The lowest finite number hides a place among others; a row of nothing but -inf gives zeros."""
    mask = torch.randn(B, 1, L, S)
    mask[0, 0, 1, 3:] = -math.inf
    mask[0, 0, 2] = -math.inf
    mask[1, 0, 3, :4] = torch.finfo(torch.float32).min
    mask[1, 0, 4] = torch.finfo(torch.float32).min
    kinds = check(attend, *tensors(), mask)
    assert kinds["BatchMatrixMultiply"] == 2 and kinds["Softmax"] == 1


def test_a_mask_that_hides_nothing_costs_nothing() -> None:
    q, k, v = tensors()
    mask = torch.ones(L, S, dtype=torch.bool)
    with_mask = compiled(lambda q, k, v: attend(q, k, v, mask), q, k, v)
    assert with_mask.pte.delegate_blobs == compiled(attend, q, k, v).pte.delegate_blobs


def test_attention_outside_is_reported_with_its_reason() -> None:
    q, k, v = tensors()
    flags = torch.ones(L, S, dtype=torch.bool)
    known = ("bool", "no lowering", "booleans that are", "its booleans are", "a comparison with -inf")
    for reason in refusals(attend, q, k, v, flags).values():
        assert any(part in reason for part in known), reason


def test_attention_written_out_equals_eager() -> None:
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (q @ k.transpose(1, 2) / 2.0).softmax(-1) @ v

    check(attention, *(torch.randn(2, 5, 4) for _ in range(3)))
