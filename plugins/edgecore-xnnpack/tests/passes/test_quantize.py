"""Linear layers quantized by torchao's `quantize_`: which the delegate takes, in which form, and why not the others."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("torchao")

from lowered import check, compiled, refusals
from torch import nn
from torchao.quantization import (
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    MappingType,
    quantize_,
)
from torchao.quantization.granularity import PerAxis, PerGroup

import edgecore
from edgecore_xnnpack.blob.format import read_graph
from edgecore_xnnpack.schema import graph as g

ROWS = PerAxis(0)


def dynamic(dtype: torch.dtype, granularity: Any, **options: Any) -> Any:
    return Int8DynamicActivationIntxWeightConfig(weight_dtype=dtype, weight_granularity=granularity, **options)


def weight_only(dtype: torch.dtype, granularity: Any) -> Any:
    return IntxWeightOnlyConfig(weight_dtype=dtype, granularity=granularity)


def quantized(module: nn.Module, config: Any) -> nn.Module:
    quantize_(module.eval(), config)
    return module


def weight_types(program: Any) -> set[str]:
    """Of the constants with scales, biases apart."""
    values = [v.value for v in read_graph(program.pte.delegate_blobs[0]).values]
    held = [v.tensor_value for v in values if isinstance(v, g.QuantizedTensorValue)]
    return {g.Datatype(t.datatype).name for t in held if t is not None and t.constant_buffer_idx}


@pytest.mark.parametrize(
    ("config", "kind", "tolerance"),
    [
        # The format has the scales of groups in bfloat16.
        (dynamic(torch.int4, PerGroup(32)), "QBINT4", 4e-3),
        (dynamic(torch.int2, PerGroup(32)), "QBINT4", 4e-3),
        (dynamic(torch.int4, PerGroup(32), weight_scale_dtype=torch.bfloat16), "QBINT4", 1e-6),
        (dynamic(torch.int4, ROWS), "QCINT4", 1e-6),
        (dynamic(torch.int8, ROWS), "QCINT8", 1e-6),
        (weight_only(torch.int4, ROWS), "QCINT4", 1e-6),
        (weight_only(torch.int8, ROWS), "QCINT8", 1e-6),
    ],
)
def test_both_runtimes_compute_what_eager_does(config: Any, kind: str, tolerance: float) -> None:
    module = quantized(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 7, bias=False)), config)
    x = torch.randn(2, 5, 64)
    assert weight_types(compiled(module, x)) == {kind}
    # Values near the middle of two numbers of 8 bits may be rounded differently between the layers.
    check(module, x, tolerance=1e-2)
    check(module[0], x, tolerance=tolerance)


def test_integers_stay_integers_in_the_file() -> None:
    x = torch.randn(1, 256)
    whole = 256 * 256
    for config, size in ((dynamic(torch.int4, PerGroup(32)), whole // 2 + whole // 32 * 2),
                         (weight_only(torch.int8, ROWS), whole), (weight_only(torch.int4, ROWS), whole // 2)):  # fmt: skip
        program = compiled(quantized(nn.Sequential(nn.Linear(256, 256)), config), x)
        assert len(program.buffer) < size + 256 * 8 + 3500  # names, sizes and hashes are 3.2 kB


@pytest.mark.parametrize("config", [dynamic(torch.int4, ROWS), weight_only(torch.int4, ROWS)])
def test_rows_of_4_bits_and_an_odd_length_are_stored_in_8_bits(config: Any) -> None:
    """executorch's own runtime reads such rows of 4 bits without their filling."""
    module, x = quantized(nn.Sequential(nn.Linear(15, 6)), config), torch.randn(4, 15)
    assert weight_types(compiled(module, x)) == {"QCINT8"}
    check(module, x, tolerance=1e-6)


@pytest.mark.parametrize(
    "config", [dynamic(torch.int4, ROWS), dynamic(torch.int8, PerGroup(64)), weight_only(torch.int8, ROWS)]
)
def test_a_layer_with_one_output_equals_eager(config: Any) -> None:
    check(quantized(nn.Sequential(nn.Linear(64, 1)), config), torch.randn(4, 64), tolerance=1e-6)


def test_layers_that_read_one_value_share_its_quantization() -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(64, 64) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.q(x) * self.k(x) + self.v(x)

    kinds = check(quantized(Heads(), dynamic(torch.int4, PerGroup(32))), torch.randn(4, 64), tolerance=1e-2)
    assert kinds["Convert"] == 1 and kinds["FullyConnected"] == 3


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (dynamic(torch.int8, PerGroup(32)), "weights of 8 bits in groups; XNNPACK supports groups with 4 bits only"),
        (weight_only(torch.int4, PerGroup(32)), "weights of 4 bits in groups, but the input is not quantized"),
        (weight_only(torch.int8, PerGroup(32)), "weights of 8 bits in groups, but the input is not quantized"),
        (dynamic(torch.int4, PerGroup(32), weight_mapping_type=MappingType.ASYMMETRIC), "a weight with zero points"),
    ],
)
def test_other_quantized_layers_run_outside_and_the_report_says_why(config: Any, reason: str) -> None:
    module, x = quantized(nn.Sequential(nn.Linear(64, 6), nn.ReLU()), config), torch.randn(4, 64)
    assert any(reason in text for text in refusals(module, x).values())
    program = edgecore.compile(module, (x,), backends=["xnnpack"])
    assert any(reason in line for line in program.report().outside_lines())
    want = module(x)
    got = edgecore.load(program.buffer).forward(x)
    assert (got - want).detach().abs().max() <= 1e-6 * want.detach().abs().max()


class Twice(nn.Module):
    """One layer on both sides of an operator that no delegate takes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.erf(self.layer(x)))


@pytest.mark.parametrize("config", [dynamic(torch.int4, PerGroup(32)), weight_only(torch.int8, ROWS)])
def test_a_weight_may_be_read_by_two_delegates(config: Any) -> None:
    module, x = quantized(Twice(), config), torch.randn(4, 64)
    program = edgecore.compile(module, (x,), backends=["xnnpack"])
    assert program.report().delegates == {"XnnpackBackend": 2}
    assert [row.operator for row in program.report().left_outside] == ["aten.erf.default"]
    want = module(x)
    assert (edgecore.load(program.buffer).forward(x) - want).abs().max() <= 1e-2 * want.abs().max()


@pytest.mark.parametrize("config", [Int8WeightOnlyConfig(), Int8DynamicActivationInt8WeightConfig()])
def test_matmuls_of_integers_are_delegated(config: Any) -> None:
    """Rounding with one scale for both signs is not XNNPACK's, so it stays outside."""
    module, x = quantized(nn.Sequential(nn.Linear(64, 32)), config), torch.randn(4, 64)
    program = edgecore.compile(module, (x,), backends=["xnnpack"])
    assert any(row.operator == "aten.linear.default" and row.where == "XnnpackBackend" for row in program.report().rows)
    want = module(x)
    assert (edgecore.load(program.buffer).forward(x) - want).abs().max() <= 1e-2 * want.abs().max()
