"""Options of `Backend("xnnpack", ...)`: which operators go to the delegate, and how many delegates there are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import edgecore
from edgecore.errors import CompileError


class Net(nn.Module):
    """Linear layers around operators that no recipe rounds."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> Any:
        first, second = torch.exp(-self.down(torch.relu(self.up(x)))).split([20, 12], 1)
        return first + 1, second * 2


X = torch.randn(4, 32, generator=torch.Generator().manual_seed(0))


def compiled(recipe: str | None = None, **options: Any) -> Any:
    return edgecore.compile(
        Net().eval(), (X,), backends=[edgecore.Backend("xnnpack", **options)], quantize=recipe,
        calibration=[X] if recipe == "int8" else None,
    )  # fmt: skip


def outside(program: Any) -> dict[str, str]:
    return {
        row.operator.split(".")[1]: "; ".join(reason for _, reason in row.reasons)
        for row in program.report().left_outside
    }


def same(program: Any, other: Any, tolerance: float) -> None:
    got, want = (edgecore.load(one.buffer).forward(X) for one in (program, other))
    for one, two in zip(got, want, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=tolerance)


FLOATS = {"exp", "neg", "split_with_sizes_copy", "add", "mul"}


@pytest.mark.parametrize(
    "recipe, precisions, left",
    [
        (None, ["FP32"], set()),
        (None, "FP16+DYNAMIC_QUANT", FLOATS | {"linear", "relu"}),
        ("fp16", "FP16", set()),
        ("fp16", "FP32", FLOATS | {"linear", "relu"}),
        ("int8-dynamic", "DYNAMIC_QUANT", FLOATS | {"relu"}),
        ("int8", "FP32+DYNAMIC_QUANT", {"relu", "neg", "quantize_per_tensor", "dequantize_per_tensor"}),
    ],
)
def test_precisions_choose_what_is_taken(recipe: str | None, precisions: Any, left: set[str]) -> None:
    program = compiled(recipe, config_precisions=precisions)
    reasons = outside(program)
    assert left <= reasons.keys() and (left or not reasons)
    assert all("is not among config_precisions" in reasons[name] for name in left & FLOATS)
    same(program, compiled(recipe), 0.02 if recipe else 1e-4)


def test_static_quantization_alone_leaves_what_no_integer_touches() -> None:
    reasons = outside(compiled("int8", config_precisions="STATIC_QUANT"))
    assert "exp" in reasons and "linear" not in reasons and "relu" not in reasons


@pytest.mark.parametrize("options", [{"config_precisions": "FP32"}, {"configs": "-linear"}])
def test_what_rounds_at_run_time_stays_with_its_layer(options: dict[str, Any]) -> None:
    with pytest.raises(CompileError, match="no kernel in target runtime executorch-1.5: .*choose_qparams"):
        compiled("int8-dynamic", **options)


@pytest.mark.parametrize(
    "configs, left",
    [
        ("linear+relu", FLOATS),
        (["aten.exp.default", "neg", "linear"], {"relu", "split_with_sizes_copy", "add", "mul"}),
        ("-aten.exp.default+-add", {"exp", "add"}),
        (["-add"], {"add"}),
    ],
)
def test_configs_name_operators(configs: Any, left: set[str]) -> None:
    program = compiled(configs=configs)
    reasons = {name: reason for name, reason in outside(program).items() if reason == "configs leaves it out"}
    assert reasons.keys() == left
    same(program, compiled(), 1e-5)


def test_an_operator_that_is_left_out_does_not_come_back_in_parts() -> None:
    backend = edgecore.Backend("xnnpack", configs="-gelu")
    report = edgecore.compile(nn.GELU().eval(), (X,), backends=[backend]).report()
    assert not report.delegates and "configs leaves it out" in str(report)


@pytest.mark.parametrize("recipe, delegates", [(None, 8), ("int8", 9), ("int8-dynamic", 8), ("int4-weights", 8)])
def test_a_delegate_for_each_operator(recipe: str | None, delegates: int) -> None:
    program = compiled(recipe, per_op_mode=True)
    assert program.report().left_outside == []
    assert program.report().delegates == {"XnnpackBackend": delegates}
    same(program, compiled(recipe), 1e-4 if recipe is None else 0.05)


def test_verbose_says_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    compiled(configs="-exp", verbose=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("xnnpack leaves aten.exp.default (node exp, ")]
    assert "configs leaves it out" in "".join(lines) and not any("aten.linear" in line for line in lines)
    compiled(configs="-exp")
    assert "xnnpack leaves" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, message",
    [
        ({"config_precisions": "FP32+INT3"}, "config_precisions.1: Input should be 'FP32', 'FP16', 'STATIC_QUANT' or"),
        ({"config_precisions": []}, "config_precisions: Tuple should have at least 1 item"),
        ({"configs": "linea"}, "configs: .*no operator 'linea': there are .*linear"),
        ({"configs": "linear+-exp"}, "names either all with a minus or all without"),
        ({"per_op_mode": "maybe"}, "per_op_mode: Input should be a valid boolean"),
        ({"threads": 2}, "no option 'threads' .it has: force_fp16, config_precisions, configs, per_op_mode, verbose"),
    ],
)
def test_wrong_values(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError, match=f"options of backend 'xnnpack': .*{message}"):
        compiled(**options)
