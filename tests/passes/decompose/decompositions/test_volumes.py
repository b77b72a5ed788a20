"""Convolution and pooling of volumes without a backend; ATen's own operators are the judge.

`tests/interop/test_volumes.py` has the same layers for the other target runtime, on both runtimes.
"""

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from volumes import LAYERS, VOLUME, normed

import edgecore
from edgecore import format as fmt
from edgecore.passes.decompose.decompositions import volumes as decompositions

aten = torch.ops.aten
OF_VOLUMES = {
    aten.convolution.default: decompositions.convolution,
    aten.max_pool3d_with_indices.default: decompositions.max_pool_with_indices,
    aten.avg_pool3d.default: decompositions.average_pool,
    aten._adaptive_avg_pool3d.default: decompositions.adaptive_average_pool,
}
OPERATORS = ("conv3d", "conv_transpose3d", "max_pool3d", "avg_pool3d", "adaptive_avg_pool3d")


def error(got, want):
    assert got.shape == want.shape
    return float((got - want).abs().max()) / float(want.abs().max())


def compiled(module, *inputs, **options):
    return edgecore.load(edgecore.compile(module.eval(), inputs, **options).buffer)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_of_volumes_equals_eager(name):
    model = compiled(LAYERS[name], VOLUME, runtime=fmt.EDGECORE)
    with torch.no_grad():
        assert error(model.forward(VOLUME), LAYERS[name](VOLUME)) <= 1e-6


def test_a_volume_without_a_batch_equals_eager():
    module = nn.Sequential(nn.Conv3d(4, 6, 3), nn.MaxPool3d(2), nn.AvgPool3d((1, 2, 2)))
    with torch.no_grad():
        assert error(compiled(module, VOLUME[0]).forward(VOLUME[0]), module(VOLUME[0])) <= 1e-6


def test_a_volume_in_channels_last_equals_eager():
    x = VOLUME.contiguous(memory_format=torch.channels_last_3d)
    module = normed()
    with torch.no_grad():
        assert error(compiled(module, x).forward(x), module(x)) <= 1e-6


def test_a_norm_after_a_convolution_of_volumes_is_part_of_its_weights():
    program = edgecore.compile(normed(), (VOLUME,))
    assert "norm" not in " ".join(row.operator for row in program.report().left_outside)


class Places(nn.Module):
    def __init__(self, **pool):
        super().__init__()
        self.pool = nn.MaxPool3d(**pool, return_indices=True)

    def forward(self, x):
        return self.pool(x)


@pytest.mark.parametrize(
    "pool",
    [
        {"kernel_size": 2},
        {"kernel_size": (3, 2, 3), "stride": (1, 2, 2), "padding": (1, 0, 1), "ceil_mode": True},
        {"kernel_size": 2, "stride": 1, "dilation": (2, 1, 3)},
    ],
)
def test_indices_of_equal_maxima_in_volumes_are_those_of_eager(pool):
    x = torch.randint(0, 4, VOLUME.shape).float()
    values, places = compiled(Places(**pool), x).forward(x)
    expected = Places(**pool)(x)
    assert torch.equal(values, expected[0])
    assert torch.equal(places, expected[1])


@pytest.mark.parametrize(
    "sizes", [{0: Dim("n", max=4)}, {2: Dim("d", min=4, max=16)}, {0: Dim("n", max=4), 2: Dim("d", min=4, max=16)}],
    ids=["batch", "depth", "batch and depth"],
)  # fmt: skip
@pytest.mark.parametrize("net", [normed(), nn.ConvTranspose3d(4, 3, 3, 2, 1, 1).eval()], ids=["pooled", "transposed"])
def test_volumes_of_symbolic_sizes_equal_eager(net, sizes):
    model = compiled(net, VOLUME, dynamic_shapes=(sizes,))
    for n, d in ((1, 4), (4, 16), (3, 7)):
        x = torch.randn(n if 0 in sizes else VOLUME.shape[0], 4, d if 2 in sizes else VOLUME.shape[2], 9, 8)
        with torch.no_grad():
            assert error(model.forward(x), net(x)) <= 1e-6


class Compared(TorchDispatchMode):
    """Repeats each call of an operator of volumes in terms of images."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        want = operator(*args, **(kwargs or {}))
        is_volume = operator in OF_VOLUMES and (operator is not aten.convolution.default or args[1].dim() == 5)
        if is_volume and all(result.numel() for result in (want if isinstance(want, tuple) else [want])):
            got = OF_VOLUMES[operator](*args, **(kwargs or {}))
            torch.testing.assert_close(got, want, equal_nan=True, rtol=1e-9, atol=1e-9)
            self.count += 1
        return want


@pytest.mark.parametrize("name", OPERATORS)
def test_samples_of_the_operator_database_equal_eager_in_terms_of_images(name):
    (entry,) = [entry for entry in op_db if entry.name == f"nn.functional.{name}"]
    with torch.no_grad(), Compared() as compared:
        for sample in entry.sample_inputs("cpu", torch.float64):
            entry.op(sample.input, *sample.args, **sample.kwargs)
    assert compared.count > 2


@pytest.mark.parametrize("transposed", [False, True])
def test_all_small_kernels_strides_paddings_and_dilations_along_the_depth_equal_eager(transposed):
    x = torch.randn(1, 4, 5, 2, 2, dtype=torch.float64)
    for kernel, stride, padding, dilation, groups in torch.cartesian_prod(
        torch.arange(1, 5), torch.arange(1, 4), torch.arange(3), torch.arange(1, 4), torch.tensor([1, 2, 4])
    ).tolist():
        weight = torch.randn(4, 4 // groups, kernel, 2, 1, dtype=torch.float64)
        extra = [stride - 1, 0, 0] if transposed else [0, 0, 0]
        given = (
            x, weight, torch.randn(4, dtype=torch.float64), [stride, 1, 1], [padding, 0, 0], [dilation, 1, 1],
            transposed, extra, groups,
        )  # fmt: skip
        try:
            want = aten.convolution.default(*given)
        except RuntimeError:  # larger than the padded input
            continue
        torch.testing.assert_close(OF_VOLUMES[aten.convolution.default](*given), want)
