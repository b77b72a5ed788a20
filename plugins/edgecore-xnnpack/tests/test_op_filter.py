"""Options that choose operators: `configs` and `config_precisions`."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from layers_and_floats import X, compiled, outside, same
from torch import nn

import edgecore
from edgecore.errors import CompileError

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
def test_precisions_choose_the_operators_that_are_delegated(
    recipe: str | None, precisions: Any, left: set[str]
) -> None:
    program = compiled(recipe, config_precisions=precisions)
    reasons = outside(program)
    assert left <= reasons.keys() and (left or not reasons)
    assert all("is not among config_precisions" in reasons[name] for name in left & FLOATS)
    same(program, compiled(recipe), 0.02 if recipe else 1e-4)


def test_static_quantization_alone_leaves_float_operators_outside() -> None:
    reasons = outside(compiled("int8", config_precisions="STATIC_QUANT"))
    assert "exp" in reasons and "linear" not in reasons and "relu" not in reasons


@pytest.mark.parametrize("options", [{"config_precisions": "FP32"}, {"configs": "-linear"}])
def test_quantization_at_run_time_stays_with_its_layer(options: dict[str, Any]) -> None:
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
    reasons = {name: reason for name, reason in outside(program).items() if reason == "excluded by the option configs"}
    assert reasons.keys() == left
    same(program, compiled(), 1e-5)


@pytest.mark.parametrize("configs, effect", [("gelu+tanh", "lets XNNPACK run nothing"), ("-gelu", "excludes nothing")])
def test_names_of_operators_that_the_model_does_not_call_are_warned_about(configs: str, effect: str) -> None:
    with pytest.warns(UserWarning, match=rf"configs {effect}: the model calls no gelu( or tanh)? after lowering"):
        compiled(configs=configs)


class Branches(nn.Module):
    """Operators in the method, and others in its branches."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.exp() * 2, lambda x: -x, (x,)) + 1


@pytest.mark.parametrize("configs, warned", [("add", 0), ("exp", 0), ("gelu", 1), ("-gelu", 1)])
def test_options_without_effect_are_warned_about_once_for_the_whole_program(configs: str, warned: int) -> None:
    backend = edgecore.Backend("xnnpack", configs=configs)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        edgecore.compile(Branches().eval(), (X,), backends=[backend])
    assert sum("the option configs" in str(one.message) for one in seen) == warned


def test_an_operator_that_is_left_out_does_not_come_back_in_parts() -> None:
    backend = edgecore.Backend("xnnpack", configs="-gelu")
    report = edgecore.compile(nn.GELU().eval(), (X,), backends=[backend]).report()
    assert not report.delegates and "excluded by the option configs" in str(report)


def test_each_part_of_a_layer_that_stays_outside_has_the_reason() -> None:
    pytest.importorskip("torchao")
    model, x = nn.Sequential(nn.Linear(64, 32)).eval(), torch.randn(2, 5, 64)
    backend = edgecore.Backend("xnnpack", configs="-linear")
    program = edgecore.compile(model, (x,), backends=[backend], quantize="int8-weights", runtime="edgecore")
    rows = {row.operator: row.reasons for row in program.report().left_outside}
    assert "edgecore.mixed_linear.default" in rows and all(rows.values()), rows
