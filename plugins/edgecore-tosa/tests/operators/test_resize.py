"""Resizing, transposed convolutions, and convolutions of one and three dims as TOSA graphs, for NPUs with and without these operators."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from tosa_lowered import CONFIGS, Call, Several, graphs_of, inputs_of, quantized, random, run_all, run_real

from edgecore_tosa.operators.resize import axis_of
from edgecore_tosa.schema import Op
from edgecore_tosa.spec import TosaSpec

SPECS = {name: TosaSpec.parse(f"TOSA-1.0+INT+int16+int4{name}") for name in ("", "+u55")}
IMAGE = random(2, 5, 6, 7)
specs = pytest.mark.parametrize("spec", SPECS.values(), ids=str)

WHOLE = {
    "nearest": {"scale_factor": 2},
    "nearest by 3": {"scale_factor": 3},
    "nearest by 2 and 3": {"scale_factor": (2, 3)},
    "nearest exact": {"scale_factor": 4, "mode": "nearest-exact"},
    "nearest to the same size": {"size": (6, 7)},
    "bilinear": {"scale_factor": 2, "mode": "bilinear"},
    "bilinear by 3": {"scale_factor": 3, "mode": "bilinear"},
    "bilinear by 4 and 1": {"scale_factor": (4, 1), "mode": "bilinear"},
    "bilinear by 8": {"size": (48, 56), "mode": "bilinear"},
}
"""Arguments of `interpolate` for which the result's size is a multiple of the input's."""

OTHERS = {
    "nearest to a smaller size": {"size": (4, 3)},
    "nearest to a larger size": {"size": (11, 10)},
    "nearest by 1.5": {"scale_factor": 1.5},
    "nearest by 0.3": {"scale_factor": 0.3},
    "nearest exact to a smaller size": {"size": (4, 3), "mode": "nearest-exact"},
    "bilinear to a smaller size": {"size": (3, 4), "mode": "bilinear"},
    "bilinear by 1.5": {"scale_factor": 1.5, "mode": "bilinear"},
    "bilinear of corners": {"scale_factor": 2, "mode": "bilinear", "align_corners": True},
    "bilinear of corners to one row": {"size": (1, 9), "mode": "bilinear", "align_corners": True},
}


def check(cases, config, spec, most_differences=None):
    """Run modules; a result differs from PyTorch's by one step at most. Some interpolated numbers are ties."""
    outcomes = run_all(cases, config, spec)
    for name, outcome in outcomes.items():
        np.testing.assert_array_equal(outcome.numpy, outcome.simulator, name)
        differences = (outcome.steps > 0).mean()
        assert outcome.steps.max() <= 1, (name, outcome.steps.max())
        assert differences <= (most_differences or {"int8": 0.005, "int16x8": 0.03}[config]), (name, differences)
    return outcomes


def resized(arguments, image=IMAGE):
    return {name: (Call(partial(functional.interpolate, **own)), (image,)) for name, own in arguments.items()}


@specs
@pytest.mark.parametrize("config", CONFIGS)
def test_an_image_grows_by_whole_factors_on_every_target(config, spec):
    of_batch = {f"{name}, batch": case for name, case in resized(WHOLE).items()}
    outcomes = check(resized(WHOLE, IMAGE[:1]) | of_batch, config, spec, 0.1)
    for name, outcome in outcomes.items():
        if "nearest" in name:
            np.testing.assert_array_equal(outcome.simulator, outcome.torch, name)
    names = {operator.op for operator in outcomes["bilinear"].graph.operators}
    assert (Op.DEPTHWISE_CONV2D in names) == ("u55" in spec.extensions)


@pytest.mark.parametrize("config", CONFIGS)
def test_an_image_gets_any_size(config):
    check(resized(OTHERS), config, SPECS[""], 0.2)


def test_sizes_that_a_target_lacks_have_a_reason():
    cases = resized(OTHERS)
    graphs, edge = graphs_of(quantized(Several(cases), inputs_of(cases), CONFIGS["int8"]()), SPECS["+u55"])
    report = str(edge.report())
    assert not graphs
    assert "the target lacks resizing with align_corners" in report
    assert "the target lacks resizing by a factor that is not whole or over 32" in report


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_real_numbers_are_resized_as_by_pytorch(dtype):
    cases = {
        name: (model, (x.to(dtype),))
        for name, (model, (x,)) in resized({**WHOLE, **OTHERS}).items()
        if dtype == torch.float32 or "nearest" in name
    }
    for name, outcome in run_real(cases).items():
        np.testing.assert_allclose(outcome.numpy, outcome.simulator, rtol=1e-5, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(outcome.simulator, outcome.torch, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize(("size", "count"), [(1, 5), (5, 1), (2, 9), (7, 3), (13, 29), (224, 56)])
def test_the_positions_of_an_axis_are_those_of_pytorch(size, count, align_corners):
    axis = axis_of(1 if align_corners and count == 1 else size, count, None, align_corners=align_corners, floors=False)
    assert axis.is_possible
    positions = (np.arange(count) * axis.down + axis.offset) / axis.up
    ramp = torch.arange(size, dtype=torch.float64).reshape(1, 1, size, 1)
    expected = functional.interpolate(ramp, (count, 1), mode="bilinear", align_corners=align_corners).flatten()
    np.testing.assert_allclose(positions.clip(0, size - 1), expected.numpy(), atol=1e-12)


@pytest.mark.parametrize("config", CONFIGS)
def test_means_of_blocks_are_those_of_pytorch(config):
    check({"": (nn.AdaptiveAvgPool2d((2, 3)), (random(2, 5, 6, 9),))}, config, SPECS["+u55"])


TRANSPOSED = {
    "stride 2": (partial(nn.ConvTranspose2d, 6, 5, 3, 2, 1), (1, 6, 5, 7)),
    "stride 2 with more rows": (partial(nn.ConvTranspose2d, 6, 5, 3, 2, 1, output_padding=1), (1, 6, 5, 7)),
    "stride 1": (partial(nn.ConvTranspose2d, 6, 5, 3, 1, 1), (2, 6, 5, 7)),
    "stride 4": (partial(nn.ConvTranspose2d, 6, 5, 4, 4), (1, 6, 5, 7)),
    "strides of 3 and 2": (partial(nn.ConvTranspose2d, 6, 5, (3, 4), (3, 2), (0, 1)), (1, 6, 5, 7)),
    "a kernel smaller than the stride": (partial(nn.ConvTranspose2d, 6, 5, 2, 3, output_padding=1), (1, 6, 5, 7)),
    "groups": (partial(nn.ConvTranspose2d, 6, 4, 3, 2, 1, groups=2), (1, 6, 5, 7)),
    "one dim": (partial(nn.ConvTranspose1d, 6, 5, 4, 2, 1), (2, 6, 9)),
}


def layers():
    torch.manual_seed(0)
    return {name: (make(), (random(*shape),)) for name, (make, shape) in TRANSPOSED.items()}


@specs
@pytest.mark.parametrize("config", CONFIGS)
def test_a_transposed_convolution_has_the_integers_of_pytorch(config, spec):
    outcomes = check(layers(), config, spec)
    names = {operator.op for operator in outcomes["stride 1"].graph.operators}
    assert (Op.TRANSPOSE_CONV2D in names) == (spec == SPECS[""] or config == "int8")


def test_a_transposed_convolution_has_the_real_numbers_of_pytorch():
    for name, outcome in run_real(layers()).items():
        np.testing.assert_allclose(outcome.numpy, outcome.simulator, rtol=1e-5, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(outcome.simulator, outcome.torch, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("config", CONFIGS)
def test_convolutions_of_one_dim_follow_each_other_without_transposes(config):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(6, 8, 3, padding=1), nn.ReLU(), nn.Conv1d(8, 8, 3, 2, groups=8), nn.Conv1d(8, 5, 2))
    (outcome,) = check({"": (model, (random(2, 6, 20),))}, config, SPECS["+u55"]).values()
    assert [operator.op for operator in outcome.graph.operators].count(Op.TRANSPOSE) == 2


VOLUME = random(2, 4, 5, 6, 7)
VOLUMES = {
    "a kernel of all dims": (nn.Conv3d(4, 6, 3, padding=1), (VOLUME,)),
    "strides and groups": (nn.Conv3d(4, 6, (2, 3, 2), (1, 2, 3), dilation=(2, 1, 1), groups=2), (VOLUME,)),
}


@pytest.mark.parametrize("config", CONFIGS)
def test_convolutions_of_volumes_have_the_integers_of_pytorch(config):
    check(VOLUMES, config, SPECS[""])


def test_convolutions_of_volumes_have_the_real_numbers_of_pytorch():
    for name, outcome in run_real(VOLUMES).items():
        np.testing.assert_allclose(outcome.numpy, outcome.simulator, rtol=1e-5, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(outcome.simulator, outcome.torch, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (partial(nn.ConvTranspose2d, 6, 5, 3, dilation=2), "transposed with dilation"),
        (partial(nn.ConvTranspose2d, 6, 5, 2, padding=2), "transposed with padding of the kernel's size or more"),
        (partial(nn.ConvTranspose2d, 9, 9, 3, groups=9), "transposed with 9 groups, more than 8"),
    ],
)
def test_other_transposed_convolutions_have_a_reason(layer, reason):
    model = layer()
    x = random(1, model.in_channels, 5, 7)
    graphs, edge = graphs_of(quantized(model, (x,), CONFIGS["int8"]()))
    assert not graphs and reason in str(edge.report())
