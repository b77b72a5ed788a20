"""Tensors that are not dense are refused in a sentence about the model."""

from __future__ import annotations

import pytest
import torch
from edge_programs import Function
from torch import nn

import edgecore
from edgecore.errors import CompileError

EYE = torch.eye(4)
SPARSE = {
    "coo": EYE.to_sparse(),
    "csr": EYE.to_sparse_csr(),
    "csc": EYE.to_sparse_csc(),
    "bsr": EYE.to_sparse_bsr((2, 2)),
}


class Product(nn.Module):
    def __init__(self, matrix, kind):
        super().__init__()
        if kind == "parameter":
            self.matrix = nn.Parameter(matrix, requires_grad=False)
        else:
            self.register_buffer("matrix", matrix)

    def forward(self, x):
        return self.matrix @ x


@pytest.mark.parametrize("layout", SPARSE)
def test_a_sparse_input_is_named(layout):
    with pytest.raises(CompileError, match=rf"the input x has the layout torch.sparse_{layout}; edgecore has dense"):
        edgecore.compile(Function(lambda x: x.to_dense() * 2).eval(), (SPARSE[layout],))


@pytest.mark.parametrize("kind", ["parameter", "buffer"])
@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_a_sparse_weight_is_named(layout, kind):
    with pytest.raises(CompileError, match=r"the weight matrix has the layout torch.sparse_\w+; .* to_dense\(\)"):
        edgecore.compile(Product(SPARSE[layout], kind).eval(), (torch.ones(4, 3),))


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_a_sparse_result_in_the_model_is_named(quantize):
    model, x = Function(lambda x: x.to_sparse() @ x), torch.ones(4, 4)
    calibration = [(x,)] if quantize else None
    with pytest.raises(CompileError, match=r"the result of aten\.\w*to_sparse\S* .* compute with dense tensors"):
        edgecore.compile(model.eval(), (x,), backends=["xnnpack"], quantize=quantize, calibration=calibration)
