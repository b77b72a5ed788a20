"""Norms of every order that torch accepts, and operators that torch decomposes outside its core decompositions."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from edge_programs import Function

import edgecore
from edgecore.errors import CompileError


def assert_equals_eager(function, x):
    method = edgecore.load(edgecore.compile(Function(function).eval(), (x,), backends=[]).buffer).forward
    for value in (x, torch.zeros_like(x)):
        torch.testing.assert_close(torch.from_dlpack(method(value)), function(value), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("order", [0, 1, 2, 3, 0.5, -1, math.inf, -math.inf])
def test_norms_of_vectors_equal_eager(order, dtype):
    def function(x):
        over = torch.linalg.vector_norm(x, order, (0, 2), keepdim=True)
        return (
            F.normalize(x, p=order, dim=1) * torch.norm(x, order)
            + torch.linalg.norm(x, order, dim=-1, keepdim=True)
            + over
        )

    assert_equals_eager(function, torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)).to(dtype))


@pytest.mark.parametrize("order", ["fro", 1, -1, math.inf, -math.inf])
def test_norms_of_matrices_equal_eager(order):
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    assert_equals_eager(lambda x: torch.linalg.matrix_norm(x, order, dim=(0, 1), keepdim=True), x)
    assert_equals_eager(lambda x: torch.linalg.norm(x, order, dim=(1, 2)), x)


@pytest.mark.parametrize("order", [0, 1, 2, 3, -1, math.inf])
def test_norms_of_complex_numbers_equal_eager(order):
    def function(x):
        z = torch.view_as_complex(x)
        over = torch.linalg.vector_norm(z, order, (0, 2), keepdim=True)
        return torch.view_as_real(F.normalize(z, p=order, dim=1) * torch.norm(z, order) + over)

    assert_equals_eager(function, torch.randn(2, 3, 4, 2, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_squares_of_short_floats_neither_overflow_nor_vanish(dtype):
    x = torch.tensor([[300.0, 400.0], [1e-4, 2e-4]]).to(dtype)
    assert_equals_eager(lambda x: torch.linalg.vector_norm(x, 2, 1), x)
    assert_equals_eager(lambda x: F.normalize(x, dim=1), x)


OTHERS = {
    "dtype": lambda x: torch.linalg.vector_norm(x, 1, dim=1, dtype=torch.float64),
    "euclidean norm in another dtype": lambda x: torch.norm(x, 2, dim=1, dtype=torch.float64),
    "dtype of short floats": lambda x: torch.linalg.vector_norm(x.half(), 2, dim=1, dtype=torch.float32),
    "dtype of complex numbers": lambda x: torch.linalg.vector_norm(torch.complex(x, -x), 2, dtype=torch.complex128),
    "no dims": lambda x: torch.linalg.vector_norm(x[0, 0, 0], 1),
    "distance": lambda x: F.pairwise_distance(x, x + 0.5, p=1),
    "dist": lambda x: torch.dist(x, x * 2, 1),
    "renorm": lambda x: torch.renorm(x, 1, 0, 1.0),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_made_of_norms_equals_eager(name):
    assert_equals_eager(OTHERS[name], torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)))


def test_conversions_in_decompositions_have_kernels():
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)).half()
    assert_equals_eager(lambda x: torch.renorm(x, 1, 0, 1.0), x)


@pytest.mark.parametrize("order", [2, -2, "nuc"])
def test_norms_of_singular_values_say_what_to_do(order):
    with pytest.raises(CompileError, match="no runtime has singular values, .* use the norm 'fro'"):
        edgecore.compile(Function(lambda x: torch.linalg.matrix_norm(x, order)).eval(), (torch.randn(3, 4),))
