"""The partitioner: reasons of the rows, of the options and of the provider."""

from __future__ import annotations

import pytest
import torch
from qnn_models import Small, compile_model, image, run
from torch import nn

import edgecore
from edgecore.errors import FallbackWarning
from edgecore_qnn.provider import process as provider


class Sum(nn.Module):
    """Two sigmoids around a sum."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(torch.sigmoid(x) + 1.0)


class Asinh(nn.Module):
    """An operator that the table does not have, between two that it has."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.asinh(torch.relu(x)))


EXAMPLE = (torch.randn(2, 8),)


def test_a_model_is_one_delegate_with_and_without_quantization():
    for recipe in (None, "int8", "int16x8"):
        report = str(compile_model(Small(), image(), recipe).report())
        assert "1 x QnnBackend" in report and "not delegated" not in report


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"skip_node_op_set": "add"}, "left out by the option skip_node_op_set"),
        ({"skip_node_op_set": "aten.add.Tensor+aten.add.Scalar"}, "left out by the option skip_node_op_set"),
        ({"operators": "sigmoid"}, "left out by the option operators"),
    ],
)
def test_an_operator_that_an_option_leaves_out_has_this_reason(options: dict[str, str], reason: str):
    chosen = {name: tuple(text.split("+")) for name, text in options.items()}
    report = str(compile_model(Sum(), EXAMPLE, **chosen).report())
    assert "2 x QnnBackend" in report and reason in report


def test_a_node_that_an_option_names_is_left_out():
    report = str(compile_model(Sum(), EXAMPLE, skip_node_id_set=("sigmoid_1",)).report())
    assert "(sigmoid_1)" in report and "left out by the option skip_node_id_set" in report


def test_floats_stay_outside_without_fp16():
    report = str(compile_model(Sum(), EXAMPLE, use_fp16=False).report())
    assert "delegates: none" in report and "it computes in floating point, and use_fp16 is False" in report
    report = str(compile_model(Small(), image(), "int8", use_fp16=False).report())
    assert "1 x QnnBackend" in report and "not delegated" not in report


def test_symbolic_sizes_stay_outside_with_a_reason():
    shapes = {"x": {0: torch.export.Dim("rows", min=1, max=8)}}
    program = edgecore.compile(Sum().eval(), EXAMPLE, backends=["qnn"], dynamic_shapes=shapes)
    assert "symbolic sizes: a context binary has fixed sizes" in str(program.report())


def test_an_operator_without_a_row_splits_the_delegate():
    report = str(compile_model(Asinh(), EXAMPLE).report())
    assert "2 x QnnBackend" in report and "not among the backend's operators" in report


class Otherwise(nn.Module):
    """Operators that QNN computes otherwise than PyTorch: see the findings about QNN."""

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        larger = nn.functional.interpolate(x.relu(), size=(6, 6), mode="nearest-exact")
        return larger, x.topk(2).indices, x.argmax(1), ids + 1, torch.cat([ids, torch.tensor([2**33])])


def test_operators_that_qnn_computes_otherwise_stay_outside():
    model, example = Otherwise().eval(), (torch.randn(1, 2, 4, 4), torch.tensor([3_000_000_000]))
    program = edgecore.compile(model, example, backends=["qnn"])
    report = str(program.report())
    for name in ("aten.topk", "aten.argmax", "aten.add.Scalar", "aten.cat"):
        assert f"not delegated: {name}" in report
    assert "integers of more than 32 bits" in report
    for found, expected in zip(edgecore.load(bytes(program.buffer)).forward(*example), model(*example), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("soc", ["SA8295", "QCM6490"])
def test_floats_stay_outside_on_a_soc_that_computes_with_integers_only(soc):
    program = compile_model(Sum(), EXAMPLE, soc_model=soc)
    report = str(program.report())
    assert "delegates: none" in report and f"the NPU of {soc} with integers only: compile with quantize=" in report
    assert program.computes_in == "float32"
    report = str(compile_model(Small(), image(), "int8", soc_model=soc).report())
    assert "1 x QnnBackend" in report and "it computes in floating point" not in report


def test_conversions_stay_outside_with_the_operator_between_them():
    report = str(
        compile_model(Asinh(), EXAMPLE, "int8", operators=("quantize_per_tensor", "dequantize_per_tensor")).report()
    )
    assert "delegates: none" in report and "it converts integers, and no operator beside it is supported" in report


def test_a_weight_stays_outside_with_the_layer_that_reads_it():
    report = str(compile_model(Small(), image(), "int8", skip_node_op_set=("convolution",)).report())
    assert "it reads constants only, and an operator that reads it is not supported" in report
    assert "QnnBackend" in report and "FallbackWarning" not in report


@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "is_delegated"),
    [(33, 1, 2, False), (36, 2, 2, False), (3, 1, 2, False), (37, 1, 2, True), (36, 3, 2, True), (36, 1, 1, True)],
)
def test_a_depthwise_convolution_that_the_emulator_computes_wrongly_stays_outside(
    channels: int, kernel: int, stride: int, is_delegated: bool
):
    model = nn.Conv2d(channels, channels, kernel, stride=stride, groups=channels)
    x = torch.randn(4, channels, 6, 6)
    program = compile_model(model, (x,), "int8")
    report = str(program.report())
    assert ("delegates: none" not in report) is is_delegated
    assert ("a depthwise convolution of 8 bits with kernel 1x1 or 2x2" in report) is not is_delegated
    expected = program.quantized["forward"].program.module()(x)
    step = (expected.max() - expected.min()) / 255
    assert (run(program, x) - expected).abs().max() < 2.5 * step


def test_without_the_provider_the_rows_decide_and_compiling_says_what_to_install(monkeypatch):
    def missing(package: str) -> str:
        raise provider.PackageNotFoundError(package)

    monkeypatch.setattr(provider, "version", missing)
    with pytest.warns(FallbackWarning, match=r"onnxruntime is not installed.*pip install \"edgecore-qnn\[compile\]\""):
        program = compile_model(Sum(), EXAMPLE)
    assert "3 operators run elsewhere for that reason" in str(program.report())
