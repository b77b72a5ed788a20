"""The recipe int4-weights: what it stores in 4 bits, how exactly it computes, and what it leaves."""

import pytest
import torch
from torch import nn

import edgecore
from edgecore.errors import CompileError


def signal_to_noise(got, want):
    return float(10 * torch.log10(want.square().mean() / (got - want).square().mean()))


class Products(nn.Module):
    """Operators that compute the same as a linear layer, under other names; one matrix is used twice."""

    def __init__(self):
        super().__init__()
        self.matrix, self.row = nn.Parameter(torch.randn(64, 96)), nn.Parameter(torch.randn(96))
        self.pixels, self.sequence = nn.Conv2d(96, 32, 1), nn.Conv1d(64, 32, 1, bias=False)
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)

    def forward(self, x):
        y = self.attention(x, x, x, need_weights=False)[0]
        image = (x @ self.matrix).permute(0, 2, 1)[..., None]
        return torch.addmm(self.row, y[0], self.matrix), self.pixels(image), self.sequence(y.transpose(1, 2))


def test_int4_weights_of_matmuls_and_of_convolutions_with_kernel_1_are_stored_in_4_bits():
    torch.manual_seed(0)
    model, x = Products().eval(), torch.randn(2, 10, 64)
    program = edgecore.compile(model, (x,), backends=["xnnpack"], quantize="int4-weights")
    assert program.report().left_outside == [] and program.report().delegates == {"XnnpackBackend": 1}
    assert len(program.buffer) < 0.35 * len(edgecore.compile(model, (x,), backends=["xnnpack"]).buffer)
    with torch.no_grad():
        for got, want in zip(edgecore.load(program.buffer).forward(x), model(x), strict=True):
            assert signal_to_noise(got, want) > 18


class Viewed(nn.Module):
    """A convolution with kernel 1, whose result must be contiguous for `view`."""

    def __init__(self):
        super().__init__()
        self.pixels = nn.Conv2d(64, 32, 1)

    def forward(self, x):
        y = self.pixels(x)
        y.view(-1).mul_(0.25)
        return y


@pytest.mark.parametrize("recipe", ["int4-weights", "int8-weights"])
def test_a_view_of_the_result_of_a_convolution_with_kernel_1_is_compared_with_quantized_eager(recipe):
    torch.manual_seed(0)
    model = Viewed().eval()
    program = edgecore.compile(model, (torch.randn(1, 64, 4, 4),), backends=["xnnpack"], quantize=recipe)
    assert program.report().delegates == {"XnnpackBackend": 1}
    assert program.compare(model).ok


@pytest.mark.parametrize("options", [{"stride": 2}, {"padding": 1}, {"groups": 2}, {"kernel_size": 3}])
def test_int4_weights_leave_other_convolutions(options):
    model = nn.Conv2d(64, 32, **{"kernel_size": 1, **options}).eval()
    with pytest.raises(CompileError, match="no linear layer"):
        edgecore.compile(model, (torch.randn(1, 64, 4, 4),), backends=["xnnpack"], quantize="int4-weights")


def test_int4_weights_lose_less_than_torchao_does():
    torchao = pytest.importorskip("torchao.quantization")
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(256, 256)).eval(), torch.randn(32, 256)
    program = edgecore.compile(model, (x,), backends=["xnnpack"], quantize="int4-weights")
    with torch.no_grad():
        want = model(x)
        config = torchao.Int8DynamicActivationIntxWeightConfig(torch.int4, torchao.PerGroup(32))
        torchao.quantize_(model, config)
        assert signal_to_noise(edgecore.load(program.buffer).forward(x), want) > signal_to_noise(model(x), want)


def test_int4_weights_stay_integers_where_sizes_are_dynamic():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 256)).eval(), torch.randn(3, 64)
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("n", max=8)},))
    weight = exported.state_dict["0.weight"]
    program = edgecore.compile(exported, backends=["xnnpack"], quantize="int4-weights")
    assert exported.state_dict["0.weight"] is weight and len(exported.graph.nodes) == 5
    assert len(program.buffer) < 0.3 * weight.nbytes
    more = torch.randn(7, 64)
    with torch.no_grad():
        assert signal_to_noise(edgecore.load(program.buffer).forward(more), model(more)) > 20


def test_int4_weights_need_linear_layers_and_no_calibration():
    x = torch.randn(3, 64)
    with pytest.raises(CompileError, match="no linear layer with a constant weight of float32 or float16"):
        edgecore.compile(nn.ReLU().eval(), (x,), backends=["xnnpack"], quantize="int4-weights")
    with pytest.raises(CompileError, match="uses no calibration"):
        edgecore.compile(nn.Linear(64, 32).eval(), (x,), backends=["xnnpack"], quantize="int4-weights", calibration=[x])


@pytest.mark.parametrize("weight", [torch.zeros(4, 0), torch.linspace(-2, 2, 32)], ids=["no inputs", "a row"])
def test_a_layer_without_inputs_or_with_a_row_as_weight_stays_in_float(weight):
    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.full = nn.Parameter(weight), nn.Linear(32, 4)

        def forward(self, x):
            return nn.functional.linear(x[:, : weight.shape[-1]], self.weight).reshape(3, -1) + self.full(x)

    model, x = Parts().eval(), torch.randn(3, 32)
    program = edgecore.compile(model, (x,), backends=["xnnpack"], quantize="int4-weights")
    assert program.compare(model, [(x,)]).ok


@pytest.mark.parametrize("activations", ["dynamic", "none"])
@pytest.mark.parametrize("recipe", ["int8-weights", "int4-weights"])
def test_layers_in_half_precision_stay_in_the_delegate_with_integer_weights(recipe, activations):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64)).eval(), torch.randn(3, 64)
    weights = "group" if recipe == "int4-weights" and activations == "dynamic" else "channel"
    chosen = edgecore.Recipe(recipe, activations=activations, weights=weights)
    with torch.no_grad():
        want = model(x)
    files = []
    for dtype in (torch.float32, torch.float16):
        program = edgecore.compile(model.to(dtype), (x.to(dtype),), backends=["xnnpack"], quantize=chosen)
        assert program.report().left_outside == [] and program.report().delegates == {"XnnpackBackend": 1}
        got = edgecore.load(program.buffer).forward(x.to(dtype))
        assert got.dtype == dtype and signal_to_noise(got.float(), want) > (38 if recipe == "int8-weights" else 15)
        files.append(len(program.buffer))
    assert files[1] < files[0] + 500
