"""Constants that quantization makes are named after their parameter, so that `external_data` stores them with it."""

import pytest
import torch
from torch import nn

from edgecore.ir.program.constants import parameter_of
from edgecore.passes.library.rewrite_torchao import rewrite_torchao
from edgecore.quantize import make_plan, quantize_model
from edgecore.quantize.kernels import NAME

PARAMETERS = {"0.weight", "0.bias", "2.weight", "2.bias"}
INPUTS = (torch.randn(4, 64),)


def layers() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32)).eval()


def test_integers_and_scales_of_pt2e():
    plan = make_plan({NAME: "int8"}, {}, with_kernels=True)
    program = quantize_model(torch.export.export(layers(), INPUTS), plan, [INPUTS]).program
    names = set(program.state_dict)
    assert {parameter_of(name) for name in names} <= PARAMETERS
    assert {"0.weight:int8", "0.weight:scale", "2.weight:int8", "2.weight:scale"} <= names


def test_integers_and_scales_of_torchao():
    quantization = pytest.importorskip("torchao.quantization")
    model = layers()
    quantization.quantize_(model, quantization.Int8DynamicActivationIntxWeightConfig(torch.int4))
    program = rewrite_torchao(torch.export.export(model, INPUTS))
    made = [name for name in program.state_dict if name not in PARAMETERS]
    assert made and {parameter_of(name) for name in made} <= {"0.weight", "2.weight"}
