"""Models quantized by torchao's `quantize_`: weights stay integers in the file, and the results are eager's."""

from importlib import import_module

import pytest
import torch
from torch import nn

pytest.importorskip("torchao")

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

TYPES = {2: torch.int2, 3: torch.int3, 4: torch.int4, 8: torch.int8}
GRANULARITIES = {"groups": PerGroup(32), "rows": PerAxis(0)}
EMBEDDINGS = {2: "embedding_2bit", 4: "embedding_4bit", 8: "embedding_byte"}


def quantized(module, config, kind=nn.Linear):
    torch.manual_seed(0)
    module.eval()
    quantize_(module, config, filter_fn=lambda one, name: isinstance(one, kind))
    return module


def relative_error(got, want):
    return float((got - want).detach().abs().max() / want.detach().abs().max())


def check(module, *inputs, tolerance=1e-6, **options):
    """Eager against our runtime and, where it is installed, executorch's; the compiled program."""
    exported = torch.export.export(module, inputs, dynamic_shapes=options.pop("dynamic_shapes", None))
    program = edgecore.compile(exported, **options)
    want = module(*inputs)
    assert relative_error(edgecore.load(program.buffer).forward(*inputs), want) <= tolerance
    try:
        runtime = import_module("executorch.runtime")
    except ImportError:
        return program
    import_module("executorch.kernels.quantized")  # registers its operators
    loaded = runtime.Runtime.get().load_program(bytes(program.buffer))  # its methods do not keep it alive
    assert relative_error(loaded.load_method("forward").execute(list(inputs))[0], want) <= max(tolerance, 1e-6)
    return program


def operators(program):
    return {operator.name.partition("::")[2] for operator in program.pte.program.execution_plan[0].operators}


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("bits", TYPES)
def test_a_quantized_embedding_stays_integer_and_equals_eager(bits, granularity):
    config = IntxWeightOnlyConfig(weight_dtype=TYPES[bits], granularity=GRANULARITIES[granularity])
    module = quantized(nn.Sequential(nn.Embedding(500, 64)), config, nn.Embedding)
    program = check(module, torch.tensor([[0, 499, 7]]), tolerance=0)
    width = 4 if bits == 3 else bits
    assert operators(program) == {EMBEDDINGS[width]}
    scales = 4 * 500 * (2 if granularity == "groups" else 1)
    assert len(program.buffer) < 500 * 64 * width // 8 + scales + 2000


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("bits", TYPES)
@pytest.mark.parametrize("make", [IntxWeightOnlyConfig, Int8DynamicActivationIntxWeightConfig])
def test_a_quantized_linear_layer_stays_integer_and_equals_eager(make, bits, granularity):
    name = "granularity" if make is IntxWeightOnlyConfig else "weight_granularity"
    config = make(weight_dtype=TYPES[bits], **{name: GRANULARITIES[granularity]})
    module = quantized(nn.Sequential(nn.Linear(64, 192), nn.ReLU(), nn.Linear(192, 3, bias=False)), config)
    program = check(module, torch.randn(2, 5, 64))
    used = operators(program)
    assert ("mixed_linear" in used) == (bits == 8) and ("quantize_per_token" in used) == (name != "granularity")
    width = 4 if bits == 3 else bits
    assert len(program.buffer) < 67 * 192 * width // 8 + 192 * 8 * 3 + 5000


@pytest.mark.parametrize("make", [Int8WeightOnlyConfig, Int8DynamicActivationInt8WeightConfig])
def test_matmuls_of_integers_stay_integer_and_equal_eager(make):
    module = quantized(nn.Sequential(nn.Linear(64, 192), nn.ReLU(), nn.Linear(192, 3, bias=False)), make())
    program = check(module, torch.randn(2, 5, 64), tolerance=1e-2)
    assert "mixed_linear" in operators(program) and len(program.buffer) < 67 * 192 + 20000


def test_weights_with_zero_points_equal_eager():
    config = IntxWeightOnlyConfig(torch.int8, PerGroup(32), mapping_type=MappingType.ASYMMETRIC)
    check(quantized(nn.Sequential(nn.Linear(64, 7)), config), torch.randn(3, 64))
    check(quantized(nn.Sequential(nn.Embedding(9, 64)), config, nn.Embedding), torch.tensor([3, 8]), tolerance=0)


def test_rows_of_4_bits_that_do_not_fill_bytes_equal_eager():
    config = IntxWeightOnlyConfig(torch.int4, PerAxis(0))
    assert "mixed_linear" in operators(check(quantized(nn.Sequential(nn.Linear(15, 6)), config), torch.randn(2, 15)))


def test_inputs_of_rank_1_and_of_dynamic_sizes_equal_eager():
    config = Int8DynamicActivationIntxWeightConfig(torch.int8, PerAxis(0))
    module = quantized(nn.Sequential(nn.Linear(64, 6)), config)
    check(module, torch.randn(64))
    batch, length = torch.export.Dim("batch", max=8), torch.export.Dim("length", max=9)
    for shapes in ({0: batch}, {0: batch, 1: length}):
        x = torch.randn(2, 5, 64)
        program = check(module, x, dynamic_shapes=(shapes,))
        more = torch.randn(7, 5, 64)
        assert relative_error(edgecore.load(program.buffer).forward(more), module(more)) < 1e-6


class Tied(nn.Module):
    """An integer matrix that an embedding, a product and a sum read."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 64)

    def forward(self, tokens):
        x = self.table(tokens)
        return torch.nn.functional.linear(x, self.table.weight.dequantize()) + self.table.weight.dequantize().sum()


def test_a_quantized_weight_may_have_other_readers():
    config = IntxWeightOnlyConfig(torch.int4, PerGroup(32))
    check(quantized(Tied(), config, nn.Embedding), torch.tensor([[1, 9]]))


class Blocks(nn.Module):
    """Rounded in a way that has no operator of its own: a scale for each 16 entries."""

    def forward(self, x):
        from torchao.quantization.quant_primitives import choose_qparams_affine, dequantize_affine, quantize_affine

        scale, zero = choose_qparams_affine(x, MappingType.SYMMETRIC, (1, 16), torch.int8, -128, 127)
        whole = quantize_affine(x, (1, 16), scale, zero, torch.int8, -128, 127)
        return dequantize_affine(whole, (1, 16), scale, zero, torch.int8, -128, 127)


def test_a_rounding_without_an_operator_is_decomposed():
    x = torch.randn(3, 64)
    program = edgecore.compile(Blocks().eval(), (x,))
    assert relative_error(edgecore.load(program.buffer).forward(x), Blocks()(x)) < 1e-6
