"""Compare the kernel of scaled dot product attention with ATen's operator."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from native import KernelError, Library

INF = math.inf
attention = torch.ops.aten.scaled_dot_product_attention.default
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def inputs(
    batch: tuple[int, ...] = (2,), heads: tuple[int, int] = (6, 2), dtype: torch.dtype = torch.float32
) -> Tensors:
    """Return query, key and value: 5 tokens, 19 keys, 12 channels of keys and 9 of values."""
    return (
        normal(*batch, heads[0], 5, 12, dtype=dtype, seed=1),
        normal(*batch, heads[1], 19, 12, dtype=dtype, seed=2),
        normal(*batch, heads[1], 19, 9, dtype=dtype, seed=3),
    )


def run(
    library: Library, tensors: Tensors, mask: torch.Tensor | None = None, is_causal: bool = False, scale: float = 0.3
) -> torch.Tensor:
    query, _, value = tensors
    out = torch.full((*query.shape[:-1], value.shape[-1]), 7.0, dtype=query.dtype)
    library.call("edgecore::scaled_dot_product_attention.out", *tensors, mask, is_causal, scale, out)
    return out


def expected(
    tensors: Tensors, mask: torch.Tensor | None = None, is_causal: bool = False, scale: float = 0.3
) -> torch.Tensor:
    """Return ATen's result, computed in float64."""
    if mask is not None:
        mask = torch.atleast_2d(mask.double() if mask.is_floating_point() else mask)
    doubles = (each.double() for each in tensors)
    return attention(*doubles, mask, 0.0, is_causal, scale=scale, enable_gqa=True).to(tensors[0].dtype)


def visible(tokens: int, keys: int, first: int) -> torch.Tensor:
    """Return the mask of tokens at the positions from `first` on: True where a token sees a key."""
    return torch.arange(keys) <= torch.arange(first, first + tokens)[:, None]


MASKS: dict[str, Callable[[], torch.Tensor]] = {
    "numbers": lambda: normal(5, 19),
    "numbers for each head": lambda: normal(2, 6, 5, 19),
    "numbers for each batch": lambda: normal(2, 1, 1, 19),
    "one number for each token": lambda: normal(5, 1),
    "one number": lambda: normal(1),
    "no dims": lambda: torch.tensor(0.25),
    "positions": lambda: torch.zeros(5, 19).masked_fill(~visible(5, 19, 6), -INF),
    "booleans": lambda: visible(5, 19, 6),
    "booleans for each head": lambda: normal(6, 5, 19) > 0,
    "one boolean for each key": lambda: torch.arange(19) < 11,
    "a token that sees nothing": lambda: visible(5, 19, 6) & (torch.arange(5) != 2)[:, None],
    "tokens that see nothing": lambda: torch.full((5, 1), -INF),
    "nothing is seen": lambda: torch.zeros(1, dtype=torch.bool),
    "strided": lambda: normal(19, 5).T,
}


@pytest.mark.parametrize("name", MASKS)
def test_attention_with_a_mask_equals_aten(build: Library, name: str) -> None:
    mask = MASKS[name]()
    torch.testing.assert_close(run(build, inputs(), mask), expected(inputs(), mask))


@pytest.mark.parametrize("batch", [(), (2,), (2, 1, 3)], ids=str)
@pytest.mark.parametrize("heads", [(6, 6), (6, 3), (6, 1)], ids=str)
@pytest.mark.parametrize("is_causal", [False, True])
def test_batches_and_groups_of_heads_equal_aten(
    library: Library, batch: tuple[int, ...], heads: tuple[int, int], is_causal: bool
) -> None:
    tensors = inputs(batch, heads)
    torch.testing.assert_close(run(library, tensors, is_causal=is_causal), expected(tensors, is_causal=is_causal))


def test_attention_without_heads_equals_aten(library: Library) -> None:
    query, key, value = (each[0, 0] for each in inputs())
    want = torch.softmax(query @ key.T * 0.3, -1) @ value
    torch.testing.assert_close(run(library, (query, key, value)), want)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("has_mask", [False, True])
def test_other_dtypes_equal_aten(library: Library, dtype: torch.dtype, has_mask: bool) -> None:
    mask = normal(5, 19, dtype=dtype) if has_mask else None
    tensors = inputs(dtype=dtype)
    torch.testing.assert_close(run(library, tensors, mask), expected(tensors, mask))


@pytest.mark.parametrize("tokens", [1, 2, 33])
def test_a_long_cache_equals_aten(library: Library, tokens: int) -> None:
    """At 3,000 keys the sums run over several blocks."""
    tensors = normal(1, 8, tokens, 64), normal(1, 4, 4096, 64, seed=1), normal(1, 4, 4096, 64, seed=2)
    mask = visible(tokens, 4096, 3000)
    torch.testing.assert_close(run(library, tensors, mask), expected(tensors, mask), rtol=1e-4, atol=2e-5)


def test_keys_and_values_that_no_token_sees_are_not_read(library: Library) -> None:
    query, key, value = inputs()
    mask = visible(5, 19, 6)
    want = run(library, (query, key, value), mask)
    key[:, :, 11:], value[:, :, 11:] = math.nan, math.nan
    assert torch.equal(run(library, (query, key, value), mask), want)


def test_keys_in_another_memory_order_equal_aten(library: Library) -> None:
    query, key, value = inputs()
    strided = (
        query,
        key.transpose(1, 2).contiguous().transpose(1, 2),
        value.transpose(0, 1).contiguous().transpose(0, 1),
    )
    torch.testing.assert_close(run(library, strided), expected((query, key, value)))


@pytest.mark.parametrize("shape", [(0, 5, 19), (2, 0, 19), (2, 5, 0)], ids=["batch", "tokens", "keys"])
def test_empty_tensors_give_zeros(library: Library, shape: tuple[int, int, int]) -> None:
    batch, tokens, keys = shape
    tensors = torch.ones(batch, 2, tokens, 4), torch.ones(batch, 2, keys, 4), torch.ones(batch, 2, keys, 3)
    assert torch.equal(run(library, tensors), torch.zeros(batch, 2, tokens, 3))


def test_without_tokens_the_mask_is_not_read(library: Library) -> None:
    tensors = torch.ones(0, 3), torch.ones(0, 3), torch.ones(0, 4)
    mask = torch.ones(0, 3)
    assert torch.equal(run(library, tensors, mask), attention(*tensors, mask))


ONES = torch.ones(2, 4, 3, 8), torch.ones(2, 2, 5, 8), torch.ones(2, 2, 5, 6)


@pytest.mark.parametrize(
    ("tensors", "mask", "is_causal", "sentence"),
    [
        ((ONES[0], torch.ones(2, 3, 5, 8), torch.ones(2, 3, 5, 6)), None, False, "do not fit together"),
        ((ONES[0], torch.ones(2, 2, 5, 7), ONES[2]), None, False, "do not fit together"),
        ((ONES[0], ONES[1], torch.ones(2, 2, 4, 6)), None, False, "do not fit together"),
        ((ONES[0], ONES[1], torch.ones(2, 1, 5, 6)), None, False, "do not fit together"),
        ((ONES[0], torch.ones(1, 2, 5, 8), torch.ones(1, 2, 5, 6)), None, False, "do not fit together"),
        ((torch.ones(8), torch.ones(8), torch.ones(8)), None, False, "do not fit together"),
        ((ONES[0], ONES[1].double(), ONES[2]), None, False, "must have the same floating dtype"),
        (ONES, torch.ones(3, 4), False, "the mask [3, 4] does not broadcast to the scores [2, 4, 3, 5]"),
        (ONES, torch.ones(1, 2, 4, 3, 5), False, "does not broadcast to the scores"),
        (ONES, torch.ones(3, 5, dtype=torch.int32), False, "the mask must be bool or have the dtype of the query"),
        (ONES, torch.ones(3, 5), True, "a mask and is_causal exclude each other"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    library: Library, tensors: Tensors, mask: torch.Tensor | None, is_causal: bool, sentence: str
) -> None:
    out = torch.empty(2, 4, 3, 6)
    with pytest.raises(KernelError) as caught:
        library.call("edgecore::scaled_dot_product_attention.out", *tensors, mask, is_causal, 0.5, out)
    assert sentence in caught.value.text
