"""Pools of quantized values divide and count as PyTorch's do, whatever their windows reach past."""

import torch
from torch import nn
from torch.nn import functional as F

import edgecore

POOLS = {
    f"{name}, kernel {kernel}, stride {stride}, padding {padding}": (kernel, stride, padding, arguments)
    for name, arguments in {
        "average": {},
        "ceil mode": {"ceil_mode": True},
        "ceil mode without padding": {"ceil_mode": True, "count_include_pad": False},
        "divisor": {"ceil_mode": True, "divisor_override": 5},
    }.items()
    for kernel, stride, padding in ((3, 2, 1), (3, 2, 0), ((3, 2), (2, 3), (1, 0)))
}


class Pools(nn.Module):
    """A convolution, and all pools of its result."""

    def __init__(self):
        super().__init__()
        self.layer, self.row = nn.Conv2d(3, 4, 1), nn.Conv1d(18, 4, 1)

    def forward(self, x):
        y, row = self.layer(x), self.row(x.flatten(1, 2))
        averages = [F.avg_pool2d(y, *sizes, **arguments) for *sizes, arguments in POOLS.values()]
        maxima = [F.max_pool2d(y, 3, 2, 1, dilation, ceil_mode=True) for dilation in (1, 2)]
        maxima += [F.max_pool1d(row, 3, 2, 1, dilation, ceil_mode=True) for dilation in (1, 2)]
        return *averages, *maxima


def test_pools_of_int8_equal_those_of_pytorch():
    torch.manual_seed(0)
    model, x = Pools().eval(), torch.randn(1, 3, 6, 6)
    samples = [(x,), *((torch.randn(1, 3, 6, 6),) for _ in range(3))]
    program = edgecore.compile(
        model, (x,), backends=["openvino"], quantize="int8", calibration=samples, runtime="edgecore"
    )
    got = edgecore.load(program.buffer).forward(x)
    names = [*POOLS, *("maximum of a row" if i > 1 else "maximum" for i in range(4))]
    for name, actual, expected in zip(names, got, model(x), strict=True):
        bound = 0.03 * (expected.max() - expected.min())
        assert (torch.from_dlpack(actual) - expected).abs().max() <= bound, name
