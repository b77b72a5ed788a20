"""Half precision, integer weights that stay compressed, devices, and files of executorch's backend."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import edgecore
from edgecore import Recipe, Rule
from edgecore.errors import CompileError, ExecutionError

WIDTH = 256


class Layers(nn.Module):
    """A convolution, two wide linear layers and a narrow one."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, padding=1)
        self.first, self.second, self.last = nn.Linear(256, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 10)

    def forward(self, x):
        x = torch.relu(self.convolution(x)).flatten(1)
        return self.last(torch.relu(self.second(torch.relu(self.first(x)))))


INPUTS = (torch.randn(2, 3, 8, 8),)
WEIGHTS = 256 * WIDTH + WIDTH * WIDTH + WIDTH * 10


def build(model, inputs=INPUTS, quantize=None, calibration=None, **options):
    backend = edgecore.Backend("openvino", required=True, **options)
    return edgecore.compile(model.eval(), inputs, backends=[backend], quantize=quantize, calibration=calibration)


def result_of(program, *inputs, **options):
    return torch.as_tensor(edgecore.load(program.buffer, options={"openvino": options}).forward(*inputs))


def error_of(got, want):
    return float((got.float() - want.float()).abs().max() / want.abs().max())


@pytest.mark.parametrize("payload", ["portable", "blob"])
def test_a_model_in_float16_has_half_inputs_results_and_weights(payload):
    model, half = Layers().eval(), tuple(x.half() for x in INPUTS)
    expected = model(*INPUTS)
    program = build(model.half(), half, payload=payload)
    result = result_of(program, *half)
    assert result.dtype == torch.float16 and error_of(result, expected) < 4e-3
    assert len(program.buffer) < 2.2 * WEIGHTS


@pytest.mark.parametrize("payload", ["portable", "blob"])
@pytest.mark.parametrize(
    ("recipe", "bits", "error"),
    [
        ("fp16", 16, 2e-3),
        ("int8-weights", 8, 0.03),
        (Recipe("int8-weights", symmetric=False), 8, 0.03),
        (Recipe("int8-weights", group=64), 8, 0.03),
        ("int4-weights", 4, 0.3),
        (Recipe("int4-weights", symmetric=False), 4, 0.3),
        (Recipe("int4-weights", weights="channel"), 4, 0.3),
    ],
    ids=repr,
)
def test_compressed_weights_stay_compressed_in_the_file(recipe, bits, error, payload):
    model = Layers().eval()
    program = build(model, quantize=recipe, payload=payload)
    assert error_of(result_of(program, *INPUTS), model(*INPUTS)) < error
    assert program.compare(model).ok  # the same as quantized eager PyTorch: inputs are not rounded
    scales = WEIGHTS // 32 * 5  # at most: four bytes and a zero point for each group of 32
    assert len(program.buffer) < WEIGHTS * bits / 8 + scales + 25_000


def deep():
    torch.manual_seed(0)
    blocks = [
        nn.Sequential(nn.Conv2d(3 if i == 0 else 24, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU())
        for i in range(16)
    ]
    for block in blocks:
        block[1].running_var.uniform_(0.05, 0.3)
        block[1].running_mean.normal_()
    return nn.Sequential(*blocks, nn.Conv2d(24, 5, 1)).eval(), torch.randn(1, 3, 16, 16)


@pytest.mark.parametrize("how", [{"quantize": "fp16"}, {"half_weights": True}], ids=str)
def test_compare_allows_for_weights_that_are_rounded_in_many_layers(how):
    model, x = deep()
    program = build(model, (x,), **how)
    found = program.compare(model)
    assert found.rows[0].own.relative > 1e-3, "the case shows nothing"
    assert found.ok, str(found)
    with torch.no_grad():
        model[-1].bias[2] += 0.1 * model(x).abs().max()
    assert not program.compare(model).ok


def test_recipes_can_be_mixed_and_the_rest_be_half():
    model = Layers().eval()
    rules = [Rule(module="last", recipe="int8-weights"), Rule(module="convolution", recipe="int8")]
    recipe = Recipe("int4-weights", skip=["second"], rules=rules)
    program = build(model, quantize=recipe, calibration=[INPUTS], half_weights=True)
    schemes = {row.module: row.scheme for row in program.report(quantization=True).quantization}
    assert "int4" in schemes["first"] and "int8" in schemes["last"] and "uint8" in schemes["convolution"]
    assert program.compare(model).ok
    first, second, last = WIDTH * 256 // 2 + WIDTH * 256 // 32 * 4, WIDTH * WIDTH * 2, WIDTH * 10
    # The graph is text of 26 kB. If `first` had 8 bits, the file would be 32 kB larger.
    assert len(program.buffer) < first + second + last + 30_000


def test_a_model_without_weights_to_round_is_an_error():
    with pytest.raises(CompileError, match="no linear layer with a constant"):
        build(nn.ReLU(), quantize="int4-weights")


def test_an_absent_device_is_an_error_that_lists_those_that_are_there():
    program = build(Layers())
    for device, absent in (("TPU", "TPU"), ("AUTO:CPU,XPU", "XPU")):
        with pytest.raises(ExecutionError, match=f"the device {absent} is not available .* has: .*CPU"):
            result_of(program, *INPUTS, device=device)


@pytest.mark.parametrize("device", ["AUTO", "AUTO:CPU"])
def test_a_device_that_openvino_chooses_gives_what_eager_gives(device):
    model = Layers().eval()
    torch.testing.assert_close(result_of(build(model), *INPUTS, device=device), model(*INPUTS), atol=1e-5, rtol=1e-4)


def test_a_compiled_model_for_no_single_device_is_an_error():
    with pytest.raises(CompileError, match="needs one device"):
        build(Layers(), payload="blob", device="AUTO")


def test_a_file_without_our_header_equals_eager():
    model = Layers().eval()
    program = build(model, payload="executorch")
    assert b"OPENVINO" not in program.buffer and "bare, CPU" in str(program.report())
    torch.testing.assert_close(result_of(program, *INPUTS), model(*INPUTS), atol=1e-5, rtol=1e-4)
