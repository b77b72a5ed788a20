"""Masks of attention: rows without a visible key have the values that PyTorch gives them, also in float16."""

from __future__ import annotations

import inspect

import pytest
import torch

import edgecore
from edgecore.format import read_pte
from edgecore_coreml_standin.interpreter import StandIn

functional = torch.nn.functional
QUERY, KEY, VALUE = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 8)
VISIBLE = torch.rand(5, 7, generator=torch.Generator().manual_seed(0)) > 0.4
VISIBLE[1] = False
LOWEST = torch.finfo(torch.float32).min
SYSTEMS = [None, "iOS18"]
"""The oldest systems, before which attention is decomposed by coremltools, and one that has it whole."""


class Attention(torch.nn.Module):
    """Attention with a mask that is constant, an argument, or computed from an argument."""

    def __init__(self, mask=None, compute=None, **options):
        super().__init__()
        self.register_buffer("mask", mask)
        self.compute, self.options = compute or (lambda mask: mask), options

    def forward(self, q, k, v, mask=None):
        mask = self.mask if mask is None else self.compute(mask)
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, **self.options)


def numbers(hidden):
    return torch.zeros(VISIBLE.shape).masked_fill(~VISIBLE, hidden)


PADDED = VISIBLE.float()
HALVES = tuple(x.half() for x in (QUERY, KEY, VALUE, numbers(-torch.inf)))
CASES = {
    "constant-booleans": (Attention(VISIBLE), ()),
    "constant-infinities": (Attention(numbers(-torch.inf)), ()),
    "constant-lowest": (Attention(numbers(LOWEST)), ()),
    "infinities": (Attention(), (numbers(-torch.inf),)),
    "lowest": (Attention(), (numbers(LOWEST),)),
    "computed-booleans": (Attention(compute=lambda keep: keep > 0.5), (PADDED,)),
    "computed-booleans-and-scale": (Attention(compute=lambda keep: keep > 0.5, scale=0.3), (PADDED,)),
    "computed-lowest": (Attention(compute=lambda keep: (keep - 1) * -LOWEST), (PADDED,)),
    "chosen-lowest": (Attention(compute=lambda keep: torch.where(keep > 0.5, 0.0, LOWEST)), (PADDED,)),
    "rows-of-padding": (Attention(), (numbers(-torch.inf)[None, None, :, :1].expand(2, 1, 5, 1).contiguous(),)),
}


def check(model, inputs, tolerance, **options):
    backend = edgecore.Backend("coreml", required=True, **options)
    program = edgecore.compile(model.eval(), inputs, backends=[backend])
    (blob,) = read_pte(bytes(program.buffer)).delegate_blobs
    standin, want = StandIn(bytes(blob), {}), model(*inputs)
    values = dict(zip(inspect.signature(model.forward).parameters, inputs, strict=False))
    result = standin(*(values[name] for name in standin.package.inputs))[0]
    torch.testing.assert_close(result.to(want.dtype), want, atol=tolerance, rtol=tolerance)
    return standin


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("precision", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("name", CASES)
def test_a_row_without_a_visible_key_gives_what_eager_gives(name, precision, system):
    model, masks = CASES[name]
    tolerance = 1e-5 if precision == "FLOAT32" else 1e-2
    options = {"compute_precision": precision, "minimum_deployment_target": system}
    check(model, (QUERY, KEY, VALUE, *masks), tolerance, **options)


def test_a_row_without_a_visible_key_in_float16():
    check(Attention(), HALVES, 1e-2)


def test_a_constant_mask_without_hidden_rows_adds_no_operators():
    causal = torch.ones(5, 7, dtype=torch.bool).tril()
    assert "select" not in check(Attention(causal), (QUERY, KEY, VALUE), 1e-5).kinds


@pytest.mark.parametrize(
    "options",
    [{"size": (6, 6)}, {"size": (2, 2)}, {"size": (8, 6)}, {"scale_factor": 1.5}, {"scale_factor": (2.0, 0.5)}],
    ids=str,
)
def test_nearest_upsampling_by_a_factor_that_is_not_whole_stays_outside(options):
    model = Resized(mode="nearest", **options).eval()
    report = str(edgecore.compile(model, (torch.randn(1, 3, 4, 4),), backends=["coreml"]).report())
    assert "operators delegated: 1 of 2" in report and "is not whole" in report


@pytest.mark.parametrize("options", [{"size": (8, 12)}, {"scale_factor": (2.0, 3.0)}], ids=str)
def test_nearest_upsampling_by_whole_factors_is_delegated(options):
    check(Resized(mode="nearest", **options), (torch.randn(1, 3, 4, 4),), 1e-6)


@pytest.mark.parametrize(("factor", "corners"), [(1.3, False), (0.7, True), (2.3, True)])
def test_bilinear_upsampling_to_a_size_that_core_ml_rounds_otherwise_stays_outside(factor, corners):
    model = Resized(mode="bilinear", scale_factor=factor, align_corners=corners).eval()
    program = edgecore.compile(model, (torch.randn(1, 3, 10, 8),), backends=["coreml"])
    assert "gives no whole size" in str(program.report())


@pytest.mark.parametrize("options", [{"size": (6, 5)}, {"size": (2, 3)}, {"scale_factor": 1.5}], ids=str)
@pytest.mark.parametrize("corners", [False, True])
def test_bilinear_upsampling_to_a_whole_size_is_delegated(options, corners):
    check(Resized(mode="bilinear", align_corners=corners, **options), (torch.randn(1, 3, 4, 4),), 1e-4)


class Resized(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, x):
        return functional.interpolate(x * 2, **self.options)
