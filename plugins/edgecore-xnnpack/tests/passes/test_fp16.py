"""Half precision inside, on both runtimes: by the option `force_fp16`, with inputs and outputs as they were, or as the model."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from lowered import as_module, compare, kinds
from torch import nn
from torch.export import Dim

import edgecore
from edgecore_xnnpack.blob.format import read_graph
from edgecore_xnnpack.schema import graph as g

torch.manual_seed(0)  # weights of modules: what they compare with 0 must not be near it


def compiled(function: Any, *inputs: torch.Tensor) -> Any:
    backend = edgecore.Backend("xnnpack", required=True, force_fp16=True)
    return edgecore.compile(as_module(function), inputs, backends=[backend])


def types(program: Any) -> list[str]:
    values = [entry.value for entry in read_graph(program.pte.delegate_blobs[0]).values]
    return [g.Datatype(value.datatype).name for value in values if isinstance(value, g.TensorValue)]


class Images(nn.Module):
    """Convolutions, residuals, pools, a concatenation and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.Hardswish())
        self.depthwise = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.BatchNorm2d(16), nn.ReLU6())
        self.up = nn.ConvTranspose2d(32, 8, 3, 2, 1, output_padding=1)
        self.head = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.stem(x)
        x = torch.cat([x + self.depthwise(x), nn.functional.avg_pool2d(x, 3, 1, 1)], 1)
        x = nn.functional.max_pool2d(torch.sigmoid(self.up(x)), 2)
        return x, self.head(x.mean((2, 3)))


class Normed(nn.Module):
    """Squares that 16 bits do not hold, and values that are read in both precisions."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(32), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x * 1000)
        return self.norm(x) + self.layer(self.norm(x)).softmax(-1)


@pytest.mark.parametrize("module, shape", [(Images(), (1, 3, 16, 16)), (Normed(), (5, 32))])
def test_both_runtimes_stay_close_to_eager_in_fp16(module: nn.Module, shape: tuple[int, ...]) -> None:
    runtime = pytest.importorskip("executorch.runtime")
    x = torch.randn(*shape)
    program = compiled(module, x)
    assert types(program).count("FP16") > len(types(program)) / 3
    loaded = runtime.Runtime.get().load_program(bytes(program.buffer))  # its methods do not keep it alive
    theirs = loaded.load_method("forward").execute([x])
    ours = edgecore.load(program.buffer).forward(x)
    ours = ours if isinstance(ours, list) else [ours]
    with torch.no_grad():
        expected = module.eval()(x)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for got, other, want in zip(ours, theirs, expected, strict=True):
        assert got.dtype == other.dtype == torch.float32
        assert (got - want).abs().max() <= 4e-3 * want.abs().max()
        assert (got - other).abs().max() <= 2e-3 * want.abs().max()


def test_weights_of_layers_have_16_bits_in_the_file() -> None:
    program = compiled(nn.Linear(128, 128), torch.randn(2, 128))
    assert 2 * 128 * 128 < len(program.buffer) < 2 * 128 * 128 + 4000
    assert kinds(program) == {"Convert": 2, "FullyConnected": 1}


def test_weights_of_convolutions_have_16_bits_in_the_file() -> None:
    net = nn.Sequential(
        nn.Conv2d(64, 128, 1), nn.ReLU6(), nn.Conv2d(128, 128, 3, 2, 1, groups=128), nn.Conv2d(128, 64, 3, bias=False),
        nn.Conv2d(64, 64, (1, 3), groups=4),
    ).eval()  # fmt: skip
    with torch.no_grad():
        net[0].weight[:2] = torch.tensor([[1e-7], [3e-8]])[..., None, None]  # subnormal in 16 bits, and less
    x = torch.randn(1, 64, 19, 18)
    program = compiled(net, x)
    found = kinds(program)
    assert (found["Conv2d"], found["DepthwiseConv2d"]) == (3, 1)
    numbers = sum(parameter.numel() for parameter in net.parameters())
    assert len(program.buffer) < 2 * numbers + 8000
    # Kernels of processors with AVX512-FP16 also round each of the 1,152 partial sums of a result by up to 2^-11; errors of
    # random sign add up like a random walk.
    compare(program, net, [(x,)], 4e-3 + 1152**0.5 * 2**-11 / 3**0.5)


def test_rounding_to_integers_is_exact_in_fp16() -> None:
    """The identity for rounding adds 2^23, which fp16 does not have."""
    layer, x = nn.Linear(8, 8).eval().requires_grad_(False), torch.randn(3, 8)
    found = compiled(lambda x: [layer(x), layer(x).mul(4).round()], x)
    value, rounded = edgecore.load(found.buffer).forward(x)
    torch.testing.assert_close(rounded, (value * 4).round(), rtol=0, atol=1)  # a tie may fall to either side
    assert rounded.abs().max() > 0


def test_a_row_that_a_computed_mask_hides_is_zero_in_fp16() -> None:
    layer, x = nn.Linear(8, 8).eval().requires_grad_(False), torch.randn(1, 2, 4, 8)
    mask = torch.zeros(1, 1, 4, 4)
    mask[..., 1, :] = -torch.inf

    def function(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        rows = layer(x)
        return nn.functional.scaled_dot_product_attention(rows, rows, rows, attn_mask=mask * 1)

    found = edgecore.load(compiled(function, x, mask).buffer).forward(x, mask)
    torch.testing.assert_close(found, function(x, mask), rtol=0, atol=4e-3)
    assert not found[..., 1, :].any()


def test_indices_stay_integers() -> None:
    layer, x = nn.Linear(8, 9).eval().requires_grad_(False), torch.randn(2, 5, 8)
    model = as_module(lambda x: [layer(x).argmax(-1), *layer(x).max(1)])
    compare(compiled(model, x), model, [(x,)], 4e-3)
    layer.half()
    program = edgecore.compile(model, (x.half(),), backends=[edgecore.Backend("xnnpack", required=True)])
    compare(program, model, [(x.half(),)], 4e-3)


def test_nothing_is_converted_without_matmuls() -> None:
    assert set(types(compiled(lambda x: torch.tanh(x) + x, torch.randn(2, 8)))) == {"FP32"}


def test_integers_of_a_recipe_stay_integers() -> None:
    x = torch.randn(2, 64)
    backend = edgecore.Backend("xnnpack", required=True, force_fp16=True)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU()).eval()
    program = edgecore.compile(model, (x,), backends=[backend], quantize="int8-dynamic")
    plain = edgecore.compile(model, (x,), backends=["xnnpack"], quantize="int8-dynamic")
    assert torch.equal(edgecore.load(program.buffer).forward(x), edgecore.load(plain.buffer).forward(x))


def test_a_computed_filter_keeps_32_bits() -> None:
    class Products(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(self.layer(x), weight * 2)

    module, inputs = Products().eval(), (torch.randn(5, 8), torch.randn(3, 8))
    actual = edgecore.load(compiled(module, *inputs).buffer).forward(*inputs)
    torch.testing.assert_close(actual, module(*inputs), rtol=1e-2, atol=1e-2)


class Attention(nn.Module):
    """Heads, a norm in 32 bits, a mask that is computed, and a result that is also an input."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.gain = nn.Linear(32, 96), nn.Linear(32, 32), nn.Parameter(torch.rand(32) + 0.5)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        wide = x.float()
        normed = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).half() * self.gain
        q, k, v = self.qkv(normed).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = x + self.out(seen.transpose(1, 2).flatten(2))
        return [y, y.masked_fill(y > 0, 2.0), torch.where(x > 0.5, y, x), y.view(-1, 32)]


def recurrent() -> nn.Module:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent = nn.GRU(4, 6, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.recurrent(x)[0][:, -1]

    return Last()


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (Images(), (1, 3, 16, 16)),
        (Normed(), (5, 32)),
        (Attention(), (2, 6, 32)),
        (as_module(lambda x: [torch.exp(x) / 3, x.max(1)[0], x.view(2, 20), x]), (2, 5, 4)),
        (recurrent(), (2, 3, 4)),
    ],
)
def test_a_model_of_16_bits_is_close_to_eager(module: nn.Module, shape: tuple[int, ...]) -> None:
    module, x = (
        copy.deepcopy(module).eval().half(),
        torch.randn(*shape, generator=torch.Generator().manual_seed(0)).half(),
    )
    program = edgecore.compile(module, (x,), backends=[edgecore.Backend("xnnpack", required=True)])
    assert len(program.pte.program.execution_plan[0].delegates) == 1
    compare(program, module, [(x,)], 4e-3)
    assert edgecore.load(program.buffer).forward(x)[0].dtype == torch.float16


def test_a_model_of_16_bits_with_dynamic_sizes_is_close_to_eager() -> None:
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 4), nn.Softmax(-1)).eval().half()
    calls = [(torch.randn(rows, 8).half(),) for rows in (3, 1, 8)]
    backend = edgecore.Backend("xnnpack", required=True)
    sizes = ({0: Dim("rows", min=1, max=8)},)
    compare(edgecore.compile(net, calls[0], dynamic_shapes=sizes, backends=[backend]), net, calls, 4e-3)


def test_a_copy_of_an_input_keeps_32_bits_beside_a_result_of_16() -> None:
    class Both(nn.Module):
        def forward(self, half: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return half @ half, image + image, image.contiguous()

    image = torch.rand(2, 3, 6, 4).to(memory_format=torch.channels_last)
    inputs = torch.rand(2, 4, 4).half(), image
    program = edgecore.compile(Both().eval(), inputs, backends=["xnnpack"])
    assert torch.equal(edgecore.load(program.buffer).forward(*inputs)[2], image)


def test_a_cast_to_16_bits_rounds() -> None:
    model = as_module(lambda x: (x + x.half(), (x.half() + x.half()).float() * x, (x @ x.t()).half() * x[:, :4].half()))
    x = torch.randn(4, 8)
    program = edgecore.compile(model, (x,), backends=[edgecore.Backend("xnnpack", required=True)])
    sum_, product, half = edgecore.load(program.buffer).forward(x)
    expected = model(x)
    torch.testing.assert_close(sum_, expected[0], rtol=0, atol=0)
    torch.testing.assert_close(product, expected[1], rtol=2e-3, atol=0)
    torch.testing.assert_close(half, expected[2], rtol=4e-3, atol=1e-3)
