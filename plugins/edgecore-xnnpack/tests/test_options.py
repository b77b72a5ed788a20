"""Options of `Backend("xnnpack", ...)`: one delegate for each operator, messages, wrong values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from layers_and_floats import compiled, same

import edgecore
from edgecore.errors import CompileError
from edgecore.pipeline import to_edge_transform_and_lower
from edgecore_xnnpack.options import XnnpackOptions
from edgecore_xnnpack.partitioner import XnnpackPartitioner


@pytest.mark.parametrize("recipe, delegates", [(None, 8), ("int8", 9), ("int8-dynamic", 8), ("int4-weights", 8)])
def test_the_option_per_op_mode_makes_a_delegate_for_each_operator(recipe: str | None, delegates: int) -> None:
    program = compiled(recipe, per_op_mode=True)
    assert program.report().left_outside == []
    assert program.report().delegates == {"XnnpackBackend": delegates}
    same(program, compiled(recipe), 1e-4 if recipe is None else 0.05)


def test_the_option_verbose_prints_the_operators_outside(capsys: pytest.CaptureFixture[str]) -> None:
    compiled(configs="-exp", verbose=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("xnnpack does not delegate aten.exp.default (node exp, ")]
    assert "excluded by the option configs" in "".join(lines) and not any("aten.linear" in line for line in lines)
    compiled(configs="-exp")
    assert "xnnpack does not delegate" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, message",
    [
        ({"config_precisions": "FP32+INT3"}, "config_precisions.1: Input should be 'FP32', 'FP16', 'STATIC_QUANT' or"),
        ({"config_precisions": []}, "config_precisions: Tuple should have at least 1 item"),
        ({"configs": "linea"}, "configs: .*no operator 'linea': there are .*linear"),
        ({"configs": "linear+-exp"}, "put a minus before all names or before none"),
        ({"per_op_mode": "maybe"}, "per_op_mode: Input should be a valid boolean"),
        (
            {"threads": 2},
            "no option 'threads' .it has: force_fp16, config_precisions, configs, per_op_mode, force_non_static_weights_for_f32_linear",
        ),
    ],
)
def test_wrong_values_of_options_are_refused_in_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError, match=f"options of backend 'xnnpack': .*{message}"):
        compiled(**options)


class Shared(torch.nn.Module):
    """Layers that read the same tensor, and a layer after them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.left, self.right, self.last = (torch.nn.Linear(32, 32) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.left(x) - self.right(x))


def test_per_op_mode_gives_layers_that_share_a_rounded_input_a_delegate_each() -> None:
    model, x = Shared().eval(), torch.randn(4, 32)
    one, several = (
        edgecore.compile(model, (x,), backends=[edgecore.Backend("xnnpack", per_op_mode=flag)], quantize="int8-dynamic")
        for flag in (False, True)
    )
    assert (one.report().delegates, several.report().delegates) == ({"XnnpackBackend": 1}, {"XnnpackBackend": 4})
    got, want = (edgecore.load(program.buffer).forward(x) for program in (several, one))
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("has_bias", [True, False])
def test_weights_of_float_layers_can_stay_in_the_program(has_bias: bool) -> None:
    model = torch.nn.Sequential(torch.nn.Conv1d(4, 6, 1), torch.nn.Linear(8, 5, bias=has_bias)).eval()
    x, name = torch.randn(1, 4, 8), "force_non_static_weights_for_f32_linear"
    edge = to_edge_transform_and_lower(
        torch.export.export(model, (x,)), partitioner=[XnnpackPartitioner(XnnpackOptions(**{name: True}))]
    )
    inside = [spec.target for spec in edge.exported_program().graph_signature.input_specs if spec.target]
    assert inside == ["1.weight", "1.bias"][: 1 + has_bias]  # the weights of the convolution are in the blob
    got = edgecore.load(edge.to_executorch().buffer).forward(x)
    torch.testing.assert_close(got, model(x))
    program = edgecore.compile(model, (x,), backends=[edgecore.Backend("xnnpack", **{name: True})])
    torch.testing.assert_close(edgecore.load(program.buffer).forward(x), model(x))


def test_weights_of_rounded_layers_go_to_the_delegate_in_any_case() -> None:
    program = compiled("int8-dynamic", force_non_static_weights_for_f32_linear=True)
    assert program.report().left_outside == []
    same(program, compiled("int8-dynamic"), 1e-4)
