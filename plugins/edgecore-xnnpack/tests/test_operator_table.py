"""Every reason why a node is not taken, asked of the table of operators before anything is decomposed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from lowered import as_module, refusals
from torch import nn

from edgecore_xnnpack.operators import TABLE, recurrent

X, ROWS, Q = torch.randn(1, 4, 6, 8), torch.randn(2, 5, 8), torch.randn(2, 3, 5, 8)
attend = F.scaled_dot_product_attention
aten = torch.ops.aten

FILTER, BACKWARD, CONSTANT = torch.randn(3, 4, 3, 3), torch.randn(4, 3, 3, 3), torch.randn(8)


def convolve(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None = None, transposed: bool = False, extra: int = 0
) -> torch.Tensor:
    """With `extra` output padding, and a dilation that allows it."""
    return aten.convolution(x, w, b, [1, 1], [0, 0], [1 + extra] * 2, transposed, [extra] * 2, 1)


def reasons(function: Any, *inputs: torch.Tensor) -> list[str | None]:
    program = torch.export.export(as_module(function), inputs)
    program.graph.eliminate_dead_code()
    check = TABLE.unsupported_reasons(program, is_decomposed=False)
    return [check(node) for node in program.graph.nodes if node.op == "call_function"]


REFUSED: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "weight not constant": (convolve, (X, FILTER)),
    "bias not constant": (lambda x, b: convolve(x, FILTER, b), (X, torch.randn(3))),
    "output padding not below stride": (lambda x: convolve(x, BACKWARD, transposed=True, extra=1), (X,)),
    "transposed in three dimensions": (lambda x: aten.convolution(x, BACKWARD[:, :, None], None, [1] * 3, [0] * 3,
                                                                  [1] * 3, True, [0] * 3, 1), (X[:, :, None],)),
    "its result is smaller than its stride - 1, for which XNNPACK reads memory that it does not own": (
        lambda x: aten.convolution(x, BACKWARD, None, [1, 8], [0, 1], [1, 1], True, [0, 0], 1), (X[..., :1],)),
    "parameters not constant": (lambda x, w: aten.native_layer_norm(x, [8], w, None, 1e-5)[0], (ROWS, ROWS[0, 0])),
    "saved statistics are read": (lambda x: aten.native_layer_norm(x, [8], None, None, 1e-5)[1], (ROWS,)),
    "ranks 4, 3 and 3": (lambda q, k: attend(q, k, k), (Q, Q[0])),
    "batches [2, 3], [1, 3] and [1, 3]": (lambda q, k: attend(q, k, k), (Q, Q[:1])),
    "dropout": (lambda q: attend(q, q, q, dropout_p=0.5), (Q,)),
    "mask of dtype bool that is not constant": (lambda q, m: attend(q, q, q, m), (Q, torch.ones(5, 5) > 0)),
    "mask of rank 5": (lambda q, m: attend(q, q, q, m), (Q, torch.randn(1, 1, 1, 5, 5))),
    "alpha -1.0": (lambda x: F.elu(x, -1.0), (X,)),
    "input_scale": (lambda x: aten.elu(x, 1.0, 1.0, 2.0), (X,)),
    "lambd 0": (lambda x: F.softshrink(x, 0), (X,)),
    "kernel 1x1": (lambda x: F.avg_pool2d(x, 1, 2), (X,)),
    "stride above kernel": (lambda x: F.avg_pool2d(x, 2, 3), (X,)),
    "ceil_mode": (lambda x: F.avg_pool2d(x, 4, 3, ceil_mode=True), (X,)),
    "size 6 times scale 1.3 is no integer": (lambda x: F.interpolate(x, scale_factor=1.3, mode="bilinear"), (X,)),
    "step 2": (lambda x: torch.slice_scatter(x, x[:, :2], 1, 0, 4, 2), (X,)),
    "rank 0": (torch.exp, (torch.tensor(1.0),)),
    "rank 7": (torch.exp, (torch.ones([1] * 7),)),
    "empty tensor": (torch.exp, (torch.ones(0, 3),)),
    "dtype float64": (torch.exp, (X.double(),)),
    "reads a number that is computed outside the delegate": (lambda x: x + x[0, 0, 0, 0].item(), (X,)),
    "computes from constants only": (lambda x: x + CONSTANT.exp(), (X,)),
    "no lowering for aten.erf.default": (torch.erf, (X,)),
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
def test_a_node_outside_has_its_reason(reason: str) -> None:
    function, inputs = REFUSED[reason]
    assert reason in reasons(function, *inputs)


def test_strides_that_no_layout_has_are_a_reason() -> None:
    check_program = torch.export.export(as_module(lambda x: x.exp()), (X.permute(1, 0, 2, 3).transpose(2, 3),))
    check = TABLE.unsupported_reasons(check_program)
    found = [check(node) for node in check_program.graph.nodes if node.op == "call_function"]
    assert found == ["strides (192, 48, 1, 8)"] or (found[0] is not None and found[0].startswith("strides"))


@pytest.mark.parametrize(
    "module, inputs, reason",
    [
        (nn.PReLU(5), torch.randn(2, 5, 1, 1, 1), "rank 5"),
        (nn.GRU(3, 4), torch.randn(6, 1, 3), "6 steps"),
        (nn.LSTM(3, 4, proj_size=2), torch.randn(5, 1, 3), "projected states (proj_size)"),
    ],
)
def test_a_module_outside_has_its_reason(
    monkeypatch: pytest.MonkeyPatch, module: nn.Module, inputs: torch.Tensor, reason: str
) -> None:
    monkeypatch.setattr(recurrent, "MAX_STEPS", 5)  # a layer of more than 512 steps takes long to export
    assert any(reason == found for found in reasons(module, inputs))


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda x: x.sum().exp(), "rank 0"),
        (lambda x: x.reshape(1, 192).repeat(1, 6).cumsum(1), "a cumulative sum of 1152 elements"),
        (lambda x: x.reshape(1, -1).repeat(1, 400).amax(1), "a maximum of 76800 elements"),
        (lambda x: x[:, :1].var(1), "variance of 1 elements"),
        (lambda x: F.elu(x, -1.0), "alpha -1.0"),
        (lambda x: (-2.0) ** x, "base -2"),
        (lambda x: torch.where(x.long() > 0, x, x * 2), "dtype int64"),
        (lambda x: x.masked_fill(x.isnan(), 1.0), "booleans that are computed outside"),
        (lambda x: torch.slice_scatter(x, x[:, :2], 1, 0, 4, 2), "step 2"),
        (lambda x: torch.where(x > 0, torch.nan, x), "selects from a constant with NaN"),
        (lambda x: x.masked_fill(x > 0, torch.nan), "selects from a constant with NaN"),
        (lambda x: F.pad(x.exp(), (-8, 9)), "negative padding that removes all elements of a dimension"),
        (lambda x: x.reshape(1, 192).flip(1), "needs 192 slices"),
        (lambda x: x.reshape(1, 2, 2, 6, 4, 2)[..., ::2], "step 2 of rank 6"),
        (lambda x: x[:, torch.arange(2), torch.arange(2)], "2 index tensors"),
        (lambda x: x[0, 0].argsort(0).float(), "no lowering"),
        (lambda x: x.index_select(1, x[0, 0, 0, :2].abs().long()), "index not constant"),
        (lambda x: x[:, torch.tensor([[0, 1]])], "index of int64 and rank 2"),
        (lambda x: F.pixel_shuffle(x[0], 2), "rank 3"),
        (lambda x: F.group_norm(x[0, 0], 2), "rank 2"),
        (lambda x: F.avg_pool1d(x[0, 0], 2), "rank 3"),
        (lambda x: x.softmax(1, dtype=torch.float64), "dtype"),
        (lambda x: x.sum(1, dtype=torch.float64), "dtype"),
    ],
)
def test_reasons_of_decomposed_operators_stand_in_the_report(function: object, reason: str) -> None:
    assert reason in "; ".join(refusals(function, X).values())


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda x: F.adaptive_max_pool2d(x, 4), "6 not divisible by 4"),
        (lambda x: F.adaptive_max_pool2d(x[0], 2), "rank 3"),
        (lambda x: F.softplus(x, threshold=5), "threshold 5, below 15"),
        (lambda x: F.softplus(x, beta=-1), "beta -1"),
        (lambda x: F.celu(x, -0.5), "alpha -0.5"),
        (lambda x: F.rms_norm(x, (8,), x[0, 0, 0]), "weight not constant"),
        (lambda x: F.interpolate(x[:, 0].reshape(1, 1, 48)[..., :47], size=140), "needs 94 slices, more than 64"),
    ],
)
def test_reasons_to_decompose_an_operator_are_asked_of_the_table(
    function: Callable[..., torch.Tensor], reason: str
) -> None:
    program = torch.export.export(as_module(function), (X,))
    program.graph.eliminate_dead_code()
    check_node = TABLE.unsupported_reasons(program, is_decomposed=False)
    assert reason in [check_node(node) for node in program.graph.nodes if node.op == "call_function"]
