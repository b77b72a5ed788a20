"""Test integer weights and int8 activations: recipes, torchao's `quantize_` and the PT2E flow, on the device."""

from __future__ import annotations

import copy

import pytest
import torch
from device_support import RUNTIMES, check_on_device
from torch import nn
from torch.nn import functional as F
from vulkan_support import Function, lowered

import edgecore
from edgecore_vulkan.blob.format import read_graph

pytest.importorskip("torchao")

from torchao.quantization import MappingType
from torchao.quantization.granularity import PerGroup
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from vulkan_layers import ROWS, Net, quantized

from edgecore_vulkan.quantizer import VulkanQuantizer, get_symmetric_quantization_config
from edgecore_vulkan.recipes import _best_scales

library = torch.ops.quantized_decomposed


def calls(program) -> list[str]:
    names = [call.name for blob in program.pte.delegate_blobs for call in read_graph(blob).chain]
    return [name.rpartition(".")[0].partition(".")[2] for name in names if name != "et_vk.prepack.default"]


@pytest.mark.parametrize(
    ("bits", "granularity", "is_dynamic", "expected"),
    [
        (torch.int4, PerGroup(32), True, {"choose_qparams_affine.default", "linear_dq8ca_q4gsw.default"}),
        (torch.int4, PerGroup(4), True, {"choose_qparams_affine.default", "linear_dq8ca_q4gsw.default"}),
        (torch.int4, ROWS, True, {"choose_qparams_affine.default", "linear_dq8ca_q4gsw.default"}),
        (torch.int4, PerGroup(16), False, {"linear_q4gsw.default"}),
        (torch.int4, ROWS, False, {"linear_q4gsw.default"}),
        (torch.int8, ROWS, True, {"quantize_per_token.default", "_weight_int8pack_mm.default"}),
        (torch.int8, ROWS, False, {"_weight_int8pack_mm.default", "add.Tensor"}),
    ],
)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_torchao_layers_compute_what_eager_does(bits, granularity, is_dynamic, expected, runtime):
    model = quantized(nn.Sequential(nn.Linear(64, 38)), bits, granularity, is_dynamic)
    x = torch.randn(2, 5, 64)
    assert expected <= set(lowered(model, x, runtime=runtime).calls)
    check_on_device(model, x, runtimes=[runtime], tolerance=1e-5)


def test_symbolic_rows_and_weights_of_4_bits_need_the_runtime_edgecore():
    model = quantized(nn.Sequential(nn.Linear(64, 8)), torch.int4, PerGroup(32), True)
    rows = torch.export.Dim("rows", min=1, max=9)
    compiled = lowered(model, torch.randn(4, 64), dynamic_shapes=({0: rows},))
    assert "symbolic sizes, which executorch 1.5 does not support with weights of 4 bits" in compiled.report


def test_rows_that_are_no_whole_vectors_keep_their_integers():
    for bits, granularity, expected in ((torch.int4, PerGroup(5), "linear_q4gsw.default"),
                                        (torch.int4, ROWS, "linear_q4gsw.default"),
                                        (torch.int8, ROWS, "_weight_int8pack_mm.default")):  # fmt: skip
        model = quantized(nn.Sequential(nn.Linear(15, 7, bias=False)), bits, granularity, False)
        x = torch.randn(6, 15)
        assert expected in lowered(model, x, runtime="edgecore").calls
        check_on_device(model, x, runtimes=["edgecore"], tolerance=1e-5)
    # executorch's delegate reads rows of 4 bits in vectors.
    model = quantized(nn.Sequential(nn.Linear(15, 7)), torch.int4, ROWS, False)
    assert "_weight_int8pack_mm.default" in lowered(model, x).calls


@pytest.mark.parametrize("is_dynamic", [True, False])
def test_half_precision_and_other_numbers_of_rows(is_dynamic):
    float_model = nn.Sequential(nn.Linear(64, 20), nn.ReLU(), nn.Linear(20, 6))
    half = quantized(copy.deepcopy(float_model).half(), torch.int4, PerGroup(4), is_dynamic)
    model = quantized(float_model, torch.int4, PerGroup(4), is_dynamic)
    rows = torch.export.Dim("rows", min=1, max=9)
    # A number in the middle of two integers may be rounded differently between the layers.
    check_on_device(
        model, torch.randn(4, 64), dynamic_shapes=({0: rows},), others=[(torch.randn(n, 64),) for n in (1, 9)],
        runtimes=["edgecore"], tolerance=1e-2,
    )  # fmt: skip
    check_on_device(model, torch.randn(4, 64), runtimes=["executorch-1.5"], force_fp16=True, tolerance=2e-2)
    check_on_device(half, torch.randn(4, 64).half(), runtimes=["edgecore"], tolerance=2e-2)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ((torch.int8, PerGroup(32), True), "weights of 8 bits in groups of 32"),
        ((torch.int4, PerGroup(32), False, MappingType.ASYMMETRIC), "weights with zero points"),
    ],
)
def test_other_weights_stay_outside_and_the_report_says_why(config, reason):
    bits, granularity, is_dynamic, *mapping = config
    options = {"mapping_type": mapping[0]} if mapping else {}
    model = quantized(nn.Sequential(nn.Linear(64, 6)), bits, granularity, is_dynamic, **options)
    assert reason in lowered(model, torch.randn(4, 64)).report


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    model = Net().eval()
    model.norm.running_mean.uniform_(-0.3, 0.3)
    model.norm.running_var.uniform_(0.5, 1.5)
    return model, [(torch.randn(1, 3, 16, 16),) for _ in range(4)]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_static_int8_computes_in_integers(net, runtime):
    model, samples = net
    program = edgecore.compile(
        model, samples[0], backends=["vulkan"], quantize="int8", calibration=samples, runtime=runtime
    )
    assert "not delegated" not in str(program.report())
    found = calls(program)
    assert found.count("q8ta_add") == 1 and "q8ta_linear" in found
    assert [name for name in found if "conv" in name] == [
        "q8ta_conv2d",
        "q8ta_conv2d_dw",
        "q8ta_conv2d_pw",
        "q8ta_conv2d",
    ]
    results = program.compare(model)
    assert "agrees with quantized eager" in str(results), results
    loaded = edgecore.load(program.buffer, options={"vulkan": {"validation": True}})
    for ours, theirs in zip(loaded.forward(*samples[1]), model(*samples[1]), strict=True):
        assert (ours - theirs).abs().max() < 0.05 * theirs.abs().max()


class Requantize(nn.Module):
    """Takes and returns integers of 8 bits."""

    def forward(self, q):
        x = library.dequantize_per_tensor(q, 0.1, 3, -128, 127, torch.int8)
        return library.quantize_per_tensor(torch.relu(x), 0.07, -5, -128, 127, torch.int8), x


class RequantizeRows(nn.Module):
    """Takes and returns integers of 8 bits, which lie in 32 bits between their calls."""

    def forward(self, x, q):
        scales, zeros = library.choose_qparams_per_token_asymmetric(x, torch.int8)
        rows = library.dequantize_per_token(q, scales, zeros, -128, 127, torch.int8, torch.float32)
        return library.quantize_per_token(x, scales, zeros, -128, 127, torch.int8), rows


@pytest.mark.parametrize("shape", [(1, 6, 5, 7), (3, 8), (5,)])
def test_arguments_in_int8_are_held_in_their_order(shape):
    q = torch.randint(-128, 128, shape, dtype=torch.int8)
    check_on_device(Requantize(), q, load_options={"gpu_shaders": len(shape) == 1})


def test_int8_arguments_of_rows():
    check_on_device(RequantizeRows(), torch.randn(5, 7), torch.randint(-128, 128, (5, 7), dtype=torch.int8))


@pytest.mark.parametrize(
    ("recipe", "decibels"),
    [
        ("int8-dynamic", 35),
        ("int8-weights", 35),
        ("int4-weights", 15),
        (edgecore.Recipe("int4-weights", activations="none", group=16), 15),
        (edgecore.Recipe("int4-weights", weights="channel"), 15),
        ("fp16", 50),
    ],
)
def test_recipes_lose_little_and_keep_weights_small(recipe, decibels):
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10)).eval()
    x = torch.randn(4, 128)
    program = edgecore.compile(model, (x,), backends=["vulkan"], quantize=recipe)
    assert "not delegated" not in str(program.report())
    want = model(x)
    got = edgecore.load(program.buffer, options={"vulkan": {"validation": True}}).forward(x)
    assert 10 * torch.log10(want.square().sum() / (got - want).square().sum()) > decibels
    bits = 4 if "int4" in str(recipe) else 16 if recipe == "fp16" else 8
    assert len(program.buffer) < 256 * 138 * bits / 8 * 1.6 + 8000


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"_weight_int8pack_mm"}),
        ({"weight_bits": 4}, {"linear_q4gsw"}),
        ({"is_dynamic": True}, {"choose_qparams", "_weight_int8pack_mm"}),
        ({"is_dynamic": True, "weight_bits": 4}, {"choose_qparams", "linear_q4gsw"}),
        ({"is_static": True}, {"q8ta_linear"}),
    ],
)
def test_quantizer_in_the_pt2e_flow(options, expected):
    model, x = nn.Sequential(nn.Linear(20, 12), nn.ReLU(), nn.Linear(12, 8)).eval(), torch.randn(3, 20)
    config = get_symmetric_quantization_config(**options)
    prepared = prepare_pt2e(torch.export.export(model, (x,)).module(), VulkanQuantizer().set_global(config))
    prepared(x)
    converted = convert_pt2e(prepared)
    for runtime in RUNTIMES:
        program = edgecore.compile(torch.export.export(converted, (x,)), (x,), backends=["vulkan"], runtime=runtime)
        assert expected <= set(calls(program)) and "not delegated" not in str(program.report())
        got = edgecore.load(program.buffer, options={"vulkan": {"validation": True}}).forward(x)
        torch.testing.assert_close(got, converted(x), rtol=1e-5, atol=1e-5)


def test_only_chosen_layers_are_quantized():
    model, x = nn.Sequential(nn.Linear(20, 12), nn.Linear(12, 8)).eval(), torch.randn(3, 20)
    quantizer = VulkanQuantizer().set_global(get_symmetric_quantization_config())
    quantizer.set_filter_function(lambda node: node.meta["val"].shape[-1] == 8)
    prepared = prepare_pt2e(torch.export.export(model, (x,)).module(), quantizer)
    prepared(x)
    program = edgecore.compile(torch.export.export(convert_pt2e(prepared), (x,)), (x,), backends=["vulkan"])
    assert [name for name in calls(program) if name in ("linear", "_weight_int8pack_mm")] == [
        "linear",
        "_weight_int8pack_mm",
    ]


def test_wrong_options_of_the_quantizer_are_errors():
    for options in ({"weight_bits": 3}, {"is_dynamic": True, "is_static": True}, {"is_static": True, "weight_bits": 4}):
        with pytest.raises(ValueError, match="weight_bits|exclude"):
            get_symmetric_quantization_config(**options)


def test_pools_of_int8_equal_those_of_pytorch():
    torch.manual_seed(0)
    layer = nn.Conv1d(3, 4, 1)
    cases = [(length, *sizes) for length in (8, 9) for sizes in ((3, 2, 1), (3, 2, 0), (5, 3, 2), (2, 2, 0))]

    def pools(x):
        y = layer(x)
        for length, kernel, stride, padding in cases:
            row = y[..., :length]
            for dilation in (1, 2):
                yield F.max_pool1d(row, kernel, stride, padding, dilation, ceil_mode=True)
            for counts in (True, False):
                yield F.avg_pool1d(row, kernel, stride, padding, ceil_mode=True, count_include_pad=counts)

    model = Function(lambda x: tuple(pools(x)))
    model.layer = layer
    samples = [(torch.randn(1, 3, 9),) for _ in range(4)]
    program = edgecore.compile(
        model.eval(), samples[0], backends=["vulkan"], quantize="int8", calibration=samples, runtime="edgecore"
    )
    got = edgecore.load(program.buffer).forward(*samples[0])
    for actual, expected in zip(got, model(*samples[0]), strict=True):
        bound = 0.02 * (layer(samples[0][0]).max() - layer(samples[0][0]).min())
        assert (torch.from_dlpack(actual) - expected).abs().max() <= bound


def test_scales_of_int4_weights_clip_rare_large_weights():
    """A scale that clips has a smaller squared error than the scale of the largest weight; int8 has no need of it."""
    groups = torch.randn(16, 8, 32, generator=torch.Generator().manual_seed(0))
    largest = groups.abs().amax(2)

    def errors(scales, bits):
        limit = 1 << (bits - 1)
        integers = (groups / scales.unsqueeze(2)).round().clamp(-limit, limit - 1)
        return (groups - integers * scales.unsqueeze(2)).square().sum(2)

    chosen = _best_scales(groups, 4)
    assert (errors(chosen, 4) <= errors(largest / 7, 4)).all()
    assert errors(chosen, 4).sum() < 0.95 * errors(largest / 7, 4).sum()
    torch.testing.assert_close(_best_scales(groups, 8), largest / 127)
